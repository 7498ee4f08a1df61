"""Records as Parquet: one row per record, structs for what has a fixed shape, JSON for problem and spec."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import problem as problems
from workbench import spec as specs
from workbench import spec_gfx950, spec_gfx950_unified, spec_sm90
from workbench.errors import RecordError, WorkbenchError
from workbench.records.record import Metric, Record

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1
_VERSION_KEY = b"workbench.records.schema_version"
_TYPES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        problems.UnifiedAttentionProblem,
        problems.DenseAttentionProblem,
        specs.Unified2DSpec,
        specs.Unified3DSpec,
        specs.DenseSpec,
        spec_gfx950.Gfx950DenseSpec,
        spec_gfx950_unified.Gfx950Unified2DSpec,
        spec_sm90.Sm90DenseSpec,
    )
}
_TEXT_COLUMNS = (
    "scenario",
    "candidate",
    "lane",
    "path",
    "status",
    "evidence",
    "backend",
    "target",
    "message",
    "session",
)


def spec_types() -> dict[str, type[specs.KernelSpec]]:
    """Every kind of spec by the name that it has in files."""
    return {name: kind for name, kind in _TYPES.items() if issubclass(kind, specs.KernelSpec)}


def schema() -> pa.Schema:
    """The Arrow schema of a record file."""
    import pyarrow as pa

    metric = pa.struct(
        [("name", pa.string()), ("value", pa.float64()), ("unit", pa.string()), ("evidence", pa.string())]
    )
    return pa.schema(
        [
            *((name, pa.string()) for name in _TEXT_COLUMNS),
            ("problem", pa.string()),
            ("spec", pa.string()),
            ("samples_us", pa.list_(pa.float64())),
            ("metrics", pa.list_(metric)),
            ("worst_index", pa.list_(pa.int64())),
            ("reasons", pa.list_(pa.string())),
            ("environment", pa.map_(pa.string(), pa.string())),
        ],
        metadata={_VERSION_KEY: str(SCHEMA_VERSION)},
    )


def check_new_file(path: Path) -> None:
    """RecordError unless a new record file can be made there, in folders that may be missing. Makes nothing."""
    if path.exists():
        raise RecordError(f"{path} exists and records are never overwritten; give a new file name")
    there = next(folder for folder in path.absolute().parents if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        why = "this user may not write" if there.is_dir() else "it is no folder"
        raise RecordError(f"{path} cannot be written: {there}: {why}; give a file in another folder")


def write_records(records: Iterable[Record], path: str | Path) -> Path:
    """Write a new Parquet file. RecordError if it exists, as record files are append-only, or cannot be written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(path)
    table = pa.Table.from_pylist([_to_row(record) for record in records], schema=schema())
    check_new_file(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            pq.write_table(table, file)
    except OSError as error:
        raise RecordError(f"{path} cannot be written ({error.strerror or error}); choose another place") from error
    return path


def read_records(path: str | Path) -> list[Record]:
    """Read a file that write_records wrote. RecordError if it is missing, malformed or of another schema version."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(path)
    if not path.is_file():
        raise RecordError(f"no record file at {path}; records of a report lie in its folder as records.parquet")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise RecordError(f"{path} is not a Parquet file: {error}") from error
    version = (table.schema.metadata or {}).get(_VERSION_KEY, b"none").decode()
    if version != str(SCHEMA_VERSION):
        raise RecordError(f"{path} has record schema version {version}; this workbench reads version {SCHEMA_VERSION}")
    try:
        return [_from_row(row) for row in table.to_pylist()]
    except (KeyError, TypeError, ValueError, WorkbenchError) as error:
        raise RecordError(f"{path} holds a malformed record: {error}") from error


def _to_row(record: Record) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(record, name) for name in _TEXT_COLUMNS}
    row["problem"] = to_json(record.problem)
    row["spec"] = None if record.spec is None else to_json(record.spec)
    row["samples_us"] = list(record.samples)
    row["metrics"] = [{"name": name, **asdict(metric)} for name, metric in record.metrics.items()]
    row["worst_index"] = list(record.worst_index)
    row["reasons"] = list(record.reasons)
    row["environment"] = list(record.environment.items())
    return row


def _from_row(row: dict[str, Any]) -> Record:
    text = {name: row[name] for name in _TEXT_COLUMNS}
    metrics = {item.pop("name"): Metric(**item) for item in row["metrics"]}
    return Record(
        **text,
        problem=from_json(row["problem"]),
        spec=None if row["spec"] is None else from_json(row["spec"]),
        samples=tuple(row["samples_us"]),
        metrics=metrics,
        worst_index=tuple(row["worst_index"]),
        reasons=tuple(row["reasons"]),
        environment=dict(row["environment"]),
    )


def to_json(value: Any) -> str:
    """A problem or spec as JSON that names its type."""
    return json.dumps({"type": type(value).__name__, **asdict(value)}, sort_keys=True)


def from_json(text: str) -> Any:
    """The problem or spec that `to_json` wrote. RecordError for an unknown type or field."""
    values = json.loads(text)
    name = values.pop("type", None)
    if name not in _TYPES:
        raise RecordError(f"unknown type {name!r}; known are {', '.join(_TYPES)}")
    kind = _TYPES[name]
    unknown = sorted(set(values) - {field.name for field in fields(kind)})
    if unknown:
        raise RecordError(f"{name} has no field {', '.join(unknown)}")
    return kind(**values)
