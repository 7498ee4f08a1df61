"""LDS bank conflicts: cycles of one DS instruction from its lane addresses.

Banks are 4 bytes wide. The lanes served together (phases) and the number of banks are the ones published for an MI355X
for ds_read_b128, b96, b64 and ds_write_b64; the other widths are modelled after them, as `PHASES` says.
Two lanes of one phase conflict when they touch different words of one bank; a phase takes as many cycles as its fullest
bank has different words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.gfx950.emulator.state import Array

Lanes = tuple[int, ...]


def _span(*ranges: tuple[int, int]) -> Lanes:
    return tuple(lane for first, last in ranges for lane in range(first, last + 1))


def _and_upper_half(*phases: Lanes) -> tuple[Lanes, ...]:
    return phases + tuple(tuple(lane + 32 for lane in phase) for phase in phases)


def _consecutive(size: int) -> tuple[Lanes, ...]:
    return tuple(_span((first, first + size - 1)) for first in range(0, 64, size))


@dataclass(frozen=True)
class Phases:
    """Lanes served together, and over how many banks."""

    banks: int
    lanes: tuple[Lanes, ...]
    published: bool


READ_128 = _and_upper_half(_span((0, 3), (12, 15), (20, 27)), _span((4, 11), (16, 19), (28, 31)))
READ_96 = _and_upper_half(
    _span((0, 3), (20, 23)), _span((4, 7), (16, 19)), _span((8, 11), (28, 31)), _span((12, 15), (24, 27))
)
PHASES: dict[tuple[str, int], Phases] = {
    ("read", 16): Phases(64, READ_128, True),
    ("read", 12): Phases(32, READ_96, True),
    ("read", 8): Phases(64, _consecutive(32), True),
    ("read", 4): Phases(64, _consecutive(64), False),
    ("write", 16): Phases(32, _consecutive(8), False),
    ("write", 12): Phases(32, _consecutive(8), False),
    ("write", 8): Phases(32, _consecutive(16), True),
    ("write", 4): Phases(32, _consecutive(32), False),
}
"""By direction and bytes a lane. Narrower accesses count as 4 bytes."""


def phases_of(size: int, write: bool) -> Phases:
    """The phase table of an access of `size` bytes a lane."""
    return PHASES["write" if write else "read", max(size, 4)]


def conflict_cycles(offsets: Array, size: int, write: bool, lanes: Array | None = None) -> int:
    """Extra cycles of one wave's access over a conflict-free one.

    offsets [64] bytes; lanes [64] bool, None for all.
    """
    phases = phases_of(size, write)
    words = max(size, 4) // 4
    cycles = 0
    for members in phases.lanes:
        index = np.array(members)
        if lanes is not None:
            index = index[lanes[index]]
        if index.size == 0:
            continue
        touched = np.unique((offsets[index] >> 2)[:, None] + np.arange(words))
        cycles += int(np.bincount(touched % phases.banks, minlength=1).max()) - 1
    return cycles


_INACTIVE = np.int64(-(1 << 40))
_MIX = np.random.default_rng(0).integers(-(2**62), 2**62, 64) | 1
"""Weights of a 64-bit hash of an address pattern."""


class BankModel:
    """conflict_cycles with a memory: a pattern that is only shifted has the same conflicts."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, bool], int] = {}

    def cycles(self, place: Array, size: int, write: bool, lanes: Array | None) -> int:
        """Sum over waves: place [waves, 64] byte positions."""
        shape = place - (place[:, :1] & ~3)
        if lanes is not None:
            shape = np.where(lanes, shape, _INACTIVE)
        keys = (shape * _MIX).sum(axis=1).tolist()
        total = 0
        for row, key in enumerate(keys):
            known = self._known.get((key, size, write))
            if known is None:
                known = self._known[key, size, write] = self._one(shape[row], size, write)
            total += known
        return total

    @staticmethod
    def _one(row: Array, size: int, write: bool) -> int:
        active = row != _INACTIVE
        if not active.any():
            return 0
        offsets = row - (int(row[active].min()) & ~255)
        return conflict_cycles(offsets, size, write, active)
