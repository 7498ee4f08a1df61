"""The one self-contained HTML file of a report: code folded, images embedded, nothing fetched, no script."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.report.progress import PROGRESS_MIME

_PACKAGE = Path(__file__).parent
# What a browser fetches by itself; a link that a reader may click is not among it.
_FETCHED = re.compile(
    r"""<(?:script|img|iframe|embed|source|video|audio|object)\b[^>]*\b(?:src|data)\s*=\s*["']?\s*(?:https?:)?//[^"'\s>]+"""
    r"""|<link\b[^>]*\bhref\s*=\s*["']?\s*(?:https?:)?//[^"'\s>]+"""
    r"""|@import\s+(?:url\()?\s*["']?(?:https?:)?//[^"')\s]+"""
    r"""|url\(\s*["']?(?:https?:)?//[^"')\s]+""",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ReportHeader:
    """What the HTML file says about the run, around the notebook's own content."""

    name: str
    title: str
    status: str
    started: str
    device: str
    failed: Sequence[str]
    facts: Sequence[tuple[str, str]]
    partial: bool = False
    """Whether the notebook stopped before its end."""
    index: str = ""
    """Link to the index that the page belongs to."""


def write_html(notebook: Path, output: Path, header: ReportHeader) -> None:
    """Convert an executed notebook. The output file must not exist."""
    import nbformat
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(
        template_name="template",
        extra_template_basedirs=[str(_PACKAGE)],
        embed_images=True,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    css = (_PACKAGE / "template" / "report.css").read_text(encoding="utf-8")
    resources = {"report": {**vars(header), "css": css, "progress_mime": PROGRESS_MIME}}
    html, _ = exporter.from_notebook_node(nbformat.read(str(notebook), as_version=4), resources=resources)
    with output.open("x", encoding="utf-8") as file:
        file.write(html)


def external_references(html: str) -> list[str]:
    """What a browser would fetch from a network to show the page; empty for a self-contained file."""
    return [match.group(0)[:200] for match in _FETCHED.finditer(html)]
