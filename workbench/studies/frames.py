"""How studies show data frames: as tables with their evidence, and in figures of one look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from workbench.parity.html_table import Cell, Table, plain

if TYPE_CHECKING:
    import pandas as pd

    from workbench.studies.lever_study import LeverStudy

BLUE, ORANGE, GREEN, RED, VIOLET, TEAL, GREY = (
    "#1f5fbf", "#c2571a", "#1a7f4b", "#b3261e", "#8a3ffc", "#0f7c8a", "#5b6676",
)  # fmt: skip
COLOURS = (BLUE, ORANGE, GREEN, VIOLET, TEAL, RED, GREY)
MARKERS = "os^Dv<>"


def frame_table(
    frame: pd.DataFrame,
    columns: Mapping[str, str],
    caption: str = "",
    formats: Mapping[str, str] | None = None,
    empty: str = "nothing to show",
) -> Table:
    """The columns of a frame under other headings, numbers flush right.

    formats: column -> format specification, such as `.1%` or `,.0f`; `text` lets a column wrap. A missing value is
    shown as a dash.
    """
    formats = formats or {}
    kinds = {name: _kind(frame[name], formats.get(name, "")) for name in columns}
    rows = [
        [_cell(row[place], kinds[name], formats.get(name, "")) for place, name in enumerate(columns)]
        for row in frame[list(columns)].itertuples(index=False, name=None)
    ]
    return Table(list(columns.values()), rows, caption, empty)


def _kind(column: pd.Series[Any], form: str) -> str:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if form == "text":
        return "text"
    numbers = [isinstance(value, int | float) and not isinstance(value, bool) for value in column.dropna()]
    is_number = (is_numeric_dtype(column) and not is_bool_dtype(column)) or (numbers and all(numbers))
    return "num" if is_number else ""


def _cell(value: Any, kind: str, form: str) -> Cell:
    import pandas as pd

    if value is None or value is pd.NA or (isinstance(value, float) and value != value and form != "nan"):
        return plain("–", kind)
    if isinstance(value, bool):
        return plain("yes" if value else "no", kind)
    if isinstance(value, str) or form in ("", "text", "nan"):
        return plain(value, kind)
    return plain(format(value, form), kind)


def panels(rows: int, columns: int, height: float, **options: Any) -> tuple[Any, Any]:
    """A figure of the reports' width with a grid of axes, [rows, columns]."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def tidy(axes: Any, *, xlabel: str = "", ylabel: str = "", title: str = "", grid: str = "y") -> None:
    """Labels in the reports' sizes, a faint grid behind the marks, no box."""
    axes.set_xlabel(xlabel, fontsize=8)
    axes.set_ylabel(ylabel, fontsize=8)
    if title:
        axes.set_title(title, fontsize=9, loc="left")
    axes.tick_params(labelsize=7)
    if grid:
        axes.grid(axis=grid, color="#e6eaf0")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def variant_table(study: LeverStudy, figures: Mapping[str, str], caption: str = "") -> Table:
    """A line per variant of a lever study, a column per figure (name -> heading), with the evidence of each column.

    A variant without a kernel has its reason in the last column.
    """
    from workbench.studies.lever_views import spell_number

    kinds = {
        name: next((found.evidence for each in study.outcomes if (found := study.find(each, name)) is not None), "")
        for name in figures
    }
    rows = []
    for variant, outcome in study.outcomes.items():
        cells = [plain(variant)]
        for name in figures:
            found = study.find(variant, name)
            value = None if found is None else found.value
            text = found.text if found is not None and value is None and name != "time" else "–"
            cells.append(plain(text if value is None else spell_number(value), "num"))
        rows.append([*cells, plain(outcome.message, "text")])
    headings = [f"{heading} ({kinds[name]})" if kinds[name] else heading for name, heading in figures.items()]
    told = any(outcome.message for outcome in study.outcomes.values())
    shown = rows if told else [row[:-1] for row in rows]
    return Table(["variant", *headings, *(["why not"] if told else [])], shown, caption)
