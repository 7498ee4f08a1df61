"""Records that a notebook leaves in the folder of the report that runs it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from workbench.records.parquet import read_records, write_records
from workbench.records.record import Record

FOLDER_VARIABLE = "WORKBENCH_REPORT_FOLDER"
"""Environment variable by which a report tells its notebook's kernel where it is written."""
RECORDS = "records.parquet"


def keep_records(records: Iterable[Record]) -> Path | None:
    """Add records to records.parquet of the report that runs this notebook; None, and nothing done, outside of one."""
    folder, added = os.environ.get(FOLDER_VARIABLE), list(records)
    if not folder or not added:
        return None
    path = Path(folder) / RECORDS
    before = read_records(path) if path.exists() else []
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    write_records([*before, *added], part)
    return part.replace(path)
