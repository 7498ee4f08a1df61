"""Tables and pictures of the division study; every one names its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from workbench.parity.plots import Picture
from workbench.studies.division import INT32_END
from workbench.studies.frames import BLUE, COLOURS, GREY, ORANGE, RED, frame_table, panels, tidy

if TYPE_CHECKING:
    import pandas as pd

    from workbench.parity.html_table import Table

_FAMILIES = {"valu": "VALU", "trans": "TRANS", "salu": "SALU", "cross-lane": "cross-lane"}


def range_picture(frame: pd.DataFrame, landmarks: Mapping[str, int]) -> Picture:
    """First dividend that goes wrong over the divisor, with dividends that occur as lines. Static."""
    figure, grid = panels(1, 1, 3.6)
    axes = grid[0][0]
    style = {"marker": ".", "linewidth": 0, "markersize": 4}
    axes.semilogy(frame["divisor"], frame["magic"], base=2, color=BLUE, label="multiply and shift", **style)
    axes.semilogy(frame["divisor"], frame["float"], base=2, color=ORANGE, label="float32 reciprocal", **style)
    axes.axhline(INT32_END, color=RED, linewidth=1)
    axes.text(frame["divisor"].max(), INT32_END * 1.15, "2^31: int32 ends", fontsize=7, color=RED, ha="right")
    for name, value in landmarks.items():
        axes.axhline(value, color=GREY, linewidth=0.8, linestyle=":")
        axes.text(frame["divisor"].max(), value * 1.15, f"{name}: {value:,}", fontsize=7, color=GREY, ha="right")
    axes.set_ylim(1, 2**34)
    tidy(axes, xlabel="divisor", ylabel="first dividend with a wrong quotient (static)")
    axes.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return Picture(figure, "First dividend with a wrong quotient, by divisor, for multiply and shift and for float32")


def code_picture(frame: pd.DataFrame) -> Picture:
    """Instructions that a division adds, by class; a panel per place. Static."""
    places = list(frame["place"].unique())
    figure, grid = panels(1, len(places), 3.6, sharex=True)
    for axes, place in zip(grid[0], places, strict=True):
        one = frame[frame["place"] == place]
        # A divisor that comes at run time leaves no mark in the code.
        one = one.drop_duplicates(["way", "divisor"]).copy()
        one["label"] = [_label(row.way, row.divisor) for row in one.itertuples()]
        one = one.drop_duplicates("label").iloc[::-1]
        base = [0] * len(one)
        for number, (family, name) in enumerate(_FAMILIES.items()):
            axes.barh(one["label"], one[family], left=base, color=COLOURS[number], label=name)
            base = [low + int(count) for low, count in zip(base, one[family], strict=True)]
        for row, total in enumerate(base):
            axes.text(total + 0.4, row, str(total), fontsize=7, va="center")
        tidy(axes, xlabel="instructions added (static)", title=place, grid="x")
    grid[0][-1].legend(fontsize=7, frameon=False, loc="lower right")
    return Picture(figure, "Instructions that a division adds, by way and divisor, static")


def code_table(frame: pd.DataFrame) -> Table:
    """One line per place, way and divisor: counts static, wrong quotients emulated.

    What takes its divisor from the run has one line, with the quotients of all divisors.
    """
    frame = frame.copy()
    any_divisor = ~frame["way"].str.startswith("constant")
    frame["value"] = frame["divisor"].astype(str).where(~any_divisor, "any")
    sums = {name: "sum" for name in ("wrong", "dividends") if name in frame}
    firsts = {name: "first" for name in frame.columns if name not in (*sums, "place", "way", "value")}
    frame = frame.groupby(["place", "way", "value"], sort=False, as_index=False).agg(firsts | sums)
    columns = {
        "place": "n differs", "way": "divisor", "value": "value", "instructions": "instructions", "valu": "VALU",
        "trans": "TRANS", "salu": "SALU", "cross-lane": "cross-lane", "mul_hi": "multiply-highs",
        "reciprocal": "reciprocals", "wrong": "wrong quotients", "dividends": "of dividends", "evidence": "evidence",
    }  # fmt: skip
    caption = (
        "Instructions beyond those of the same kernel without a division, hints left out. The emulator ran the code on "
        "dividends below 2^31, around multiples of the divisor and at both ends."
    )
    return frame_table(frame, {name: text for name, text in columns.items() if name in frame}, caption)


def kernel_table(frame: pd.DataFrame) -> Table:
    """What is left of divisions in the attention kernels. Static."""
    columns = {
        "problem": "problem", "group": "query heads a group", "page": "page", "mul_hi": "multiply-highs",
        "mul_hi_loop": "of them in the hot loop", "reciprocal": "reciprocals of a division",
        "reciprocal_loop": "of them in the loop", "instructions": "instructions in all", "evidence": "evidence",
    }  # fmt: skip
    caption = (
        "The 2D kernel that dispatch picks on gfx950. Multiply-highs of 64-bit addresses are among them. A reciprocal "
        "is "
        "what a division by a number of the run needs; it is told by the constant that scales it."
    )
    return frame_table(frame, columns, caption)


def time_table(frame: pd.DataFrame) -> Table:
    """Time of one division by way. Measured, on a GPU."""
    columns = {
        "way": "divisor",
        "divisor": "value",
        "ps": "ps a division",
        "hardware": "hardware",
        "evidence": "evidence",
    }
    caption = (
        "From a chain of divisions in every lane, less that of a chain without any; all lanes of the GPU together."
    )
    empty = "No GPU is here: no time was measured."
    return frame_table(frame, columns, caption, {"ps": ".3f"}, empty=empty)


def cost(frame: pd.DataFrame, way: str, divisor: int, place: str = "in every lane") -> int:
    """Instructions that one way adds."""
    one = frame[(frame["way"] == way) & (frame["divisor"] == divisor) & (frame["place"] == place)]
    return int(one["instructions"].iloc[0])


def conclusion(ranges: pd.DataFrame, code: pd.DataFrame, kernels: pd.DataFrame, odd: int, power: int) -> str:
    """What follows for somebody who writes index arithmetic, as Markdown, from the study's own figures."""
    safe = int((ranges["magic"] >= INT32_END).sum())
    first = ranges.loc[ranges["float"].idxmin()]
    wrong = int(code["wrong"].sum()) if "wrong" in code else None
    checked = "" if wrong is None else f" {wrong or 'None'} of the emulated quotients is wrong."
    in_loop = int(kernels["reciprocal_loop"].sum())
    return "\n".join(
        [
            f"- There is no integer divider to be avoided: a divisor that is known at run time alone becomes "
            f"{cost(code, 'runtime', odd)} instructions around a reciprocal ({cost(code, 'runtime unsigned', odd)} "
            f"unsigned), a constant {odd} becomes {cost(code, 'constant', odd)}, a constant {power} "
            f"{cost(code, 'constant', power)}, and {cost(code, 'constant unsigned', power)} where the dividend is "
            f"unsigned (static).{checked}",
            "- So make page size, group and tile compile-time constants, as the kernels do; the compiler then "
            "multiplies and shifts by itself. Signed dividends pay for rounding towards zero: what cannot be negative "
            "should be "
            "unsigned, or come from something whose range the compiler knows.",
            f"- A multiplier and a shift from the host cost {cost(code, 'magic', odd)} instructions for any divisor, "
            f"fewer than the compiler's own, which must serve all 32 bits. They are exact below 2^31 for {safe} of the "
            f"{len(ranges)} divisors here (static), which covers every position, block and program number. A float32 "
            f"reciprocal is not: divided by {first['divisor']:.0f} it fails from {first['float']:,.0f} on.",
            f"- The attention kernels hold {int(kernels['reciprocal'].sum())} reciprocals of divisions, {in_loop} of "
            "them in the hot loop (static): nothing is to be gained there by hand.",
            "- Only hardware can tell what a 32-bit multiply-high costs beside the other vector instructions: the "
            "issue budget counts it as any of them. Time the chain on an MI355X with this notebook.",
        ]
    )


def _label(way: str, divisor: int) -> str:
    return f"{way} {divisor}" if way.startswith("constant") else f"{way}, any"
