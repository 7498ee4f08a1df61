"""Where a sweep keeps its records: a folder with a Parquet file per finished job, so that it can be taken up again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from workbench.errors import TuneError
from workbench.records import Record, read_records, write_records

DIGEST_LENGTH = 16


class Store:
    """Finished jobs by identity."""

    def __init__(self, folder: Path) -> None:
        """Use the folder, and make it if need be. TuneError where it cannot be one."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TuneError(
                f"{folder} cannot hold the records of a sweep ({error.strerror}); name another folder"
            ) from None
        self.folder = folder

    def path(self, phase: str, scenario: str, identity: Any) -> Path:
        """The file of a job; `identity` is what its result depends on, by its repr."""
        digest = sha256(repr(identity).encode()).hexdigest()[:DIGEST_LENGTH]
        return self.folder / f"{phase}-{re.sub(r'[^A-Za-z0-9_.-]', '_', scenario)}-{digest}.parquet"

    def load(self, path: Path) -> list[Record] | None:
        """The records of a finished job, None where it has not finished."""
        return read_records(path) if path.is_file() else None

    def save(self, path: Path, records: Sequence[Record]) -> None:
        """Write them so that the file is either whole or not there."""
        unfinished = path.with_name(f".{path.name}.{uuid4().hex}")
        write_records(records, unfinished)
        unfinished.rename(path)
