"""Memory traces of emulated launches as a table in a file, Parquet or CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from workbench.errors import EmulationError
from workbench.gfx950.emulator.api import EmulationResult

TRACE_SUFFIXES = (".parquet", ".csv")
TRACE_COLUMNS = {
    "dispatch": "number of the launch, from 1, as Dispatch_Id of the counters",
    "kernel": "name of the kernel",
    "step": "number of the request's instruction among the memory instructions of its launch, in emulated order",
    "workgroup": "workgroup in dispatch order, x fastest",
    "wave": "wave over the whole launch",
    "address": "address of the 128-byte cache line, in bytes",
    "write": "whether it is a store or an atomic",
    "evidence": "always 'emulated': the order is that of the emulator's lock step, no device's",
}
"""Column -> meaning. One row is one cache line that one wave asks L2 for with one instruction."""


def write_trace(results: Sequence[EmulationResult], path: Path) -> int:
    """Write the requests of launches that were emulated with trace=True; returns the rows.

    Parquet files carry the meaning of the columns in their metadata. EmulationError if the file exists, its suffix is
    unknown, or a launch has no trace.
    """
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if path.suffix not in TRACE_SUFFIXES:
        raise EmulationError(f"{path}: a trace is written as {' or '.join(TRACE_SUFFIXES)}")
    if path.exists():
        raise EmulationError(f"{path} exists; give a new file name")
    table = pa.concat_tables(_table(number, result) for number, result in enumerate(results, start=1))
    table = table.replace_schema_metadata(TRACE_COLUMNS)
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        pa.parquet.write_table(table, path)
    return int(table.num_rows)


def _table(dispatch: int, result: EmulationResult) -> object:
    import numpy as np
    import pyarrow as pa

    trace = result.trace
    if trace is None:
        raise EmulationError(f"{result.program.name} was emulated without a trace; emulate it with trace=True")
    rows = len(trace.step)
    waves_each = -(-result.program.workgroup_size // 64)
    columns = {
        "dispatch": np.full(rows, dispatch, np.int32),
        "kernel": pa.repeat(result.program.name, rows),
        "step": trace.step,
        "workgroup": trace.wave // waves_each,
        "wave": trace.wave,
        "address": trace.line,
        "write": trace.write,
        "evidence": pa.repeat("emulated", rows),
    }
    return pa.table(columns)
