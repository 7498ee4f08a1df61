"""What the times of a study say, in words: of this run, or of a record that came with the workbench."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.records import Record
    from workbench.studies.lever_study import LeverStudy, Outcome


def timed_bullet(*studies: LeverStudy, kernel: str = "") -> str:
    """All times over that of the first timed variant, as a bullet of a conclusion; empty where fewer than two were.

    kernel: what to call the kernel. Ratios of one session come with their 95 % interval; variants of different problems
    have sessions of their own.
    """
    told = [text for study in studies if (text := _times_of(study))]
    name = f", the {kernel}" if kernel else ""
    return "\n".join(f"- Timed{name}: {text}" for text in dict.fromkeys(told))


def _times_of(study: LeverStudy) -> str:
    timed = [each for each in study.outcomes.values() if each.record is not None and each.record.samples]
    if len(timed) < 2:
        return ""
    base, *others = timed
    line = study.find(base.variant.name, "time")
    shown = f"`{base.variant.name}` takes {_microseconds(_time(base.record))}; times as long: {_over(base, others)}"
    return f"{shown} (measured, {line.of if line else 'a GPU'}).{_apart(timed)}"


def _over(base: Outcome, others: Iterable[Outcome]) -> str:
    return ", ".join(f"`{each.variant.name}` {_ratio(base, each)}" for each in others)


def _ratio(base: Outcome, other: Outcome) -> str:
    """Time over that of the base, with the interval of paired rounds where one session took both."""
    metric = f"speedup_over_{base.variant.name}/{base.variant.lane}"
    record = other.record
    if record is None:
        return ""
    bounds = [record.value(metric + end) for end in ("_high", "_low")]
    speedup = record.value(metric)
    if speedup is None or None in bounds:
        return f"{_time(record) / _time(base.record):.3g}"
    low, high = (1 / bound for bound in bounds if bound)
    return f"{1 / speedup:.3g} [{low:.3g}, {high:.3g}]"


def _apart(timed: Sequence[Outcome]) -> str:
    sessions = {each.record.session for each in timed if each.record is not None}
    return "" if len(sessions) < 2 else " Not all in one session: small ratios say nothing."


def _time(record: Record | None) -> float:
    """Median, us."""
    return median(record.samples) if record is not None else float("nan")


def _microseconds(value: float) -> str:
    return f"{value:,.4g} us" if value < 1e4 else f"{value / 1e3:,.4g} ms"
