"""The size of the cache of compiled kernels, and its limit: beyond it, what was used longest ago is removed.

Other processes may read and write meanwhile: a removed entry counts as absent, one that is open stays readable.
"""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from workbench.compiler.cache import cache_directory
from workbench.errors import ParameterError

LIMIT_VARIABLE = "WORKBENCH_CACHE_GIB"
DEFAULT_LIMIT_GIB = 20.0
_KEPT_SHARE = 0.8
"""Of the limit, after something was removed: so that the next removal is far off."""
_SECONDS_BETWEEN = 600.0
_SECONDS_TO_WRITE = 3600.0
"""A file that is not whole after so long has lost its writer."""


@dataclass(frozen=True)
class CacheUse:
    """What the cache holds."""

    folder: Path
    entries: int
    bytes: int


def cache_limit() -> int:
    """Bytes that compiled kernels may take: WORKBENCH_CACHE_GIB, 0 for no limit. ParameterError for no number."""
    text = os.environ.get(LIMIT_VARIABLE, "") or str(DEFAULT_LIMIT_GIB)
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not 0 <= limit < math.inf:
        raise ParameterError(f"{LIMIT_VARIABLE} must be a number of GiB, 0 for no limit, got {text!r}")
    return math.ceil(limit * 2**30)


def cache_use() -> CacheUse:
    """How many kernels are kept, and how many bytes they take."""
    found = _entries()
    return CacheUse(_folder(), len(found), sum(size for _, size, _ in found))


def limit_now_and_then() -> None:
    """Hold the cache to its limit, at most once in ten minutes over all processes."""
    limit, mark = cache_limit(), _folder() / "limited"
    with suppress(OSError):
        if mark.exists() and time.time() - mark.stat().st_mtime < _SECONDS_BETWEEN:
            return
        mark.touch()
        if limit:
            hold_to(limit)


def hold_to(limit: int) -> int:
    """Remove what was used longest ago where the kernels take more bytes than that; the number of removed ones."""
    for path in _folder().glob("*/*.partial"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _SECONDS_TO_WRITE:
                path.unlink()
    found = sorted(_entries())
    total, removed = sum(size for _, size, _ in found), 0
    if total <= limit:
        return 0
    for _, size, path in found:
        if total <= _KEPT_SHARE * limit:
            break
        with suppress(OSError):
            with suppress(FileNotFoundError):
                path.unlink()
                removed += 1
            total -= size
    return removed


def _folder() -> Path:
    return cache_directory() / "compiled"


def _entries() -> list[tuple[float, int, Path]]:
    """(time of the last use, bytes, path) of each; one that another process removes meanwhile is left out."""
    found = []
    for path in _folder().glob("*/*.zip"):
        with suppress(OSError):
            status = path.stat()
            found.append((status.st_mtime, status.st_size, path))
    return found
