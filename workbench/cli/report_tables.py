"""Two report runs as tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from workbench.report.words import format_duration, format_figure, format_unit

if TYPE_CHECKING:
    from workbench.report.compare import HeadlinePair, RecordPair, RunComparison
    from workbench.report.headlines import Headline
    from workbench.report.outcome import Outcome

_STYLES = {"ok": "green", "failed": "red", "stopped": "yellow"}


def print_comparison(comparison: RunComparison, console: Console) -> None:
    """All tables that have a row; where nothing differs a line says so."""
    console.print(f"A: {comparison.a.path}\nB: {comparison.b.path}", markup=False, soft_wrap=True)
    if comparison.environment:
        console.print(_differences("Environment, where it differs", "fact", comparison.environment))
    else:
        console.print("The environments are the same.")
    if comparison.parameters:
        console.print(_differences("Parameters, where they differ", "parameter", comparison.parameters))
    console.print(_status_table(comparison))
    if comparison.headlines:
        console.print(_headline_table(comparison.headlines))
    for pair in comparison.records:
        _print_records(pair, console)


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _differences(title: str, what: str, rows: Iterable[tuple[str, str, str]]) -> Table:
    table = _table(title, what, "A", "B")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _status_table(comparison: RunComparison) -> Table:
    table = _table("Studies", "study", "A", "B", "time A", "time B", "first failure")
    for name, a, b in comparison.studies:
        failure = next((line for each in (b, a) if each for line in each.failed), "")
        times = [format_duration(each.seconds) if each else "" for each in (a, b)]
        table.add_row(name, _status(a), _status(b), *times, Text(failure, "red"))
    return table


def _status(outcome: Outcome | None) -> Text:
    return Text("not run", "dim") if outcome is None else Text(outcome.status, _STYLES.get(outcome.status, ""))


def _headline_table(pairs: Iterable[HeadlinePair]) -> Table:
    table = _table("Key figures", "study", "A", "B", "B / A", "evidence", "as B says it")
    for pair in pairs:
        said = pair.b or pair.a
        ratio = pair.note if pair.ratio is None else f"{pair.ratio:.3f}"
        evidence = "/".join(dict.fromkeys(each.evidence for each in (pair.a, pair.b) if each))
        figures = (Text(_figure(pair.a)), Text(_figure(pair.b)))
        table.add_row(pair.study, *figures, ratio, evidence, Text(said.sentence if said else ""))
    return table


def _figure(said: Headline | None) -> str:
    if said is None or said.value is None:
        return "–"
    return f"{format_figure(said.value)} {format_unit(said.unit)}".strip()


def _print_records(pair: RecordPair, console: Console) -> None:
    if pair.changes:
        table = _table(f"Records of {pair.study} that differ", "scenario", "candidate", "lane", "A", "B")
        for change in pair.changes:
            table.add_row(*map(Text, (change.scenario, change.candidate, change.lane, change.a, change.b)))
        console.print(table)
    same = pair.common - len(pair.changes)
    if pair.common or not pair.note:
        console.print(f"Records of {pair.study}: {same} of {pair.common} have the same status and error in both.")
    if pair.note:
        console.print(f"Records of {pair.study}: {pair.note}", markup=False)
    if pair.timed is not None:
        from workbench.bench.table import compare_table

        console.print(compare_table(pair.timed))
