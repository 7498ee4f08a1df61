"""Tables of `bench` and `compare`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from workbench.bench.compare import name_of
from workbench.bench.lineup import OWN
from workbench.bench.verdict import verdicts
from workbench.parity.flops import is_decode
from workbench.parity.recording import noise_of
from workbench.parity.stats import Ratio
from workbench.records import Record

if TYPE_CHECKING:
    from workbench.bench.compare import Comparison
    from workbench.bench.verdict import Verdict

_STYLES = {"faster": "green", "slower": "red", "within noise": "", "reference": "dim"}


def bench_tables(records: Sequence[Record]) -> Iterator[Table]:
    """A table of what was timed together: median, rate, paired ratio to the first candidate, verdict."""
    for _, group in groupby(records, key=lambda record: record.session):
        session = list(group)
        noise = noise_of(session)
        title = session[0].scenario + ("" if noise is None else f", A/A noise {100 * noise:.2f} %")
        table = _table(title, "median us", "rate")
        for verdict in verdicts(session):
            table.add_row(*_row(verdict))
        yield table


def bench_messages(records: Sequence[Record]) -> list[str]:
    """Why what has no time has none, a line each."""
    return [
        f"{record.status.replace('_', ' ')}: {name_of(record)}: {record.message}"
        for record in records
        if record.message
    ]


def _table(title: str, *figures: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("candidate", overflow="fold", min_width=14)
    table.add_column("lane", no_wrap=True)
    for heading in (*figures, "ratio [95 %]"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict")
    return table


BENCH_CAPTION = (
    "Ratio: the first candidate's time over this one's, paired by round; above 1 this one is faster. A/A noise: how "
    "far the interval of the first candidate's ratio to itself reaches from 1; within it there is no verdict."
)


def bench_title(records: Sequence[Record]) -> str:
    """On what the records were measured, and how."""
    timed = next((record for record in records if record.samples), None)
    if timed is None:
        return "Nothing was timed"
    facts = timed.environment
    return (
        f"Measured on {facts.get('device')}: {facts.get('rounds')} interleaved rounds, {facts.get('cache')} caches, "
        f"Triton {facts.get('triton')}"
    )


def _row(verdict: Verdict) -> tuple[str | Text, ...]:
    record = verdict.record
    lane = record.lane if record.path in (None, record.lane) else f"{record.lane} ({record.path})"
    time = "–" if verdict.time is None else f"{verdict.time:.2f}"
    word = Text(verdict.word.partition(":")[0], _STYLES.get(verdict.word, "yellow"))
    return candidate(record.candidate), lane, time, rate(record), ratio_text(verdict.ratio), word


def candidate(name: str) -> Text:
    """A candidate's name as it fits a narrow column."""
    return Text(name.removeprefix(f"{OWN}:").replace(",", ", "))


def rate(record: Record) -> str:
    """TB/s of a decode, TFLOP/s of anything else."""
    name, unit = ("tbps", "TB/s") if is_decode(record.problem) else ("tflops", "TFLOP/s")
    value = record.value(name)
    return "–" if value is None else f"{value:.3g} {unit}"


def ratio_text(ratio: Ratio | None) -> str:
    """A ratio and its interval."""
    return "–" if ratio is None else f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


_COMPARE_CAPTION = (
    "Ratio: A's time over B's; above 1 B is faster. The interval is bootstrapped over the rounds of both; unless they "
    "are of one session, a change of clock between the two is part of the ratio."
)


def compare_table(comparison: Comparison) -> Group:
    """A table per scenario, with every candidate and lane that both sets timed, between title and caption."""
    tables = []
    for scenario, deltas in groupby(comparison.deltas, key=lambda delta: delta.scenario):
        table = _table(scenario, "A us", "B us")
        for delta in deltas:
            times = (f"{delta.time_a:.2f}", f"{delta.time_b:.2f}")
            word = Text(delta.word, _STYLES[delta.word])
            table.add_row(candidate(delta.candidate), delta.lane, *times, ratio_text(delta.ratio), word)
        tables.append(table)
    return Group(Text(comparison.title, "bold"), *tables, Text(_COMPARE_CAPTION, "dim"))
