"""Tables and pictures of lever studies; every one names its evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from workbench.levers.registry import INSTRUMENTS
from workbench.levers.table import spell
from workbench.parity.html_table import Cell, Table, plain, tag
from workbench.parity.plots import Picture
from workbench.studies.lever_figures import VOTED, WITH_CONFLICTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.levers.registry import KernelLevers
    from workbench.published import Published
    from workbench.studies.lever_study import LeverStudy

EVIDENCE = {
    "static": ("#5b6676", "s"),
    "modelled": ("#8a3ffc", "^"),
    "emulated": ("#1a7f4b", "o"),
    "measured": ("#1f5fbf", "P"),
    "published": ("#c2571a", "D"),
}
"""Evidence -> its colour and marker in every picture of a lever study."""
ALWAYS = ("VGPRs", "spilled VGPRs", "LDS", "waves per SIMD", "cycles per 64 keys", "correct", "time")
"""Figures that a side-by-side table shows even where all variants agree."""
PER_ITERATION = ("instructions of an iteration", "cycles of an iteration")
"""Figures that such a table leaves to those per 64 keys."""
RATIOS = (
    "instructions per 64 keys",
    "VGPRs",
    "LDS",
    "cycles per 64 keys",
    f"cycles per 64 keys{VOTED}",
    f"cycles per 64 keys{WITH_CONFLICTS}",
    "wave-instructions",
    "LDS busy cycles",
    "time",
)
"""Figures of which less is better, as a ratio plot shows them."""
_NOISE = 0.03
_LEFT_OUT = {
    "modelled": "the bound leaves out waits, latency and dependencies",
    "emulated": "a count does not say what an instruction waits for",
    "static": "a count does not say what an instruction waits for",
}


def lever_card(kernel: KernelLevers, field: str) -> Table:
    """A lever as registered: what it changes, what can see it, where it cannot be used."""
    lever = kernel.lever(field)
    rows = [
        ("field", f"{field} of {kernel.spec.rpartition('.')[2]}: {', '.join(map(spell, lever.values))}"),
        ("changes", lever.changes),
        ("seen by", ", ".join(INSTRUMENTS[key] for key in lever.instruments)),
        *((f"not on {limit.where}", limit.why) for limit in kernel.unavailable),
        *((f"limit: {limit.where}", limit.why) for limit in lever.unavailable),
    ]
    return Table([lever.name, ""], [[plain(name), plain(text, "text long")] for name, text in rows])


def published_table(rows: Sequence[Published]) -> Table:
    """What others measured, with hardware and source."""
    cells = [
        [
            plain(row.config, "text"),
            plain(row.metric),
            plain(f"{row.value} {'' if row.unit == '1' else row.unit}".strip(), "num"),
            plain(f"{row.hardware}, {row.kernel}"),
            plain(row.source, "text"),
        ]
        for row in rows
    ]
    headings = ["configuration", "metric", "value", "hardware, kernel", "source"]
    return Table(
        headings, cells, "Published: measured by others, not here.", empty="Nothing is published of this lever."
    )


def figure_table(study: LeverStudy, *, everything: bool = False) -> Table:
    """All variants side by side, a row per figure; unless `everything`, figures that all share are left out."""
    names = list(study.outcomes)
    lines = [figure for outcome in study.outcomes.values() for figure in outcome.figures]
    order = list(dict.fromkeys((line.figure, line.unit, line.evidence) for line in lines))
    rows = []
    for figure, unit, evidence in sorted(order, key=lambda each: list(EVIDENCE).index(each[2])):
        cells = [_cell(study, name, figure) for name in names]
        differ = len({cell.text for cell in cells}) > 1
        if everything or ((differ or figure in ALWAYS) and not figure.startswith(PER_ITERATION)):
            rows.append([plain(figure), plain("" if unit == "1" else unit), _evidence(evidence), *cells])
    return Table(["figure", "unit", "evidence", *names], rows, _caption(study, everything))


def _caption(study: LeverStudy, everything: bool) -> str:
    """What the figures are of, what is left out, and why something is missing."""
    lines = [figure for outcome in study.outcomes.values() for figure in outcome.figures]
    told = []
    for kind in EVIDENCE:
        subjects = dict.fromkeys(line.of for line in lines if line.evidence == kind and line.value is not None)
        if subjects:
            told.append(f"{kind}: {'; '.join(subjects)}")
    untimed = dict.fromkeys(line.text for line in lines if line.figure == "time" and line.value is None)
    told += [f"No times: {why}" for why in untimed]
    told += [f"{name}: {outcome.message}" for name, outcome in study.outcomes.items() if outcome.message]
    told += [] if everything else ["Figures that all variants share are left out"]
    if any(line.figure.endswith(WITH_CONFLICTS) for line in lines):
        told.append("Those with emulated LDS conflicts skip voted-away blocks")
    return ". ".join(told) + "."


def _cell(study: LeverStudy, name: str, figure: str) -> Cell:
    found = study.find(name, figure)
    if found is None:
        return plain("")
    if figure == "correct" and found.value is not None:
        return replace(tag("right", "ok") if found.value else tag("wrong", "bad"), kind="num")
    if found.value is None:
        return plain("n/a" if found.figure == "time" else found.text, "num")
    number = spell_number(found.value)
    return plain(f"{number}: {found.text}" if figure in ("copies to LDS", "LDS reads") else number, "num")


def spell_number(value: float) -> str:
    """Whole numbers in groups of three, others with four digits."""
    return f"{value:,.0f}" if value == int(value) else f"{value:.4g}"


def _evidence(kind: str) -> Cell:
    colour = EVIDENCE[kind][0]
    return Cell(f'<span style="color:{colour};font-weight:600">{kind}</span>', kind)


def ratio_plot(study: LeverStudy, title: str, figures: Sequence[str] = RATIOS) -> Picture:
    """The baseline's figure over each variant's, a row per figure; published speed-ups in rows of their own.

    Colour tells the evidence, the marker the variant. Figures that no variant moves are left out.
    """
    from matplotlib.figure import Figure

    others = [name for name in study.names if name != study.baseline]
    rows: list[tuple[str, str, list[tuple[str, float]]]] = []
    for figure in figures:
        points = [(name, ratio) for name in others if (ratio := study.over_baseline(name, figure)) is not None]
        found = study.find(study.baseline, figure)
        if found and any(abs(ratio - 1) > 5e-4 for _, ratio in points):
            rows.append((figure, found.evidence, points))
    rows += [
        (f"{row.config} ({row.hardware})", "published", [("", float(row.value))]) for row in speedups(study.published)
    ]
    height = 1.2 + max(len(rows), 1) * (0.24 + 0.12 * len(others))
    picture = Figure(figsize=(9, height), layout="constrained")
    axes = picture.subplots()
    axes.axvline(1.0, color="#5b6676", linewidth=1)
    markers = "os^vP*Xd"
    for place, (_, evidence, points) in enumerate(rows):
        for name, ratio in points:
            rank = others.index(name) if name else 0
            marker = markers[rank % len(markers)] if name else "D"
            at = (ratio, place + (0.7 * (rank + 0.5) / len(others) - 0.35 if name else 0.0))
            axes.plot(*at, marker, color=EVIDENCE[evidence][0], markersize=6, zorder=3)
            axes.annotate(f"{ratio:.4g}", at, (6, 0), textcoords="offset points", fontsize=7, va="center")
    _dress(axes, [f"{name}  [{evidence}]" for name, evidence, _ in rows], study.baseline)
    _legend(axes, others, markers, sorted({evidence for _, evidence, _ in rows}, key=list(EVIDENCE).index))
    picture.suptitle(title, fontsize=10)
    told = "; ".join(f"{name}: {', '.join(f'{ratio:.3g}' for _, ratio in points)}" for name, _, points in rows)
    return Picture(picture, f"{title}. {study.baseline} over the others: {told}")


def _dress(axes: Any, labels: Sequence[str], baseline: str) -> None:
    axes.set_yticks(range(len(labels)), labels, fontsize=8)
    axes.set_ylim(len(labels) - 0.5, -0.7)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.95), max(1.04 * high, 1.05))  # room for the figure beside the last mark
    axes.set_xlabel(f"{baseline} over the variant; right of 1 the variant asks for less, or is faster", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="x", color="#e6eaf0")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _legend(axes: Any, names: Sequence[str], markers: str, kinds: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color="#22272e", marker=markers[place % len(markers)], linestyle="none", label=name)
        for place, name in enumerate(names)
    ]
    handles += [Line2D([], [], color=EVIDENCE[kind][0], linewidth=4, label=kind) for kind in kinds]
    axes.legend(handles=handles, frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))


@dataclass(frozen=True)
class Quantity:
    """A number with its evidence and what it is of."""

    value: float
    evidence: str
    of: str


@dataclass(frozen=True)
class Prediction:
    """A figure that says how much faster a variant should be, beside the speed-up that was seen."""

    figure: str
    predicted: Quantity | None
    observed: Quantity | None
    meaning: str

    @property
    def gap(self) -> float | None:
        """Predicted over observed, less 1."""
        return self.predicted.value / self.observed.value - 1 if self.predicted and self.observed else None


def observed_speedup(study: LeverStudy, variant: str, config: str = "") -> Quantity | None:
    """The speed-up of a variant over the baseline: measured here, or else published for that configuration.

    config: text that the published row's configuration contains; empty takes the first speed-up.
    """
    outcome, base = study.outcomes[variant], study.outcomes[study.baseline]
    if outcome.record is not None:
        value = outcome.record.value(f"speedup_over_{study.baseline}/{base.variant.lane}")
        if value is not None:
            return Quantity(value, "measured", outcome.record.environment.get("device", "this GPU"))
    for row in speedups(study.published):
        if config in row.config:
            return Quantity(float(row.value), "published", f"{row.hardware}: {row.config}")
    return None


def speedups(rows: Sequence[Published]) -> list[Published]:
    """Published speed-ups that are one number each."""
    return [row for row in rows if row.metric == "speed-up" and "/" not in row.value]


def predictions(
    study: LeverStudy, variant: str, *, figures: Sequence[str] = RATIOS, config: str = ""
) -> list[Prediction]:
    """A prediction per figure that speaks of time, beside the speed-up that was seen (see `observed_speedup`)."""
    observed = observed_speedup(study, variant, config)
    found = []
    for figure in figures:
        line, ratio = study.find(variant, figure), study.over_baseline(variant, figure)
        if line is None or ratio is None or line.evidence == "measured" or figure in ("VGPRs", "LDS"):
            continue
        predicted = Quantity(ratio, line.evidence, line.of)
        found.append(Prediction(figure, predicted, observed, _meaning(predicted, observed)))
    return found


def _meaning(predicted: Quantity, observed: Quantity | None) -> str:
    if observed is None:
        return "nothing to hold it against: neither measured here nor published"
    gap = predicted.value / observed.value - 1
    if abs(gap) <= _NOISE and (predicted.value - 1) * (observed.value - 1) > 0:
        return "the figure accounts for the gain"
    if gap < 0:
        return f"more was gained than this figure moves: {_LEFT_OUT[predicted.evidence]}"
    return "less was gained than this figure moves: something else limits that kernel first"


def prediction_table(rows: Sequence[Prediction], note: str = "") -> Table:
    """Prediction, measurement, the gap between them, and what it means. note: what stands behind a gap, for a lever."""
    cells = [
        [
            plain(row.figure, "text"),
            _quantity(row.predicted),
            _evidence(row.predicted.evidence) if row.predicted else plain(""),
            _quantity(row.observed),
            _evidence(row.observed.evidence) if row.observed else plain("n/a"),
            plain(row.observed.of if row.observed else "", "text"),
            plain("n/a" if row.gap is None else f"{100 * row.gap:+.0f} %", "num"),
            plain(row.meaning, "text"),
        ]
        for row in rows
    ]
    headings = ["figure", "prediction", "", "measurement", "", "hardware and source", "gap", "what it means"]
    caption = "Speed-ups over the baseline, from a figure of which less is better, and as they were timed."
    return Table(headings, cells, f"{caption} {note}".strip(), empty="No figure predicts a difference.")


def _quantity(quantity: Quantity | None) -> Cell:
    return plain("n/a" if quantity is None else f"{quantity.value:.4g}x", "num")


def check_text(study: LeverStudy) -> str:
    """How many variants the emulator ran, and whether each was right, as Markdown."""
    ran = [outcome for outcome in study.outcomes.values() if outcome.emulated]
    if not ran:
        return "No variant ran on the emulator."
    wrong = [each.variant.name for each in ran if each.emulated and not each.emulated.comparison.ok]
    faults = [name for name in study.outcomes if study.value(name, "faults")]
    verdict = f"**wrong: {', '.join(wrong)}**" if wrong else "all are within the tolerance that float64 sets"
    text = f"{len(ran)} of {len(study.outcomes)} variants ran on the emulator; {verdict} (emulated)."
    return text + (f" Hazards were found in {', '.join(faults)}." if faults else " No hazards were found.")
