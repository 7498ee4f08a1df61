"""Tables in a terminal, through rich."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from workbench.inspection.listing import Line
    from workbench.inspection.sections import Section, Value


def format_value(value: Value) -> str:
    """A number with its sign as it is, a fraction in per cent, a dash for nothing."""
    if value is None:
        return "-"
    return f"{value:.1%}" if isinstance(value, float) else str(value)


def render_sections(title: str, sections: Sequence[Section], notes: Sequence[str]) -> RenderableType:
    """Every table under its title and evidence kind, then the notes."""
    parts: list[RenderableType] = [Text(title, style="bold")]
    parts += [Text(f"note: {note}", style="yellow") for note in notes]
    for section in sections:
        table = Table(title=f"{section.title} ({section.evidence})", title_justify="left", title_style="bold cyan")
        table.add_column("")
        for column in section.columns:
            table.add_column(column, justify="right")
        for row in section.rows:
            style = "bold" if "hot" in row.values else None
            table.add_row(Text(row.label), *(Text(format_value(value)) for value in row.values), style=style)
        parts += [Text(), table]
        parts += [Padding(Text(line), (0, 0, 0, 2)) for line in section.lines]
    return Group(*parts)


def render_listing(lines: Iterable[Line]) -> RenderableType:
    """Assembly on the left, the source line it came from on the right."""
    table = Table(box=None, pad_edge=False)
    for title, justify in (("line", "right"), ("loop", "left"), ("instruction", "left"), ("class", "left")):
        table.add_column(title, justify=justify, no_wrap=title != "instruction")  # type: ignore[arg-type]
    table.add_column("source", overflow="fold")
    for line in lines:
        if line.label:
            table.add_row("", "", Text(f"{line.label}:", style="bold"), "", "")
        style = "green" if line.family == "mfma" else "dim" if line.family in ("wait", "hint") else ""
        source = Text(f"{line.place} {line.source_text}".rstrip(), style="cyan")
        table.add_row(str(line.number), line.loop, Text(f"  {line.text}", style=style), line.class_name, source)
    return table
