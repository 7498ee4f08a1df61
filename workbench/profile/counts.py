"""Counters of one kernel by pass and launch, and the choice of the passes that a formula takes them from."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.profile.formula import DURATION

if TYPE_CHECKING:
    import pandas as pd

    from workbench.profile.definitions import Definitions

Place = tuple[str, str]
"""(source, pass)."""
Column = Mapping[int, float]
"""Launch -> value."""
_INSTANCE = re.compile(r"(.+)\[(\d+)\]$")


@dataclass
class Counts:
    """What was counted of one kernel; instances (`X[0]`, `X[1]`, ..., or repeated rows) are summed as `X[]` or `X`."""

    launches: frozenset[int]
    places: dict[Place, dict[str, dict[int, float]]]
    notes: list[str] = field(default_factory=list)

    def find(self, counter: str) -> list[tuple[Place, str]]:
        """Where a counter was collected, and under which of its names, in the order of the passes.

        `X_sum` may also be counted by instance, or be called `X` where the tool sums by itself.
        """
        names = [counter]
        if counter.endswith("_sum"):
            names += [f"{counter.removesuffix('_sum')}[]", counter.removesuffix("_sum")]
        for name in names:
            found = [(place, name) for place, columns in self.places.items() if columns.get(name)]
            if found:
                return found
        return []

    def choose(self, counters: Sequence[str], *, one_pass: bool) -> dict[str, tuple[Place, Column]] | None:
        """The counters' columns: of one pass if there is one, else of one file, else the first that there is.

        A merged file gives the first column of a counter, also where a later pass of it has all of them: that is the
        one that its tool uses. None with `one_pass` where no pass has all.
        """
        where = {counter: self.find(counter) for counter in counters}
        places = [place for place, _ in where[counters[0]]] if counters else []
        sources = list(dict.fromkeys(source for source, _ in places))
        for source in sources if not one_pass else ():
            if all(any(place[0] == source for place, _ in found) for found in where.values()):
                return {c: self._column(next(f for f in found if f[0][0] == source)) for c, found in where.items()}
        for place in places if one_pass else ():
            if all(any(each == place for each, _ in found) for found in where.values()):
                return {c: self._column(next(f for f in found if f[0] == place)) for c, found in where.items()}
        return None if one_pass else {c: self._column(found[0]) for c, found in where.items()}

    def _column(self, found: tuple[Place, str]) -> tuple[Place, Column]:
        place, name = found
        return place, self.places[place][name]


def count_kernels(table: pd.DataFrame, known: Definitions) -> dict[str, Counts]:
    """Counts by kernel from the rows of one architecture."""
    result = {}
    launches = table.groupby("kernel", sort=False)["launch"].unique()
    frame = table.assign(counter=table["counter"].replace(_aliases(table["counter"].unique(), known)))
    base = frame["counter"].str.replace(r"\[\d+\]$", "", regex=True)
    # Every pass keeps a row of each launch, for its time.
    first = ~frame.duplicated(["source", "pass", "launch"])
    frame.loc[first & ~base.isin(known.counters), "counter"] = None
    frame = frame[first | base.isin(known.counters)]
    for kernel, rows in frame.groupby("kernel", sort=False):
        counts = Counts(frozenset(int(launch) for launch in launches[kernel]), {})
        counted = set(rows.dropna(subset=["counter", "value"])["counter"])
        for (source, name), own in rows.groupby(["source", "pass"], sort=False):
            columns = _columns(own, counted, counts, str(name))
            _drop_uncounted(columns, known.never_zero, counts, str(name))
            counts.places[str(source), str(name)] = columns
        result[str(kernel)] = counts
    return result


def _aliases(present: Iterable[str | None], known: Definitions) -> dict[str, str]:
    """The names to replace: where the counter itself is absent, the first alias that is there."""
    names = set(present)
    chosen: dict[str, str] = {}
    for alias, counter in known.aliases.items():
        if alias in names and counter not in names and counter not in chosen.values():
            chosen[alias] = counter
    return chosen


def _columns(rows: pd.DataFrame, counted: Set[str], counts: Counts, name: str) -> dict[str, dict[int, float]]:
    columns: dict[str, dict[int, float]] = defaultdict(dict)
    instances: dict[str, set[int]] = defaultdict(set)
    collected = rows.dropna(subset=["counter", "value"])
    for counter, launch, value in zip(collected["counter"], collected["launch"], collected["value"], strict=True):
        instance = _INSTANCE.match(counter)
        if instance:
            instances[instance.group(1)].add(int(instance.group(2)))
        key = f"{instance.group(1)}[]" if instance else counter
        columns[key][launch] = columns[key].get(launch, 0.0) + value
    for counter, seen in instances.items():
        missing = sorted(set(range(max(seen) + 1)) - seen)
        if missing and not {counter, f"{counter}_sum"} & counted:
            counts.notes.append(f"pass {name}: {counter} misses the instances {_ranges(missing)}; sums are too low")
    times = rows.dropna(subset=["duration_ns"]).drop_duplicates("launch")
    columns[DURATION] = dict(zip(times["launch"], times["duration_ns"], strict=True))
    return dict(columns)


def _drop_uncounted(columns: dict[str, dict[int, float]], never_zero: Iterable[str], counts: Counts, name: str) -> None:
    """Forget what a pass says of a launch for which it counted nothing at all."""
    for counter in never_zero:
        empty = [launch for launch, value in columns.get(counter, {}).items() if value == 0]
        if empty:
            counts.notes.append(
                f"pass {name}: {counter} is 0 for {len(empty)} launches that ran, so these were not counted there"
            )
            for column in (column for key, column in columns.items() if key != DURATION):
                for launch in empty:
                    column.pop(launch, None)


def _ranges(numbers: Sequence[int]) -> str:
    """1, 2, 3, 7 as 1..3, 7."""
    parts: list[list[int]] = []
    for each in numbers:
        if parts and each == parts[-1][-1] + 1:
            parts[-1].append(each)
        else:
            parts.append([each])
    return ", ".join(f"{run[0]}..{run[-1]}" if len(run) > 1 else str(run[0]) for run in parts)
