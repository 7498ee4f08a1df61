"""Tables and listings as HTML that needs nothing but itself."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from workbench.errors import ReportError
from workbench.inspection.listing import listing
from workbench.inspection.text import format_value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from workbench.inspection.inspection import Inspection
    from workbench.inspection.listing import Line
    from workbench.inspection.sections import Section

_STYLE = """
.inspection { font-family: system-ui, sans-serif; font-size: 14px; }
.inspection table { border-collapse: collapse; margin: 0.3em 0; }
.inspection th, .inspection td { padding: 1px 8px; text-align: right; border-bottom: 1px solid #8884; }
.inspection th:first-child, .inspection td:first-child { text-align: left; white-space: pre; }
.inspection h3 { margin: 1em 0 0.2em; }
.inspection .evidence { font-weight: normal; font-size: 12px; opacity: 0.7; }
.inspection .note { color: #b60; margin: 0; }
.inspection .line { margin: 0; opacity: 0.85; }
.inspection .tables { display: flex; flex-wrap: wrap; gap: 0 3em; align-items: flex-start; }
.inspection .listing td { text-align: left; font-family: ui-monospace, monospace; font-size: 12px; white-space: pre; }
.inspection .listing .hot { background: #fa02; }
.inspection .listing .mfma { font-weight: bold; color: #080; }
.inspection .listing .wait, .inspection .listing .hint { opacity: 0.55; }
.inspection .source { color: #06c; }
"""


def sections_fragment(title: str, sections: Sequence[Section], notes: Sequence[str]) -> str:
    """Tables as one element, for a notebook's output."""
    body = "".join(_section(section) for section in sections)
    remarks = "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
    return (
        f'<div class="inspection"><style>{_STYLE}</style><h2>{escape(title)}</h2>{remarks}'
        f'<div class="tables">{body}</div></div>'
    )


def inspection_page(inspection: Inspection, *, assembly: bool = True) -> str:
    """A whole page: tables, then the assembly with its source lines, folded."""
    return page(inspection.title, inspection_body(inspection, assembly=assembly))


def inspection_body(inspection: Inspection, *, assembly: bool = True) -> str:
    """What stands on that page."""
    body = sections_fragment(inspection.title, inspection.sections(), inspection.notes)
    if assembly and inspection.flow:
        body += _fold("Hot loop: assembly and source", listing(inspection, hot_only=True), is_open=True)
        body += _fold("Kernel: assembly and source", listing(inspection), is_open=False)
    return body


def page(title: str, body: str) -> str:
    """Wrap a body into a page of its own."""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title></head>'
        f"<body>{body}</body></html>\n"
    )


def write_page(text: str, path: Path) -> str:
    """Write a page to a new file and hand it back; ReportError if the file exists or cannot be written."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ReportError(f"{path} exists; name a file that does not, or remove it first") from None
    except OSError as error:
        raise ReportError(f"cannot write {path}: {error.strerror}; name a file in a directory that exists") from None
    return text


def _section(section: Section) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in ("", *section.columns))
    rows = "".join(
        f"<tr><td>{escape(row.label)}</td>"
        + "".join(f"<td>{escape(format_value(value))}</td>" for value in row.values)
        + "</tr>"
        for row in section.rows
    )
    lines = "".join(f'<p class="line">{escape(line)}</p>' for line in section.lines)
    return (
        f'<div><h3>{escape(section.title)} <span class="evidence">{escape(section.evidence)}</span></h3>'
        f"<table><tr>{head}</tr>{rows}</table>{lines}</div>"
    )


def _fold(title: str, lines: Sequence[Line], *, is_open: bool) -> str:
    head = "<tr><th>line</th><th>loop</th><th>instruction</th><th>class</th><th>source</th></tr>"
    body = "".join(_listing_row(line) for line in lines)
    state = " open" if is_open else ""
    return (
        f'<details class="inspection"{state}><summary>{escape(title)} ({len(lines)} instructions)</summary>'
        f'<table class="listing">{head}{body}</table></details>'
    )


def _listing_row(line: Line) -> str:
    label = f"<tr><td></td><td></td><td>{escape(line.label)}:</td><td></td><td></td></tr>" if line.label else ""
    marks = " ".join(filter(None, ("hot" if line.loop == "hot" else "", line.family.replace(" ", "-"))))
    source = f"{line.place}  {line.source_text}".rstrip()
    return (
        f'{label}<tr class="{marks}"><td>{line.number}</td><td>{escape(line.loop)}</td><td>  {escape(line.text)}</td>'
        f'<td>{escape(line.class_name)}</td><td class="source">{escape(source)}</td></tr>'
    )
