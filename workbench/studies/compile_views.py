"""Tables and pictures of a lever study; every column names its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.gfx950.budget import PIPES
from workbench.gfx950.isa import FAMILIES
from workbench.gfx950.occupancy import both_budgets
from workbench.parity.html_table import Cell, Table, plain
from workbench.parity.plots import Picture
from workbench.published import load_published

if TYPE_CHECKING:
    from workbench.inspection import Inspection
    from workbench.studies.compile_study import Point

STATIC = {
    "VGPRs": "vgprs",
    "AGPRs of them": "agprs",
    "alive at once": "live_vgprs",
    "spills": "vgpr_spills",
    "LDS bytes": "lds_bytes",
    "code bytes": "code_bytes",
    "workgroups/CU": "workgroups_per_cu",
    "waves/SIMD": "waves_per_simd",
    "limited by": "limited_by",
    "QK to PV run": "qk_to_pv",
}
_PIPE_COLOURS = ("#1f5fbf", "#c2571a", "#8a3ffc", "#b3261e", "#1a7f4b", "#0f7c8a", "#5b6676")


def _figure(value: object) -> Cell:
    if value is None:
        return plain("n/a", "num")
    if isinstance(value, float):
        return plain(f"{value:.2f}", "num")
    return plain(value, "num" if isinstance(value, int) else "")


def _rows(points: Sequence[Point], read: Any, width: int) -> list[list[Cell]]:
    """A row per point; one without a kernel says why in its first figure."""
    rows = []
    for point in points:
        first = plain(point.value)
        if point.inspection is None:
            blanks = [plain("")] * (width - 1)
            rows.append([first, plain(f"{point.status}: {point.message}", "text"), *blanks])
        else:
            rows.append([first, *read(point.inspection)])
    return rows


def resource_table(points: Sequence[Point], lever: str) -> Table:
    """Registers, LDS, occupancy of each value. Evidence: static."""

    def read(inspection: Inspection) -> list[Cell]:
        static = inspection.summary()["static"]
        return [_figure(static[key]) for key in STATIC.values()]

    caption = "Static: read from the machine code. Workgroups/CU with the LDS of the target."
    return Table([lever, *STATIC], _rows(points, read, len(STATIC)), caption)


def mix_table(points: Sequence[Point], lever: str) -> Table:
    """Instructions of the hot loop by class, those that occur. Evidence: static."""
    kernels = [point.inspection for point in points if point.inspection]
    shown = [family for family in FAMILIES if any(f"hot {family}" in kernel.summary()["static"] for kernel in kernels)]

    def read(inspection: Inspection) -> list[Cell]:
        static = inspection.summary()["static"]
        return [_figure(static.get(f"hot {family}", 0)) for family in shown]

    headings = [lever, *(FAMILIES[family] for family in shown)]
    return Table(headings, _rows(points, read, len(shown)), "Static: one iteration of the hot loop, one wave.")


def budget_table(points: Sequence[Point], lever: str) -> Table:
    """Cycles of the hot loop by pipe and the bound that binds. Evidence: modelled."""
    headings = [*(f"{pipe} cycles" for pipe in PIPES), "least cycles", "binding", "MFMA efficiency, at most"]

    def read(inspection: Inspection) -> list[Cell]:
        modelled = inspection.summary()["modelled"]
        keys = [*(f"{pipe} cycles" for pipe in PIPES), "least cycles", "binding", "mfma_efficiency"]
        return [_figure(modelled.get(key)) for key in keys]

    return Table([lever, *headings], _rows(points, read, len(headings)), "Modelled: one iteration of one wave.")


def lds_budget_table(points: Sequence[Point], lever: str) -> Table:
    """Workgroups per CU under the target's LDS and under the 64 KB of the specification's argument."""
    kernels = [point.inspection for point in points if point.inspection and point.inspection.occupancy]
    names = list(both_budgets(kernels[0].occupancy)) if kernels and kernels[0].occupancy else []

    def read(inspection: Inspection) -> list[Cell]:
        if inspection.occupancy is None:
            return [plain("n/a")] * len(names)
        budgets = both_budgets(inspection.occupancy)
        return [
            plain(f"{budgets[name].workgroups_per_cu}, limited by {' and '.join(budgets[name].limiters)}")
            for name in names
        ]

    return Table(
        [lever, *names], _rows(points, read, max(len(names), 1)), "Static: workgroups/CU under each LDS budget."
    )


def published_table(topic: str) -> Table:
    """What was published about the lever, with its hardware and source; empty if nothing is on file."""
    rows = [
        [
            plain(row.kernel),
            plain(row.config, "text"),
            plain(row.metric),
            plain(f"{row.value} {row.unit}".strip(), "num"),
            plain(row.hardware),
            plain(row.source, "text"),
        ]
        for row in load_published(topic)
    ]
    headings = ["kernel", "configuration", "metric", "value", "hardware", "source"]
    return Table(headings, rows, "Published: measured by others, not here.", empty="Nothing published is on file.")


def assumptions(points: Sequence[Point]) -> tuple[str, ...]:
    """What the issue budget takes for granted, each sentence once."""
    said = [
        sentence
        for point in points
        if point.inspection and point.inspection.budget
        for sentence in point.inspection.budget.assumptions
    ]
    return tuple(dict.fromkeys(said))


def study_plot(points: Sequence[Point], lever: str, title: str) -> Picture:
    """Registers and occupancy (static) beside the loop's cycles by pipe (modelled), one group per value."""
    from matplotlib.figure import Figure

    shown = [point for point in points if point.inspection]
    labels = [str(point.value) for point in shown]
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    registers, waves, cycles = figure.subplots(1, 3)
    static = [point.inspection.summary()["static"] for point in shown if point.inspection]
    registers.bar(labels, [float(row["vgprs"] or 0) for row in static], color="#1f5fbf")
    registers.set_ylabel("VGPRs, AGPRs included (static)")
    waves.bar(labels, [float(row["workgroups_per_cu"] or 0) for row in static], color="#1a7f4b")
    waves.set_ylabel("workgroups per CU (static)")
    _stack(cycles, labels, [point.inspection for point in shown if point.inspection])
    for axes in (registers, waves, cycles):
        axes.set_xlabel(lever)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=10)
    return Picture(
        figure, f"{title}: registers, workgroups per CU and modelled cycles for {lever} = {', '.join(labels)}"
    )


def _stack(axes: Any, labels: list[str], inspections: list[Inspection]) -> None:
    """Cycles by pipe, stacked, with the least possible as a line: what is above it must overlap."""
    budgets = [inspection.budget for inspection in inspections]
    base = [0] * len(labels)
    for pipe, colour in zip(PIPES, _PIPE_COLOURS, strict=True):
        heights = [budget.cycles[pipe] if budget else 0 for budget in budgets]
        axes.bar(labels, heights, bottom=base, color=colour, label=pipe)
        base = [low + height for low, height in zip(base, heights, strict=True)]
    least = [budget.least_cycles if budget else 0 for budget in budgets]
    axes.plot(labels, least, "k_", markersize=24, markeredgewidth=2, label="least")
    axes.set_ylabel("cycles of one iteration (modelled)")
    axes.set_ylim(0, 1.45 * max([*base, 1]))  # room for the legend
    axes.legend(loc="upper center", fontsize=6, ncols=2, frameon=False, markerscale=0.4)


def key_figure(points: Sequence[Point], lever: str, title: str) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`: how far the lever moves the bound of the issue budget.

    title: the kernel and target, for the sentence.
    """
    found = [(point.value, point.inspection.summary()) for point in points if point.inspection]
    bounds = [(value, figures["modelled"].get("mfma_efficiency")) for value, figures in found]
    known = [(float(bound), value) for value, bound in bounds if bound is not None]
    if not known:
        return {"sentence": f"No value of {lever} gave a kernel with a bound, on {title}.", "evidence": "modelled"}
    best, worst = max(known, key=lambda row: row[0]), min(known, key=lambda row: row[0])
    sentence = f"The issue budget allows {title} at most {best[0]:.0%} MFMA efficiency, with {lever} = {best[1]}"
    sentence += f"; {worst[0]:.0%} with {worst[1]}." if worst[0] < best[0] else "; no other value changes that."
    return {"sentence": sentence, "evidence": "modelled", "value": 100 * best[0], "unit": "%"}


def conclusion(points: Sequence[Point], lever: str) -> str:
    """What follows from the sweep, in sentences of Markdown, from its own figures."""
    shown = [point for point in points if point.inspection]
    if len(shown) < 2:
        return "Fewer than two values gave a kernel: there is nothing to compare."
    rows = [(point.value, point.inspection.summary()) for point in shown if point.inspection]
    spilling = [str(value) for value, figures in rows if figures["static"]["vgpr_spills"]]
    most = max(rows, key=lambda row: int(row[1]["static"]["workgroups_per_cu"] or 0))
    sentences = [
        f"- `{lever}` = {most[0]} admits the most workgroups per CU, {most[1]['static']['workgroups_per_cu']} "
        f"(static), limited by {most[1]['static']['limited_by']}."
    ]
    if spilling:
        sentences.append(f"- It spills at {', '.join(spilling)} (static): do not ship those values.")
    bounded = [(value, figures["modelled"].get("mfma_efficiency")) for value, figures in rows]
    known = [(value, float(efficiency)) for value, efficiency in bounded if efficiency is not None]
    if known:
        best = max(known, key=lambda row: row[1])
        sentences.append(
            f"- The issue budget allows at most {best[1]:.0%} MFMA efficiency, at `{lever}` = {best[0]} (modelled); "
            f"the values span {min(known, key=lambda row: row[1])[1]:.0%} to {best[1]:.0%}."
        )
    sentences.append(
        "- Only hardware can tell how much of this becomes time: latency hiding, clocks and cache behaviour are in no "
        "figure here. On an MI355X: `workbench bench SCENARIO "
        + " ".join(f"--spec {lever}={value}" for value, _ in rows)
        + "`."
    )
    return "\n".join(sentences)
