"""Two record sets side by side, by problem, candidate and lane."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median

from workbench.bench.verdict import judge
from workbench.errors import ParameterError, RecordError
from workbench.parity.recording import noise_of
from workbench.parity.stats import Ratio, independent_ratio, paired_ratio
from workbench.records import Record, read_records

MACHINE_FACTS = ("device", "gpu_arch", "driver", "cpu")
SOFTWARE_FACTS = ("torch", "triton", "rocm", "cuda", "commit", "dirty", "cache", "rounds", "timing")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FIGURES = ("ratio", "low", "high")

Key = tuple[object, str, str]


@dataclass(frozen=True)
class Delta:
    """One problem, candidate and lane that both sets timed."""

    scenario: str
    candidate: str
    lane: str
    time_a: float
    """Median, microseconds."""
    time_b: float
    ratio: Ratio
    """A's time over B's: above 1, B is faster."""
    word: str
    """What B is to A: faster, slower or within noise."""


@dataclass(frozen=True)
class Comparison:
    """What two sets say about each other."""

    title: str
    deltas: tuple[Delta, ...]
    broken: tuple[str, ...]
    """What is right in A and failed in B."""
    unmatched: tuple[str, ...]
    """What was timed in one set alone."""
    warnings: tuple[str, ...]
    """Machines or settings that differ."""
    notes: tuple[str, ...]
    """Software that differs."""

    @property
    def geomean(self) -> float | None:
        """Geometric mean of the ratios."""
        return geometric_mean(delta.ratio.value for delta in self.deltas) if self.deltas else None


def load_record_set(path: str | Path) -> list[Record]:
    """Records of a Parquet file, or of all Parquet files in a folder. RecordError where there are none."""
    path = Path(path)
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    records = [record for file in files for record in read_records(file)]
    if not records:
        raise RecordError(f"{path} holds no records; give a .parquet file of records or a folder of them")
    return records


def compare_sets(a: Sequence[Record], b: Sequence[Record], title: str = "A and B") -> Comparison:
    """Set B beside set A. RecordError where a set holds one candidate twice, or the sets have nothing in common."""
    in_a, in_b = _by_key(a, "A"), _by_key(b, "B")
    common = [key for key in in_a if key in in_b]
    if not common:
        raise RecordError(
            f"the two sets have no problem, candidate and lane in common: A has {_some(in_a)}; B has {_some(in_b)}"
        )
    noise = {key: _noise(a, in_a[key]) + _noise(b, in_b[key]) for key in common}
    deltas = tuple(
        _delta(in_a[key], in_b[key], noise[key]) for key in common if in_a[key].samples and in_b[key].samples
    )
    broken = tuple(
        f"{name_of(in_b[key])}: {in_b[key].status}: {in_b[key].message}"
        for key in common
        if in_a[key].status == "ok" and in_b[key].status != "ok"
    )
    unmatched = tuple(
        f"only in {letter}: {name_of(record)}"
        for letter, own, other in (("A", in_a, in_b), ("B", in_b, in_a))
        for key, record in own.items()
        if key not in other and record.samples
    )
    warnings = tuple(_differences(a, b, MACHINE_FACTS, "the machines differ"))
    warnings += tuple(_differences(a, b, ("cache",), "the timing differs"))
    notes = tuple(_differences(a, b, [fact for fact in SOFTWARE_FACTS if fact != "cache"], "differs"))
    return Comparison(title, deltas, broken, unmatched, warnings, notes)


def name_of(record: Record) -> str:
    """How messages call a record."""
    return f"{record.scenario}, {record.candidate}, lane {record.lane}"


def failing(comparison: Comparison, condition: str) -> list[str]:
    """Deltas for which the condition holds, and everything that broke, as lines.

    A condition compares ratio, low or high (the ends of its interval) with a number: `ratio<0.97`, `high < 1`.
    ParameterError for anything else.
    """
    figure, holds, limit = parse_condition(condition)
    lines = [f"broken: {line}" for line in comparison.broken]
    for delta in comparison.deltas:
        value = delta.ratio.value if figure == "ratio" else getattr(delta.ratio, figure)
        if holds(value, limit):
            lines.append(f"{delta.scenario}, {delta.candidate}, lane {delta.lane}: {figure} {value:.3f} ({condition})")
    return lines


def parse_condition(text: str) -> tuple[str, Callable[[float, float], bool], float]:
    """Figure, operator and limit of a condition."""
    match = re.fullmatch(r"\s*(\w+)\s*(<=|>=|<|>)\s*(\d+(?:\.\d*)?|\.\d+)\s*", text)
    if match is None or match[1] not in _FIGURES:
        raise ParameterError(
            f"{text!r} is no condition; write one of {', '.join(_FIGURES)}, one of {' '.join(_OPERATORS)} and a "
            "number, such as --fail-on 'ratio<0.97'"
        )
    return match[1], _OPERATORS[match[2]], float(match[3])


def _delta(a: Record, b: Record, noise: float) -> Delta:
    together = bool(a.session) and a.session == b.session
    ratio = (paired_ratio if together else independent_ratio)(a.samples, b.samples)
    return Delta(a.scenario, a.candidate, a.lane, median(a.samples), median(b.samples), ratio, judge(ratio, noise))


def _noise(records: Sequence[Record], record: Record) -> float:
    return noise_of([each for each in records if each.session == record.session]) or 0.0


def _by_key(records: Sequence[Record], letter: str) -> dict[Key, Record]:
    found: dict[Key, Record] = {}
    for record in records:
        if record.status == "skipped":
            continue
        key = (record.problem, record.candidate, record.lane)
        if key in found:
            raise RecordError(
                f"set {letter} holds {name_of(record)} twice, so that it is not clear which is meant; give one file, "
                "or a folder in which every candidate meets a problem once"
            )
        found[key] = record
    return found


def _differences(a: Sequence[Record], b: Sequence[Record], facts: Sequence[str], what: str) -> list[str]:
    lines = []
    for fact in facts:
        values = [sorted({record.environment.get(fact, "") for record in side}) for side in (a, b)]
        if values[0] != values[1]:
            shown = [", ".join(value or "not stated" for value in side) for side in values]
            lines.append(f"{what}: {fact} is {shown[0]} in A, {shown[1]} in B")
    return lines


def _some(records: dict[Key, Record]) -> str:
    names = [name_of(record) for record in records.values()]
    return "; ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
