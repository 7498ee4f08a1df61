"""Verdicts on records timed together: who is faster than the first candidate, by more than the noise of the clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from workbench.parity.recording import noise_of
from workbench.parity.stats import Ratio
from workbench.records import Record

Word = Literal["faster", "slower", "within noise"]


@dataclass(frozen=True)
class Verdict:
    """One record against the first of those that were timed with it."""

    record: Record
    ratio: Ratio | None
    """The first candidate's time over this one's, so that above 1 this one is faster. None where one was not timed."""
    noise: float | None
    word: str
    """faster, slower, within noise; `reference` for the first candidate; else why there is no verdict."""

    @property
    def time(self) -> float | None:
        """Median, microseconds."""
        return median(self.record.samples) if self.record.samples else None


def judge(ratio: Ratio, noise: float) -> Word:
    """A verdict only where the whole interval lies further from 1 than a repetition of the same call does."""
    if ratio.low > 1.0 + noise:
        return "faster"
    if ratio.high < 1.0 - noise:
        return "slower"
    return "within noise"


def verdicts(records: Sequence[Record]) -> list[Verdict]:
    """Verdicts on the records of one session, in their order; the first record is the reference."""
    if not records:
        return []
    first, noise = records[0], noise_of(records)
    return [_verdict(record, first, noise) for record in records]


def _verdict(record: Record, first: Record, noise: float | None) -> Verdict:
    if record.status != "ok":
        return Verdict(record, None, noise, f"{record.status.replace('_', ' ')}: {record.message}")
    if not first.samples:
        return Verdict(record, None, noise, f"no verdict: the first candidate is {first.status.replace('_', ' ')}")
    if record is first:
        return Verdict(record, Ratio(1.0, 1.0, 1.0), noise, "reference")
    ratio = _ratio(record, f"speedup_over_{first.candidate}/{first.lane}")
    if ratio is None or noise is None:
        return Verdict(record, ratio, noise, "no verdict: not timed")
    return Verdict(record, ratio, noise, judge(ratio, noise))


def _ratio(record: Record, name: str) -> Ratio | None:
    value, low, high = (record.value(name + end) for end in ("", "_low", "_high"))
    return None if value is None or low is None or high is None else Ratio(value, low, high)
