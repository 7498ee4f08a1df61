"""Tables of `bench` and `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from workbench.bench.lineup import OWN
from workbench.bench.verdict import verdicts
from workbench.parity.flops import is_decode
from workbench.parity.stats import Ratio
from workbench.records import Record

if TYPE_CHECKING:
    from workbench.bench.compare import Comparison
    from workbench.bench.verdict import Verdict

_STYLES = {"faster": "green", "slower": "red", "within noise": "", "reference": "dim"}


def bench_table(records: Sequence[Record]) -> Table:
    """One row per record, a block per session: median, rate, paired ratio to the session's first candidate, verdict."""
    table = Table(title=_title(records), caption=_CAPTION, caption_justify="left")
    table.add_column("scenario", overflow="fold")
    table.add_column("candidate", overflow="fold")
    table.add_column("lane")
    table.add_column("median us", justify="right")
    table.add_column("rate", justify="right")
    table.add_column("ratio [95 %]", justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for _, session in groupby(records, key=lambda record: record.session):
        for index, verdict in enumerate(verdicts(list(session))):
            table.add_row(*_row(verdict, first=index == 0))
        table.add_section()
    return table


_CAPTION = (
    "Ratio: the first candidate's time over this one's, paired by round; above 1 this one is faster. A/A: how far the "
    "interval of the first candidate's ratio to itself reaches from 1; inside it there is no verdict."
)


def _title(records: Sequence[Record]) -> str:
    timed = next((record for record in records if record.samples), None)
    if timed is None:
        return "Nothing was timed"
    facts = timed.environment
    return (
        f"Measured on {facts.get('device')}: {facts.get('rounds')} interleaved rounds, {facts.get('cache')} caches, "
        f"Triton {facts.get('triton')}"
    )


def _row(verdict: Verdict, *, first: bool) -> tuple[str | Text, ...]:
    record = verdict.record
    name = record.candidate.removeprefix(f"{OWN}:")
    lane = record.lane if record.path in (None, record.lane) else f"{record.lane} ({record.path})"
    word = verdict.word
    if word == "reference" and verdict.noise is not None:
        word = f"reference, A/A {100 * verdict.noise:.2f} %"
    time = "–" if verdict.time is None else f"{verdict.time:.2f}"
    style = _STYLES.get(verdict.word, "yellow")
    return (
        record.scenario if first else "",
        Text(name),
        lane,
        time,
        rate(record),
        ratio_text(verdict.ratio),
        Text(word, style),
    )


def rate(record: Record) -> str:
    """TB/s of a decode, TFLOP/s of anything else."""
    name, unit = ("tbps", "TB/s") if is_decode(record.problem) else ("tflops", "TFLOP/s")
    value = record.value(name)
    return "–" if value is None else f"{value:.3g} {unit}"


def ratio_text(ratio: Ratio | None) -> str:
    """A ratio and its interval."""
    return "–" if ratio is None else f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


def compare_table(comparison: Comparison) -> Table:
    """One row per problem, candidate and lane that both sets timed."""
    caption = (
        "Ratio: A's time over B's; above 1 B is faster. The interval is bootstrapped over the rounds of both, which "
        "were not taken side by side, so a change of clock is part of it."
    )
    table = Table(title=comparison.title, caption=caption, caption_justify="left")
    table.add_column("scenario", overflow="fold")
    table.add_column("candidate", overflow="fold")
    table.add_column("lane")
    table.add_column("A us", justify="right")
    table.add_column("B us", justify="right")
    table.add_column("ratio [95 %]", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for delta in comparison.deltas:
        table.add_row(
            delta.scenario,
            Text(delta.candidate.removeprefix(f"{OWN}:")),
            delta.lane,
            f"{delta.time_a:.2f}",
            f"{delta.time_b:.2f}",
            ratio_text(delta.ratio),
            Text(delta.word, _STYLES[delta.word]),
        )
    return table
