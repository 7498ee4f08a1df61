"""Tables and pictures of the addressing study; every one names its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.parity.plots import Picture
from workbench.studies.frames import BLUE, GREY, ORANGE, RED, VIOLET, frame_table, panels, tidy, variant_table
from workbench.studies.timed_words import timed_bullet
from workbench.studies.unified_levers import time_note

if TYPE_CHECKING:
    import pandas as pd

    from workbench.parity.html_table import Table
    from workbench.studies.addressing import Cache
    from workbench.studies.lever_study import LeverStudy

_GIB = 2**30
_OUTCOMES = {
    "its own keys": ("o", BLUE),
    "another": ("X", RED),
    "zeros": ("v", VIOLET),
    "fault": ("P", ORANGE),
}
"""How an outcome's words begin -> marker and colour."""


def offset_picture(frame: pd.DataFrame, cache: Cache) -> Picture:
    """Byte offset of a block over its id: true, and as products of 32 bits have it. Static."""
    figure, grid = panels(1, 1, 3.4)
    axes = grid[0][0]
    axes.plot(frame["block"], frame["offset"] / _GIB, color=GREY, linewidth=1, label="true offset")
    for column, colour, label in (
        ("elements_in_32", BLUE, "elements in 32 bits"),
        ("bytes_in_32", VIOLET, "bytes in 32 bits"),
    ):
        axes.plot(frame["block"], frame[column] / _GIB, ".", color=colour, markersize=2.5, label=label)
    axes.axhline(2, color=RED, linewidth=0.8)
    axes.text(0, 2.1, "reach of a buffer instruction", fontsize=7, color=RED)
    axes.axvline(cache.blocks_to_wrap, color=ORANGE, linewidth=0.8, linestyle=":")
    axes.text(cache.blocks_to_wrap, axes.get_ylim()[1] * 0.9, " products wrap", fontsize=7, color=ORANGE)
    tidy(axes, xlabel="block id", ylabel="offset, GiB (static)")
    axes.legend(fontsize=7, frameon=False, markerscale=3, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return Picture(figure, f"Byte offsets of blocks of {cache.stride} {cache.dtype} elements, true and in 32 bits")


def offset_table(frame: pd.DataFrame) -> Table:
    """A line per block: its offset, what 32 bits make of it, and the block that a product of elements lands on."""
    columns = {
        "block": "block", "offset": "offset, bytes", "elements_in_32": "by elements in 32 bits",
        "bytes_in_32": "by bytes in 32 bits", "lands_on": "elements land on block", "evidence": "evidence",
    }  # fmt: skip
    return frame_table(frame, columns, "", dict.fromkeys(list(columns)[:-1], ",d"))


def garbage_picture(frame: pd.DataFrame) -> Picture:
    """Largest error by kernel, width of the product and block; the marker tells what was read. Emulated."""
    figure, grid = panels(1, 1, 3.2)
    axes = grid[0][0]
    rows = list(dict.fromkeys(zip(frame["kernel"], frame["product"], strict=True)))
    blocks = sorted(frame["block"].unique())
    seen: dict[str, tuple[str, str]] = {}
    faulted = 10.0
    for row in frame.itertuples():
        name = next(key for key in _OUTCOMES if row.read.startswith(key))
        seen[name] = _OUTCOMES[name]
        place = rows.index((row.kernel, row.product)) + 0.16 * (blocks.index(row.block) - (len(blocks) - 1) / 2)
        error = faulted if row.error != row.error or row.error is None else row.error
        axes.plot(error, place, seen[name][0], color=seen[name][1], markersize=6)
    axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), [f"{kernel}\n{product}" for kernel, product in rows])
    axes.invert_yaxis()
    tidy(axes, xlabel="largest error against float64 (emulated); faults at the right edge", grid="x")
    for name, (marker, colour) in seen.items():
        axes.plot([], [], marker, color=colour, label={"another": "another layer's keys"}.get(name, name))
    axes.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return Picture(figure, "Largest error with products of 32 and of 64 bits, by kernel and block, emulated")


def garbage_table(frame: pd.DataFrame) -> Table:
    """A line per kernel, width, place of the cache and block. Emulated."""
    columns = {
        "kernel": "kernel", "product": "product of", "block": "block", "cache lies": "the cache lies",
        "error": "largest error", "read": "what it read", "evidence": "evidence",
    }  # fmt: skip
    return frame_table(frame, columns, "Output held to float64.", {"error": ".2g", "block": ",d", "read": "text"})


def cost_table(study: LeverStudy) -> Table:
    """What the width of the product and the size of the cache do to the hot loop."""
    figures = {
        "instructions per 64 keys": "instructions per 64 keys", "waits": "waits of an iteration", "VGPRs": "VGPRs",
        "spilled VGPRs": "spilled", "SGPRs": "SGPRs", "waves per SIMD": "waves per SIMD", "code": "code bytes",
        "cycles per 64 keys": "cycles per 64 keys", "time": "time, us",
    }  # fmt: skip
    return variant_table(study, figures, f"gfx950, Triton {study.triton_version}. {time_note(study)}".strip())


def cost(study: LeverStudy, kernel: str, variant: str, figure: str) -> float | None:
    """A variant's figure less that of the 32-bit product on a small cache."""
    ours, base = study.value(f"{kernel}, {variant}", figure), study.value(f"{kernel}, 32 bits", figure)
    return None if ours is None or base is None else ours - base


def conclusion(frame: pd.DataFrame, cache: Cache, study: LeverStudy) -> str:
    """What follows for somebody who addresses a large cache, as Markdown, from the study's own figures."""
    wrong = frame[frame["read"] != "its own keys"]
    silent = wrong[~wrong["read"].str.startswith("fault")]
    right = frame[frame["product"] == "64 bits"]
    spills = study.value("portable, large cache", "spilled VGPRs") or 0
    waits = [study.value(f"portable, {name}", "waits") or 0 for name in ("32 bits", "large cache")]
    added = cost(study, "portable", "64 bits", "instructions of an iteration") or 0
    gluon = cost(study, "Gluon", "64 bits", "instructions of an iteration") or 0
    return "\n".join(
        [
            f"- Past block {cache.blocks_to_wrap:,} a 32-bit product reads something else: {len(silent)} of "
            f"{len(wrong)} "
            f"wrong runs here say nothing, with errors up to {wrong['error'].max():.2g} (emulated); only a cache at "
            f"the "
            "very start of its allocation faults. Another layer's keys are as plausible as the right ones, so a test "
            "must "
            "know the right values.",
            f"- With 64-bit products all {len(right)} runs are right (emulated).",
            f"- The product itself is free: {added:+.0f} instructions an iteration in the portable kernel and "
            f"{gluon:+.0f} "
            "in the Gluon kernel, whose base of a page is scalar (static). It could be always on.",
            f"- What a large cache costs the portable kernel is its buffer instructions: over 2^31 bytes of storage "
            f"Triton takes global loads, {spills:.0f} registers spill, and an iteration waits {waits[1]:.0f} times, "
            f"not "
            f"{waits[0]:.0f} (static). The Gluon kernel keeps them, since it adds the block to the base.",
            "- One offset a key ends at 2^31 bytes in any case: past its range a buffer load gives zeros. The spec "
            "refuses it there.",
            *filter(None, [timed_bullet(study)]),
            "- Only an MI355X can tell what global loads and spills cost there, and what the larger page tables of "
            "such a cache do to address translation.",
        ]
    )
