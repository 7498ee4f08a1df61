"""Two inspections side by side: every comparable figure of both, and the difference."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workbench.inspection.sections import Row, Section, Value

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.inspection.inspection import Inspection


@dataclass(frozen=True)
class Comparison:
    """`after` beside `before`; differences are after minus before. Targets may differ and are named."""

    before: Inspection
    after: Inspection

    @property
    def title(self) -> str:
        return f"{self.before.title}  |  {self.after.title}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of both sides, and a warning when the targets differ."""
        named = [f"{side}: {note}" for side, inspection in self._sides() for note in inspection.notes]
        targets = self.before.kernel.target, self.after.kernel.target
        if targets[0] != targets[1]:
            named.insert(0, f"the targets differ: {targets[0]} and {targets[1]}")
        return tuple(named)

    def sections(self) -> tuple[Section, ...]:
        """Tables in which every column of one inspection became three: A, B, and B - A."""
        ours = {section.title: section for section in self.before.sections() if section.comparable}
        theirs = {section.title: section for section in self.after.sections() if section.comparable}
        titles = dict.fromkeys([*ours, *theirs])
        return tuple(beside(ours.get(title), theirs.get(title)) for title in titles)

    def __rich__(self) -> object:
        from workbench.inspection.text import render_sections

        return render_sections(self._legend(), self.sections(), self.notes)

    def _repr_html_(self) -> str:
        from workbench.inspection.html import sections_fragment

        return sections_fragment(self._legend(), self.sections(), self.notes)

    def to_html(self, path: Path | None = None) -> str:
        """A self-contained page, written to `path` if given; ReportError if that file exists."""
        from workbench.inspection.html import page, write_page

        text = page(self.title, self._repr_html_())
        return write_page(text, path) if path else text

    def _legend(self) -> str:
        return f"A: {self.before.title}\nB: {self.after.title}"

    def _sides(self) -> tuple[tuple[str, Inspection], ...]:
        return ("A", self.before), ("B", self.after)


def beside(before: Section | None, after: Section | None) -> Section:
    """One table of two sides, either of which may lack it: A, B and B - A for every column."""
    known = before or after
    if known is None:
        raise ValueError("a table of neither side")
    columns = tuple(f"{column} {side}".strip() for column in known.columns for side in ("A", "B", "B - A"))
    ours = {row.label: row for row in before.rows} if before else {}
    theirs = {row.label: row for row in after.rows} if after else {}
    nothing = Row("", (known.missing,) * len(known.columns))
    rows = tuple(
        _row_beside(label, ours.get(label, nothing), theirs.get(label, nothing)) for label in _merged(ours, theirs)
    )
    return replace(known, columns=columns, rows=rows, lines=_lines_beside(before, after))


def _merged(ours: dict[str, Row], theirs: dict[str, Row]) -> list[str]:
    """Labels of both in the order of the first, those of the second alone behind their predecessor there."""
    merged = list(ours)
    previous: str | None = None
    for label in theirs:
        if label not in ours:
            merged.insert(merged.index(previous) + 1 if previous is not None else 0, label)
        previous = label
    return merged


def _row_beside(label: str, before: Row, after: Row) -> Row:
    values: list[Value] = []
    for ours, theirs in zip(before.values, after.values, strict=True):
        values += [ours, theirs, _difference(ours, theirs)]
    return Row(label, tuple(values))


def _difference(before: Value, after: Value) -> Value:
    if isinstance(before, float) and isinstance(after, float):
        return f"{100 * (after - before):+.1f} pp" if before != after else ""
    if isinstance(before, int) and isinstance(after, int):
        return f"{after - before:+d}" if before != after else ""
    return "" if None in (before, after) or before == after else "differs"


def _lines_beside(before: Section | None, after: Section | None) -> tuple[str, ...]:
    ours, theirs = (section.lines if section else () for section in (before, after))
    shared = [line for line in ours if line in theirs]
    return (
        *(f"A: {line}" for line in ours if line not in shared),
        *(f"B: {line}" for line in theirs if line not in shared),
        *shared,
    )
