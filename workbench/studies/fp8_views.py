"""Tables and pictures of the fp8 study; every one names its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.parity.plots import Picture
from workbench.studies.fp8_cache import conversions
from workbench.studies.frames import COLOURS, MARKERS, frame_table, panels, tidy
from workbench.studies.timed_words import timed_bullet
from workbench.studies.unified_levers import time_note

if TYPE_CHECKING:
    import pandas as pd

    from workbench.parity.html_table import Table
    from workbench.studies.lever_study import LeverStudy

_SHADOWED = "cycles per 64 keys, voted-away blocks skipped"


def accuracy_picture(frame: pd.DataFrame) -> Picture:
    """Error over the spread of the scores, and of it what the arithmetic adds; a line per way. Modelled."""
    figure, grid = panels(1, 2, 3.6, sharex=True)
    frame = frame[frame["keys"] == frame["keys"].max()]
    spreads = sorted(frame["spread"].unique())
    for number, (way, one) in enumerate(frame.groupby("way", sort=False)):
        at = [spreads.index(value) for value in one["spread"]]
        style = {"color": COLOURS[number], "marker": MARKERS[number], "markersize": 4, "linewidth": 1.2, "label": way}
        grid[0][0].semilogy(at, one["error"], **style)
        grid[0][0].fill_between(at, one["least"], one["most"], color=COLOURS[number], alpha=0.15, linewidth=0)
        grid[0][1].semilogy(at, one["own"], **style)
    grid[0][0].set_xticks(range(len(spreads)), [f"{value:g}" for value in spreads])
    tidy(grid[0][0], xlabel="spread of the scores", ylabel="relative RMS error", title="against unrounded values")
    tidy(grid[0][1], xlabel="spread of the scores", title="of it: behind the rounding of the operands")
    handles = grid[0][0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, fontsize=7, frameon=False)
    keys = int(frame["keys"].max())
    figure.suptitle(f"Accuracy over seeds, {keys:,} keys (modelled)", fontsize=10)
    return Picture(figure, f"Relative RMS error by dtypes and spread of the scores, {keys} keys, modelled")


def accuracy_table(frame: pd.DataFrame) -> Table:
    """A line per way, spread and context. Modelled."""
    columns = {
        "way": "operands", "spread": "spread", "keys": "keys", "error": "relative RMS error", "least": "least seed",
        "most": "most", "own": "behind the operands' rounding", "evidence": "evidence",
    }  # fmt: skip
    formats = {"spread": "g", "keys": ",d"} | dict.fromkeys(("error", "least", "most", "own"), ".2e")
    return frame_table(frame, columns, "Against float64 on standard normal K and V.", formats)


def bytes_table(frame: pd.DataFrame) -> Table:
    """Least bytes by dtype of the cache, and what the data sheet allows. Static and modelled."""
    columns = {
        "scenario": "scenario", "bf16_bytes": "bytes with a bf16 cache", "fp8_bytes": "with an fp8 cache",
        "ratio": "bf16 over fp8", "limited_by": "limited by", "gain": "gain allowed, at most", "hardware": "hardware",
        "evidence": "evidence",
    }  # fmt: skip
    formats = {"bf16_bytes": ",d", "fp8_bytes": ",d", "ratio": ".2f", "gain": ".2f"}
    return frame_table(frame, columns, "Bytes: Q, K, V and O once. The ceilings are the data sheet's.", formats)


def kernel_table(study: LeverStudy) -> Table:
    """What each kernel's code and the emulator say: static, modelled, emulated, and measured on a GPU."""
    import pandas as pd

    names = {
        "VGPRs": "vgprs", "LDS": "lds", "waves per SIMD": "waves", "LDS writes": "writes",
        "instructions per 64 keys": "instructions", "MFMA cycles": "mfma", "cycles per 64 keys": "cycles",
        "worst error over its limit": "worst", "time": "time",
    }  # fmt: skip
    rows = []
    for variant in study.outcomes:
        row: dict[str, Any] = {"variant": variant, "conversions": conversions(study, variant)}
        rows.append(row | {key: study.value(variant, figure) for figure, key in names.items()})
    columns = {
        "variant": "kernel and cache", "vgprs": "VGPRs (static)", "lds": "LDS bytes", "waves": "waves per SIMD",
        "conversions": "conversions", "writes": "LDS writes", "instructions": "instructions per 64 keys",
        "mfma": "MFMA cycles (modelled)", "cycles": "cycles per 64 keys (modelled)",
        "worst": "error over its limit (emulated)", "time": "time, us (measured)",
    }  # fmt: skip
    whole = dict.fromkeys(("vgprs", "lds", "waves", "writes", "instructions", "mfma", "cycles"), ",.0f")
    caption = (
        f"gfx950, Triton {study.triton_version}; conversions and writes of an iteration of the hot loop. The emulator "
        f"ran 32 queries against 320 keys. {time_note(study)}".strip()
    )
    return frame_table(pd.DataFrame(rows), columns, caption, whole | {"worst": ".2f", "time": ".1f"})


def error_of(frame: pd.DataFrame, way: str, spread: float) -> float:
    """Median error of a way at a spread, at the longest context."""
    one = frame[(frame["way"] == way) & (frame["spread"] == spread) & (frame["keys"] == frame["keys"].max())]
    return float(one["error"].iloc[0])


def gain(study: LeverStudy, kernel: str) -> float | None:
    """Modelled cycles of the dequantising kernel over those of the native product."""
    plain = study.value(f"{kernel}: fp8, dequantised", "cycles per 64 keys")
    native = study.value(f"{kernel}: fp8, native QK", "cycles per 64 keys")
    return plain / native if plain and native else None


def conclusion(accuracy: pd.DataFrame, moved: pd.DataFrame, study: LeverStudy) -> str:
    """What follows for somebody who serves an fp8 cache, as Markdown, from the study's own figures."""
    cached, native = "fp8 cache, dequantised", "fp8 Q and cache, native QK"
    plain = error_of(accuracy, "bf16 cache", 1.0)
    low, high = accuracy["spread"].min(), accuracy["spread"].max()
    errors = {name: [error_of(accuracy, name, spread) for spread in (low, 1.0, high)] for name in (cached, native)}
    lines = [
        f"- The cache decides the accuracy: {errors[cached][1]:.1%} of a row's RMS with K and V in fp8, {plain:.1%} "
        f"with "
        f"both in bf16 (modelled, scores of spread 1). Q in fp8 on top makes it {errors[native][1]:.1%}.",
        f"- Errors of K and Q enter through the scores and grow with them: from {errors[cached][0]:.1%} at a spread of "
        f"{low:g} to {errors[cached][2]:.1%} at {high:g}, and to {errors[native][2]:.1%} with Q in fp8 (modelled). "
        f"Heads "
        "that attend sharply suffer most.",
    ]
    if (ratio := gain(study, "Gluon")) is not None:
        cycles = [study.value(f"Gluon: fp8, {name}", "MFMA cycles") for name in ("dequantised", "native QK")]
        counts = [conversions(study, f"Gluon: fp8, {name}") for name in ("dequantised", "native QK")]
        lines.append(
            f"- The native product has {counts[1]} conversions instead of {counts[0]} and half of K's LDS, and asks "
            f"for "
            f"{cycles[1]:.0f} cycles of MFMA where bf16 asks for {cycles[0]:.0f}: an fp8 MFMA of 32x32x16 is no "
            f"faster. "
            f"The whole loop gains {ratio - 1:.1%} by the issue budget (modelled). Only the 64-deep fp8 MFMA has twice "
            "the rate."
        )
    bound = moved[moved["limited_by"] == "memory"]
    if len(bound):
        row = bound.iloc[0]
        lines.append(
            f"- Where an fp8 cache pays is memory: {row['scenario']} moves {row['ratio']:.2f}x fewer bytes (static) "
            f"and "
            f"may gain as much (modelled); a prefill that compute limits gains nothing from its bytes."
        )
    lines += filter(None, [timed_bullet(study)])
    lines.append(
        "- Only an MI355X can tell whether the dequantisation hides behind the loads, as the specification found, and "
        "what "
        "clock either kernel holds. Calibrate scales on real keys: outliers, which normal values do not have, cost "
        "bits."
    )
    return "\n".join(lines)
