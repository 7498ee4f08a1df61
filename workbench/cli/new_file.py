"""Files that a command writes at its end: whether they can be made is asked at its start."""

from __future__ import annotations

from pathlib import Path

from workbench.errors import ReportError


def check_new(path: Path | None) -> None:
    """ReportError for a file that exists, or whose folder does not; None is no file."""
    if path is None:
        return
    if path.exists():
        raise ReportError(f"{path} exists; name a file that does not, or remove it first")
    if not path.parent.is_dir():
        raise ReportError(f"cannot write {path}: there is no folder {path.parent}; make it first, or name another")
