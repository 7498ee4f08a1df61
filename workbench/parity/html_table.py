"""A plain HTML table that reads well in JupyterLab, in a report and on a narrow screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

_STYLE = """
.wb-wrap{overflow-x:auto;margin:.4rem 0}
.wb-wrap table.wb{border-collapse:collapse;font-size:.82rem;font-variant-numeric:tabular-nums;margin:0}
.wb-wrap table.wb th,.wb-wrap table.wb td{padding:.28rem .6rem;border:0;border-bottom:1px solid #dde2ea;text-align:left;
vertical-align:top;background:none;white-space:nowrap;overflow-wrap:normal}
.wb-wrap table.wb thead th{color:#5b6676;font-weight:600;border-bottom:2px solid #c4ccd8;vertical-align:bottom}
.wb-wrap table.wb tbody tr:hover td{background:#f5f7fa}
.wb-wrap table.wb td.num,.wb-wrap table.wb th.num{text-align:right}
.wb-wrap table.wb td.text{white-space:normal;min-width:13rem;max-width:34rem}
.wb-wrap table.wb td small{color:#5b6676}
.wb-wrap table.wb td summary{cursor:pointer}
.wb-wrap table.wb td.text.long{min-width:26rem;max-width:40rem}
.wb-note{color:#5b6676;font-size:.8rem;margin:.3rem 0 0}
.wb-tag{display:inline-block;padding:0 .5rem;border-radius:.7rem;font-weight:600;color:#fff;background:#5b6676}
.wb-ok{background:#1a7f4b}.wb-bad{background:#b3261e}.wb-warn{background:#9a6700}
.wb-good{color:#1a7f4b;font-weight:600}.wb-poor{color:#b3261e;font-weight:600}
""".strip()


@dataclass(frozen=True)
class Cell:
    """Content of a cell, already HTML, with what a text rendering shows."""

    html: str
    text: str
    kind: str = ""
    """`num` is set flush right, `text` may wrap, `text long` wraps late."""


def plain(value: object, kind: str = "") -> Cell:
    """A cell of escaped text."""
    return Cell(escape(str(value)), str(value), kind)


@dataclass(frozen=True)
class Table:
    """Rows of cells below their headings; shown as HTML in a notebook, as aligned text elsewhere."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    empty: str = field(default="nothing to show")

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<p>{escape(self.empty)}</p>"
        kinds = [cell.kind for cell in self.rows[0]]
        head = "".join(
            f'<th class="{"num" if kind == "num" else ""}">{escape(heading)}</th>'
            for heading, kind in zip(self.headings, kinds, strict=True)
        )
        body = "".join(
            "<tr>" + "".join(f'<td class="{cell.kind}">{cell.html}</td>' for cell in row) + "</tr>" for row in self.rows
        )
        caption = f'<p class="wb-note">{escape(self.caption)}</p>' if self.caption else ""
        return (
            f'<style>{_STYLE}</style><div class="wb-wrap"><table class="wb">'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{caption}"
        )

    def __repr__(self) -> str:
        if not self.rows:
            return self.empty
        lines = [list(self.headings), *([cell.text for cell in row] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = "\n".join(
            "  ".join(value.ljust(width) for value, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )
        return f"{text}\n{self.caption}" if self.caption else text


def tag(text: str, colour: str) -> Cell:
    """A coloured label: `ok`, `bad`, `warn` or nothing."""
    return Cell(f'<span class="wb-tag wb-{colour}">{escape(text)}</span>', text)


def folded(summary: str, lines: Sequence[str], lead: str = "") -> Cell:
    """A summary that opens to the lines behind it; the lead stands below it, open or not."""
    html = escape(summary)
    if lines:
        inner = "<br>".join(escape(line) for line in lines)
        html = f"<details><summary>{html}</summary><small>{inner}</small></details>"
    if lead:
        html += f"<small>{escape(lead)}</small>"
    return Cell(html, summary, "text long")
