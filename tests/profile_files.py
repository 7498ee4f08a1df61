"""Profilers' files that tests write for themselves, and where the stored ones lie."""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

FIXTURES = Path(__file__).parent / "fixtures" / "profiles"

ROCPROFV3 = (
    "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Id,Kernel_Name,Workgroup_Size,"
    "LDS_Block_Size,Scratch_Size,VGPR_Count,Accum_VGPR_Count,SGPR_Count,Counter_Name,Counter_Value,Start_Timestamp,"
    "End_Timestamp"
)
AGENT_INFO = "Node_Id,Agent_Type,Cu_Count,Num_Xcc,Num_Shader_Banks,Simd_Per_Cu,Name"
Counters = Mapping[str, float]


def write_rocprofv3(
    path: Path, dispatches: Iterable[tuple[int, str, Counters]], *, start: int = 1000, process: int = 7
) -> Path:
    """A counter_collection.csv of (dispatch, kernel, counters); each dispatch takes 1000 ns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(ROCPROFV3.split(","))
        for dispatch, kernel, counters in dispatches:
            begin = start + 5000 * dispatch
            common = [dispatch, dispatch, "Agent 2", 1, process, process, 4096, 1, kernel, 256, 0, 0, 64, 0, 32]
            writer.writerows([*common, name, float(value), begin, begin + 1000] for name, value in counters.items())
    return path


def write_agent_info(path: Path, arch: str = "gfx950", cus: int = 256, xcds: int | str = 8) -> Path:
    """An agent_info.csv of a CPU and one GPU, node 2."""
    rows = [AGENT_INFO, '0,"CPU",64,1,0,0,"Some CPU"', f'2,"GPU",{cus},{xcds},32,4,"{arch}"']
    path.write_text("\n".join(rows) + "\n")
    return path


def write_rocpd(path: Path, dispatches: Sequence[tuple[int, str, int, Counters]]) -> Path:
    """A rocpd database of (dispatch, kernel, duration in ns, counters): the views that readers use, as tables."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(_ROCPD)
        connection.execute("INSERT INTO rocpd_metadata VALUES (1, 'schema_version', '3')")
        facts = '{"cu_count": 304, "num_xcc": 8, "num_shader_banks": 32, "simd_per_cu": 4}'
        agents = [("CPU", 0, "Some CPU", "{}"), ("GPU", 2, "gfx942", facts)]
        connection.executemany("INSERT INTO rocpd_info_agent VALUES (?, ?, ?, ?)", agents)
        for dispatch, kernel, duration, counters in dispatches:
            connection.execute(
                "INSERT INTO kernels VALUES ('g', 1, ?, 2, ?, 1000, ?, 1024, 1, 128, 256, 1, 1, 16384, 0, 120, 8, 48)",
                (kernel, dispatch, 1000 + duration),
            )
            for name, value in counters.items():
                connection.execute("INSERT INTO counters_collection VALUES ('g', 2, ?, ?, ?)", (dispatch, name, value))
    return path


_ROCPD = """
CREATE TABLE rocpd_metadata (id, tag, value);
CREATE TABLE rocpd_info_agent (type, absolute_index, name, extdata);
CREATE TABLE kernels (guid, pid, name, agent_abs_index, dispatch_id, start, "end", grid_x, grid_y, grid_z,
    workgroup_x, workgroup_y, workgroup_z, lds_size, scratch_size, vgpr_count, accum_vgpr_count, sgpr_count);
CREATE TABLE counters_collection (guid, agent_abs_index, dispatch_id, counter_name, value);
"""
