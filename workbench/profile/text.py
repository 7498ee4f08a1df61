"""Text of profiler files: decoding, finding the table in it, numbers in the spellings that tools use."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import ProfileError

ACCEPTED = (
    "rocprofv3 CSV or JSON, rocpd .db, rocprof v1/v2 CSV, a rocprof-compute workload, Nsight Compute --csv, "
    "or the emulator's --csv"
)

# Columns (see `column_key`) by which a header is recognised; the first kind whose columns are all there wins.
_KINDS: tuple[tuple[str, frozenset[str]], ...] = tuple(
    (kind, frozenset(columns.split()))
    for kind, columns in (
        ("long", "dispatch_id kernel_name counter_name counter_value"),
        ("trace", "kind dispatch_id kernel_name start_timestamp end_timestamp"),
        ("agents", "node_id agent_type cu_count"),
        ("system", "gpu_arch cu_per_gpu"),
        ("ncu details", "id kernel_name metric_name metric_value"),
        ("wide", "dispatch_id kernel_name grid_size"),
        ("wide", "index kernelname"),
        ("ncu raw", "id kernel_name"),
        ("other", "domain function start_timestamp"),
        ("other", "kind direction start_timestamp"),
        ("other", "name calls totaldurationns"),
    )
)
_NOT_A_NUMBER = frozenset(("", "nan", "n/a", "na", "none", "no data", "-nan"))


def column_key(name: str) -> str:
    """A column's name without case, blanks and hyphens: `gpu-id` and `GPU_ID` are one."""
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def load(path: Path) -> bytes:
    """The content of a file. ProfileError if it cannot be read or is empty."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ProfileError(f"cannot read {path}: {error.strerror}; give {ACCEPTED}") from None
    if not raw.strip():
        raise ProfileError(f"{path} is empty: the profiler wrote nothing; look at its own output, then run it again")
    return raw


def decode(path: Path, raw: bytes) -> str:
    """The content as text. ProfileError if it is none."""
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ProfileError(f"{path} is binary, of no known kind; accepted are {ACCEPTED}")
    return text


@dataclass(frozen=True)
class CsvTable:
    """The table of a CSV file."""

    path: Path
    kind: str
    header: list[str]
    body: str
    """The text below the header."""
    first_line: int
    """Line number of the body's first line."""

    @property
    def ends_complete(self) -> bool:
        """Whether the file's last line ends as a line does."""
        return self.body.endswith(("\n", "\r"))

    def rows(self) -> Iterator[list[str]]:
        """Every row, each as wide as the header. ProfileError where one is not."""
        reader = csv.reader(io.StringIO(self.body, newline=""), strict=True)
        pending: tuple[int, list[str]] | None = None
        try:
            for row in reader:
                if pending:
                    self._refuse(*pending, last=False)
                    pending = None
                if not row or row == [""]:
                    continue
                if len(row) == len(self.header):
                    yield row
                else:
                    pending = (reader.line_num, row)
        except csv.Error as error:
            line = self.first_line + reader.line_num - 1
            raise ProfileError(f"{self.path} is truncated or damaged at line {line}: {error}") from None
        if pending:
            self._refuse(*pending, last=True)

    def lines(self) -> Iterator[tuple[int, list[str]]]:
        """Every line on its own as (line number, cells): for files in which other output lies between the rows."""
        for number, line in enumerate(self.body.splitlines(), self.first_line):
            if line.strip():
                yield number, next(csv.reader([line]))

    def _refuse(self, line: int, row: list[str], *, last: bool) -> None:
        what = "is truncated" if last else "is damaged"
        raise ProfileError(
            f"{self.path} {what}: line {self.first_line + line - 1} has {len(row)} of the {len(self.header)} cells "
            f"that the header names; get the whole file again"
        )


def find_table(path: Path, text: str) -> CsvTable:
    """The table of a CSV text, wherever its header stands. ProfileError if no header is known."""
    offset = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        offset += len(line)
        kind, header = _header(line)
        if kind:
            return CsvTable(path, kind, header, text[offset:], number + 1)
    first = text.strip().splitlines()[0][:80]
    raise ProfileError(f"{path} is of no known kind; it begins {first!r}; accepted are {ACCEPTED}")


def _header(line: str) -> tuple[str, list[str]]:
    if line.count(",") < 1 or not re.search("name|gpu_arch|agent_type|domain|kind", line, re.IGNORECASE):
        return "", []
    cells = next(csv.reader([line.rstrip("\r\n")]))
    keys = {column_key(cell) for cell in cells}
    for kind, needed in _KINDS:
        if needed <= keys:
            return kind, [cell.strip() for cell in cells]
    return "", []


def uses_decimal_comma(cells: Iterable[str]) -> bool:
    """Whether numbers are written as 27.595.520 and 65,77: a spelling that no other locale has must occur."""
    return any(re.fullmatch(r"-?(\d{1,3}(\.\d{3}){2,}(,\d+)?|\d+,(\d{1,2}|\d{4,}))", cell.strip()) for cell in cells)


def number(text: str, *, decimal_comma: bool = False) -> float:
    """A number with or without thousands separators; NaN for an empty cell and for `(!) nan`, `n/a` and their like.

    ValueError for anything else.
    """
    bare = text.removeprefix("(!)").strip()
    if bare.lower() in _NOT_A_NUMBER:
        return math.nan
    plain = bare.replace(".", "").replace(",", ".") if decimal_comma else bare.replace(",", "")
    return float(plain)


def integer(text: str) -> int | None:
    """A whole number that was written as one, else None: 8.1097E+14 has lost its digits."""
    bare = text.strip().strip('"')
    if re.fullmatch(r"\d+(\.0+)?", bare):
        return int(bare.partition(".")[0])
    return None
