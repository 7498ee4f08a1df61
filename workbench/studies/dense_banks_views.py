"""Pictures and conclusions of the levers that decide where K and V lie in LDS; every one names its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.parity.plots import Picture
from workbench.studies.dense_banks import published_series
from workbench.studies.dense_levers import common_findings, observed_text, times_text
from workbench.studies.lever_figures import WITH_CONFLICTS
from workbench.studies.lever_views import EVIDENCE, observed_speedup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.studies.dense_banks import ReadPattern
    from workbench.studies.lever_study import LeverStudy

CYCLES = f"cycles per 64 keys{WITH_CONFLICTS}"
PUBLISHED_COUNTS = "LDS bank conflicts of the V read"
_LINES = ("-", "--", ":")


def bank_plot(found: Mapping[str, ReadPattern], title: str) -> Picture:
    """Different words that the slowest phase of one read asks of each bank, a row per variant; over one, it waits."""
    import numpy as np
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.1 + 0.42 * len(found)), layout="constrained")
    axes = figure.subplots()
    worst = [max(pattern.words_by_bank(), key=max) for pattern in found.values()]
    image = axes.imshow(np.array(worst), aspect="auto", cmap="YlOrRd", vmin=0, vmax=max(2, *map(max, worst)))
    labels = [f"{name}: {_service(pattern)}" for name, pattern in found.items()]
    axes.set_yticks(range(len(found)), labels, fontsize=8)
    measured = all(pattern.access.measured for pattern in found.values())
    phases = "phases measured on MI355X" if measured else "phases modelled after other reads"
    axes.set_xlabel(f"LDS bank (addresses emulated, {phases})", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    bar = figure.colorbar(image, ax=axes, pad=0.01)
    bar.set_label("words asked for", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    figure.suptitle(title, fontsize=10)
    return Picture(figure, f"{title}: {'; '.join(labels)}")


def _service(pattern: ReadPattern) -> str:
    access = pattern.access
    return f"{access.cycles} cycles for {access.phases} phases"


def pad_plot(studies: Mapping[str, LeverStudy], lever: str, operand: str) -> Picture:
    """Conflict cycles by pad (emulated), and what they do to the loop (modelled) beside published speed-ups.

    studies: one for each kind of copy, by its name; all over the same pads.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    counts, gains = figure.subplots(1, 2)
    told = []
    for (label, study), line in zip(studies.items(), _LINES, strict=False):
        cycles = _by_pad(study, lever, f"LDS conflict cycles, {operand} read")
        hollow = {} if line == _LINES[0] else {"markerfacecolor": "none", "markersize": 10}
        counts.plot(
            list(cycles), list(cycles.values()), "o", linestyle=line, color=EVIDENCE["emulated"][0],
            label=f"{label} (emulated)", **hollow,
        )  # fmt: skip
        speeds = {pad: study.over_baseline(f"{lever}={pad}", CYCLES) for pad in cycles}
        known = {pad: ratio for pad, ratio in speeds.items() if ratio is not None}
        gains.plot(
            list(known), list(known.values()), "^", linestyle=line, color=EVIDENCE["modelled"][0],
            label=f"{label} (modelled)", **hollow,
        )  # fmt: skip
        told.append(f"{label}: {', '.join(f'{count:.0f} at pad {pad}' for pad, count in cycles.items())}")
    _published(counts, gains, next(iter(studies.values())), lever)
    counts.set_ylabel(f"conflict cycles of the {operand} read", fontsize=8)
    gains.set_ylabel("speed over pad 0", fontsize=8)
    for axes in (counts, gains):
        axes.set_xlabel(f"{lever}, halves", fontsize=8)
        axes.set_ylim(0, None)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=7)
    figure.suptitle(f"{lever}: conflicts, and what they cost", fontsize=10)
    return Picture(figure, f"Conflict cycles of the {operand} read. {'; '.join(told)}")


def _by_pad(study: LeverStudy, lever: str, figure: str) -> dict[int, float]:
    values = {int(name.removeprefix(f"{lever}=")): study.value(name, figure) for name in study.names}
    return {pad: value for pad, value in values.items() if value is not None}


def _published(counts: Any, gains: Any, study: LeverStudy, lever: str) -> None:
    """Published counts on an axis of their own, since their unit is not known; published speeds over their pad 0."""
    colour, marker = EVIDENCE["published"]
    conflicts = published_series(study.published, PUBLISHED_COUNTS)
    if conflicts:
        other = counts.twinx()
        other.plot(
            list(conflicts), list(conflicts.values()), marker, color=colour, markerfacecolor="none", markersize=9
        )
        other.set_ylabel("published count, MI355X (unit not published)", fontsize=7, color=colour)
        other.set_ylim(0, None)
        other.tick_params(labelsize=7, colors=colour)
        other.spines["top"].set_visible(False)
    speeds = published_series(study.published, "throughput")
    if speeds:
        ratios = [value / speeds[0] for value in speeds.values()]
        gains.plot(list(speeds), ratios, marker, color=colour, label="published throughput, MI355X")
        return
    seen = observed_speedup(study, study.names[-1])
    pads = [int(name.removeprefix(f"{lever}=")) for name in study.names]
    if seen is not None and seen.evidence == "published" and 8 in pads:
        gains.plot([8], [seen.value], marker, color=colour, label="published, MI355X")


def pad_conclusion(studies: Mapping[str, LeverStudy], lever: str, operand: str, others: Sequence[LeverStudy]) -> str:
    """What follows for a pad, as Markdown. others: the same pads under further compilers."""
    found = []
    for label, study in studies.items():
        cycles = _by_pad(study, lever, f"LDS conflict cycles, {operand} read")
        if not cycles:
            continue
        best = min(cycles, key=lambda pad: (cycles[pad], pad))
        gain = study.over_baseline(f"{lever}={best}", CYCLES)
        found.append(
            f"- {label}: the {operand} read has {cycles.get(0, 0):,.0f} conflict cycles without a pad and the fewest, "
            f"{cycles[best]:,.0f}, at pad {best} (emulated)"
            + (
                f"; that makes the loop's bound {gain:.3g}x as fast (modelled from the emulated conflicts)."
                if gain
                else "."
            )
        )
    first = next(iter(studies.values()))
    found += _beside_published(first, lever, operand)
    found += common_findings([first, *others], first.names[-1])
    found.append(f"- {observed_text(first, first.names[-1])} {times_text(first)}")
    tail = "only a counter such as `SQ_LDS_BANK_CONFLICT` beside a time can tell how much."
    if operand == "V":
        tail = "only hardware can tell how much, and whether the phases of the transposing read are as assumed."
    found.append(
        "- The bound holds where one resource is always busy. Conflicts below the other bounds are free in it, and add "
        f"latency on hardware: {tail}"
    )
    return "\n".join(found)


def _beside_published(study: LeverStudy, lever: str, operand: str) -> list[str]:
    theirs = published_series(study.published, PUBLISHED_COUNTS)
    ours = _by_pad(study, lever, f"LDS conflict cycles, {operand} read")
    if not theirs or not ours.get(0):
        return []
    told = ", ".join(f"{ours[pad] / ours[0]:.2f} and {theirs[pad] / theirs[0]:.2f}" for pad in theirs if pad in ours)
    pads = ", ".join(map(str, theirs))
    return [f"- Over pad 0, conflicts are {told} at pads {pads} (emulated and, on MI355X, published)."]


def pad_key(study: LeverStudy, lever: str, operand: str) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`."""
    cycles = _by_pad(study, lever, f"LDS conflict cycles, {operand} read")
    if not cycles:
        return {"sentence": f"No value of {lever} ran on the emulator.", "evidence": "emulated"}
    best = min(cycles, key=lambda pad: (cycles[pad], pad))
    told = ", ".join(f"{count:,.0f} at {pad}" for pad, count in cycles.items())
    sentence = f"LDS conflict cycles of the {operand} read by pad: {told}; pad {best} is the smallest with the fewest."
    return {"sentence": sentence, "evidence": "emulated", "value": best, "unit": "1"}


def wide_conclusion(studies: Sequence[LeverStudy], refused: Mapping[str, str]) -> str:
    """What follows for wide copies, as Markdown. refused: scenario -> why it cannot have them."""
    first = studies[0]
    found = []
    for study in studies:
        lines = {name: study.find(name, "copies to LDS") for name in study.names}
        told = ", ".join(f"{line.text} with `{name}`" for name, line in lines.items() if line)
        found.append(f"- Triton {study.triton_version}: copies of a tile and wave: {told} (static).")
    found += common_findings(studies, "wide_lds_dma=true")
    found += [f"- `{name}` cannot have them: {why}." for name, why in refused.items()]
    found.append(f"- {observed_text(first, 'wide_lds_dma=true')} {times_text(first)}")
    found.append(
        "- The bytes are the same; what falls is the number of instructions that go through the one memory port of a "
        "SIMD, and of copies that a wait counts. Padding then stands behind four keys instead of one, so keys have to "
        "be dealt out over the stretches for a pad to work."
    )
    found.append("- Only hardware can tell whether the narrow copies were in anything's way.")
    return "\n".join(found)


def wide_key(study: LeverStudy) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`."""
    counts = {name: study.value(name, "copies to LDS") for name in study.names}
    told = ", ".join(f"{count:.0f} with {name}" for name, count in counts.items() if count is not None)
    sentence = f"Copies to LDS of an iteration: {told} (Triton {study.triton_version})."
    fewest = min((count for count in counts.values() if count is not None), default=0)
    return {"sentence": sentence, "evidence": "static", "value": fewest, "unit": "1"}
