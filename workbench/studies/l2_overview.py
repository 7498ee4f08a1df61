"""Every order over many dense shapes, and what `auto` takes there. Hit rates and balance are modelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.parity.plots import Picture
from workbench.problem import DenseAttentionProblem
from workbench.scenario_sizes import small_dense
from workbench.scenarios import Scenario
from workbench.studies.l2_views import COLOURS, MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from workbench.device import Device
    from workbench.scenarios import Size
    from workbench.studies.l2_locality import Case

# Batch, query heads, KV heads, tokens, head size, causal.
SHAPES: tuple[tuple[int, int, int, int, int, bool], ...] = (
    (1, 128, 8, 8192, 128, True),
    (1, 128, 8, 4096, 128, True),
    (1, 96, 8, 8192, 128, True),
    (1, 64, 8, 16384, 128, True),
    (1, 64, 8, 8192, 128, True),
    (1, 64, 8, 8192, 64, True),
    (1, 64, 8, 4096, 128, True),
    (1, 64, 8, 2048, 128, True),
    (1, 40, 8, 4096, 128, True),
    (1, 32, 8, 16384, 128, True),
    (1, 32, 8, 8192, 128, True),
    (1, 32, 8, 5000, 128, True),
    (1, 28, 4, 4096, 128, True),
    (1, 32, 32, 8192, 128, True),
    (1, 16, 1, 8192, 128, True),
    (2, 32, 4, 8192, 128, True),
    (2, 32, 4, 4096, 64, True),
    (2, 32, 8, 8192, 128, True),
    (4, 64, 8, 2048, 128, True),
    (4, 32, 8, 4096, 128, True),
    (4, 32, 32, 4096, 128, True),
    (4, 16, 2, 4096, 256, True),
    (4, 16, 8, 4096, 256, True),
    (8, 16, 16, 2048, 128, True),
    (16, 32, 8, 1024, 128, True),
    (1, 64, 8, 4096, 128, False),
    (1, 32, 32, 2048, 64, False),
    (2, 32, 8, 8192, 128, False),
    (2, 16, 4, 1000, 128, False),
    (4, 32, 32, 4096, 128, False),
)
"""The grid of shapes, bf16: batches from 1 to 16, groups from 1 to 16, 1000 to 16384 tokens, three head sizes, causal
and full, whole tiles and ragged. The dense scenarios' shapes are among them."""
MUCH_LONGER = 1.1
"""From this ratio of their longest programs on, an order counts as worse balanced than another."""


def order_shapes(size: Size = "full") -> list[Scenario]:
    """The shapes as scenarios, named after what they are."""
    shapes = []
    for batch, query_heads, kv_heads, tokens, head_size, causal in SHAPES:
        full = DenseAttentionProblem(batch, query_heads, kv_heads, tokens, tokens, head_size, causal=causal)
        mask = "causal" if causal else "full"
        name = f"{batch} x {tokens}, {query_heads}/{kv_heads} heads, d{head_size}, {mask}"
        shapes.append(Scenario(name, "orders", small_dense(full) if size == "small" else full, size))
    return shapes


def worst_of_all(cases: Sequence[Case]) -> list[Case]:
    """Cases where every other order of a persistent grid has a higher hit rate than what `auto` takes."""
    return [
        case
        for case in cases
        if all(
            result.hit_rate > case.results[case.auto].hit_rate
            for order, result in case.results.items()
            if order not in ("grid", case.auto)
        )
    ]


def unexcused(cases: Sequence[Case]) -> list[Case]:
    """Those of them where some order with a higher hit rate would share the load about as well: a fault of `auto`."""
    return [
        case
        for case in worst_of_all(cases)
        if any(
            result.longest_over_mean < MUCH_LONGER * case.results[case.auto].longest_over_mean
            for order, result in case.results.items()
            if order not in ("grid", case.auto)
        )
    ]


def auto_sentence(cases: Sequence[Case]) -> str:
    """On how many shapes `auto` is not the worst order, and what excuses it on the others, as Markdown."""
    worst = worst_of_all(cases)
    text = f"`auto` is not the worst order of a persistent grid on {len(cases) - len(worst)} of {len(cases)} shapes"
    for case in worst:
        taken = case.results[case.auto]
        others = [result for order, result in case.results.items() if order not in ("grid", case.auto)]
        nearest = min(result.longest_over_mean for result in others)
        text += (
            f"; on {case.label} it takes `{case.auto}` although all others hit more, since their longest program has "
            f"{nearest / taken.longest_over_mean:.2f} times the load at least"
        )
    return text + " (modelled)."


def key_figure(cases: Sequence[Case]) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`: on how many shapes `auto` is not the worst order."""
    worst, fault = len(worst_of_all(cases)), len(unexcused(cases))
    sentence = f"auto is not the worst order of work on {len(cases) - worst} of {len(cases)} dense shapes"
    if worst:
        sentence += f"; on {worst - fault} of the others every better order shares the load worse"
    return {"sentence": f"{sentence}.", "evidence": "modelled", "value": float(len(cases) - worst), "unit": "shapes"}


def overview_plot(cases: Sequence[Case], device: Device) -> Picture:
    """A row for each shape: the hit rate of every order, what `auto` takes in a ring, and beside it the balance."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(9, 1.3 + 0.24 * len(cases)), layout="constrained")
    rates, balance = figure.subplots(1, 2, sharey=True, width_ratios=(2.2, 1))
    for row, case in enumerate(cases):
        for order, result in case.results.items():
            _mark(rates, 100 * result.hit_rate, row, case, order)
            _mark(balance, result.longest_over_mean, row, case, order)
    rates.set_xlim(0, 100)
    rates.set_xlabel("L2 hit rate in % (modelled)")
    balance.set_xlabel("longest load over mean\n(modelled)")
    balance.set_xscale("log", base=2)
    balance.set_xticks((1, 2, 4, 8), ("1", "2", "4", "8"))
    rates.set_yticks(range(len(cases)), [case.label for case in cases], fontsize=8)
    rates.set_ylim(len(cases) - 0.5, -0.5)
    for axes in (rates, balance):
        axes.grid(color="#e6eaf0")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    orders = list(dict.fromkeys(order for case in cases for order in case.results))
    handles = [Line2D([], [], color=COLOURS[o], marker=MARKERS[o], linestyle="none", label=o) for o in orders]
    plain: dict[str, Any] = {"color": "black", "linestyle": "none", "markerfacecolor": "none"}
    handles += [Line2D([], [], marker="o", markersize=10, label="taken by auto", **plain)]
    handles += [Line2D([], [], marker="s", label="refused by dispatch", **plain)]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False, fontsize=8)
    return Picture(
        figure, f"L2 hit rate and balance of each order over {len(cases)} shapes on {device.title}, modelled"
    )


def _mark(axes: Axes, value: float, row: int, case: Case, order: str) -> None:
    face = "white" if order in case.refused else COLOURS[order]
    axes.plot(value, row, MARKERS[order], color=COLOURS[order], markerfacecolor=face, markersize=4.5, zorder=3)
    if order == case.auto:
        axes.plot(value, row, "o", color="black", markerfacecolor="none", markersize=10, zorder=4)
