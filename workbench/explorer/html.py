"""Answers as HTML: key figures, what the lever did in words, tables. Differences between the sides are marked."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from workbench.explorer.key_figures import key_figures
from workbench.explorer.style import STYLE
from workbench.explorer.tables import AT_ONCE, ROUTING, differs, only_differences, tables, tables_beside
from workbench.inspection.text import format_value
from workbench.levers.words import difference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.explorer.answer import Answer, Stage
    from workbench.explorer.key_figures import KeyFigure
    from workbench.inspection.sections import Row, Section, Value

_LONG = 3
"""Sentences below a table from which on they are folded; reasons of a choice never are."""


def result_html(answers: Sequence[Answer], *, differences_only: bool = False) -> str:
    """Everything about one side or two."""
    parts = [STYLE, '<div class="explorer">', _cards(answers)]
    if len(answers) == 2:
        parts.append(_words(*answers))
        sections = tables_beside(*answers)
        sections = only_differences(sections) if differences_only else sections
    else:
        sections = tables(answers[0]) if answers else ()
    working = any(answer.code == "working" for answer in answers)
    body = "".join(
        section_html(section, sides=len(answers), is_stale=working and section.title not in AT_ONCE)
        for section in sections
    )
    parts.append(f'<div class="tables">{body}</div></div>')
    return "".join(parts)


def status_html(answer: Answer) -> str:
    """How far a side's answer is, and what went wrong."""
    if answer.code == "failed":
        return failure_html(answer.error)
    shown = [_code_status(answer)]
    shown += _stage("LDS conflicts", answer.emulation, answer.conflicts_of)
    shown += _stage("time", answer.timing, answer.time_note)
    return f'{STYLE}<div class="explorer status">{"".join(f"<span>{text}</span>" for text in shown)}</div>'


def failure_html(text: str) -> str:
    """An error in the place of figures."""
    return f'{STYLE}<div class="explorer"><div class="failed">{escape(text)}</div></div>'


def section_html(section: Section, *, sides: int = 1, is_stale: bool = False) -> str:
    """One table; with two sides, rows in which they disagree are marked. Stale is what a compilation will replace."""
    sides = 1 if is_stale else sides
    head = "".join(f"<th>{escape(column)}</th>" for column in ("", *section.columns))
    rows = "".join(_row_html(row, sides=sides) for row in section.rows)
    titled = f'<h4>{escape(section.title)} <span class="evidence">{escape(section.evidence)}</span></h4>'
    mark = ' class="stale"' if is_stale else ""
    return f"<div{mark}>{titled}<table><tr>{head}</tr>{rows}</table>{_lines(section)}</div>"


def _row_html(row: Row, *, sides: int) -> str:
    cells = "".join(f"<td>{escape(format_value(value))}</td>" for value in row.values)
    mark = ' class="differs"' if sides == 2 and differs(row) else ""
    return f"<tr{mark}><td>{escape(row.label)}</td>{cells}</tr>"


def _lines(section: Section) -> str:
    texts = "".join(f"<p>{escape(line)}</p>" for line in section.lines)
    if len(section.lines) < _LONG or section.title == ROUTING:
        return texts
    return f"<details><summary>{len(section.lines)} remarks</summary>{texts}</details>"


def _cards(answers: Sequence[Answer]) -> str:
    sides = [key_figures(answer) for answer in answers]
    cards = []
    for place, figure in enumerate(sides[0] if sides else ()):
        values = [side[place] for side in sides]
        if all(each.value is None and each.stage in ("none", "done") for each in values):
            continue  # not asked for, or nothing that the target's code has
        known = all(each.stage == "done" for each in values)
        differ = known and len(values) == 2 and values[0].value != values[1].value
        shown = "".join(
            f'<div class="value{" stale" if each.stage == "working" else ""}">{_named(name, len(values))}'
            f"{_shown(each.value, each.stage)}</div>"
            for name, each in zip("AB", values, strict=False)
        )
        cards.append(
            f'<div class="card{" differs" if differ else ""}"><div class="label">{escape(figure.title)}</div>{shown}'
            f'<div class="evidence">{_evidence(figure, answers)}</div></div>'
        )
    return f'<div class="cards">{"".join(cards)}</div>'


def _evidence(figure: KeyFigure, answers: Sequence[Answer]) -> str:
    """The kind of evidence, or what it waits for: a figure that is shown meanwhile is of the state before."""
    if any(answer.code == "working" for answer in answers) and figure.evidence != "measured":
        return "compiling …"
    return figure.evidence


def _named(name: str, sides: int) -> str:
    return f'<span class="side">{name}</span> ' if sides == 2 else ""


def _shown(value: Value, stage: Stage) -> str:
    text = "…" if value is None and stage == "working" else format_value(value)
    return f"<small>{escape(text)}</small>" if isinstance(value, str) and not value[:1].isdigit() else escape(text)


def _words(before: Answer, after: Answer) -> str:
    if before.code == after.code == "done" and before.facts and after.facts:
        return f'<p class="words"><b>B over A</b> {escape(difference(before.facts, after.facts))}.</p>'
    return ""


def _code_status(answer: Answer) -> str:
    if answer.code == "working":
        return '<span class="spinner"></span> compiling'
    return f"✓ machine code after {answer.seconds:.1f} s"


def _stage(name: str, stage: Stage, note: str) -> list[str]:
    if stage == "working":
        return [f'<span class="spinner"></span> {name}: {escape(note) or "under way"}']
    if stage == "done":
        return [f"✓ {name}"]
    return [f"{name}: {escape(note)}"] if note else []
