"""Set-associative caches with least-recently-used replacement, one to each XCD, simulated line by line.

Sets do not influence each other, so that any sample of them behaves exactly as it would in the whole cache: a model of
a large launch simulates a sample of the sets and scales the counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from workbench.errors import ModelError

if TYPE_CHECKING:
    from workbench.device import Device

Array = np.ndarray[Any, Any]
SetIndex = Literal["hashed", "modulo"]

_MULTIPLIERS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))
_SHIFT = np.uint64(32)


@dataclass(frozen=True, kw_only=True)
class CacheGeometry:
    """The L2 caches of a device: one of `bytes_per_xcd` to each of `xcds` dies."""

    xcds: int
    bytes_per_xcd: int
    ways: int
    line_bytes: int
    set_index: SetIndex = "hashed"
    """How a line finds its set: all address bits mixed, or the line number modulo the number of sets."""

    def __post_init__(self) -> None:
        for name in ("xcds", "bytes_per_xcd", "ways", "line_bytes"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ModelError(f"{name} must be an integer >= 1, got {value!r}")
        if self.set_index not in ("hashed", "modulo"):
            raise ModelError(f"set_index must be 'hashed' or 'modulo', got {self.set_index!r}")
        if self.bytes_per_xcd % (self.ways * self.line_bytes):
            raise ModelError(
                f"bytes_per_xcd must be whole sets of {self.ways} ways x {self.line_bytes} bytes, "
                f"got {self.bytes_per_xcd}"
            )

    @property
    def sets(self) -> int:
        """Sets of one XCD's cache."""
        return self.bytes_per_xcd // (self.ways * self.line_bytes)

    def set_of(self, lines: Array) -> Array:
        """The set of each line number."""
        numbers = np.asarray(lines).astype(np.uint64)
        if self.set_index == "hashed":
            for multiplier in _MULTIPLIERS:
                numbers = numbers * multiplier
                numbers ^= numbers >> _SHIFT
        return (numbers % np.uint64(self.sets)).astype(np.int64)


def l2_geometry(device: Device, **changes: Any) -> CacheGeometry:
    """The L2 of a device description, with fields of CacheGeometry changed for a what-if.

    ModelError names the figures that the description lacks.
    """
    figures = {
        "xcds": device.xcds,
        "bytes_per_xcd": device.l2_bytes_per_xcd,
        "ways": device.l2_ways,
        "line_bytes": device.l2_line_bytes,
    } | changes
    missing = [name for name, value in figures.items() if value is None]
    if missing:
        raise ModelError(
            f"the description of {device.name} does not say {' and '.join(missing)} of its L2; "
            f"give {', '.join(f'{name}=...' for name in missing)}"
        )
    return CacheGeometry(**figures)


def sample_sets(geometry: CacheGeometry, count: int, seed: int) -> Array:
    """Mark `count` of the sets, drawn at random; all of them if there are no more."""
    if count < 1:
        raise ModelError(f"at least one set must be simulated, got {count}")
    chosen = np.zeros(geometry.sets, bool)
    picks = np.random.default_rng(seed).permutation(geometry.sets)[:count]
    chosen[picks] = True
    return chosen


def lru_hits(geometry: CacheGeometry, xcds: Array, lines: Array) -> Array:
    """Whether each request finds its line in the cache of its XCD; all caches start empty.

    xcds, lines: [requests] in the order of their arrival. A request for a line that is still on its way counts as a
    hit, and a write allocates its line as a read does.
    """
    if len(lines) == 0:
        return np.zeros(0, bool)
    rows = np.asarray(xcds, np.int64) * geometry.sets + geometry.set_of(lines)
    by_row = np.argsort(rows, kind="stable")
    rows, wanted = rows[by_row], np.asarray(lines).astype(np.int64)[by_row]
    # A line asked for again with nothing between in its set is a hit that changes nothing.
    fresh = np.ones(len(rows), bool)
    fresh[1:] = (rows[1:] != rows[:-1]) | (wanted[1:] != wanted[:-1])
    hits_by_row = np.ones(len(rows), bool)
    hits_by_row[fresh] = _hits_of_rows(rows[fresh], wanted[fresh], geometry.ways)
    hits = np.empty(len(rows), bool)
    hits[by_row] = hits_by_row
    return hits


def _hits_of_rows(rows: Array, wanted: Array, ways: int) -> Array:
    """Hits of requests sorted by row, a row being one set of one XCD: all rows advance by one request a turn."""
    first = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
    lengths = np.diff(np.r_[first, len(rows)])
    longest_first = np.argsort(-lengths, kind="stable")
    first, lengths = first[longest_first], lengths[longest_first]
    # active[i]: rows with more than i requests, a prefix since the longest come first.
    active = np.searchsorted(-lengths, -np.arange(int(lengths[0])), side="left")
    held = np.full((len(first), ways), -1, np.int64)
    used = np.full((len(first), ways), -1, np.int32)
    every = np.arange(len(first))
    hits = np.empty(len(rows), bool)
    for turn, count in enumerate(active.tolist()):
        at = first[:count] + turn
        lines = wanted[at]
        match = held[:count] == lines[:, None]
        found = match.any(axis=1)
        way = np.where(found, match.argmax(axis=1), used[:count].argmin(axis=1))
        held[every[:count], way] = lines
        used[every[:count], way] = turn
        hits[at] = found
    return hits
