"""Tables and pictures of the routing study; every one names its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.parity.plots import Picture
from workbench.studies.frames import BLUE, GREY, ORANGE, RED, frame_table, panels, tidy

if TYPE_CHECKING:
    import pandas as pd

    from workbench.parity.html_table import Table

_LIGHT = {"2d": "#dbe7fb", "3d": "#fbe3d3"}
_DARK = {"2d": BLUE, "3d": ORANGE}
_NOTICEABLE = 1.05
"""A lane counts as the wrong one from this loss on."""


def lane_map(frames: Mapping[str, pd.DataFrame]) -> Picture:
    """The lane by batch and context, a panel per name; numbers: segments in 3D, grid over target in 2D. Static."""
    figure, grid = panels(1, len(frames), 3.9, sharey=True)
    for axes, (name, frame) in zip(grid[0], frames.items(), strict=True):
        batches, contexts = _axis(frame, "batch"), _axis(frame, "context")
        for row in frame.itertuples():
            x, y = batches.index(row.batch), contexts.index(row.context)
            axes.add_patch(_cell(x, y, _LIGHT[row.lane]))
            text = str(row.segments) if row.lane == "3d" else _short(row.fill)
            axes.text(x, y, text, ha="center", va="center", fontsize=6, color=_DARK[row.lane])
        _scales(axes, batches, contexts)
        tidy(axes, xlabel="sequences", title=name, grid="")
        axes.title.set_fontsize(8)
    grid[0][0].set_ylabel("keys of each sequence", fontsize=8)
    figure.suptitle(
        "Lane by batch and context (static). Orange: 3D, with its segments. Blue: 2D, with its grid over the target.",
        fontsize=9,
    )
    return Picture(figure, f"Lane that dispatch takes by batch and context: {', '.join(frames)}, static")


def gain_map(frame: pd.DataFrame, title: str) -> Picture:
    """How much shorter the split makes the longest queue, framed where dispatch takes 3D. Modelled."""
    import numpy as np

    figure, grid = panels(1, 1, 4.2)
    axes = grid[0][0]
    batches, contexts = _axis(frame, "batch"), _axis(frame, "context")
    values = np.ones((len(contexts), len(batches)))
    for row in frame.itertuples():
        x, y = batches.index(row.batch), contexts.index(row.context)
        values[y, x] = row.gain
        axes.text(x, y, _short(row.gain), ha="center", va="center", fontsize=7)
        if row.lane == "3d":
            axes.add_patch(_cell(x, y, "none", edge=ORANGE))
    image = axes.imshow(np.log2(values), cmap="Greens", aspect="auto", origin="lower", vmin=0, vmax=9)
    _scales(axes, batches, contexts)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, format=lambda value, _: f"{2**value:g}x")
    bar.ax.tick_params(labelsize=7)
    tidy(axes, xlabel="sequences", ylabel="keys of each sequence", grid="")
    axes.set_title(f"Steps of the longest queue, 2D over 3D (modelled); framed: dispatch takes 3D\n{title}", fontsize=9)
    return Picture(figure, f"Steps of the longest queue, 2D over 3D, by batch and context, modelled: {title}")


def line_table(frame: pd.DataFrame, context: int) -> Table:
    """One context over the batches: grids, slots that have work, steps. Static and modelled."""
    columns = {
        "batch": "sequences", "grid": "2D grid", "target": "target", "lane": "lane", "segments": "segments of 3D",
        "workgroups_3d": "3D grid", "busy_2d": "slots with work in 2D", "busy_3d": "in 3D", "steps_2d": "steps in 2D",
        "steps_3d": "steps in 3D", "gain": "2D over 3D",
    }  # fmt: skip
    formats = {"busy_2d": ".0%", "busy_3d": ".0%", "steps_2d": ",d", "steps_3d": ",d", "gain": ".1f"}
    caption = f"{context:,} keys. Grids, target and lane static; slots, steps and their ratio modelled."
    rows = frame[frame["context"] == context]
    return frame_table(rows, columns, caption, formats)


def check_picture(frame: pd.DataFrame) -> Picture:
    """Measured time of 2D over 3D against the modelled ratio, and against the fill that the rule looks at.

    Colour and marker tell the lane of the specification's rule; a ring, that dispatch takes the other one.
    """
    figure, grid = panels(1, 2, 3.8, sharey=True)
    for lane, marker in (("2d", "o"), ("3d", "s")):
        for windowed in (False, True):
            one = frame[(frame["rule"] == lane) & (frame["window"].notna() == windowed)]
            if not len(one):
                continue
            label = f"the rule takes {lane}" + (", window" if windowed else "")
            face = "white" if windowed else _DARK[lane]
            style = {"marker": marker, "s": 26, "facecolor": face, "edgecolor": _DARK[lane], "label": label}
            grid[0][0].scatter(one["gain"], one["ratio"], **style)
            grid[0][1].scatter(one["fill"], one["ratio"], **style)
    other = frame[frame["lane"] != frame["rule"]]
    ring = {"marker": "o", "s": 110, "facecolor": "none", "edgecolor": GREY, "label": "dispatch takes the other lane"}
    grid[0][0].scatter(other["gain"], other["ratio"], **ring)
    grid[0][1].scatter(other["fill"], other["ratio"], **ring)
    names = (("2D over 3D steps of the longest queue (modelled)", 2), ("2D grid over the target (static)", 10))
    for axes, (name, base) in zip(grid[0], names, strict=True):
        axes.axhline(1, color=RED, linewidth=1)
        axes.set_xscale("log", base=base)
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter("{x:g}x")
        axes.xaxis.set_major_formatter("{x:g}")
        tidy(axes, xlabel=name)
    hardware = ", ".join(sorted(frame["hardware"].unique()))
    grid[0][0].set_ylabel("time of 2D over 3D (measured); above 1 3D is faster", fontsize=8)
    figure.legend(
        *grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=7, frameon=False
    )
    figure.suptitle(f"The rule against the clock: {hardware}", fontsize=10)
    return Picture(figure, f"Measured time of 2D over 3D against the queue model and the grid, {hardware}")


def wrong_table(frame: pd.DataFrame) -> Table:
    """Scenarios in which the lane of the rule or of dispatch lost, the largest loss first. Measured."""
    columns = {
        "scenario": "scenario", "rule": "the rule takes", "lane": "dispatch takes", "context": "keys",
        "window": "window",
        "fill": "2D grid over target", "gain": "2D over 3D steps (modelled)", "ratio": "2D over 3D time (measured)",
        "rule_loss": "the rule's loss", "loss": "dispatch's loss", "hardware": "measured on",
    }  # fmt: skip
    formats = {"context": ",d", "window": ".0f", "fill": ".2f", "gain": ".1f", "ratio": ".2f"}
    formats |= {"loss": ".2f", "rule_loss": ".2f"}
    worst = frame[["loss", "rule_loss"]].max(axis=1)
    rows = frame[worst > _NOTICEABLE].sort_values(["rule_loss", "loss"], ascending=False)
    caption = f"Losses over {_NOTICEABLE - 1:.0%} alone, of {len(frame)} scenarios that were timed in both lanes."
    return frame_table(rows, columns, caption, formats, empty="The faster lane was taken everywhere.")


def right_share(frame: pd.DataFrame, of: str = "loss") -> float:
    """Share of the scenarios in which the lane that is taken loses no more than 5 %; of: `loss` or `rule_loss`."""
    return float((frame[of] <= _NOTICEABLE).mean())


def conclusion(routes: pd.DataFrame, measured: pd.DataFrame) -> str:
    """What follows for somebody who tunes dispatch, as Markdown, from the study's own figures."""
    hardware = ", ".join(sorted(measured["hardware"].unique()))
    rule, now = (measured.loc[measured[of].idxmax()] for of in ("rule_loss", "loss"))
    lines = [
        f"- On {hardware} the specification's rule takes the faster lane, or one within 5 %, in "
        f"{right_share(measured, 'rule_loss'):.0%} of {len(measured)} scenarios and loses {rule['rule_loss']:.1f}x at "
        f"most, on {rule['scenario']}; dispatch does in {right_share(measured):.0%} and loses {now['loss']:.1f}x, on "
        f"{now['scenario']} (measured; the records' kernels may be older than dispatch).",
        f"- {_break_even(measured[measured['window'].isna()])}",
    ]
    windows = measured[measured["window"].notna()].sort_values("rule_loss", ascending=False)
    if len(windows) and windows["rule_loss"].iloc[0] > _NOTICEABLE:
        row = windows.iloc[0]
        lines.append(
            f"- A window does not always leave little to split: {row['scenario']} sees {row['window']:.0f} keys with a "
            f"grid of {row['fill']:.2g} of the target and loses {row['rule_loss']:.1f}x in 2D (measured). What counts "
            f"is "
            "how many keys are visible and how many workgroups there are, not the window."
        )
    taken = routes[routes["lane"] == "3d"]
    if len(taken):
        lines.append(
            f"- On {routes['device'].iloc[0]} the split shortens the longest queue by up to {taken['gain'].max():.0f}x "
            f"and, where the grid is near the target, by {taken['gain'].min():.1f}x (modelled): the border of the map "
            "is flat, so a wrong choice there costs little."
        )
    lines.append(
        "- Only hardware can tell how many workgroups a compute unit really keeps busy, what the reduction and its "
        "launch cost, and where bandwidth ends the gain. On a GPU this notebook times both lanes along the border."
    )
    return "\n".join(lines)


def _break_even(full: pd.DataFrame) -> str:
    """From which modelled gain on the split was faster."""
    if not len(full):
        return "There is nothing to say about the break-even."
    faster, slower = full[full["ratio"] > 1], full[full["ratio"] <= 1]
    most = slower["gain"].max() if len(slower) else float("nan")
    sure = full[full["gain"] > most]
    return (
        f"The queue model orders the scenarios as the clock does: with a modelled gain over {most:.1f}x all "
        f"{len(sure)} were faster in 3D, below that {len(faster) - len(sure)} of {len(full) - len(sure)} (measured). "
        "The reduction and the second launch are what the difference pays for."
    )


def _axis(frame: pd.DataFrame, name: str) -> list[int]:
    return [int(value) for value in sorted(frame[name].unique())]


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _scales(axes: Any, batches: Sequence[int], contexts: Sequence[int]) -> None:
    axes.set_xlim(-0.5, len(batches) - 0.5)
    axes.set_ylim(-0.5, len(contexts) - 0.5)
    axes.set_xticks(range(len(batches)), [str(value) for value in batches], rotation=60 if len(batches) > 8 else 0)
    axes.set_yticks(range(len(contexts)), [f"{value:,}" for value in contexts])


def _cell(x: int, y: int, colour: str, edge: str = "white") -> Any:
    from matplotlib.patches import Rectangle

    inset = 0.0 if edge == "white" else 0.05
    side = 1 - 2 * inset
    return Rectangle((x - 0.5 + inset, y - 0.5 + inset), side, side, facecolor=colour, edgecolor=edge, linewidth=1)
