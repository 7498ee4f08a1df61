"""The columns that describe a dispatch in AMD's CSV files, under every name that its tools have used."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from workbench.profile.table import Row, clean_name
from workbench.profile.text import column_key, integer

# Field of Row -> column keys, the first that a file has counts.
_NAMES: dict[str, tuple[str, ...]] = {
    "dispatch": ("dispatch_id", "index"),
    "kernel": ("kernel_name", "kernelname"),
    "agent": ("agent_id", "gpu_id"),
    "grid": ("grid_size", "grd"),
    "workgroup": ("workgroup_size", "wgr"),
    "lds": ("lds_block_size", "lds_per_workgroup", "group_segment_size", "lds"),
    "scratch": ("scratch_size", "scratch_per_workitem", "private_segment_size", "scr"),
    "vgpr": ("vgpr_count", "arch_vgpr", "vgpr"),
    "agpr": ("accum_vgpr_count", "accum_vgpr"),
    "sgpr": ("sgpr_count", "sgpr"),
    "start": ("start_timestamp", "beginns"),
    "end": ("end_timestamp", "endns"),
    "process": ("process_id", "pid"),
}
_NO_COUNTERS = frozenset(name for names in _NAMES.values() for name in names) | frozenset((
    "queue_id", "queue_index", "thread_id", "tid", "fbar", "wave_size", "sig", "obj", "correlation_id", "xcc_index",
    "dispatchns", "completens", "durationns", "kernel_id", "node_id", "stream_id", "guid", "kind",
))  # fmt: skip


def is_key_column(key: str) -> bool:
    """Whether a column (by `column_key`) describes the dispatch rather than counts something."""
    return key in _NO_COUNTERS


class LaunchColumns:
    """Reads the fields of Row from the rows of one file."""

    def __init__(self, header: Sequence[str]) -> None:
        keys = [column_key(name) for name in header]
        self._at = {
            field: next((keys.index(name) for name in names if name in keys), None) for field, names in _NAMES.items()
        }
        self._axes = {
            field: [keys.index(f"{field}_size_{axis}") for axis in "xyz" if f"{field}_size_{axis}" in keys]
            for field in ("grid", "workgroup")
        }
        self.bad_times = 0
        """Dispatch rows whose time stamps are missing their digits, or are no interval."""

    def read(self, cells: Sequence[str]) -> Callable[..., Row] | None:
        """A maker of rows (arguments: counter, value, unit, run); None where the dispatch number is not one."""
        dispatch = integer(self._text(cells, "dispatch"))
        if dispatch is None:
            return None
        common: dict[str, Any] = {
            "dispatch": dispatch,
            "kernel": clean_name(self._text(cells, "kernel")),
            "grid": self._extents(cells, "grid"),
            "workgroup": self._extents(cells, "workgroup"),
            **{name: integer(self._text(cells, name)) for name in ("vgpr", "agpr", "sgpr", "lds", "scratch")},
            "duration_ns": self._duration(cells),
            "agent": self._text(cells, "agent"),
            "process": self._text(cells, "process"),
        }
        return lambda counter, value, unit="", run="": Row(
            counter=counter, value=value, unit=unit, run=run, **common
        )  # fmt: skip

    def start(self, cells: Sequence[str]) -> str:
        """The start time as it is written."""
        return self._text(cells, "start")

    def _text(self, cells: Sequence[str], field: str) -> str:
        at = self._at[field]
        return "" if at is None else cells[at]

    def _extents(self, cells: Sequence[str], field: str) -> str:
        if self._axes[field]:
            return "x".join(cells[at] for at in self._axes[field])
        return "x".join(re.findall(r"\d+", self._text(cells, field)))

    def _duration(self, cells: Sequence[str]) -> float:
        texts = self._text(cells, "start"), self._text(cells, "end")
        if not any(texts):
            return math.nan
        start, end = (integer(text) for text in texts)
        if start is None or end is None or end <= start:
            # The emulator writes 0 and 0: it times nothing, so nothing is wrong.
            self.bad_times += texts != ("0", "0")
            return math.nan
        return float(end - start)
