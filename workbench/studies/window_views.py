"""Tables and pictures of the study of the sliding window; every one names its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.parity.plots import Picture
from workbench.studies.frames import BLUE, COLOURS, GREEN, GREY, MARKERS, ORANGE, frame_table, panels, tidy
from workbench.studies.unified_levers import time_note
from workbench.studies.window import UNPRUNED

if TYPE_CHECKING:
    import pandas as pd

    from workbench.parity.html_table import Table
    from workbench.published import Published
    from workbench.studies.lever_study import LeverStudy

FOUR, TWO = "4 waves, tile 64", "2 waves, tile 64"
PARTS = {"prelude": ("before the loop", ORANGE), "loop": ("loop over the tiles", BLUE), "behind": ("behind it", GREY)}


def part_picture(frames: Sequence[pd.DataFrame]) -> Picture:
    """Instructions of a wave with rows by part, and cache lines that a launch reads, a row per kernel. Emulated."""
    rows = [len(frame) for frame in frames]
    figure, grid = panels(len(frames), 2, 0.3 * sum(rows) + 1.2 * len(frames), gridspec_kw={"height_ratios": rows})
    for (left, right), frame in zip(grid, frames, strict=True):
        at = range(len(frame))
        start = [0.0] * len(frame)
        for part, (label, colour) in PARTS.items():
            left.barh(at, frame[part], left=start, color=colour, label=label)
            start = [before + more for before, more in zip(start, frame[part], strict=True)]
        for place, (end, share) in enumerate(zip(start, frame["around"], strict=True)):
            left.annotate(
                f"{share:.0%} around", (end, place), (3, 0), textcoords="offset points", fontsize=6.5, va="center"
            )
        right.barh(at, frame["lines_loop"] + frame["lines_prelude"], color=GREEN)
        left.set_yticks(at, frame["variant"])
        right.set_yticks(at, [])
        for axes in (left, right):
            axes.invert_yaxis()
        left.set_xlim(0, 1.18 * max(start))
        tidy(left, xlabel="instructions of a wave (emulated)", title=frame["kernel"].iloc[0], grid="x")
        tidy(right, xlabel="cache lines asked for, outputs left out (emulated)", grid="x")
    handles = grid[0][0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, fontsize=7, frameon=False)
    return Picture(figure, "Instructions before, in and behind the loop over the tiles, and cache lines; emulated")


def part_table(frame: pd.DataFrame) -> Table:
    """A line per variant: where its instructions are. Emulated."""
    columns = {
        "kernel": "kernel", "variant": "variant", "idle": "without rows", "prelude": "before", "passes": "passes",
        "tile": "a pass", "behind": "behind", "around": "around", "waits": "waits before",
        "waits_tile": "of a pass", "peeled": "products behind", "evidence": "evidence",
    }  # fmt: skip
    counts = ("idle", "prelude", "tile", "behind", "waits", "waits_tile")
    formats = dict.fromkeys(counts, ",.0f") | {"around": ".0%", "peeled": ".0%", "passes": ".2f"}
    caption = (
        "Instructions of a wave: of one in a workgroup without rows, then of the mean one with rows, before, in "
        "and behind the loop. A software pipeline computes its last tiles behind it."
    )
    return frame_table(frame, columns, caption, formats)


def code_table(frame: pd.DataFrame, studies: Sequence[LeverStudy]) -> Table:
    """A line per variant: registers, occupancy and times; studies: whose times these are."""
    columns = {
        "kernel": "kernel", "variant": "variant", "vgprs": "VGPRs", "spills": "spilled",
        "workgroups_per_cu": "workgroups per CU", "cycles": "cycles per 64 keys", "time": "time, us",
    }  # fmt: skip
    formats = dict.fromkeys(("vgprs", "spills", "workgroups_per_cu", "cycles"), ",.0f") | {"time": ".1f"}
    why = " ".join(dict.fromkeys(filter(None, map(time_note, studies))))
    caption = f"Registers and workgroups static, cycles of a wave modelled, times measured. {why}"
    return frame_table(frame, columns, caption.strip(), formats)


def tile_table(frame: pd.DataFrame, title: str) -> Table:
    """A line per geometry: workgroups, tiles visited and pruned, scores used. Static, rounds modelled."""
    columns = {
        "waves": "waves", "tile": "tile", "workgroups": "workgroups", "empty": "without rows",
        "tiles": "tiles of a block", "unpruned": "from key 0", "pruned": "pruned", "used": "scores used",
        "copied": "K, V copied", "rounds": "rounds", "evidence": "evidence",
    }  # fmt: skip
    formats = {
        "workgroups": ",d", "empty": ",d", "tiles": ".2f", "unpruned": ".1f", "pruned": ".1%", "used": ".0%",
        "copied": ".2f", "rounds": ".2f",
    }  # fmt: skip
    return frame_table(frame, columns, f"{title} K, V copied: over each key once a sequence.", formats)


def read_table(frame: pd.DataFrame) -> Table:
    """A line per variant: reads asked for, and different lines. Emulated."""
    columns = {
        "variant": "variant", "requests": "cache lines read", "lines": "different ones: least from HBM",
        "reuse": "requests of a line", "evidence": "evidence",
    }  # fmt: skip
    caption = "128-byte lines, one request for each that an instruction of a wave touches."
    return frame_table(frame, columns, caption, {"requests": ",d", "lines": ",d", "reuse": ".2f"})


def context_picture(frame: pd.DataFrame, title: str) -> Picture:
    """Instructions of a wave, and the share around the loop, over the context, pruned and not. Modelled."""
    figure, grid = panels(1, 2, 3.0)
    for number, (way, one) in enumerate(frame.groupby("way", sort=False)):
        style = {"color": COLOURS[number], "marker": MARKERS[number], "markersize": 4, "linewidth": 1.3, "label": way}
        grid[0][0].loglog(one["keys"], one["instructions"], **style)
        grid[0][1].semilogx(one["keys"], 100 * one["around"], **style)
    ticks = sorted(frame["keys"].unique())
    for axes in grid[0]:
        axes.set_xticks(ticks, [f"{each:,}" for each in ticks], rotation=30)
        axes.minorticks_off()
    grid[0][1].set_ylim(0, 100)
    tidy(grid[0][0], xlabel="keys of the sequence", ylabel="instructions of a wave (modelled)")
    tidy(grid[0][1], xlabel="keys of the sequence", ylabel="of them around the loop, % (modelled)")
    grid[0][0].legend(fontsize=7, frameon=False)
    figure.suptitle(title, fontsize=10)
    return Picture(figure, f"Instructions of a wave and the share around its loop over the context: {title}")


def row_of(frame: pd.DataFrame, variant: str) -> Any:
    """The line of a variant."""
    return next(row for row in frame.itertuples() if row.variant == variant)


def published_beside(tiles: pd.DataFrame, parts: pd.DataFrame, rows: Sequence[Published]) -> Table:
    """The published figures of two waves in place of four (topic `window`) and ours of the same."""
    import pandas as pd

    by = tiles.drop_duplicates("waves").set_index("waves")["workgroups"]
    preludes = [waves * row_of(parts, name).prelude for name, waves in ((FOUR, 4), (TWO, 2))]
    ours = {
        "workgroups": (by[2] / by[4], "static"),
        "prelude of a workgroup": (preludes[1] / preludes[0], "emulated"),
    }
    found = [
        {
            "what": f"{row.metric}: {row.config}",
            "published": f"{row.value} {row.unit}",
            "of": f"{row.hardware}, {row.source}",
            "ours": f"{ours[row.metric][0]:.3g} x",
            "evidence": ours[row.metric][1],
        }
        for row in rows
        if row.metric in ours
    ]
    columns = {
        "what": "figure", "published": "published", "of": "hardware and source", "ours": "ours, gfx950",
        "evidence": "evidence of ours",
    }  # fmt: skip
    return frame_table(pd.DataFrame(found), columns, "", {"of": "text"})


def conclusion(
    tiles: pd.DataFrame, parts: pd.DataFrame, portable: pd.DataFrame, fp8: pd.DataFrame, reads: pd.DataFrame
) -> str:
    """What follows for somebody who tunes a windowed kernel, as Markdown, from the study's own figures."""
    rows = list(parts.itertuples())
    base, every = rows[0], next(row for row in rows if UNPRUNED in row.variant)
    two = next(row for row in rows if row.variant == TWO)
    by = {(row.waves, row.tile): row for row in tiles.itertuples()}
    four_t, two_t = by[4, 64], by[2, 64]
    plain = {row.variant: row for row in portable.itertuples()}
    asked = {row.variant: row for row in reads.itertuples()}
    counts = {
        "instructions": two.instructions / base.instructions,
        "cache lines read": asked[two.variant].requests / asked[base.variant].requests,
        "rounds": two_t.rounds / four_t.rounds,
    }
    lines = [
        f"- Pruning leaves {four_t.tiles:.2f} of {four_t.unpruned:.1f} tiles of a query block: {four_t.pruned:.0%} go "
        f"(static). The emulator counts {every.instructions / base.instructions:.2f} times the instructions with the "
        f"same masks and nothing pruned, on 512 keys (emulated); the rest grows with the context.",
        f"- Then {base.around:.0%} of a wave's instructions stand around the loop, against {every.around:.0%} "
        f"unpruned, {base.prelude:.0f} before it and {base.behind:.0f} behind (emulated). "
        + ("So the prelude dominates, as published." if base.around > 0.5 else "The prelude does not dominate here.")
        + f" The search for the sequence takes {base.search:.0f} of them among 16 sequences.",
        f"- Two waves in place of four: {two_t.workgroups / four_t.workgroups:.2f} times the workgroups, "
        f"{two_t.copied / four_t.copied:.2f} times the keys copied (static), "
        f"{asked[two.variant].requests / asked[base.variant].requests:.2f} times the cache lines read, of "
        f"{asked[two.variant].lines / asked[base.variant].lines:.2f} times as many different ones, "
        f"{two.instructions / base.instructions:.3f} times the instructions (emulated). {_work(base, two)}",
        f"- The grid fills {four_t.rounds:.2f} rounds of all compute units with four waves and {two_t.rounds:.2f} with "
        f"two (modelled), of which workgroups without rows are {four_t.empty / four_t.workgroups:.0%} and "
        f"{two_t.empty / two_t.workgroups:.0%} (static).",
        f"- {_tile(parts, by)}",
        f"- {_portable(plain)}",
        f"- {_fp8(fp8)}",
        f"- {_timed(parts, portable)}",
        f"- Only hardware can tell what the lever is worth: {_favours(counts)}. What else they gain is latency that "
        "more independent workgroups hide; their price, the second reading of K and V, is paid by the L2.",
    ]
    return "\n".join(lines)


def _favours(counts: dict[str, float]) -> str:
    """Which counts are smaller with two waves, as a clause."""
    fewer = [name for name, ratio in counts.items() if ratio < 1]
    others = [name for name in counts if name not in fewer]
    if not fewer:
        return "no count speaks for two waves"
    return f"{' and '.join(fewer)} speak for two waves" + (f", {' and '.join(others)} do not" if others else "")


def _timed(*frames: pd.DataFrame) -> str:
    """Times of two waves over four, where a GPU took them."""
    told = []
    for frame in frames:
        rows = {row.variant: row for row in frame.itertuples()}
        four, two = rows.get(FOUR), rows.get(TWO)
        if four and two and four.hardware and two.hardware:
            told.append(f"{two.time / four.time:.3f} ({two.kernel} kernel, {two.hardware})")
    if not told:
        return "Nothing was timed here: on a GPU this notebook times every geometry in one session."
    return f"Time of two waves over that of four: {', '.join(told)} (measured)."


def _work(base: Any, two: Any) -> str:
    change = two.instructions / base.instructions - 1
    if abs(change) < 0.03:
        return "So a workgroup's prelude is halved, and there are twice as many: the work as a whole stays."
    return f"So the work as a whole {'grows' if change > 0 else 'shrinks'} by {abs(change):.0%}."


def _tile(parts: pd.DataFrame, by: dict[tuple[int, int], Any]) -> str:
    rows = {row.variant: row for row in parts.itertuples()}
    wide, small = rows.get(TWO), rows.get("2 waves, tile 32")
    if wide is None or small is None:
        return "The tile was not varied."
    return (
        f"A tile of 32 keys uses {by[2, 32].used:.0%} of the scores that it computes instead of {by[2, 64].used:.0%} "
        f"(static), and takes {small.instructions / wide.instructions:.2f} times the instructions (emulated): "
        f"{small.tile:.0f} for a pass of 32 keys, {wide.tile:.0f} for one of 64."
    )


def _portable(rows: dict[str, Any]) -> str:
    base, two = rows.get(FOUR), rows.get(TWO)
    if base is None or two is None:
        return "The portable kernel was not run with both geometries."
    return (
        f"The portable kernel has {base.around:.0%} around its loop with four waves, {base.peeled:.0%} of the products "
        f"among it: the pipeline's last tile; two waves take {two.instructions / base.instructions:.3f} times "
        "the instructions (emulated)."
    )


def _fp8(frame: pd.DataFrame) -> str:
    rows = {row.variant: row for row in frame.itertuples()}
    small, wide = rows.get("4 waves, tile 32"), rows.get(FOUR)
    if small is None or wide is None:
        return "The fp8 cache was not run with both tiles."
    return (
        f"With an fp8 cache, four waves and a tile of one page take {small.instructions / wide.instructions:.2f} times "
        f"the instructions of two pages (emulated), with {small.vgprs:.0f} against {wide.vgprs:.0f} VGPRs and "
        f"{small.spills:.0f} against {wide.spills:.0f} spilled (static). Dispatch takes the one page."
    )
