"""Tables and pictures of the claims; every number of ours has its evidence beside it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from workbench.parity.html_table import Cell, Table, plain
from workbench.parity.plots import Picture
from workbench.studies.claims import SECTIONS, VERDICTS, counted, summary
from workbench.studies.frames import BLUE, GREEN, GREY, ORANGE, RED, VIOLET, frame_table, panels, tidy

if TYPE_CHECKING:
    import pandas as pd

COLOURS = {"agrees": GREEN, "disagrees": RED, "only hardware can tell": GREY, "not computed": ORANGE}
MARKS = {"static": ("o", BLUE), "modelled": ("s", VIOLET), "emulated": ("^", GREEN), "published": ("D", ORANGE)}
_TAGS = {"agrees": "wb-ok", "disagrees": "wb-bad", "only hardware can tell": "", "not computed": "wb-warn"}
_TITLE_CHARACTERS = 62


def claim_table(frame: pd.DataFrame, verdicts: Sequence[str] = VERDICTS) -> Table:
    """A line per claim of those verdicts: section, claim, both figures, evidence, tolerance, verdict, why."""
    rows = []
    for line in frame[frame["verdict"].isin(list(verdicts))].to_dict("records"):
        unit = "" if line["unit"] in ("1", "yes = 1") else line["unit"] if line["unit"] in "x%" else f" {line['unit']}"
        ours = "–" if line["ours"] != line["ours"] or line["ours"] is None else f"{_number(line['ours'])}{unit}"
        tolerance = "" if line["tolerance"] == "none" else line["tolerance"]
        tag = f'<span class="wb-tag {_TAGS[line["verdict"]]}">{line["verdict"]}</span>'
        kind = line["evidence"] if line["evidence"] != "none" else "no figure of ours"
        why = f"{line['why']} Found: {line['found'].removesuffix('.')}." if line["found"] else line["why"]
        rows.append(
            [
                plain(f"§{line['section']}"),
                plain(line["claim"], "text"),
                Cell(f"{_number(line['claimed'])}{escape(unit)}<br><small>{escape(line['hardware'])}</small>",
                     f"{_number(line['claimed'])}{unit} ({line['hardware']})"),
                Cell(f"{escape(ours)}<br><small>{kind}</small>", f"{ours} ({kind})"),
                Cell(f"{tag}<br><small>{tolerance}</small>", f"{line['verdict']} ({tolerance})"),
                plain(why, "text long"),
            ]
        )  # fmt: skip
    headings = ["§", "claim", "published", "ours", "verdict", "why"]
    return Table(
        headings,
        rows,
        "Below a figure: its hardware, or its evidence. Below a verdict: how far ours may lie from the claim.",
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def function_table(frame: pd.DataFrame) -> Table:
    """The function of workbench.studies behind each claim, and the kind of figure that it gives."""
    known = frame[frame["function"] != ""]
    return frame_table(known, {"section": "§", "key": "claim", "function": "function", "evidence": "evidence"})


def verdict_picture(frame: pd.DataFrame) -> Picture:
    """Claims by section and verdict, and by evidence and verdict."""
    figure, grid = panels(1, 2, 3.6, width_ratios=[3, 1.3])
    by_section, by_evidence = grid[0]
    _bars(by_section, frame, "section", SECTIONS, "§")
    kinds = [kind for kind in (*MARKS, "none") if (frame["evidence"] == kind).any()]
    _bars(by_evidence, frame, "evidence", kinds, "")
    tidy(by_section, xlabel="section of the specification", ylabel="claims")
    tidy(by_evidence, xlabel="evidence of ours")
    by_section.legend(fontsize=7, frameon=False, loc="upper right")
    by_evidence.tick_params("x", rotation=25)
    figure.suptitle(summary(frame), fontsize=10)
    return Picture(figure, f"Claims by section and verdict: {summary(frame)}")


def _bars(axes: object, frame: pd.DataFrame, column: str, values: Sequence[str], sign: str) -> None:
    bottoms = [0] * len(values)
    for verdict in counted(list(frame["verdict"])):
        chosen = frame[frame["verdict"] == verdict]
        heights = [int((chosen[column] == value).sum()) for value in values]
        axes.bar(  # type: ignore[attr-defined]
            range(len(values)), heights, bottom=bottoms, color=COLOURS[verdict], label=verdict, width=0.75
        )
        bottoms = [low + high for low, high in zip(bottoms, heights, strict=True)]
    axes.set_xticks(range(len(values)), [f"{sign}{value}" for value in values])  # type: ignore[attr-defined]


def ratio_picture(frame: pd.DataFrame) -> Picture:
    """Ours over published, log axis, for claims where both are positive and a tolerance is set both ways."""
    shown = frame[
        (frame["ours"] > 0) & (frame["claimed"] > 0) & ~frame["tolerance"].isin(["none", "at most", "at least"])
    ]
    shown = shown[shown["unit"] != "yes = 1"]
    ratios = shown["ours"] / shown["claimed"]
    apart = shown[(ratios - 1).abs() > 1e-9]
    figure, grid = panels(1, 1, 0.9 + 0.24 * len(apart))
    axes = grid[0][0]
    for place, line in enumerate(apart.to_dict("records")):
        marker, colour = MARKS[line["evidence"]]
        filled = colour if line["verdict"] == "agrees" else "white"
        axes.plot([1, line["ours"] / line["claimed"]], [place, place], color="#c4ccd8", linewidth=1.2, zorder=1)
        axes.plot(line["ours"] / line["claimed"], place, marker, color=colour, markerfacecolor=filled, markersize=6)
    for kind, (marker, colour) in MARKS.items():
        if (apart["evidence"] == kind).any():
            axes.plot([], [], marker, color=colour, label=kind, markersize=5)
    axes.plot([], [], "o", color=GREY, markerfacecolor="white", label="disagrees (open)", markersize=5)
    names = [f"§{section} {_short(claim)}" for section, claim in zip(apart["section"], apart["claim"], strict=True)]
    axes.set_yticks(range(len(apart)), names)
    axes.invert_yaxis()
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}x")
    axes.axvline(1, color="#22272e", linewidth=0.8)
    axes.legend(fontsize=7, frameon=False, loc="best")
    equal = len(shown) - len(apart)
    tidy(axes, xlabel=f"ours over published; {equal} more claims lie at exactly 1", grid="x")
    return Picture(figure, f"Ours over published for {len(apart)} claims; {equal} more are equal")


def _short(text: str) -> str:
    return text if len(text) <= _TITLE_CHARACTERS else f"{text[: _TITLE_CHARACTERS - 1]}…"


def conclusion(frame: pd.DataFrame) -> str:
    """What follows, as Markdown: the disagreements, and what a run on an MI355X would have to settle."""
    apart = frame[frame["verdict"] == "disagrees"]
    lines = [f"- §{line['section']}: {line['claim']} {line['why']}" for line in apart.to_dict("records")]
    waiting = frame[frame["verdict"] == "only hardware can tell"]
    about = int((waiting["evidence"] != "none").sum())
    return "\n".join(
        [
            f"**{len(apart)} disagreements.**",
            "",
            *lines,
            "",
            f"**For hardware.** {len(waiting)} claims are about times or about another kernel on an MI355X. For "
            f"{about} of them a figure of ours bears on the claim; it is no time, and no speed-up follows from it. "
            "`workbench bench` and `workbench tune` measure ours there.",
        ]
    )
