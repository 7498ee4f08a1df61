"""Two report runs side by side: what differs around them, what each study came to, and their records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.errors import RecordError, ReportError
from workbench.report.headlines import Headline
from workbench.report.outcome import Outcome
from workbench.report.runs import Run

if TYPE_CHECKING:
    from workbench.bench import Comparison
    from workbench.records import Record


@dataclass(frozen=True)
class HeadlinePair:
    """A key figure of both runs, or of one."""

    study: str
    a: Headline | None
    b: Headline | None
    note: str
    """Why the two have no ratio; empty where they have one."""

    @property
    def ratio(self) -> float | None:
        """B's value over A's; None unless both are the same kind of figure."""
        if self.note or self.a is None or self.b is None or not self.a.value or self.b.value is None:
            return None
        return self.b.value / self.a.value


@dataclass(frozen=True)
class RecordChange:
    """A problem, candidate and lane whose result is another one in B."""

    scenario: str
    candidate: str
    lane: str
    a: str
    b: str


@dataclass(frozen=True)
class RecordPair:
    """The records of a study in both runs."""

    study: str
    common: int
    """Scenarios, candidates and lanes that both hold."""
    changes: tuple[RecordChange, ...]
    """Those whose status or largest error differs."""
    timed: Comparison | None
    """Times side by side, where both have any."""
    note: str = ""
    """Why they, or their times, could not be compared."""


@dataclass(frozen=True)
class RunComparison:
    """Everything that two runs say about each other."""

    a: Run
    b: Run
    environment: tuple[tuple[str, str, str], ...]
    """(fact, in A, in B) where they differ."""
    parameters: tuple[tuple[str, str, str], ...]
    """(study.parameter, in A, in B) where they differ."""
    studies: tuple[tuple[str, Outcome | None, Outcome | None], ...]
    headlines: tuple[HeadlinePair, ...]
    records: tuple[RecordPair, ...]


def compare_runs(a: Run, b: Run) -> RunComparison:
    """Hold two finished runs together. ReportError if they share no study."""
    in_a, in_b = ({outcome.name: outcome for outcome in run.outcomes} for run in (a, b))
    both = [name for name in in_a if name in in_b]
    if not both:
        names = [", ".join(side) or "none" for side in (in_a, in_b)]
        raise ReportError(
            f"the two reports have no study in common: {a.label} has {names[0]}; {b.label} has {names[1]}"
        )
    names = sorted({*in_a, *in_b})
    parameters = [
        (f"{name}.{key}", left, right)
        for name in both
        for key, left, right in _differences(in_a[name].parameters, in_b[name].parameters)
    ]
    pairs = [pair for name in both for pair in _headline_pairs(in_a[name], in_b[name])]
    records = [_compare_records(a, b, in_a[name], in_b[name]) for name in both]
    return RunComparison(
        a,
        b,
        tuple(_differences(a.environment, b.environment)),
        tuple(parameters),
        tuple((name, in_a.get(name), in_b.get(name)) for name in names),
        tuple(pairs),
        tuple(pair for pair in records if pair is not None),
    )


def _differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    keys = list(dict.fromkeys((*a, *b)))
    return [(key, _shown(a, key), _shown(b, key)) for key in keys if _shown(a, key) != _shown(b, key)]


def _shown(facts: Mapping[str, Any], key: str) -> str:
    value = facts.get(key, "")
    return str(value) if value != "" else "not stated"


def _headline_pairs(a: Outcome, b: Outcome) -> list[HeadlinePair]:
    """By the order in which the notebook says them."""
    count = max(len(a.headlines), len(b.headlines))
    padded = [[*side.headlines, *[None] * (count - len(side.headlines))] for side in (a, b)]
    return [HeadlinePair(a.name, left, right, _no_ratio(left, right)) for left, right in zip(*padded, strict=True)]


def _no_ratio(a: Headline | None, b: Headline | None) -> str:
    if a is None or b is None:
        return f"only in {'A' if b is None else 'B'}"
    if a.evidence != b.evidence:
        return f"{a.evidence} and {b.evidence} are not compared"
    if a.value is None or b.value is None:
        return "no figure"
    if a.unit != b.unit:
        return f"units differ: {a.unit} and {b.unit}"
    return "" if a.value else "A is 0"


def _compare_records(run_a: Run, run_b: Run, a: Outcome, b: Outcome) -> RecordPair | None:
    """The records of one study; None if neither run has any."""
    from workbench.bench import load_record_set

    if not a.records and not b.records:
        return None
    if not a.records or not b.records:
        return RecordPair(a.name, 0, (), None, f"only {'A' if a.records else 'B'} has records")
    try:
        left, right = load_record_set(run_a.path / a.records), load_record_set(run_b.path / b.records)
    except (RecordError, OSError) as error:
        return RecordPair(a.name, 0, (), None, str(error))
    known = {_key(record): record for record in right}
    pairs = [(record, known[_key(record)]) for record in left if _key(record) in known]
    changes = [
        RecordChange(first.scenario, first.candidate, first.lane, _result(first), _result(second))
        for first, second in pairs
        if _result(first) != _result(second)
    ]
    timed, note = _times(left, right, f"{a.name}: A {run_a.label}, B {run_b.label}")
    return RecordPair(a.name, len(pairs), tuple(changes), timed, note)


def _times(a: Sequence[Record], b: Sequence[Record], title: str) -> tuple[Comparison | None, str]:
    """The times of both, or why there is no comparison."""
    from workbench.bench import compare_sets

    timed_a, timed_b = ([record for record in side if record.samples] for side in (a, b))
    if not timed_a or not timed_b:
        return None, ""
    try:
        return compare_sets(timed_a, timed_b, title), ""
    except RecordError as error:
        return None, str(error)


def _key(record: Record) -> tuple[object, ...]:
    """Small sizes can make one problem of two scenarios."""
    return record.scenario, record.problem, record.candidate, record.lane


def _result(record: Record) -> str:
    """Status and largest error."""
    error = record.value("max_abs_error")
    return record.status if error is None else f"{record.status}, max error {error:.3g}"
