"""Tables and pictures of the L2 locality study; every one names its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.parity.html_table import Cell, Table, plain
from workbench.parity.plots import Picture
from workbench.studies.l2_locality import WHAT_IFS, published_rates, published_ratio

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.scenarios import Scenario
    from workbench.studies.l2_locality import Case

COLOURS = {
    "grid": "#5b6676",
    "qb_major": "#c2571a",
    "hkv_major": "#1f5fbf",
    "gqa_pair": "#1a7f4b",
    "gqa_pair_2phase": "#8a3ffc",
}
MARKERS = {"grid": "^", "qb_major": "o", "hkv_major": "s", "gqa_pair": "D", "gqa_pair_2phase": "v"}
_PUBLISHED_MARK = {"marker": "D", "facecolor": "white", "edgecolor": "black", "zorder": 3, "s": 34}


def published_table(case: Case, scenario: Scenario, device: Device) -> Table:
    """Modelled hit rates beside published ones, with the distance in points; then the ratio of misses."""
    rates = published_rates(scenario, device)
    rows = [
        [
            plain(f"L2 hit rate, {order}"),
            plain(_percent(case.results[order].hit_rate), "num"),
            plain(_percent(rate.value), "num"),
            plain(f"{100 * (case.results[order].hit_rate - rate.value):+.1f} points", "num"),
            plain(rate.hardware),
            plain(rate.source, "text"),
        ]
        for order, rate in rates.items()
        if order in case.results
    ]
    ratio, known = case.ratio("qb_major", "hkv_major"), published_ratio(scenario, device)
    if ratio is not None and known is not None:
        rate = rates["qb_major"]
        rows.append(
            [
                plain("misses, qb_major over hkv_major"),
                plain(f"{ratio:.1f}x", "num"),
                plain(f"{known:.1f}x", "num"),
                plain(f"{round(100 * (ratio / known - 1)):+d} %", "num"),
                plain(rate.hardware),
                plain(rate.source, "text"),
            ]
        )
    return Table(
        ["figure", "modelled", "published", "difference", "published for", "source"],
        rows,
        f"Modelled for {device.title} and this project's kernel; published counters of another kernel with the same "
        "orders.",
        empty=f"Nothing is published of {scenario.name} on {device.title}.",
    )


def order_table(cases: Sequence[Case], heading: str) -> Table:
    """Hit rate, bytes beyond the L2 and what is compulsory, a row per case and order. Evidence: modelled."""
    from workbench.parity.flops import work_of

    rows = []
    for case in cases:
        for order, result in case.results.items():
            refused = order in case.refused
            rows.append(
                [
                    plain(case.label),
                    plain(order),
                    plain(_percent(result.hit_rate), "num"),
                    plain(f"{100 * result.hit_rate_error:.1f}", "num"),
                    plain(_percent(result.hit_rate_of("k", "v")), "num"),
                    plain(f"{result.total_misses / 1e6:.2f}", "num"),
                    plain(f"{result.bytes_beyond_l2 / 1e9:.2f}", "num"),
                    plain(f"{result.bytes_beyond_l2 / work_of(case.problem).bytes:.1f}x", "num"),
                    plain("refused" if refused else "yes"),
                ]
            )
    headings = [heading, "order", "hit rate", "± points", "hit rate of K, V", "misses, 10^6"]
    headings += ["GB beyond L2", "over minimal bytes", "dispatched"]
    return Table(
        headings,
        rows,
        "Modelled. ±: from simulating a sample of the sets. Minimal bytes (static): Q, K, V and O once. "
        "Dispatch refuses an order that would not balance the causal load; it is modelled all the same. "
        "One that would not meet every item has no row.",
    )


def detail_table(case: Case) -> Table:
    """Hit rate of each XCD and of each operand. Evidence: modelled."""
    first = next(iter(case.results.values()))
    operands = [name for name, count in zip(first.operands, first.requests.sum(axis=1), strict=True) if count]
    headings = [
        "order",
        *(f"XCD {index}" for index in range(first.geometry.xcds)),
        *(f"{name.upper()} alone" for name in operands),
    ]
    rows = [
        [
            plain(order),
            *(plain(_percent(rate), "num") for rate in result.hit_rate_by_xcd),
            *(plain(_percent(result.hit_rate_of(name)), "num") for name in operands),
        ]
        for order, result in case.results.items()
    ]
    return Table(headings, rows, f"Modelled: hit rates of {case.label}.")


def sensitivity_table(cases: Sequence[Case], scenario: Scenario, device: Device) -> Table:
    """Hit rates and the ratio of misses under each assumption, the published figures last."""
    orders = _orders(cases)
    rows: list[list[Cell]] = [
        [
            plain(case.label, "text"),
            *(plain(_percent(case.results[order].hit_rate), "num") for order in orders),
            plain(_ratio(case.ratio("qb_major", "hkv_major")), "num"),
            plain("modelled"),
        ]
        for case in cases
    ]
    rates = published_rates(scenario, device)
    if rates:
        hardware = next(iter(rates.values())).hardware
        figures = [plain(_percent(rates[order].value) if order in rates else "", "num") for order in orders]
        ratio = plain(_ratio(published_ratio(scenario, device)), "num")
        rows.append([plain(f"published for {hardware}", "text"), *figures, ratio, plain("published")])
    headings = [
        "assumption",
        *(f"hit rate, {order}" for order in orders),
        "misses, qb_major over hkv_major",
        "evidence",
    ]
    return Table(headings, rows, f"{scenario.name} on {device.title}, one assumption changed at a time.")


def order_plot(cases: Sequence[Case], scenario: Scenario, device: Device) -> Picture:
    """Hit rate and gigabytes beyond the L2 by order, a group of bars per shape; published rates as diamonds."""
    from matplotlib.figure import Figure

    orders = _orders(cases)
    figure = Figure(figsize=(9, 0.8 + 0.2 * len(orders) * max(len(cases), 2)), layout="constrained")
    rates, traffic = figure.subplots(1, 2, sharey=True)
    height = 0.8 / len(orders)
    for rank, order in enumerate(orders):
        rows = [row + (rank - (len(orders) - 1) / 2) * height for row in range(len(cases))]
        results = [case.results.get(order) for case in cases]
        shares = [100 * result.hit_rate if result else 0.0 for result in results]
        rates.barh(rows, shares, height * 0.9, color=COLOURS[order], label=order)
        gigabytes = [result.bytes_beyond_l2 / 1e9 if result else 0.0 for result in results]
        traffic.barh(rows, gigabytes, height * 0.9, color=COLOURS[order])
        _mark_published(rates, cases, rows, scenario, device, order)
    rates.set_xlim(0, 100)
    rates.set_xlabel("L2 hit rate in % (modelled)")
    traffic.set_xlabel("GB beyond the L2 (modelled)")
    rates.set_yticks(range(len(cases)), [case.label for case in cases], fontsize=8)
    rates.set_ylim(len(cases) - 0.5, -0.5)
    for axes in (rates, traffic):
        axes.grid(axis="x", color="#e6eaf0")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    figure.legend(loc="outside upper center", ncols=len(orders) + 1, frameon=False, fontsize=8)
    return Picture(figure, f"L2 hit rate and traffic beyond the L2 of {', '.join(orders)} on {device.title}, modelled")


def _mark_published(
    axes: Any, cases: Sequence[Case], rows: Sequence[float], scenario: Scenario, device: Device, order: str
) -> None:
    """A diamond on the bar that a published rate belongs to."""
    known = published_rates(scenario, device).get(order)
    labels = [case.label for case in cases]
    if known is None or scenario.name not in labels:
        return
    label = f"published for {known.hardware}" if order == "qb_major" else None
    axes.scatter(100 * known.value, rows[labels.index(scenario.name)], label=label, **_PUBLISHED_MARK)


def what_if_plot(sweeps: Mapping[str, Sequence[Case]], title: str) -> Picture:
    """Hit rate by order over each what-if, a panel each; an open marker is an order that dispatch refuses there."""
    from matplotlib.figure import Figure

    shown = {name: cases for name, cases in sweeps.items() if cases}
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    panels = figure.subplots(1, max(len(shown), 1), sharey=True, squeeze=False)[0]
    for axes, (name, cases) in zip(panels, shown.items(), strict=False):
        ticks = range(len(cases))
        for order in _orders(cases):
            held = [(tick, case) for tick, case in zip(ticks, cases, strict=True) if order in case.results]
            rates = [100 * case.results[order].hit_rate for _, case in held]
            axes.plot([tick for tick, _ in held], rates, color=COLOURS[order], linewidth=1.2)
            for (tick, case), rate in zip(held, rates, strict=True):
                face = "white" if order in case.refused else COLOURS[order]
                axes.plot(tick, rate, MARKERS[order], color=COLOURS[order], markerfacecolor=face, markersize=5)
        axes.set_xticks(ticks, [case.label for case in cases], fontsize=8)
        axes.set_xlabel(WHAT_IFS[name].split(",")[0], fontsize=8)
        axes.grid(axis="y", color="#e6eaf0")
        axes.set_ylim(0, 100)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("L2 hit rate in % (modelled)")
    orders = list(dict.fromkeys(order for cases in shown.values() for order in _orders(cases)))
    figure.legend(handles=_handles(orders), loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    return Picture(figure, f"{title}: L2 hit rate over {', '.join(WHAT_IFS[name] for name in shown)}, modelled")


def _orders(cases: Sequence[Case]) -> list[str]:
    """Orders that at least one case has a result for."""
    return list(dict.fromkeys(order for case in cases for order in case.results))


def _handles(orders: Sequence[str]) -> list[Any]:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=COLOURS[order], marker=MARKERS[order], label=order) for order in orders]
    open_mark = Line2D(
        [], [], color="#5b6676", marker="s", markerfacecolor="white", linestyle="none", label="refused by dispatch"
    )
    return [*handles, open_mark]


def conclusion(cases: Sequence[Case], scenario: Scenario, sensitive: Sequence[Case]) -> str:
    """What follows for somebody who tunes the kernel, and what only hardware can tell, as Markdown."""
    lines = [f"- {_gain(cases)}"] if _gain(cases) else []
    lines.append(f"- Fewest misses among the orders that dispatch admits: {_best_orders(cases)} (modelled).")
    refused = [case.label for case in cases if "hkv_major" in case.refused]
    if refused:
        lines.append(
            f"- On {', '.join(refused)} dispatch refuses `hkv_major`: {_programs(cases)} programs would not share the "
            "causal load of so few work items per KV head evenly. Fewer programs or fewer query rows per item would "
            "admit it; the what-ifs show at which price."
        )
    beaten = [case.label for case in cases if _grid_beats_qb_major(case)]
    if beaten:
        lines.append(
            f"- On {', '.join(beaten)} the default grid misses less than `qb_major`: it works through one query head "
            "after the other. A persistent grid that follows it in that, where `hkv_major` is refused, is worth a try."
        )
    lines += [
        "- What decides is how many bytes of distinct K and V the workgroups of one XCD touch between two reads of the "
        "same tile. Keep that below the L2: few KV heads at a time, or workgroups that keep in step. "
        + _sharing(cases),
        f"- The model's own weak points, on {scenario.name}: {_weakest(sensitive)}.",
        "- Only hardware can tell how far the workgroups drift apart, how often its counters count a store, how the "
        "sets are chosen, how much of the misses the last-level cache serves, and what a miss costs in time. "
        "On an MI355X collect L2 hits, L2 misses and reads from memory for both orders in one session.",
    ]
    return "\n".join(lines)


def _gain(cases: Sequence[Case]) -> str:
    """What the KV head in front is worth, over the shapes that dispatch admits it on."""
    ratios = [
        (ratio, case.label)
        for case in cases
        if "hkv_major" not in case.refused and (ratio := case.ratio("qb_major", "hkv_major")) is not None
    ]
    if not ratios:
        return ""
    best, worst = max(ratios), min(ratios)
    text = f"`hkv_major` divides the misses of `qb_major` by {best[0]:.1f} on {best[1]} (modelled)"
    return text + ("." if best == worst else f", by {worst[0]:.1f} on {worst[1]}.")


def _best_orders(cases: Sequence[Case]) -> str:
    best: dict[str, list[str]] = {}
    for case in cases:
        admitted = {order: result.total_misses for order, result in case.results.items() if order not in case.refused}
        if admitted:
            best.setdefault(min(admitted, key=admitted.__getitem__), []).append(case.label)
    return "; ".join(f"`{order}` on {', '.join(labels)}" for order, labels in best.items())


def _grid_beats_qb_major(case: Case) -> bool:
    ratio = case.ratio("qb_major", "grid")
    return ratio is not None and ratio > 1.0


def _weakest(cases: Sequence[Case]) -> str:
    """The assumption that moves each order's hit rate most."""
    base, others = cases[0], cases[1:]
    parts = []
    for order in base.results:
        moved = max(others, key=lambda case: abs(case.results[order].hit_rate - base.results[order].hit_rate))
        parts.append(
            f"`{order}` moves most, from {_percent(base.results[order].hit_rate)} to "
            f'{_percent(moved.results[order].hit_rate)}, with "{moved.label}"'
        )
    return "; ".join(parts)


def _programs(cases: Sequence[Case]) -> str:
    """How many programs hkv_major would run on, where dispatch refuses it."""
    refused = [case.results["hkv_major"] for case in cases if "hkv_major" in case.refused]
    return " or ".join(map(str, sorted({result.num_persistent for result in refused})))


def _sharing(cases: Sequence[Case]) -> str:
    """Which programs have an L2 in common."""
    xcds = next(result.geometry.xcds for case in cases for result in case.results.values())
    if xcds == 1:
        return "All programs share one L2."
    return f"Programs share an L2 if their numbers differ by a multiple of the {xcds} XCDs; neighbours do not."


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _ratio(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.1f}x"
