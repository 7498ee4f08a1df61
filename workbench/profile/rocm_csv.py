"""AMD's CSV files: one row a counter (rocprofv3, rocpd, rocprof-compute), or one column a counter (rocprof v1, v2)."""

from __future__ import annotations

import math
import re
from collections import defaultdict

from workbench.errors import ProfileError
from workbench.profile.launch_columns import LaunchColumns, is_key_column
from workbench.profile.table import Part
from workbench.profile.text import CsvTable, column_key, number

UNITS = {"FETCH_SIZE": "KiB", "WRITE_SIZE": "KiB", "FetchSize": "KiB", "WriteSize": "KiB"}
_EMULATED = re.compile(r"Emulated (\w+)$")
_ACCUMULATOR = "SQ_ACCUM_PREV_HIRES"


def read_long(table: CsvTable) -> Part:
    """One row a dispatch and counter. Several rows of one counter are its instances; they are summed later."""
    columns = LaunchColumns(table.header)
    keys = [column_key(name) for name in table.header]
    i_counter, i_value = keys.index("counter_name"), keys.index("counter_value")
    part = Part("rocprofv3" if "agent_id" in keys else "rocprof-compute")
    starts: dict[tuple[str, str], set[str]] = defaultdict(set)
    found = []
    for cells in table.rows():
        make = columns.read(cells)
        if make is None:
            raise ProfileError(f"{table.path}: {cells[0]!r} is no dispatch; the file is damaged or edited")
        counter = cells[i_counter].strip()
        row = make(counter, _value(table, counter, cells[i_value]), UNITS.get(counter, ""))
        run = (str(row.dispatch), columns.start(cells))
        starts[run].add(counter)
        found.append((row, run))
    runs = _runs(starts) if part.tool == "rocprof-compute" else {}
    part.rows = [row._replace(run=runs.get(run, "")) for row, run in found]
    _note_emulator(part)
    _finish(part, columns, table)
    return part


def _runs(starts: dict[tuple[str, str], set[str]]) -> dict[tuple[str, str], str]:
    """Passes of a merged long file: what was counted of a dispatch at one start time was counted in one pass."""
    numbers: dict[frozenset[str], str] = {}
    return {run: numbers.setdefault(frozenset(counters), str(len(numbers))) for run, counters in starts.items()}


def read_trace(table: CsvTable) -> Part:
    """A kernel trace: dispatches with times, without counters."""
    columns = LaunchColumns(table.header)
    part = Part("rocprofv3")
    for cells in table.rows():
        make = columns.read(cells)
        if make is not None:
            part.rows.append(make(None, math.nan))
    _finish(part, columns, table)
    return part


def read_wide(table: CsvTable) -> Part:
    """One row a dispatch, one column a counter; merged passes are told apart by the columns they repeat."""
    columns = LaunchColumns(table.header)
    part = Part("rocprof")
    counters = _counter_columns(table.header)
    filled = dict.fromkeys((counter for _, counter, _ in counters), False)
    for cells in table.rows():
        make = columns.read(cells)
        if make is None:
            raise ProfileError(f"{table.path}: {cells[0]!r} is no dispatch number; the file is damaged or edited")
        for at, counter, run in counters:
            value = _value(table, counter, cells[at])
            filled[counter] = filled[counter] or not math.isnan(value)
            part.rows.append(make(counter, value, UNITS.get(counter, ""), run))
        if not counters:
            part.rows.append(make(None, math.nan))
    empty = [counter for counter, any_value in filled.items() if not any_value]
    if empty and part.rows:
        part.problems.append(f"{table.path.name}: empty columns, so not collected: {', '.join(empty)}")
    _finish(part, columns, table)
    return part


def _counter_columns(header: list[str]) -> list[tuple[int, str, str]]:
    """(column, counter, pass) of every column that counts.

    A merged file repeats its key columns as X_1 .. X_N where a pass begins, and so marks counters that several passes
    have. The accumulator takes the name of the counter in front of it, whose sum over cycles it is.
    """
    names, found, run, before = set(header), [], "0", ""
    for at, name in enumerate(header):
        base, _, suffix = name.rpartition("_")
        if is_key_column(column_key(name)):
            continue
        if suffix.isdigit() and is_key_column(column_key(base)):
            run = suffix
            continue
        counter = base if base in names and suffix == run else name
        if counter == _ACCUMULATOR and before:
            counter = f"{before}_ACCUM"
        found.append((at, counter, run))
        before = counter
    return found


def _value(table: CsvTable, counter: str, cell: str) -> float:
    try:
        return number(cell)
    except ValueError:
        raise ProfileError(f"{table.path}: {counter} reads {cell!r}, which is no number; the file is damaged") from None


def _note_emulator(part: Part) -> None:
    for label in {row.agent for row in part.rows}:
        emulated = _EMULATED.match(label)
        if emulated:
            part.architectures[label] = emulated.group(1)
    emulated_labels = set(part.architectures)
    if emulated_labels:
        if emulated_labels != {row.agent for row in part.rows}:
            raise ProfileError("one file holds emulated and measured dispatches; give them as two files")
        part.tool, part.evidence = "emulator", "emulated"


def _finish(part: Part, columns: LaunchColumns, table: CsvTable) -> None:
    if columns.bad_times:
        part.problems.append(
            f"{table.path.name}: time stamps without their digits or in the wrong order (a spreadsheet's doing?), so "
            "no durations"
        )
    if not table.ends_complete:
        part.problems.append(f"{table.path.name} does not end with a line end: its last value may be cut")
