"""Tables and pictures of a lever study; every column names its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.gfx950.budget import PIPES
from workbench.gfx950.isa import FAMILIES
from workbench.gfx950.occupancy import both_budgets
from workbench.levers.emulated import describe
from workbench.parity.html_table import Cell, Table, plain
from workbench.parity.plots import Picture
from workbench.published import load_published
from workbench.studies.lever_figures import CONFLICTS, WITH_CONFLICTS

if TYPE_CHECKING:
    from workbench.inspection import Inspection
    from workbench.studies.compile_study import CallLimits, Point
    from workbench.studies.lever_study import LeverStudy

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
_BUDGET_WITH_CONFLICTS = ("LDS cycles", "cycles of an iteration", "MFMA efficiency, at most")
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


def conflict_table(study: LeverStudy | None, lever: str) -> Table:
    """LDS bank conflicts of each value (emulated), and the issue budget with them (modelled)."""
    counted, modelled = list(CONFLICTS.values()), [name + WITH_CONFLICTS for name in _BUDGET_WITH_CONFLICTS]
    reads = [name.replace("LDS conflict cycles", "conflict cycles") for name in counted]
    headings = [lever, "output", *reads, *_BUDGET_WITH_CONFLICTS, "binding"]
    rows = []
    for name, outcome in study.outcomes.items() if study else ():
        if outcome.emulated is None:
            rows.append([plain(name), plain(outcome.message, "text"), *[plain("")] * (len(headings) - 2)])
            continue
        least = study.find(name, modelled[1]) if study else None
        cells = [_figure(study.value(name, figure)) for figure in (*counted, *modelled)] if study else []
        output = "correct" if outcome.emulated.comparison.ok else "wrong"
        rows.append([plain(name), plain(output), *cells, plain(least.text if least else "n/a")])
    caption = (
        f"Emulated: conflict cycles of a whole call, {_emulated_problem(study)}. Modelled: one iteration of one wave "
        "with its LDS time grown by them; blocks that a vote skips are left out."
    )
    return Table(headings, rows, caption, empty="Not emulated: it was not asked for, or the target is not gfx950.")


def key_figure(
    points: Sequence[Point], lever: str, title: str, limits: CallLimits, study: LeverStudy | None = None
) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`: what limits the call, or how far the lever moves the issue budget.

    title: the kernel and target, for the sentence. study: the emulator's conflicts, which then count.
    """
    known, conflicts = _bounds(points, study)
    if not known:
        return {"sentence": f"No value of {lever} gave a kernel with a bound, on {title}.", "evidence": "modelled"}
    refused = sum(point.inspection is None for point in points)
    end = f" {refused} of {len(points)} values gave no kernel." if refused else ""
    (least, worst), (most, best) = _extremes(known)
    budget = "issue budget with emulated LDS conflicts" if conflicts else "issue budget"
    if limits.binding == "memory":
        sentence = (
            f"Memory, not MFMA, limits {title}: its least bytes take {_short(limits.memory_us)} us, its FLOPs "
            f"{_short(limits.compute_us)} us at the peaks of an {limits.ceilings.hardware}; MFMA efficiency ranks no "
            f"value of {lever}.{end}"
        )
        return {"sentence": sentence, "evidence": "modelled", "value": limits.memory_us, "unit": "us"}
    sentence = f"The {budget} allows {title} at most {most:.0%} MFMA efficiency, with {lever} = {best}"
    if worst != best:
        sentence += f"; {least:.0%} with {worst}."
    else:
        sentence += "; no other value with a kernel changes that." if len(known) > 1 else "; no other gave a kernel."
    return {"sentence": sentence + end, "evidence": "modelled", "value": 100 * most, "unit": "%"}


def conclusion(
    points: Sequence[Point], lever: str, bench: str, limits: CallLimits, study: LeverStudy | None = None
) -> str:
    """What follows from the sweep, in sentences of Markdown, from its own figures.

    bench: the command that times the values, see `bench_command`.
    """
    shown = [point for point in points if point.inspection]
    if len(shown) < 2:
        return "Fewer than two values gave a kernel: there is nothing to compare."
    rows = [(point.value, point.inspection.summary()["static"]) for point in shown if point.inspection]
    sentences = [_limit_sentence(limits), *_grid_sentences(shown, rows, lever, limits)]
    if spilling := [value for value, static in rows if static["vgpr_spills"]]:
        sentences.append(f"It spills at {', '.join(spilling)} (static): do not ship those values.")
    sentences += _bound_sentences(points, lever, study)
    sentences.append(
        "Only hardware can tell how much of this becomes time: latency hiding, clocks and cache behaviour are in no "
        f"figure here. On an {limits.ceilings.hardware}: `{bench}`."
    )
    return "\n".join(f"- {sentence}" for sentence in sentences)


def bench_command(scenario: str, lane: str, lever: str, points: Sequence[Point], changes: Sequence[str] = ()) -> str:
    """The command that times every value with a kernel. lane: as asked for, `auto` for a dense scenario."""
    specs = (",".join([*changes, f"{lever}={point.value}"]) for point in points if point.inspection)
    return f"workbench bench {scenario} --lane {lane} " + " ".join(f"--spec {spec}" for spec in specs)


def _limit_sentence(limits: CallLimits) -> str:
    work = limits.work
    sentence = (
        f"At the published peaks of an {limits.ceilings.hardware}, the least bytes ({_short(work.bytes / 1e6)} MB) "
        f"take {_short(limits.memory_us)} us and the FLOPs ({_short(work.flops / 1e9)} GFLOP) "
        f"{_short(limits.compute_us)} us: {limits.binding} limits the call (modelled)."
    )
    if limits.binding == "memory":
        sentence += (
            " MFMA efficiency ranks no value then, and what a value does to the loads in flight is not modelled."
        )
    return sentence


def _grid_sentences(
    shown: Sequence[Point], rows: Sequence[tuple[str, Any]], lever: str, limits: CallLimits
) -> list[str]:
    """The grid over the compute units, and what the values' occupancy is worth under it."""
    units = limits.compute_units
    grids = {point.value: point.workgroups or 0 for point in shown}
    if len(set(grids.values())) == 1:
        said = f"{next(iter(grids.values()))} workgroups"
    else:
        said = ", ".join(f"{grid} workgroups at {value}" for value, grid in grids.items())
    found = [f"The grid: {said}, on {units} compute units (static)."]
    admitted = {value: int(static["workgroups_per_cu"] or 0) for value, static in rows}
    value, static = max(rows, key=lambda row: admitted[row[0]])
    least = min(admitted.values())
    if least == admitted[value]:
        sentence = f"All values admit the same number of workgroups per CU, {least} (static)."
    else:
        sentence = (
            f"`{lever}` = {value} admits the most workgroups per CU, {admitted[value]} (static), limited by "
            f"{static['limited_by']}; the least is {least}."
        )
    needed = {value: -(-grid // units) for value, grid in grids.items()}
    if all(admitted[value] >= needed[value] for value in needed):
        sentence += (
            f" The grid brings at most {max(needed.values())} to a CU, if spread evenly: admitting more is no gain."
        )
    return [*found, sentence]


def _bound_sentences(points: Sequence[Point], lever: str, study: LeverStudy | None) -> list[str]:
    """The issue budget without LDS bank conflicts, then, where the emulator counted them, with them."""
    known, _ = _bounds(points, None)
    if not known:
        return []
    plain_bound = (
        f"The issue budget, which leaves out LDS bank conflicts, bounds MFMA efficiency by "
        f"{_span(known, lever)} (modelled)."
    )
    counted, conflicts = _bounds(points, study)
    if not conflicts:
        return [plain_bound + " The emulator did not count conflicts for every value: they may turn the order round."]
    return [
        plain_bound,
        f"With the conflicts that the emulator counted ({_emulated_problem(study)}), and without blocks that a vote "
        f"skips, the bound is {_span(counted, lever)} (modelled, from emulated conflicts).",
    ]


def _span(known: Sequence[tuple[float, str]], lever: str) -> str:
    """The bounds in words: the largest with its values, and the smallest if there is another."""
    (least, worst), (most, _) = _extremes(known)
    if f"{least:.0%}" == f"{most:.0%}":
        return f"{most:.0%} whatever the value"
    best = " and ".join(value for bound, value in known if bound == most)
    return f"{most:.0%} at `{lever}` = {best}, down to {least:.0%} at {worst}"


def _bounds(points: Sequence[Point], study: LeverStudy | None) -> tuple[list[tuple[float, str]], str]:
    """Bound of the MFMA efficiency and value, of each kernel with one, and the words for its conflicts.

    With the emulated conflicts where all kernels have them: bounds with and without do not compare.
    """
    kernels = [(point.value, point.inspection) for point in points if point.inspection]
    bounds = [(kernel.summary()["modelled"].get("mfma_efficiency"), value) for value, kernel in kernels]
    known = [(float(bound), value) for bound, value in bounds if bound is not None]
    name = _BUDGET_WITH_CONFLICTS[-1] + WITH_CONFLICTS
    emulated = [(study.value(value, name), value) for _, value in known] if study else []
    counted = [(bound, value) for bound, value in emulated if bound is not None]
    return (counted, WITH_CONFLICTS) if counted and len(counted) == len(known) else (known, "")


def _short(figure: float) -> str:
    """Two digits at least, and never an exponent that a reader must undo."""
    return f"{figure:,.0f}" if figure >= 10 else f"{figure:.2g}"


def _extremes(known: Sequence[tuple[float, str]]) -> tuple[tuple[float, str], tuple[float, str]]:
    """Smallest and largest bound; of equal ones the first."""
    return min(known, key=lambda row: row[0]), max(known, key=lambda row: row[0])


def _emulated_problem(study: LeverStudy | None) -> str:
    """The small problem that the emulator ran, in words."""
    ran = [outcome.emulated for outcome in study.outcomes.values() if outcome.emulated] if study else []
    return describe(ran[0].problem) if ran else "none"
