"""LDS bank conflicts: cycles of one DS instruction from its lane addresses.

Banks are 4 bytes wide. Lanes are served in phases; two lanes of one phase conflict when they touch different words of
one bank, and a phase takes as many cycles as its fullest bank has different words.

What is known of the phases on gfx950:
- ds_read_b128, b96, b64 and ds_write_b64: measured on an MI355X (HipKittens' phase experiments).
- ds_read_b64_tr_b16 and _b8: not measured. The bytes are read as by ds_read_b64 and transposed afterwards, so its
  phases are taken over. A published sweep of the V row pad of a dense kernel (32x32x16 MFMA, d 128, MI355X: 30, 29, 11
  and 0 conflicts for pads of 0, 8, 16 and 32 halves) supports it: the V read has 6, 6, 2 and 0 extra cycles here.
  Phases of 16 lanes would leave none at pad 16. The sweep's unit is not published, so only ratios to the worst pad can
  be compared: 1, 0.97, 0.37 and 0 against 1, 1, 0.33 and 0.
- The other widths are modelled after the measured ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.errors import ParameterError
from workbench.gfx950.emulator.state import WAVE, Array

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
    measured: bool
    """Published from measurements of this instruction, or modelled after another."""


READ_128 = _and_upper_half(_span((0, 3), (12, 15), (20, 27)), _span((4, 11), (16, 19), (28, 31)))
READ_96 = _and_upper_half(
    _span((0, 3), (20, 23)), _span((4, 7), (16, 19)), _span((8, 11), (28, 31)), _span((12, 15), (24, 27))
)
PHASES: dict[tuple[str, int], Phases] = {
    ("read", 16): Phases(64, READ_128, True),
    ("read", 12): Phases(32, READ_96, True),
    ("read", 8): Phases(64, _consecutive(32), True),
    ("transposing read", 8): Phases(64, _consecutive(32), False),
    ("read", 4): Phases(64, _consecutive(64), False),
    ("write", 16): Phases(32, _consecutive(8), False),
    ("write", 12): Phases(32, _consecutive(8), False),
    ("write", 8): Phases(32, _consecutive(16), True),
    ("write", 4): Phases(32, _consecutive(32), False),
}
"""By direction and bytes a lane. Narrower accesses count as 4 bytes."""


WIDTHS = (1, 2, 4, 8, 12, 16)


def phases_of(size: int, write: bool, transposed: bool = False) -> Phases:
    """The phase table of an access of `size` bytes a lane."""
    kind = "write" if write else "transposing read" if transposed else "read"
    return PHASES[kind, max(size, 4)]


@dataclass(frozen=True)
class LdsAccess:
    """Cost of one wave's DS instruction. Evidence kind: modelled."""

    phases: int
    """Cycles without any conflict, one a phase."""
    conflict_cycles: int
    """Extra cycles, what SQ_LDS_BANK_CONFLICT counts."""
    degree: int
    """Cycles of the slowest phase: 1 where no bank is asked for two words."""
    measured: bool
    """Whether the phases were measured for this instruction."""

    @property
    def cycles(self) -> int:
        return self.phases + self.conflict_cycles


def lds_access(
    addresses: Sequence[int] | Array, width: int, *, write: bool = False, transposed: bool = False
) -> LdsAccess:
    """Bank conflicts of one DS instruction of a wave.

    addresses: the byte address that each of the 64 lanes gives, negative for a lane that is switched off. width: bytes
    a lane, 1 to 16. transposed: ds_read_b64_tr_b16 or _b8 (width 8). ParameterError for what no instruction does.
    """
    places = np.asarray(addresses, np.int64)
    if places.shape != (WAVE,):
        raise ParameterError(f"addresses must be {WAVE} byte addresses, one a lane, got shape {places.shape}")
    if width not in WIDTHS:
        raise ParameterError(f"width must be one of {', '.join(map(str, WIDTHS))} bytes, got {width}")
    if transposed and (write or width != 8):
        raise ParameterError("a transposing access is a read of 8 bytes a lane")
    phases = phases_of(width, write, transposed)
    extra = _phase_conflicts(places, width, phases, places >= 0)
    return LdsAccess(len(phases.lanes), sum(extra), 1 + max(extra), phases.measured)


def conflict_cycles(
    offsets: Array, size: int, write: bool, lanes: Array | None = None, transposed: bool = False
) -> int:
    """Extra cycles of one wave's access: offsets [64] bytes; lanes [64] bool, None for all."""
    return sum(_phase_conflicts(offsets, size, phases_of(size, write, transposed), lanes))


def _phase_conflicts(offsets: Array, size: int, phases: Phases, lanes: Array | None) -> list[int]:
    """Extra cycles of each phase."""
    words = np.arange(max(size, 4) // 4)
    extra = []
    for members in phases.lanes:
        index = np.array(members)
        if lanes is not None:
            index = index[lanes[index]]
        if index.size == 0:
            extra.append(0)
            continue
        touched = np.unique((offsets[index] >> 2)[:, None] + words)
        extra.append(int(np.bincount(touched % phases.banks).max()) - 1)
    return extra


_INACTIVE = np.int64(-(1 << 40))
_MIX = np.random.default_rng(0).integers(-(2**62), 2**62, 64) | 1
"""Weights of a 64-bit hash of an address pattern."""


class BankModel:
    """conflict_cycles with a memory: a pattern that is only shifted has the same conflicts."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, bool, bool], int] = {}

    def cycles(self, place: Array, size: int, write: bool, lanes: Array | None, transposed: bool = False) -> int:
        """Sum over waves: place [waves, 64] byte positions."""
        shape = place - (place[:, :1] & ~3)
        if lanes is not None:
            shape = np.where(lanes, shape, _INACTIVE)
        keys = (shape * _MIX).sum(axis=1).tolist()
        total = 0
        for row, key in enumerate(keys):
            pattern = key, size, write, transposed
            known = self._known.get(pattern)
            if known is None:
                known = self._known[pattern] = self._one(shape[row], size, write, transposed)
            total += known
        return total

    @staticmethod
    def _one(row: Array, size: int, write: bool, transposed: bool) -> int:
        active = row != _INACTIVE
        if not active.any():
            return 0
        offsets = row - (int(row[active].min()) & ~255)
        return conflict_cycles(offsets, size, write, active, transposed)
