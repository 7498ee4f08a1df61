"""Tables and pictures of the study of the combo's flags; every one names its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.parity.plots import Picture
from workbench.studies.combo import (
    BUNDLE,
    CYCLES,
    FLAGS,
    NEUTRAL,
    OFF,
    alone,
    bundle_frame,
    flag_frame,
    gain,
    left_out,
    vector_savings,
)
from workbench.studies.frames import COLOURS, GREY, frame_table, panels, tidy
from workbench.studies.lever_figures import VOTED
from workbench.studies.unified_levers import time_note

if TYPE_CHECKING:
    import pandas as pd

    from workbench.parity.html_table import Table
    from workbench.published import Published
    from workbench.studies.lever_study import LeverStudy

_ALONE, _INSIDE, _TOGETHER = COLOURS[0], COLOURS[1], COLOURS[2]


def gain_picture(study: LeverStudy, kernel: str) -> Picture:
    """Gain of each flag alone and in the bundle, the bundle and the product of the singles; a panel per figure."""
    flags = [*FLAGS[kernel].values()]
    frame, whole = flag_frame(study, kernel), bundle_frame(study, flags)
    shown = [name for name in (CYCLES, "wave-instructions", "time") if name in set(whole["figure"])]
    figure, grid = panels(1, len(shown), 0.42 * (len(flags) + 2) + 1.1, sharey=True)
    for axes, name in zip(grid[0], shown, strict=True):
        of, bundle = frame[frame["figure"] == name], whole[whole["figure"] == name].iloc[0]
        axes.axvline(1.0, color=GREY, linewidth=1)
        for place, row in enumerate(of.itertuples()):
            for ratio, colour, shift in ((row.alone, _ALONE, -0.18), (row.in_bundle, _INSIDE, 0.18)):
                if ratio == ratio and ratio is not None:
                    _mark(axes, ratio, place + shift, colour)
        if bundle["product"] == bundle["product"] and bundle["product"] is not None:
            _mark(axes, bundle["product"], len(flags) - 0.18, _ALONE)
        _mark(axes, bundle["gain"], len(flags) + 0.18, _TOGETHER)
        tidy(axes, xlabel=f"{name}: gain ({bundle['evidence']})", grid="x")
        low, high = axes.get_xlim()
        room = 0.16 * (high - low)  # for the figures beside the outermost marks
        axes.set_xlim(low - room if low < 0.99 else low, high + room)
    grid[0][0].set_yticks(range(len(flags) + 1), [*flags, "all of them"])
    grid[0][0].invert_yaxis()
    _legend(figure)
    return Picture(figure, f"{kernel}: gain of each flag alone and in the bundle, and of the bundle")


def _mark(axes: object, ratio: float, place: float, colour: str) -> None:
    axes.plot([1.0, ratio], [place, place], color=colour, linewidth=4, solid_capstyle="butt")  # type: ignore[attr-defined]
    shift, side = (4, "left") if ratio >= 1 else (-4, "right")
    axes.annotate(  # type: ignore[attr-defined]
        f"{ratio:.3f}", (ratio, place), (shift, 0), textcoords="offset points", fontsize=6.5, va="center", ha=side
    )


def _legend(figure: object) -> None:
    from matplotlib.lines import Line2D

    labels = {
        "alone: without any flag over with this one (all of them: product)": _ALONE,
        "in the bundle: without this flag over with all": _INSIDE,
        "the bundle: without any over with all": _TOGETHER,
    }
    handles = [Line2D([], [], color=colour, linewidth=4, label=label) for label, colour in labels.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=7, frameon=False)  # type: ignore[attr-defined]


def flag_table(study: LeverStudy, kernel: str, figure: str = CYCLES) -> Table:
    """A line per flag: its name in the specification and here, what it changes, gains and verdict."""
    columns = {
        "named": "specification", "flag": "field", "changes": "changes", "alone": "gain alone",
        "in_bundle": "gain in the bundle", "verdict": "so it", "evidence": "evidence",
    }  # fmt: skip
    caption = f"Gains in {figure}, every block counted. Within {NEUTRAL:.0%} of 1 a flag counts as neutral."
    formats = {"changes": "text", "alone": ".3f", "in_bundle": ".3f"}
    return frame_table(flag_frame(study, kernel, (figure,)), columns, caption, formats)


def bundle_table(study: LeverStudy, kernel: str) -> Table:
    """A line per figure: all off, bundle, gain, product of the singles."""
    columns = {
        "figure": "figure", "off": OFF, "bundle": BUNDLE, "gain": "gain", "product": "product of the gains alone",
        "together": "gain over product", "evidence": "evidence", "of": "of",
    }  # fmt: skip
    formats = {"off": ",.0f", "bundle": ",.0f", "gain": ".3f", "product": ".3f", "together": ".3f", "of": "text"}
    frame = bundle_frame(study, [*FLAGS[kernel].values()])
    return frame_table(frame, columns, f"{kernel} kernel. {time_note(study)}".strip(), formats)


def exact_table(frame: pd.DataFrame) -> Table:
    """A line per emulated variant. Emulated."""
    columns = {
        "variant": "variant", "ok": "within tolerance", "max_abs": "largest error", "rms": "RMS error",
        "share": "worst over its limit", "equal": f"equal to {OFF}, bit for bit", "faults": "hazards",
        "evidence": "evidence",
    }  # fmt: skip
    formats = {"max_abs": ".2e", "rms": ".2e", "share": ".2f", "equal": ".3%", "faults": ".0f"}
    return frame_table(frame, columns, "Against float64 on the same inputs.", formats, empty="Nothing was emulated.")


def whole_kernel_table(frame: pd.DataFrame, rows: Sequence[Published]) -> Table:
    """Instructions by kind of ours, and the published counts in lines of their own."""
    import pandas as pd

    columns = {
        "variant": "variant", "part": "part", "valu": "VALU", "salu": "SALU", "mfma": "MFMA",
        "selections": "v_cndmask", "vgprs": "VGPRs", "waves": "waves per SIMD", "of": "hardware and source",
        "evidence": "evidence",
    }  # fmt: skip
    others = [
        {
            "variant": "published combo",
            "part": row.config,
            **dict(zip(("valu", "salu", "mfma"), map(float, row.value.split("/")), strict=True)),
            "of": f"{row.hardware}, {row.source}",
            "evidence": "published",
        }
        for row in rows
        if row.metric == "VALU / SALU / MFMA"
    ]
    shown = pd.concat([frame.assign(of="gfx950, ours"), pd.DataFrame(others)], ignore_index=True)
    whole = dict.fromkeys(("valu", "salu", "mfma", "selections", "vgprs", "waves"), ",.0f")
    return frame_table(shown, columns, "VALU counts packed instructions too, TRANS not.", whole | {"of": "text"})


def conclusion(study: LeverStudy, portable: LeverStudy, exact: pd.DataFrame) -> str:
    """What follows for somebody who sets the flags, as Markdown, from the study's own figures."""
    flags = [*FLAGS["Gluon"].values()]
    frame = flag_frame(study, "Gluon", (CYCLES,))
    rows = bundle_frame(study, flags).set_index("figure")
    bundle = rows.loc[CYCLES]
    lines = [
        f"- The bundle takes {bundle['off']:.0f} cycles for 64 keys to {bundle['bundle']:.0f}, a gain of "
        f"{bundle['gain']:.3f}; the flags' gains alone multiply to {bundle['product']:.3f} (modelled). "
        + _together(rows),
        f"- {_verdicts(frame)}",
        f"- {_occupancy(study, flags)}",
        f"- {_counts(study, rows, flag_frame(study, 'Gluon', ('wave-instructions',)), flags)}",
    ]
    if len(exact):
        lines.append(
            f"- {exact['ok'].sum()} of {len(exact)} variants are within the tolerance that float64 sets, and "
            f"{(exact['equal'] == 1).sum()} of them equal the kernel without flags bit for bit (emulated): flags "
            "change how, not what."
        )
    lines.append(f"- {_portable(portable)}")
    lines.append(
        "- What is published is the bundle against another kernel, and no flag by itself: the gains above have no "
        f"published figure to be held to. {_timed(study, portable)} Only hardware can tell what a flag is worth: the "
        "budget counts issue slots, not the barriers and waits that the scalar state saves."
    )
    return "\n".join(lines)


def _timed(*studies: LeverStudy) -> str:
    """Times of the bundle, where a GPU took them."""
    told = []
    for study in studies:
        whole, line = gain(study, OFF, BUNDLE, "time"), study.find(BUNDLE, "time")
        if whole is not None and line is not None:
            told.append(f"{1 / whole:.3g} times the time of no flag ({line.of})")
    if not told:
        return "Nothing was timed here: on a GPU this notebook times all variants in one session."
    return f"Timed, the bundle takes {', '.join(told)} (measured)."


def _together(rows: pd.DataFrame) -> str:
    ratio = rows.loc[CYCLES]["together"]
    if ratio is None or ratio != ratio:
        return "Not every flag was taken alone."
    voted = rows.loc[CYCLES + VOTED]["together"] if CYCLES + VOTED in rows.index else None
    beside = "" if voted is None else f" ({voted - 1:+.0%} without the blocks that a vote skips)"
    if abs(ratio - 1) <= NEUTRAL:
        return f"Together they gain what they gain apart{beside}."
    return f"Together they gain {abs(ratio - 1):.0%} {'more' if ratio > 1 else 'less'} than apart{beside}."


def _counts(study: LeverStudy, rows: pd.DataFrame, frame: pd.DataFrame, flags: Sequence[str]) -> str:
    """Where the gain together comes from, and the flags that add instructions to the call."""
    told, savings = "", vector_savings(study, flags)
    if savings is not None:
        told = (
            f"All together save {savings[0]:.0f} vector instructions of the loop, one by one {savings[1]:.0f} in sum "
            f"(static). "
        )
    if not len(frame):
        return f"{told}Nothing was emulated."
    adding = [f"`{row.flag}` ({row.in_bundle:.3f})" for row in frame.itertuples() if row.in_bundle < 1 - NEUTRAL]
    every = rows.loc["wave-instructions"]
    return (
        f"{told}The emulated call takes {every['off']:,.0f} wave-instructions without flags and {every['bundle']:,.0f} "
        f"with the bundle; in it {' and '.join(adding) or 'no flag'} add{'' if len(adding) > 1 else 's'} instructions "
        "(emulated) where the budget sees a gain: it weighs vector cycles, not scalar instructions."
    )


def _verdicts(frame: pd.DataFrame) -> str:
    """The flags by verdict, and what that says of the published statement."""
    groups = [
        f"{verdict}: {', '.join(f'`{row.flag}` ({row.alone:.3f}, {row.in_bundle:.3f})' for row in rows.itertuples())}"
        for verdict, rows in frame.groupby("verdict", sort=False)
        if verdict
    ]
    few = frame["verdict"].isin(["pays only in the bundle"]).sum()
    neutral = (frame["alone"].sub(1).abs() <= NEUTRAL).sum()
    return (
        f"Gain alone and in the bundle: {'; '.join(groups)} (modelled). The specification has most flags neutral alone "
        f"and paying together: {neutral} of {len(frame)} are neutral alone here, and {few} of those pay in the bundle."
    )


def _occupancy(study: LeverStudy, flags: Sequence[str]) -> str:
    """Which single flags change the number of waves, from and to."""
    waves = {name: study.value(name, "waves per SIMD") for name in study.names}
    before, after = waves.get(OFF), waves.get(BUNDLE)
    if before is None or after is None or before == after:
        return f"Occupancy stays at {after} waves a SIMD (static)."
    raising = [flag for flag in flags if (waves.get(alone(flag)) or 0) > before]
    losing = [flag for flag in flags if (waves.get(left_out(flag)) or after) < after]
    limit = study.find(OFF, "waves per SIMD")
    return (
        f"Without flags {before:.0f} waves a SIMD fit, limited by {limit.text if limit else 'its resources'}, with the "
        f"bundle {after:.0f} (static). {', '.join(f'`{each}`' for each in raising) or 'No flag'} alone does that too, "
        f"and {'none has' if not losing else ', '.join(f'`{each}`' for each in losing) + ' has'} to be there for it."
    )


def _portable(study: LeverStudy) -> str:
    """What the same flags do in plain Triton."""
    found = []
    names = [*map(alone, FLAGS["portable"].values()), *map(left_out, FLAGS["portable"].values()), BUNDLE]
    for name in names:
        ratio = gain(study, OFF, name, CYCLES)
        if ratio is not None:
            found.append((ratio, name, study.value(name, "spilled VGPRs") or 0))
    if not found:
        return "The portable kernel was not compiled with flags."
    told = ", ".join(f"{name} {ratio:.3f} ({spills:.0f} registers spilled)" for ratio, name, spills in found)
    best = max(found)
    return (
        f"The portable kernel against itself without flags: {told} (cycles modelled, spills static). Best is "
        f"{best[1]}: there the compiler places state, P and Q, and a flag that moves them fights it."
    )
