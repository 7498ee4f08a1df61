"""Tables and pictures of the study of the mask split; every one names its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.parity.plots import Picture
from workbench.studies.dma_order import copies
from workbench.studies.frames import MARKERS, frame_table, panels, tidy
from workbench.studies.lever_views import EVIDENCE, speedups
from workbench.studies.mask_split import INSTRUCTION_CACHE, ONE, SPLIT, break_even, predicted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from workbench.parity.html_table import Table
    from workbench.published import Published
    from workbench.studies.lever_study import LeverStudy

_PRICE = {
    "VGPRs": "VGPRs", "SGPRs": "SGPRs", "spilled VGPRs": "spilled", "code": "code, bytes",
    "waves per SIMD": "waves per SIMD", "workgroups per CU": "workgroups per CU",
}  # fmt: skip
_LINES = {"instructions": ("--", "instructions"), "cycles": ("-", "cycles")}


def tile_table(frame: pd.DataFrame) -> Table:
    """What the split gives to each loop, a line per scenario. Static."""
    columns = {
        "scenario": "scenario", "family": "kernel", "rows": "rows", "per_block": "tiles a workgroup",
        "whole": "whole tiles", "masked": "masked tiles", "share": "whole", "evidence": "evidence",
    }  # fmt: skip
    caption = "Whole: every row of the workgroup sees every key of the tile. All KV heads."
    formats = {"per_block": ".1f", "whole": ",d", "masked": ",d", "share": ".0%"}
    return frame_table(frame, columns, caption, formats, empty="The Gluon kernel serves none of these.")


def walk_table(frame: pd.DataFrame) -> Table:
    """A tile in each loop, blocks that a vote skips left out. Static, cycles modelled."""
    columns = {
        "family": "kernel", "triton": "Triton", "variant": "variant", "tiles": "tiles", "instructions": "instructions",
        "masks": "v_cmp and v_cndmask", "mfma": "MFMA", "cycles": "cycles, at least", "evidence": "evidence",
    }  # fmt: skip
    caption = "One wave, one tile, no lane beyond its row's maximum. A window has masked tiles at both ends."
    return frame_table(frame, columns, caption)


def price_table(studies: Sequence[tuple[str, LeverStudy]]) -> Table:
    """Registers, code and occupancy of both variants, a line per kernel, compiler and variant. Static."""
    import pandas as pd

    rows = [
        {"family": name, "triton": study.triton_version, "variant": variant, "evidence": "static"}
        | {figure: study.value(variant, figure) for figure in _PRICE}
        for name, study in studies
        for variant in study.names
    ]
    columns = {"family": "kernel", "triton": "Triton", "variant": "variant"} | _PRICE | {"evidence": "evidence"}
    return frame_table(pd.DataFrame(rows), columns, "", dict.fromkeys(_PRICE, ",.0f"))


def share_picture(
    walked: pd.DataFrame, emulated: pd.DataFrame, tiles: pd.DataFrame, rows: Sequence[Published], triton: str
) -> Picture:
    """One loop over the split, over the share of whole tiles: lines from the loops, marks from the emulator."""
    names = list(dict.fromkeys(walked["family"]))
    figure, grid = panels(1, len(names), 3.7, sharey=True)
    told = []
    for axes, name in zip(grid[0], names, strict=True):
        one = walked[(walked["family"] == name) & (walked["triton"] == triton)]
        for colour, (what, (style, label)) in zip(("#5b6676", "#8a3ffc"), _LINES.items(), strict=True):
            ends = [predicted(one, share, what) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
            axes.plot((0, 25, 50, 75, 100), ends, style, color=colour, linewidth=1.3, label=f"{label} (modelled)")
        _marks(axes, one, tiles[tiles["family"] == name], emulated[emulated["family"] == name])
        axes.axhline(1.0, color="#22272e", linewidth=0.8)
        for row in speedups(rows):
            axes.axhline(float(row.value), color=EVIDENCE["published"][0], linestyle=":", linewidth=1.5)
            axes.text(
                2, float(row.value) - 0.012, f"{row.value}x, {row.hardware} (published)", fontsize=7, va="top",
                color=EVIDENCE["published"][0],
            )  # fmt: skip
        tidy(axes, xlabel="whole tiles of all, %", title=name)
        axes.set_xlim(-4, 104)
        told.append(f"{name}: {predicted(one, 0.0):.3g} without whole tiles, {predicted(one, 1.0):.3g} with all whole")
    low, high = grid[0][0].get_ylim()
    grid[0][0].set_ylim(min(low, 0.88), high + 0.02)
    grid[0][0].set_ylabel("one loop over the split", fontsize=8)
    figure.legend(
        *grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=7, frameon=False
    )
    title = f"What the mask split asks for, Triton {triton}: above 1 it is less"
    figure.suptitle(title, fontsize=10)
    return Picture(figure, f"{title}. Cycles (modelled): {'; '.join(told)}")


def _marks(axes: Any, one: pd.DataFrame, tiles: pd.DataFrame, emulated: pd.DataFrame) -> None:
    shares = sorted(set(tiles["share"]))
    axes.plot(
        [100 * share for share in shares], [predicted(one, share) for share in shares], "|", color="#8a3ffc",
        markersize=10, label="scenarios (modelled)",
    )  # fmt: skip
    axes.plot(
        100 * emulated["share"], emulated["ratio"], MARKERS[0], color=EVIDENCE["emulated"][0], markersize=5,
        label="instructions of a launch (emulated)",
    )  # fmt: skip


def emulated_table(frame: pd.DataFrame) -> Table:
    """Whole launches with long and short tails. Emulated."""
    columns = {
        "family": "kernel", "tail": "tail", "queries": "queries", "keys": "keys", "whole": "whole", "masked": "masked",
        "one": ONE, "split": "split", "ratio": "ratio", "right": "right", "of_limit": "error", "identical": "identical",
        "faults": "hazards", "evidence": "evidence",
    }  # fmt: skip
    caption = (
        "Instructions of all waves, one KV head; ratio of one loop to the split. Right: both within the tolerance that "
        "float64 sets; error: the worst as a share of its limit. Identical: both outputs, bit by bit."
    )
    formats = {"one": ",d", "split": ",d", "ratio": ".3f", "of_limit": ".0%"}
    return frame_table(frame, columns, caption, formats)


def time_table(frame: pd.DataFrame) -> Table:
    """Both variants interleaved in one session. Measured, here or in the stored records."""
    columns = {
        "scenario": "scenario", "lane": "lane", "kernel": "kernel", "share": "whole tiles",
        "per_block": "tiles a workgroup", "one": "one loop, us",
        "split": "split, us", "ratio": "one over split", "low": "from", "high": "to", "status": "status",
        "hardware": "hardware", "evidence": "evidence",
    }  # fmt: skip
    formats = {"share": ".0%", "per_block": ".0f", "status": "text"} | dict.fromkeys(("one", "split"), ".1f")
    formats |= dict.fromkeys(("ratio", "low", "high"), ".3f")
    caption = (
        "Dispatch's kernel for the hardware named. Tiles are counted (static), times measured. From and to: the 95 % "
        "interval of the ratio of paired rounds."
    )
    return frame_table(
        frame, columns, caption, formats, empty="No GPU is here and no record is stored: no time was measured."
    )


def conclusion(
    studies: Sequence[tuple[str, LeverStudy]],
    walked: pd.DataFrame,
    emulated: pd.DataFrame,
    timed: pd.DataFrame,
    rows: Sequence[Published],
) -> str:
    """What follows for somebody who would split a loop, as Markdown, from the study's own figures."""
    found = [_saving(walked, name, study) for name, study in studies]
    found.append(_tails(emulated))
    right = "all are right and" if emulated["right"].all() else "**not all are right**;"
    same = "bit-identical in every case" if emulated["identical"].all() else "**not bit-identical everywhere**"
    found.append(
        f"- On the emulator {right} the two variants' outputs are {same} (emulated), as the specification says."
    )
    found += [_price(name, study) for name, study in studies]
    found.append(_verdict(studies, walked, emulated, rows))
    found += _measured(timed)
    found.append(
        "- For tuning: count the whole tiles of a workgroup first. Long prefill has little else; a short window has "
        "few, and pays for three loops; a decode in many segments has only whole ones, but few for a workgroup. Then "
        "look at registers: the split costs a few, and near a step of the occupancy a few are a wave."
    )
    found.append(
        "- Only hardware can tell whether the instructions saved were what a wave waited for. Counts and budgets leave "
        "out instruction fetch at the change of loops, waits for K and V, and what the other waves of the SIMD fill "
        "in. On a GPU this notebook times both variants."
    )
    return "\n".join(found)


def _saving(walked: pd.DataFrame, name: str, study: LeverStudy) -> str:
    one = walked[(walked["family"] == name) & (walked["triton"] == study.triton_version)]
    mean = one.groupby("tiles")[["instructions", "masks", "cycles"]].mean()
    every, whole, masked = (mean.loc[kind] for kind in ("all", "whole", "masked"))
    return (
        f"- {name}, Triton {study.triton_version}: a whole tile takes {whole['instructions']:.0f} instructions in its "
        f"own loop instead of {every['instructions']:.0f}, {every['masks'] - whole['masks']:.0f} v_cmp and v_cndmask "
        f"less (static), and {whole['cycles']:.0f} cycles of issue instead of {every['cycles']:.0f} (modelled); a "
        f"masked one takes {masked['instructions']:.0f} instructions. {_break_even(one)}"
    )


def _break_even(one: pd.DataFrame) -> str:
    share = break_even(one)
    if share is not None:
        return f"The split asks for fewer cycles from {share:.0%} of whole tiles on (modelled)."
    gains = predicted(one, 1.0) > 1
    return "By issue the split never loses (modelled)." if gains else "By issue the split never gains (modelled)."


def _tails(emulated: pd.DataFrame) -> str:
    least, most = (emulated.loc[emulated["ratio"].agg(pick)] for pick in ("idxmin", "idxmax"))
    worse = emulated[emulated["ratio"] < 1]
    return (
        f"- One loop executes {least['ratio']:.3f} to {most['ratio']:.3f} times the instructions of the split over "
        f"whole launches (emulated): least with {least['share']:.0%} of whole tiles ({least['family']}), most with "
        f"{most['share']:.0%} ({most['family']}). The split executes more in {len(worse)} of {len(emulated)} launches"
        + (f", with at most {worse['share'].max():.0%} of whole tiles." if len(worse) else ".")
    )


def _price(name: str, study: LeverStudy) -> str:
    code, vgprs, waves = (_pair(study, figure) for figure in ("code", "VGPRs", "waves per SIMD"))
    occupancy = "the occupancy stays" if waves[0] == waves[1] else "**the occupancy falls**"
    return (
        f"- The price for {name}, Triton {study.triton_version}: {code[0]:,.0f} to {code[1]:,.0f} bytes of code "
        f"({code[1] / code[0] - 1:+.0%}), {vgprs[0]:.0f} to {vgprs[1]:.0f} VGPRs, {waves[0]:.0f} to {waves[1]:.0f} "
        f"waves per SIMD: {occupancy} (static). {_window(study)}"
    )


def _pair(study: LeverStudy, figure: str) -> tuple[float, float]:
    return study.value(ONE, figure) or 0.0, study.value(SPLIT, figure) or 0.0


def _window(study: LeverStudy) -> str:
    """What the hot loop leaves the next K to arrive in."""
    windows = [
        min((copy.instructions for copy in copies(inspection) if copy.stream == "K"), default=0)
        for inspection in study.inspections([ONE, SPLIT])
    ]
    if not all(windows):
        return ""
    text = f"A load of K has {windows[0]} instructions to arrive in, with the split {windows[1]} (static)"
    shorter = windows[1] < windows[0]
    return text + (": if that is what the loop waits for, what was saved comes back as waiting." if shorter else ".")


def _verdict(
    studies: Sequence[tuple[str, LeverStudy]],
    walked: pd.DataFrame,
    emulated: pd.DataFrame,
    rows: Sequence[Published],
) -> str:
    told = ", ".join(f"{row.value}x ({row.hardware}, {row.kernel})" for row in speedups(rows))
    best = max(
        predicted(one, share)
        for (name, _), one in walked.groupby(["family", "triton"])
        for share in emulated[emulated["family"] == name]["share"]
    )
    largest = max(_pair(study, "code")[1] for _, study in studies)
    fits = "fits" if largest < INSTRUCTION_CACHE else "does **not** fit"
    return (
        f"- Published: {told}. Our figures do not account for it: by issue the split should gain, up to {best:.2f}x "
        f"with the tiles of these launches (modelled). The specification blames instruction fetch and code size. The "
        f"largest code here, {largest:,.0f} bytes (static), {fits} in the {INSTRUCTION_CACHE // 1024} KiB of "
        f"instruction cache that two compute units of an MI355X share (published, AMD's ROCm documentation); what is "
        f"left is the fetch at the change of loops, or registers that cost that kernel a wave, and neither is shown. "
        f"Until an MI355X times it, dispatch leaves the split off there, and the disagreement stands."
    )


def _measured(timed: pd.DataFrame) -> list[str]:
    """What times say, and how many tiles a workgroup had where the split lost; nothing without any."""
    rows = timed[timed["ratio"].notna()]
    if rows.empty:
        return []
    told = ", ".join(
        f"{row.ratio:.3f} on {row.scenario} ({row.share:.0%} whole, {_tiles(row.per_block)} a workgroup)"
        for row in rows.itertuples()
    )
    lost, won = rows[rows["high"] < 1], rows[rows["low"] > 1]
    text = f"- Measured on {rows['hardware'].iloc[0]}, one loop over the split: {told}."
    if len(lost):
        text += f" The split lost with {lost['per_block'].min():.0f} to {lost['per_block'].max():.0f} tiles a workgroup"
        text += f", and won with {won['per_block'].min():.0f} or more." if len(won) else "."
    return [text]


def _tiles(count: float) -> str:
    return f"{count:.0f} tile" if round(count) == 1 else f"{count:.0f} tiles"


def _clock(timed: pd.DataFrame, rows: Sequence[Published]) -> str:
    """What a clock said of the split, as a clause: times of this run or stored ones, else the published one."""
    own = timed[timed["ratio"].notna()]
    if own.empty:
        told = ", ".join(f"{row.value}x on an {row.hardware}" for row in speedups(rows))
        return f"no clock ran here, and published is {told}" if told else "no clock ran here, and nothing is published"
    won, lost = int((own["low"] > 1).sum()), int((own["high"] < 1).sum())
    least, most = own["ratio"].min(), own["ratio"].max()
    return (
        f"timed on {own['hardware'].iloc[0]} it won {won} and lost {lost} of {len(own)} scenarios, one loop over the "
        f"split {least:.3f}x to {most:.3f}x (measured)"
    )


def key_figure(
    walked: pd.DataFrame, study: LeverStudy, name: str, timed: pd.DataFrame, rows: Sequence[Published]
) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`. timed: of `timed_frame`; without a time in it, what was published."""
    one = walked[(walked["family"] == name) & (walked["triton"] == study.triton_version)]
    mean = one.groupby("tiles")["instructions"].mean()
    code = [study.value(variant, "code") or 0.0 for variant in (ONE, SPLIT)]
    return {
        "sentence": f"The mask split takes {mean['whole']:.0f} instead of {mean['all']:.0f} instructions for a whole "
        f"tile ({name}), with {code[1] / code[0] - 1:.0%} more code; {_clock(timed, rows)}.",
        "evidence": "static",
        "value": float(mean["all"] / mean["whole"]),
        "unit": "x",
    }
