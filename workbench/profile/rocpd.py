"""rocpd: the SQLite file that rocprofv3 writes by default since ROCm 7.0. Read through its views, never written."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from workbench.errors import ProfileError
from workbench.profile.agents import agent_of_facts, checked
from workbench.profile.rocm_csv import UNITS
from workbench.profile.table import Part, Row, clean_name

MAGIC = b"SQLite format 3\0"


def read_rocpd(path: Path) -> Part:
    """Dispatches with their counters, or alone where none were collected. ProfileError for other databases."""
    uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            return _read(path, connection)
    except sqlite3.Error as error:
        raise ProfileError(f"{path} is a damaged or truncated SQLite file: {error}; get the whole file again") from None


def _read(path: Path, connection: sqlite3.Connection) -> Part:
    names = {row["name"] for row in connection.execute("SELECT name FROM sqlite_master")}
    if not {"rocpd_metadata", "kernels", "counters_collection"} <= names:
        legacy = {"KERN", "OPS"} & names
        what = "a results.db of the legacy rocprof: give its .csv" if legacy else "SQLite, but no rocpd file"
        raise ProfileError(f"{path} is {what}; it has the tables {', '.join(sorted(names)[:6]) or '(none)'}")
    part = Part("rocpd")
    _add_agents(part, connection, path.name)
    counters: dict[tuple[object, ...], list[tuple[str, float]]] = {}
    for row in _rows(connection, "counters_collection"):
        counters.setdefault(_identity(row), []).append((row["counter_name"], float(row["value"])))
    for row in _rows(connection, "kernels"):
        common = _launch(row)
        for name, value in counters.pop(_identity(row), [(None, math.nan)]):
            part.rows.append(Row(counter=name, value=value, unit=UNITS.get(name or "", ""), **common))
    if counters:
        part.problems.append(f"{path.name}: {len(counters)} dispatches have counters but no launch; left out")
    return part


def _rows(connection: sqlite3.Connection, view: str) -> Iterator[dict[str, Any]]:
    for row in connection.execute(f"SELECT * FROM {view}"):  # noqa: S608 - the names are this module's own
        yield dict(row)


def _identity(row: Mapping[str, Any]) -> tuple[object, ...]:
    return row["guid"], row["agent_abs_index"], row["dispatch_id"]


def _launch(row: Mapping[str, Any]) -> dict[str, Any]:
    duration = row["end"] - row["start"]
    return {
        "dispatch": int(row["dispatch_id"]),
        "kernel": clean_name(row["name"]),
        "grid": "x".join(str(row[f"grid_{axis}"]) for axis in "xyz"),
        "workgroup": "x".join(str(row[f"workgroup_{axis}"]) for axis in "xyz"),
        "vgpr": row.get("vgpr_count"),
        "agpr": row.get("accum_vgpr_count"),
        "sgpr": row.get("sgpr_count"),
        "lds": row.get("lds_size"),
        "scratch": row.get("scratch_size"),
        "duration_ns": float(duration) if duration > 0 else math.nan,
        "agent": str(row["agent_abs_index"]),
        "process": f"{row['guid']} {row['pid']}",
    }


def _add_agents(part: Part, connection: sqlite3.Connection, source: str) -> None:
    for row in _rows(connection, "rocpd_info_agent"):
        try:
            facts = json.loads(row.get("extdata") or "{}")
        except ValueError:
            facts = {}
        agent = agent_of_facts({**facts, "agent_type": row["type"], "name": row["name"]}, source)
        if agent is not None:
            part.agents[str(row["absolute_index"])], problems = checked(agent)
            part.problems += problems
