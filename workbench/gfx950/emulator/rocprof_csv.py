"""Counters of emulated launches in the layout of rocprofv3's counter_collection.csv."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from workbench.errors import EmulationError
from workbench.gfx950.emulator.api import EmulationResult

COLUMNS = (
    "Correlation_Id", "Dispatch_Id", "Agent_Id", "Queue_Id", "Process_Id", "Thread_Id", "Grid_Size", "Kernel_Id",
    "Kernel_Name", "Workgroup_Size", "LDS_Block_Size", "Scratch_Size", "VGPR_Count", "Accum_VGPR_Count", "SGPR_Count",
    "Counter_Name", "Counter_Value", "Start_Timestamp", "End_Timestamp",
)  # fmt: skip
AGENT = "Emulated gfx950"
"""Stands in the agent column, so that the numbers are never taken for a device's."""


def write_counter_csv(results: Sequence[EmulationResult], path: Path) -> None:
    """Write one row a dispatch and counter. Timestamps are 0: nothing was timed. EmulationError if the file exists."""
    if path.exists():
        raise EmulationError(f"{path} exists; give a new file name")
    with path.open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(COLUMNS)
        for dispatch, result in enumerate(results, start=1):
            for name, value in result.counters.items():
                writer.writerow(_row(dispatch, result, name, value))


def _row(dispatch: int, result: EmulationResult, name: str, value: int) -> list[object]:
    program = result.program
    x, y, z = result.grid
    accumulators = int(program.metadata.get(".agpr_count", 0))
    return [
        dispatch, dispatch, AGENT, 1, 0, 0, x * y * z * program.workgroup_size, dispatch, program.name,
        program.workgroup_size, result.lds_bytes, program.descriptor.get("private_segment_fixed_size", 0),
        int(program.metadata.get(".vgpr_count", 0)) - accumulators, accumulators,
        int(program.metadata.get(".sgpr_count", 0)), name, float(value), 0, 0,
    ]  # fmt: skip
