"""Records that a notebook leaves in the folder of the report that runs it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from workbench.errors import RecordError
from workbench.records.parquet import read_records, write_records
from workbench.records.record import Record

FOLDER_VARIABLE = "WORKBENCH_REPORT_FOLDER"
"""Environment variable by which a report tells its notebook's kernel where it is written."""
RECORDS = "records.parquet"


def keep_records(records: Iterable[Record]) -> Path | None:
    """Add records to records.parquet of the report that runs this notebook; None, and nothing done, outside of one.

    Where they cannot be written a warning says so: the notebook has them still, and goes on.
    """
    folder, added = os.environ.get(FOLDER_VARIABLE), list(records)
    if not folder or not added:
        return None
    path = Path(folder) / RECORDS
    try:
        with _alone(path.parent):
            return _add(added, path)
    except (OSError, RecordError) as error:
        warnings.warn(f"{len(added)} records were not kept in {path}: {error}", stacklevel=2)
        return None


def _add(added: list[Record], path: Path) -> Path:
    before = read_records(path) if path.exists() else []
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)  # of a process of this number that was killed
    write_records([*before, *added], part)
    return part.replace(path)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One writer at a time, of all threads and processes."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
