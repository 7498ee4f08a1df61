"""Tables and pictures of the streaming softmax study; every one names its evidence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from workbench.parity.plots import Picture
from workbench.studies.frames import BLUE, COLOURS, GREEN, GREY, MARKERS, ORANGE, RED, frame_table, panels, tidy

if TYPE_CHECKING:
    import pandas as pd

    from workbench.parity.html_table import Table

_FP16_MAX = 65504.0
_SHOWN_PATTERNS = {"random": BLUE, "rising": ORANGE, "late spike": GREEN}


def trace_picture(traces: list[pd.DataFrame]) -> Picture:
    """m, alpha, l and the error by tile, a row of panels for each pattern. Evidence: modelled."""
    figure, grid = panels(len(traces), 4, 1.0 + 1.75 * len(traces), sharex=True)
    for row, trace in zip(grid, traces, strict=True):
        tiles = trace["tile"]
        row[0].step(tiles, trace["m"], where="mid", color=BLUE, linewidth=1.6, label="m")
        row[0].step(tiles, trace["lazy_m"], where="mid", color=GREY, linewidth=1, label="lazy, threshold 8")
        row[1].plot(tiles, trace["alpha"], "o", color=ORANGE, markersize=3)
        row[1].set_ylim(-0.05, 1.1)
        row[2].plot(tiles, trace["ell"], color=GREEN, label="l")
        row[2].plot(tiles, trace["o"], color=RED, label="O, channel 0")
        row[3].semilogy(tiles, trace["error"], color=GREY)
        row[3].set_ylim(1e-17, 1e-13)
        names = ("m (log2)", "α = 2^(old m − m)", "l and O, not normalised", "|O / l − softmax so far|")
        for axes, name in zip(row, names, strict=True):
            tidy(axes, ylabel=name)
        row[0].set_title(f"scores: {trace['pattern'].iloc[0]}", fontsize=9, loc="left")
        row[0].legend(fontsize=6, frameon=False)
        row[2].legend(fontsize=6, frameon=False)
    for axes in grid[-1]:
        axes.set_xlabel("tile", fontsize=8)
    figure.suptitle("State of row 0 after each tile, float64 (modelled)", fontsize=10)
    return Picture(figure, "Maximum, alpha, denominator, output and error of the recurrence by tile, modelled")


def rescale_picture(frame: pd.DataFrame) -> Picture:
    """Waves that rescale, largest P and error over the threshold. Evidence: modelled."""
    figure, grid = panels(1, 3, 3.1)
    waves, largest, error = grid[0]
    positions = {value: place for place, value in enumerate(sorted(frame["threshold"].unique()))}
    for number, (pattern, colour) in enumerate(_SHOWN_PATTERNS.items()):
        one = frame[(frame["pattern"] == pattern) & (frame["p"] == "bf16")].sort_values("threshold")
        at = [positions[value] for value in one["threshold"]]
        style = {"color": colour, "marker": MARKERS[number], "markersize": 4, "linewidth": 1.2, "label": pattern}
        waves.plot(at, 100 * one["waves_rescaled"], **style)
        largest.semilogy(at, one["largest_p"], base=2, **style)
    for number, dtype in enumerate(frame["p"].unique()):
        one = frame[(frame["p"] == dtype) & (frame["pattern"] == "rising")].sort_values("threshold")
        finite = one[one["error"] < math.inf]
        at = [positions[value] for value in finite["threshold"]]
        colour = COLOURS[number]
        error.semilogy(at, finite["error"], marker=MARKERS[number], markersize=4, color=colour, label=f"P in {dtype}")
        for value in one[one["error"] == math.inf]["threshold"]:
            error.plot(positions[value], finite["error"].max(), "x", color=RED, markersize=7)
    largest.axhline(_FP16_MAX, color=RED, linewidth=1)
    largest.text(0, _FP16_MAX * 1.2, "largest fp16", fontsize=7, color=RED)
    largest.set_ylim(top=2**19)
    tidy(waves, ylabel="waves of 32 rows that rescale, % of tiles", xlabel="threshold (log2)")
    tidy(largest, ylabel="largest P", xlabel="threshold (log2)")
    tidy(error, ylabel="relative RMS error, rising scores", xlabel="threshold (log2); x: overflow")
    for axes in grid[0]:
        axes.set_xticks(range(len(positions)), [f"{value:g}" for value in positions])
    error.set_ylim(5e-5, 1e-2)
    waves.legend(fontsize=7, frameon=False)
    error.legend(fontsize=7, frameon=False)
    figure.suptitle("Lazy rescale (modelled; threshold 0: every new maximum)", fontsize=10)
    return Picture(figure, "Rescales, largest P and error over the threshold of the lazy rescale, modelled")


def rescale_table(frame: pd.DataFrame) -> Table:
    """One line per pattern and threshold, a column of errors for each dtype of P. Evidence: modelled."""
    keys = ["pattern", "threshold", "rows_rescaled", "waves_rescaled", "largest_p", "evidence"]
    wide = frame.pivot_table(index=keys, columns="p", values="error", sort=False).reset_index()
    dtypes = list(frame["p"].unique())
    columns = {
        "pattern": "scores", "threshold": "threshold", "rows_rescaled": "rows that rescale",
        "waves_rescaled": "waves of 32 rows", "largest_p": "largest P",
        **{dtype: f"RMS error, P in {dtype}" for dtype in dtypes}, "evidence": "evidence",
    }  # fmt: skip
    formats = {"threshold": "g", "rows_rescaled": ".1%", "waves_rescaled": ".1%", "largest_p": ",.4g"}
    caption = "Tiles after the first. An infinite error: P or O overflowed. Threshold 0 follows every new maximum."
    return frame_table(wide, columns, caption, formats | dict.fromkeys(dtypes, ".2e"))


def precision_picture(frame: pd.DataFrame) -> Picture:
    """Relative RMS error over the context, a line per dtype of P. Evidence: modelled."""
    figure, grid = panels(1, 1, 3.0)
    axes = grid[0][0]
    for number, dtype in enumerate(frame["p"].unique()):
        for l_adds, filled in (("P before rounding", True), ("P as rounded", False)):
            one = frame[(frame["p"] == dtype) & (frame["l_adds"] == l_adds)]
            axes.loglog(
                one["keys"], one["error"], marker=MARKERS[number], color=COLOURS[number],
                linewidth=1.2 if filled else 0, markersize=4 if filled else 8,
                markerfacecolor=COLOURS[number] if filled else "none",
                label=f"P in {dtype}" if filled else None,
            )  # fmt: skip
    contexts = sorted(frame["keys"].unique())
    axes.set_xticks(contexts, [f"{value:,}" for value in contexts])
    axes.minorticks_off()
    tidy(axes, xlabel="keys", ylabel="relative RMS error (modelled)")
    axes.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.set_title("filled: l adds P before rounding; open: P as rounded", fontsize=8, loc="left")
    return Picture(figure, "Relative RMS error by dtype of P and number of keys, modelled")


def sink_table(frame: pd.DataFrame) -> Table:
    """Largest difference from the softmax with the sink as one more column. Evidence: modelled."""
    columns = {"sink enters": "the sink enters", "error": "largest difference", "evidence": "evidence"}
    caption = "float64, sinks from far below to far above the scores."
    return frame_table(frame, columns, caption, {"error": ".1e"})


def masked_table(frame: pd.DataFrame) -> Table:
    """NaN and errors by start of the running maximum. Evidence: modelled."""
    columns = {
        "row": "row", "m starts at": "m starts at", "nan": "elements that are NaN", "error": "largest error",
        "evidence": "evidence",
    }  # fmt: skip
    return frame_table(frame, columns, "(-inf) - (-inf) is NaN.", {"nan": ".0%", "error": ".1e"})


def kernel_table(frame: pd.DataFrame) -> Table:
    """The kernel's error beside that of the recurrence; each line has its own evidence."""
    columns = {
        "what": "what ran", "rescale": "rescale", "sinks": "sinks", "error": "relative RMS error",
        "evidence": "evidence",
    }  # fmt: skip
    caption = "Against float64 on the same bf16 inputs; P and the output are rounded to bf16."
    return frame_table(frame, columns, caption, {"error": ".2e"})


def at_threshold(frame: pd.DataFrame, threshold: float, column: str, pattern: str = "random") -> float:
    """A figure of `rescale_frame` with P in bf16."""
    one = frame[(frame["pattern"] == pattern) & (frame["threshold"] == threshold) & (frame["p"] == "bf16")]
    return float(one[column].iloc[0])


def error_of(frame: pd.DataFrame, dtype: str) -> tuple[float, float]:
    """Least and largest median error of a dtype of P over the contexts of `precision_frame`."""
    errors = frame[(frame["p"] == dtype) & (frame["l_adds"] == "P before rounding")]["error"]
    return float(errors.min()), float(errors.max())


def conclusion(rescales: pd.DataFrame, precision: pd.DataFrame, kernels: pd.DataFrame) -> str:
    """What follows for somebody who tunes the kernel, as Markdown, from the study's own figures."""
    low, high = error_of(precision, "bf16")
    overflow = rescales[(rescales["error"] == math.inf) & (rescales["p"] == "fp16")]["threshold"]
    ran = kernels[kernels["what"] != "recurrence in PyTorch"]
    model = float(kernels[kernels["what"] == "recurrence in PyTorch"]["error"].iloc[0])
    waves = [at_threshold(rescales, value, "waves_rescaled") for value in (0, 8)]
    limit = f" From {overflow.min():g} on fp16 overflows here." if len(overflow) else ""
    return "\n".join(
        [
            "- Tile size, order of tiles and rescales are free choices: in float64 they change nothing but the last "
            "bits. What an implementation may not choose is the start of m: minus infinity makes NaN of every row "
            "whose first tile is masked.",
            f"- The precision is decided by P: bf16 costs {low:.1e} to {high:.1e} of a row's RMS, whatever the number "
            "of keys (modelled). Whether l adds P before or after rounding makes no difference; before costs no "
            "conversion back.",
            f"- On random scores {waves[0]:.0%} of a wave's tiles meet a new maximum in some row and {waves[1]:.0%} "
            "one that exceeds the anchor by more than 8 (modelled): the branch around the rescale is nearly always "
            f"taken. Scores that keep rising are the worst case.{limit}",
            f"- The 2D kernel errs by {ran['error'].min():.2e} to {ran['error'].max():.2e} "
            f"({ran['evidence'].iloc[0]}), the recurrence in PyTorch by {model:.2e} (modelled): rounding of P and of "
            "the output explains the kernel's error.",
            "- Only hardware can tell what a skipped rescale saves in time, and how real scores run along the keys: "
            "count the rescales of a trained model's heads before a threshold is chosen.",
        ]
    )
