"""Tables and pictures of the study of waves_per_eu; every one names its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from workbench.parity.plots import Picture
from workbench.studies.frames import COLOURS, MARKERS, ORANGE, RED, frame_table, panels, tidy
from workbench.studies.waves import implied_latency, latency_frame, pays_from

if TYPE_CHECKING:
    import pandas as pd

    from workbench.parity.html_table import Table
    from workbench.published import Published


def register_picture(frames: Sequence[pd.DataFrame]) -> Picture:
    """Registers, spills and waves over the lever's value, a row per kernel. Static."""
    figure, grid = panels(len(frames), 3, 2.3 * len(frames) + 0.3, sharex=False)
    for row, frame in zip(grid, frames, strict=True):
        kernel, at = frame["kernel"].iloc[0], [str(value) for value in frame["value"]]
        row[0].bar(at, frame["reserved"], color="#dbe7fb", label="reserved")
        row[0].bar(at, frame["vgprs"], color=COLOURS[0], width=0.5, label="used")
        for count in (2, 3, 4, 5):
            row[0].axhline(512 // count // 8 * 8, color=ORANGE, linewidth=0.7, linestyle=":")
            row[0].text(len(at) - 0.45, 512 // count // 8 * 8, f"{count} waves", fontsize=6, color=ORANGE, va="center")
        row[1].bar(at, frame["spills"], color=RED)
        row[2].bar(at, frame["waves"], color=COLOURS[2])
        tidy(row[0], ylabel="VGPRs (static)", title=kernel)
        tidy(row[1], ylabel="spilled VGPRs (static)")
        tidy(row[2], ylabel="waves per SIMD (static)")
        row[0].legend(fontsize=6, frameon=False, loc="upper left")
    for axes in grid[-1]:
        axes.set_xlabel("waves_per_eu", fontsize=8)
    return Picture(figure, "Registers, spills and waves per SIMD over waves_per_eu, static")


def register_table(frame: pd.DataFrame) -> Table:
    """A line per kernel and value. Static and modelled."""
    columns = {
        "kernel": "kernel", "value": "waves_per_eu", "vgprs": "VGPRs used", "reserved": "reserved", "spills": "spilled",
        "waves": "waves per SIMD", "workgroups": "workgroups per CU", "limited_by": "limited by",
        "instructions": "instructions per 64 keys", "cycles": "cycles per 64 keys", "time": "time, us (measured)",
        "evidence": "evidence",
    }  # fmt: skip
    whole = ("vgprs", "reserved", "spills", "waves", "workgroups", "instructions", "cycles")
    caption = "Cycles: issue budget of one wave, blocks that a vote skips left out where there are any."
    return frame_table(frame, columns, caption, dict.fromkeys(whole, ",.0f") | {"time": ".1f"})


def latency_picture(frames: Sequence[pd.DataFrame], most: int = 6000) -> Picture:
    """Cycles of a SIMD for 64 keys over the latency of an iteration, a line per value. Modelled."""
    figure, grid = panels(1, len(frames), 3.2, sharey=True)
    for axes, registers in zip(grid[0], frames, strict=True):
        model = latency_frame(registers, range(0, most + 1, 50))
        for number, (value, one) in enumerate(model.groupby("value")):
            style = {"color": COLOURS[number], "marker": MARKERS[number], "markevery": 20, "markersize": 4}
            axes.plot(one["latency"], one["cycles"], linewidth=1.3, label=f"waves_per_eu {value}", **style)
        tidy(axes, xlabel="cycles that an iteration waits", title=registers["kernel"].iloc[0])
    grid[0][0].set_ylabel("cycles of a SIMD for 64 keys (modelled)", fontsize=8)
    grid[0][0].set_ylim(bottom=0)
    figure.legend(
        *grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=7, frameon=False
    )
    return Picture(figure, "Modelled cycles for 64 keys over the latency of an iteration, by waves_per_eu")


def shipped_value(frame: pd.DataFrame) -> int:
    """The largest value that spills nothing."""
    clean = frame[frame["spills"] == 0]
    return int(clean.loc[clean["waves"].idxmax()]["value"]) if len(clean) else int(frame["value"].min())


def implied(frame: pd.DataFrame, rows: Sequence[Published]) -> Mapping[str, float | None]:
    """Published speed-ups, each with the latency that the model needs for it: configuration -> cycles."""
    found = {}
    for row in rows:
        words = row.config.split()
        if row.metric == "speed-up" and "over" in words:
            place = words.index("over")
            more, fewer = int(words[place - 1]), int(words[place + 1].rstrip(","))
            if not {more, fewer} <= set(frame["value"]):
                continue
            found[f"{row.config}: {row.value}x"] = implied_latency(frame, fewer, more, float(row.value))
    return found


def conclusion(gluon: pd.DataFrame, portable: pd.DataFrame, family: pd.DataFrame, rows: Sequence[Published]) -> str:
    """What follows for somebody who sets the lever, as Markdown, from the study's own figures."""
    best = shipped_value(gluon)
    same = gluon[gluon["spills"] == 0]["instructions"].nunique() == 1
    row = gluon[gluon["value"] == best].iloc[0]
    lines = [
        f"- The Gluon kernel needs {row['vgprs']:.0f} VGPRs, so {row['waves']:.0f} waves a SIMD at `waves_per_eu` "
        f"{best}, "
        f"the most that spills nothing (static); the specification's needs 137 and reaches 4 workgroups at 3."
    ]
    if same:
        lines.append(
            "- Below that its code is the same to the instruction count: the lever reserves registers that the kernel "
            "does not use, and so only caps the waves. There is nothing to gain from a smaller value."
        )
    worst = portable.loc[portable["spills"].idxmax()]
    lines.append(
        f"- The portable kernel pays for each wave: {portable['cycles'].min():.0f} cycles for 64 keys at its best, "
        f"{worst['cycles']:.0f} at {worst['value']:.0f} with {worst['spills']:.0f} registers spilled (modelled, "
        f"static)."
    )
    for fewer, more in zip(portable["value"][:-1], portable["value"][1:], strict=True):
        border = pays_from(portable, fewer, more)
        if border is not None:
            lines.append(
                f"- In the model {more} beats {fewer} in the portable kernel once an iteration waits {border:,.0f} "
                f"cycles."
            )
    for config, latency in implied(gluon, rows).items():
        told = "no latency gives it" if latency is None else f"an iteration would wait {latency:,.0f} cycles"
        lines.append(f"- Published ({config}): in the model of our Gluon kernel {told} (modelled).")
    if len(family):
        spilling = family[family["spills"] > 0]
        told = ", ".join(f"{each.kernel} at {each.value}" for each in spilling.itertuples()) or "none"
        lines.append(f"- In the rest of the family registers spill in: {told} (static).")
    lines.append(
        "- Only hardware can tell how long an iteration really waits: it decides between a wave more and code without "
        "spills. On an MI355X run this notebook; it times every value in one session."
    )
    return "\n".join(lines)
