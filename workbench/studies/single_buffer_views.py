"""Tables and pictures of the study of K's buffers; every one names its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.gfx950.limits import limits_of
from workbench.parity.plots import Picture
from workbench.studies.frames import COLOURS, GREY, MARKERS, frame_table, panels, tidy

if TYPE_CHECKING:
    import pandas as pd

    from workbench.parity.html_table import Table
    from workbench.studies.lever_study import LeverStudy

DOUBLE, SINGLE = "K double, V single", "K single, V single"


def budget_picture(frame: pd.DataFrame) -> Picture:
    """Workgroups that the LDS of each target admits over a workgroup's LDS, and what registers admit. Static."""
    figure, grid = panels(1, 2, 3.6, sharey=True)
    for axes, (target, one) in zip(grid[0], frame.groupby("budget", sort=False), strict=True):
        budget = int(one["budget_bytes"].iloc[0])
        sizes = [1024 * kib for kib in range(8, 81)]
        granule = limits_of(target).lds_granule
        admitted = [budget // (-(-size // granule) * granule) for size in sizes]
        axes.step([size / 1024 for size in sizes], admitted, color=GREY, linewidth=1)
        for number, row in enumerate(one.itertuples()):
            style = {"color": COLOURS[number], "marker": MARKERS[number], "linestyle": "none"}
            axes.plot(row.lds / 1024, row.workgroups, markersize=8, label=row.variant, **style)
        registers = int(one["by_registers"].min())
        axes.axhline(registers, color=COLOURS[5], linewidth=1, linestyle=":")
        axes.text(80, registers + 0.1, "registers admit", fontsize=7, color=COLOURS[5], ha="right")
        tidy(axes, xlabel="LDS of a workgroup, KiB", title=f"{budget // 1024} KiB of LDS: {target}")
        axes.set_ylim(0, 8)
    grid[0][0].set_ylabel("workgroups per CU (static)", fontsize=8)
    handles = grid[0][0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, fontsize=7, frameon=False)
    return Picture(figure, "Workgroups per compute unit over LDS under both budgets, static")


def budget_table(frame: pd.DataFrame) -> Table:
    """A line per variant and budget. Static."""
    columns = {
        "variant": "buffers", "budget": "LDS of", "lds": "LDS bytes", "allocated": "allocated",
        "vgprs": "VGPRs", "by_lds": "LDS admits",
        "by_registers": "registers admit", "workgroups": "workgroups per CU", "limited_by": "limited by",
        "evidence": "evidence",
    }  # fmt: skip
    caption = (
        "The code is gfx950's under both budgets: gfx942 could not run it, only its LDS is borrowed. LDS is allocated "
        "in "
        "granules, which are larger on gfx950."
    )
    return frame_table(frame, columns, caption, {"lds": ",d", "allocated": ",d"})


def held(frame: pd.DataFrame, variant: str, target: str) -> int:
    """Workgroups per compute unit."""
    one = frame[(frame["variant"] == variant) & (frame["budget"] == target)]
    return int(one["workgroups"].iloc[0])


def conclusion(frame: pd.DataFrame, study: LeverStudy) -> str:
    """What follows for somebody who sets the buffers, as Markdown, from the study's own figures."""
    small = [held(frame, name, "gfx942") for name in (DOUBLE, SINGLE)]
    large = [held(frame, name, "gfx950") for name in (DOUBLE, SINGLE)]
    limit = frame[(frame["variant"] == DOUBLE) & (frame["budget"] == "gfx950")]["limited_by"].iloc[0]
    gains = small[1] > small[0], large[1] > large[0]
    waits = [next((f.text for f in [study.find(name, "vmcnt waits")] if f), "") for name in (DOUBLE, SINGLE)]
    return "\n".join(
        [
            f"- With 64 KiB of LDS the single buffer takes a compute unit from {small[0]} to {small[1]} workgroups "
            f"(static): the specification's argument of 48 and 32 KB {'holds' if gains[0] else 'does not hold'} there.",
            f"- With the 160 KiB of gfx950 it is {large[0]} and {large[1]}, limited by {limit} (static): "
            + ("the lever still pays." if gains[1] else "no workgroup is gained, so LDS is not what the lever frees."),
            f"- Its price is the order of copies: waits name `{waits[0]}` copies under way with two K buffers and "
            f"`{waits[1]}` with one (static). The next K is copied only behind the wait for V.",
            "- Only hardware can tell why the published kernel gained: 160 KiB admit more than one workgroup of 48 KB. "
            "On "
            "an MI355X this notebook times all four in one session.",
        ]
    )
