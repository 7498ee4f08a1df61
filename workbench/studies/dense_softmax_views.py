"""Pictures, tables and conclusions of the levers of the dense kernel's softmax; every one names its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.parity.html_table import Table, plain
from workbench.parity.plots import Picture
from workbench.studies.dense_levers import common_findings, observed_text, times_text
from workbench.studies.dense_softmax import SMALLEST_LOG2, SMALLEST_NORMAL_LOG2, THRESHOLD_LOG2
from workbench.studies.lever_figures import VOTED
from workbench.studies.lever_views import EVIDENCE, spell_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from workbench.studies.lever_study import LeverStudy

CYCLES = "cycles per 64 keys"
_LINES = ("-", "--", ":")


def exponential_plot(frame: pd.DataFrame, dtype: str) -> Picture:
    """Both forms of 2^x against x, where they part and where P of that dtype ends anyway. Modelled."""
    import numpy as np
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots()
    floor = 2.0**-152
    for column, style in (("guarded", "-"), ("fast", "--")):
        colour = "#5b6676" if column == "guarded" else "#c2571a"
        values = np.maximum(frame[column].to_numpy(dtype=np.float64), floor)
        axes.plot(frame["x"], values, style, color=colour, linewidth=2, label=f"{column}: {_instruction(column)}")
    axes.set_yscale("log", base=2)
    axes.axvline(SMALLEST_NORMAL_LOG2, color="#b3261e", linewidth=1, label="smallest normal float32, 2^-126")
    smallest = SMALLEST_LOG2.get(dtype)
    if smallest is not None and smallest >= frame["x"].min():
        axes.axvline(
            smallest, color="#8a3ffc", linewidth=1, linestyle=":", label=f"smallest {dtype} above 0, 2^{smallest}"
        )
    axes.text(frame["x"].max(), floor, "0", fontsize=8, va="center", ha="right")
    axes.set_xlabel("x, the exponent of a probability (log2)", fontsize=8)
    axes.set_ylabel("2^x in float32 (modelled)", fontsize=8)
    _finish(axes)
    figure.suptitle("2^x as the two settings compute it", fontsize=10)
    return Picture(figure, f"2^x fast and guarded: they differ below 2^{SMALLEST_NORMAL_LOG2} only")


def _instruction(column: str) -> str:
    return "one v_exp_f32" if column == "fast" else "moved up, and its result scaled down"


def exponent_table(frame: pd.DataFrame) -> Table:
    """Exponents that occur, and whether the outputs of both settings differ, by factor on the queries."""
    rows = [
        [
            plain(f"{row['factor']:g}", "num"),
            plain(f"{row['lowest exponent']:.0f}", "num"),
            plain(f"{row['below normal']:.1%}", "num"),
            plain(f"{row['outputs that differ']} of {row['outputs']:,}", "num"),
            plain(f"{row['error guarded']:.2e}", "num"),
            plain(f"{row['error fast']:.2e}", "num"),
            plain("right" if row["correct"] else "wrong"),
        ]
        for row in frame.to_dict("records")
    ]
    headings = [
        "queries x",
        "lowest exponent",
        "P below 2^-126",
        "outputs that differ",
        "error, guarded",
        "error, fast",
    ]
    caption = "Exponents: modelled, in float64. Outputs, relative RMS errors and the check against float64: emulated."
    return Table([*headings, "check"], rows, caption)


def exp2_fast_conclusion(studies: Sequence[LeverStudy], frame: pd.DataFrame) -> str:
    """What follows for the one-instruction 2^x, as Markdown."""
    found = []
    for study in studies:
        ratio = study.over_baseline("exp2_fast=true", f"{CYCLES}{VOTED}") or study.over_baseline(
            "exp2_fast=true", CYCLES
        )
        if ratio is not None:
            found.append(
                f"- Triton {study.triton_version}: without the guard the bound of the loop is {ratio:.3g}x as fast "
                "(modelled)."
            )
    differing = int(frame["outputs that differ"].sum()) if len(frame) else 0
    if len(frame):
        most = frame["below normal"].max()
        found.append(
            f"- {differing or 'None'} of {int(frame['outputs'].sum()):,} outputs differ between the settings "
            f"(emulated), although up to {most:.0%} of the probabilities lie below 2^-126 (modelled): the largest one "
            "of a row is at least 1, and what the guard saves is lost beside it."
        )
    found += common_findings(studies, "exp2_fast=true")
    found.append(f"- {observed_text(studies[0], 'exp2_fast=true')} {times_text(studies[0])}")
    found.append(
        "- `allow_flush_denorm` goes with the lever: it tells the compiler that the kernel may flush. Only hardware "
        "can tell the last bit of `v_exp_f32`, and how much of the guard hides behind the MFMA."
    )
    return "\n".join(found)


def exp2_fast_key(study: LeverStudy, frame: pd.DataFrame) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`."""
    ratio = study.over_baseline("exp2_fast=true", f"{CYCLES}{VOTED}") or study.over_baseline("exp2_fast=true", CYCLES)
    if ratio is None:
        return {"sentence": "One of the two settings gave no kernel.", "evidence": "modelled"}
    differing = int(frame["outputs that differ"].sum()) if len(frame) else 0
    sentence = f"One-instruction 2^x makes the loop's bound {ratio:.3g}x as fast (Triton {study.triton_version}); "
    sentence += (
        f"{differing or 'no'} emulated output{'s' if differing > 1 else ''} differ{'' if differing > 1 else 's'}."
    )
    return {"sentence": sentence, "evidence": "modelled", "value": ratio, "unit": "x"}


def vote_plot(votes: Mapping[str, pd.DataFrame], thresholds: pd.DataFrame, studies: Sequence[LeverStudy]) -> Picture:
    """How often a wave enters the rescale, by the spread of the scores; and the bound with and without it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    shares, cycles = figure.subplots(1, 2, width_ratios=(3, 2))
    for (version, frame), line in zip(votes.items(), _LINES, strict=False):
        shares.plot(
            frame["factor"], frame["emulated"], "o", linestyle=line, color=EVIDENCE["emulated"][0],
            label=f"emulated, small problem, Triton {version}",
        )  # fmt: skip
    first = next(iter(votes.values()))
    shares.plot(
        first["factor"], first["modelled"], "^", linestyle="none", color=EVIDENCE["modelled"][0],
        markerfacecolor="none", markersize=10, label="modelled, small problem",
    )  # fmt: skip
    for threshold, line in ((0.0, "--"), (THRESHOLD_LOG2, "-")):
        part = thresholds[thresholds["threshold"] == threshold]
        shares.plot(
            part["factor"], part["share"], "^", linestyle=line, color=EVIDENCE["modelled"][0],
            label=f"modelled, 4096 keys, {'any growth' if not threshold else f'growth over {threshold:g}'}",
        )  # fmt: skip
    shares.set_xscale("log", base=2)
    shares.xaxis.set_major_formatter("{x:g}")
    shares.set_xlabel("factor on the queries", fontsize=8)
    shares.set_ylabel("share of a wave's tiles that rescale", fontsize=8)
    shares.set_ylim(-0.03, 1.03)
    _finish(shares)
    told = _bound_bars(cycles, studies)
    figure.suptitle("The rescale that a wave votes away", fontsize=10)
    return Picture(figure, f"Share of rescales entered, by factor on the queries; bounds: {told}")


def _bound_bars(axes: Any, studies: Sequence[LeverStudy]) -> str:
    labels, heights = [], []
    for study in studies:
        for label, name, figure in (
            ("always", "lazy_rescale=false", CYCLES),
            ("lazy, entered", "lazy_rescale=true", CYCLES),
            ("lazy, skipped", "lazy_rescale=true", f"{CYCLES}{VOTED}"),
        ):
            value = study.value(name, figure)
            if value is not None:
                labels.append(f"{label}, {study.triton_version}")
                heights.append(value)
    bars = axes.barh(range(len(labels)), heights, color=EVIDENCE["modelled"][0])
    axes.bar_label(bars, [spell_number(height) for height in heights], fontsize=7, label_type="center", color="white")
    axes.set_yticks(range(len(labels)), labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("cycles per 64 keys, at least (modelled)", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return ", ".join(f"{label} {height:.0f}" for label, height in zip(labels, heights, strict=True))


def lazy_conclusion(studies: Sequence[LeverStudy], votes: Mapping[str, pd.DataFrame], thresholds: pd.DataFrame) -> str:
    """What follows for the lazy rescale, as Markdown."""
    found = []
    for study in studies:
        off, on = study.value("lazy_rescale=false", CYCLES), study.value("lazy_rescale=true", CYCLES)
        skipped = study.value("lazy_rescale=true", f"{CYCLES}{VOTED}")
        if off and on and skipped:
            found.append(
                f"- Triton {study.triton_version}: at least {off:.0f} cycles per 64 keys without the lever, {on:.0f} "
                f"with it where a wave enters the rescale, {skipped:.0f} where it branches around it (modelled): "
                f"{off / skipped:.3g}x at best, {off / on:.3g}x at worst."
            )
    for version, frame in votes.items():
        lines = frame.to_dict("records")
        told = ", ".join(f"{line['emulated']:.1%} at factor {line['factor']:g}" for line in lines)
        same = all(abs(line["emulated"] - line["modelled"]) < 1e-9 for line in lines)
        found.append(
            f"- Triton {version}, rescales that waves entered: {told} (emulated; the first tile always is one); "
            f"{'the same as' if same else 'not the same as'} when counted in float64 (modelled)."
        )
    part = thresholds[thresholds["factor"] == thresholds["factor"].min()].set_index("threshold")["share"]
    found.append(
        f"- Over 4096 keys of the narrowest scores {part[0.0]:.0%} of a wave's later tiles meet some new maximum and "
        f"{part[THRESHOLD_LOG2]:.1%} one that exceeds the anchor by more than {THRESHOLD_LOG2:g} (modelled): it is the "
        "threshold that lets 32 rows agree."
    )
    found += common_findings(studies, "lazy_rescale=true")
    found.append(f"- {observed_text(studies[0], 'lazy_rescale=true', 'on over off')} {times_text(studies[0])}")
    found.append(
        "- What the threshold does to the numbers, pattern by pattern, is the question of `streaming_softmax`. Only "
        "hardware can tell what the branch itself costs, and how much of the rescale hides behind the MFMA."
    )
    return "\n".join(found)


def lazy_key(study: LeverStudy) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`."""
    off, skipped = study.value("lazy_rescale=false", CYCLES), study.value("lazy_rescale=true", f"{CYCLES}{VOTED}")
    if not off or not skipped:
        return {"sentence": "The lazy rescale left no block to vote away.", "evidence": "modelled"}
    sentence = f"A rescale that is voted away makes the loop's bound {off / skipped:.3g}x as fast"
    sentence += f" (Triton {study.triton_version})."
    return {"sentence": sentence, "evidence": "modelled", "value": off / skipped, "unit": "x"}


def _finish(axes: Any) -> None:
    axes.tick_params(labelsize=8)
    axes.legend(frameon=False, fontsize=7)
    axes.spines[["top", "right"]].set_visible(False)
