"""Tables and pictures of the split-KV study; every one names its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.parity.plots import Picture
from workbench.studies.frames import BLUE, COLOURS, GREEN, MARKERS, ORANGE, frame_table, panels, tidy
from workbench.studies.lever_views import spell_number
from workbench.studies.timed_words import timed_bullet

if TYPE_CHECKING:
    import pandas as pd

    from workbench.parity.html_table import Table
    from workbench.studies.lever_study import LeverStudy


def segment_picture(frames: Sequence[pd.DataFrame], title: str) -> Picture:
    """Slots with work, steps of the longest queue, and the workspace's bytes, over the segments.

    A line per frame, told by the workgroups of a compute unit that it supposes.
    """
    figure, grid = panels(1, 3, 3.2)
    frame = frames[0]
    places = range(len(frame))
    busy, steps, extra = grid[0]
    for number, one in enumerate(frames):
        style = {"marker": MARKERS[number], "color": COLOURS[(0, 3)[number % 2]], "markersize": 4 + 2 * number}
        style |= {"markerfacecolor": "none" if number else style["color"], "linewidth": 1.2}
        busy.plot(places, 100 * one["busy"], label=f"{one['per_cu'].iloc[0]} workgroups per CU", **style)
        steps.semilogy(places, one["steps"], base=2, **style)
    busy.legend(fontsize=7, frameon=False)
    steps.yaxis.set_major_formatter("{x:g}")
    extra.plot(places, 100 * frame["extra"], "s-", color=GREEN, markersize=4)
    for axes in grid[0]:
        axes.set_xticks(places, frame["segments"])
        chosen = [place for place, flag in enumerate(frame["chosen"]) if flag]
        for place in chosen:
            axes.axvline(place, color=ORANGE, linewidth=1, linestyle=":")
    tidy(busy, xlabel="segments", ylabel="slots with work, % (modelled)")
    tidy(steps, xlabel="segments", ylabel="tiles of the longest queue (modelled)")
    tidy(extra, xlabel="segments", ylabel="workspace over the least bytes, % (static)")
    figure.suptitle(f"{title}; dotted: what dispatch chooses", fontsize=10)
    return Picture(figure, f"Slots with work, steps and workspace by number of segments: {title}")


def segment_table(frame: pd.DataFrame) -> Table:
    """A line per number of segments. Static and modelled."""
    columns = {
        "segments": "segments", "chosen": "chosen", "workgroups": "workgroups", "empty": "of them without a tile",
        "busy": "slots with work", "rounds": "rounds", "tiles": "tiles of a segment", "steps": "of the longest queue",
        "workspace": "workspace, KB", "extra": "over the least bytes", "evidence": "evidence",
    }  # fmt: skip
    shown = frame.assign(workspace=frame["workspace"] / 1000)
    return frame_table(shown, columns, "Least bytes: Q, K, V and O once.", {
        "busy": ".0%", "workspace": ",.0f", "extra": ".1%", "workgroups": ",d", "empty": ",d",
    })  # fmt: skip


def exactness_picture(frame: pd.DataFrame) -> Picture:
    """Share of equal bits and largest distance from the unsplit result. Modelled, emulated or measured."""
    figure, grid = panels(1, 2, 3.4)
    counts = sorted(frame["segments"].unique())
    for number, (what, one) in enumerate(frame.groupby("what", sort=False)):
        at = [counts.index(value) for value in one["segments"]]
        style = {
            "color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)], "markersize": 4,
            "linewidth": 1, "label": f"{what} ({one['evidence'].iloc[0]})",
        }  # fmt: skip
        grid[0][0].plot(at, 100 * one["equal"], **style)
        grid[0][1].plot(at, one["ulps"], **style)
    grid[0][1].set_yscale("symlog", linthresh=1)
    for axes in grid[0]:
        axes.set_xticks(range(len(counts)), counts)
    tidy(grid[0][0], xlabel="segments", ylabel="elements equal bit for bit, %")
    tidy(grid[0][1], xlabel="segments", ylabel="largest difference, units in the last place")
    handles = grid[0][0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=2, fontsize=7, frameon=False)
    figure.suptitle("The split result against the unsplit one", fontsize=10)
    return Picture(figure, "Equal elements and units in the last place between split and unsplit results")


def exactness_table(frame: pd.DataFrame) -> Table:
    """A line per run and number of segments; each has its evidence."""
    columns = {
        "what": "what ran", "segments": "segments", "equal": "equal bit for bit", "ulps": "largest difference, ulps",
        "error": "largest error", "evidence": "evidence",
    }  # fmt: skip
    caption = (
        "Equal and ulps: against the recurrence in one piece, or the 2D kernel of the same geometry; an ulp is that of "
        "a number as large as its row's RMS. Error: against float64."
    )
    return frame_table(frame, columns, caption, {"equal": ".1%", "ulps": ".0f", "error": ".1e"})


def study_picture(study: LeverStudy, title: str) -> Picture:
    """Wave-instructions and cache lines of a small call by variant, emulated; times of the whole one, if measured."""
    counted = {"wave-instructions": "wave-instructions (emulated)", "cache lines asked for": "cache lines (emulated)"}
    timed = next((line.of for name in study.names if (line := study.find(name, "time")) and line.value), "")
    labels = counted | ({"time": "time, us (measured)"} if timed else {})
    figure, grid = panels(1, len(labels), 2.8, sharey=True)
    for axes, (name, label) in zip(grid[0], labels.items(), strict=True):
        values = [study.value(variant, name) or 0.0 for variant in study.names]
        bars = axes.barh(study.names, values, color=BLUE if name == "time" else GREEN)
        axes.bar_label(bars, list(map(spell_number, values)), fontsize=7, padding=2)
        axes.margins(x=0.18)
        tidy(axes, xlabel=label, grid="x")
    grid[0][0].invert_yaxis()
    note = f"; times: {timed}" if timed else ""
    figure.suptitle(f"Counts: {title}{note}", fontsize=9)
    return Picture(figure, f"Instructions, cache lines and times by number of segments. Counts: {title}{note}")


def conclusion(frame: pd.DataFrame, resident: pd.DataFrame, exact: pd.DataFrame, study: LeverStudy) -> str:
    """What follows for somebody who tunes the split, as Markdown, from the study's own figures.

    frame supposes as many workgroups of a compute unit as dispatch does, resident those that the kernel's code admits.
    """
    chosen = frame[frame["chosen"]]
    one, best = frame.iloc[0], frame.loc[frame["steps"].idxmin()]
    kernels = exact[exact["evidence"] != "modelled"]
    kind = ", ".join(sorted(kernels["evidence"].unique()))
    pairs = []
    for dtype in ("fp32", "bf16"):
        rows = kernels[kernels["what"].str.contains(dtype)]
        if len(rows):
            pairs.append(f"{rows['ulps'].max():.0f} ulps in {dtype}")
    lines = [
        f"- From {one['segments']} segment to {best['segments']} the longest queue shrinks from {one['steps']} tiles "
        f"to "
        f"{best['steps']} (modelled), while the workspace grows to {best['extra']:.0%} of the least bytes (static)."
    ]
    if len(chosen):
        row = chosen.iloc[0]
        lines.append(
            f"- Dispatch takes {row['segments']}: {row['busy']:.0%} of the slots have work, {row['tiles']} tiles each "
            f"(modelled), for {row['extra']:.1%} more bytes (static). Doubling from there adds as many bytes again."
        )
        lines.append(f"- {_residents(resident, study)}")
    lines.append(
        f"- The split is exact as mathematics and not bit for bit: results differ by at most {' and '.join(pairs)} "
        f"of a row's RMS from the 2D kernel ({kind}), within what rounding of P leaves open anyway. Who needs the same "
        "bits for any batch must fix the number of segments."
    )
    lines.append(f"- {_anchors(exact)}")
    fused, split = _fused(study)
    if fused is not None and split is not None:
        lines.append(
            f"- Merging in the same launch takes {fused / split:.2f}x the wave-instructions of two launches on the "
            f"small "
            "problem (emulated): what it saves is a launch, which only a clock sees."
        )
    lines += filter(None, [timed_bullet(study)])
    lines.append(
        "- Only hardware can tell the cost of the second launch, how well the workspace stays in the L2, and where "
        "bandwidth ends the gain. On a GPU this notebook times every number of segments in one session."
    )
    return "\n".join(lines)


def _residents(resident: pd.DataFrame, study: LeverStudy) -> str:
    """What the occupancy of the code says about the number that dispatch takes."""
    row = resident[resident["chosen"]].iloc[0]
    more = resident[resident["segments"] > row["segments"]]
    limit = study.find(study.baseline, "waves per SIMD")
    words = (
        f"The rule supposes four workgroups of a compute unit; the code admits {row['per_cu']}, limited by "
        f"{limit.text if limit else 'its resources'} (static). With those, {row['segments']} segments give "
        f"{row['busy']:.0%} of the slots work"
    )
    if len(more) and more["steps"].min() >= row["steps"]:
        return f"{words}, and more of them shorten nothing (modelled)."
    return f"{words} (modelled)."


def _anchors(exact: pd.DataFrame) -> str:
    """What anchors that are whole numbers would bring."""
    split = exact[exact["segments"] > 1]
    plain = split[split["what"] == "recurrence, bf16"]["equal"].min()
    rounded = split[split["what"] == "recurrence, bf16, whole anchors"]["equal"].min()
    return (
        f"What differs in bf16 is P, which each segment rounds under another anchor: {plain:.0%} of the elements stay "
        f"equal. With anchors rounded up to whole numbers α is a power of two and P rounds alike: {rounded:.1%} "
        "(modelled). That costs one v_ceil_f32 a tile and leaves the order of the sums alone to differ."
    )


def _fused(study: LeverStudy) -> tuple[float | None, float | None]:
    """Wave-instructions of the fused variant and of the one with as many segments in two launches."""
    fused = next((name for name in study.names if "fused" in name), None)
    if fused is None:
        return None, None
    plain = fused.replace(", fused", "")
    return study.value(fused, "wave-instructions"), study.value(plain, "wave-instructions")
