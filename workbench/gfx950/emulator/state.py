"""Registers of the resident waves, and groups of waves that stand at one program counter.

Every register is an array over all resident waves, so that one numpy call executes an instruction for a whole group:
vector rows are [waves, 64], scalar rows [waves, 1].
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.gfx950.emulator.operands import EXEC, NUM_SCALAR_ROWS

WAVE = 64
SCALAR_BIT = 512
"""Bit of scalar row 0 in a register mask; below it are 256 VGPRs and 256 AGPRs."""
POISON = 0x7FA5D1E7
"""Content of what was never written: NaN as float32, and as bf16 and fp16 in its upper half."""

Array = npt.NDArray[Any]


class WaveState:
    """Register files of `waves` waves. Vector row r < num_arch is VGPR r, the rest are AGPRs."""

    def __init__(self, waves: int, num_arch: int, num_acc: int) -> None:
        self.waves = waves
        self.num_arch = num_arch
        self.vector = np.full((num_arch + num_acc, waves, WAVE), POISON, np.uint32)
        self.scalar = np.full((NUM_SCALAR_ROWS, waves, 1), POISON, np.uint32)
        self.v = list(self.vector)
        self.vf = list(self.vector.view(np.float32))
        self.vi = list(self.vector.view(np.int32))
        self.s = list(self.scalar)
        self.sf = list(self.scalar.view(np.float32))
        self.si = list(self.scalar.view(np.int32))
        self.workgroup = np.zeros(waves, np.int64)
        """Resident workgroup that each wave belongs to."""
        self.wave_in_group = np.zeros(waves, np.int64)
        self.executed = np.zeros(waves, np.int64)
        """Instructions that each wave has executed."""

    def reset(self) -> None:
        self.vector.fill(POISON)
        self.scalar.fill(POISON)
        self.executed.fill(0)


@dataclass(frozen=True)
class Pending:
    """A memory operation whose result is not visible yet, for the waves of one group."""

    pc: int
    scalar: bool
    """True for scalar loads, which may return in any order."""
    row: int
    """First destination row; `values` [rows, waves, 64 or 1] says how many follow."""
    values: Array | None
    mask: Array | None
    """Lanes that receive the values, bool [waves, 64]; None means all."""
    bits: int
    """Register mask of the destination."""
    half: str = ""
    """'lo' or 'hi' when only 16 bits of the destination change."""
    lds: tuple[Array, Array, Array] | None = None
    """LDS word indices, data and lane mask of a load that goes to LDS."""
    touched: tuple[Array, int, bool, Array | None] | None = None
    """What an LDS instruction touches, for the race check across barriers (see races.Touched)."""

    def take(self, index: Array) -> Pending:
        """The part of the waves that `index` (bool or integer) picks."""
        return replace(
            self,
            values=None if self.values is None else self.values[:, index],
            mask=None if self.mask is None else self.mask[index],
            lds=None if self.lds is None else tuple(part[index] for part in self.lds),  # type: ignore[arg-type]
            touched=None if self.touched is None else _take_touched(self.touched, index),
        )


def _take_touched(touched: Any, index: Array) -> Any:
    words, size, write, byte = touched
    return words[index], size, write, None if byte is None else byte[index]


def _join(left: Pending, right: Pending, left_waves: int, right_waves: int) -> Pending:
    def cat(a: Array, b: Array) -> Array:
        return np.concatenate((a, b))

    mask = None
    if left.mask is not None or right.mask is not None:
        full = np.ones((1, WAVE), bool)
        parts = [
            np.broadcast_to(full, (waves, WAVE)) if item.mask is None else item.mask
            for item, waves in ((left, left_waves), (right, right_waves))
        ]
        mask = cat(*parts)
    lds = None
    if left.lds is not None and right.lds is not None:
        lds = tuple(cat(a, b) for a, b in zip(left.lds, right.lds, strict=True))
    touched = None
    if left.touched is not None and right.touched is not None:
        byte = left.touched[3]
        if byte is not None and right.touched[3] is not None:
            byte = cat(byte, right.touched[3])
        touched = (cat(left.touched[0], right.touched[0]), *left.touched[1:3], byte)
    values = None
    if left.values is not None and right.values is not None:
        values = np.concatenate((left.values, right.values), axis=1)
    return replace(left, values=values, mask=mask, lds=lds, touched=touched)  # type: ignore[arg-type]


def _add_part(parts: dict[int, Array], mask: int, slots: Array) -> None:
    parts[mask] = np.concatenate((parts[mask], slots)) if mask in parts else slots


class Group:
    """Waves at one program counter, with what they wait for.

    `sel` indexes a register row: a slice when the slots are consecutive, so that rows are views, else an index array.
    """

    __slots__ = (
        "_lds_base",
        "_undefined_parts",
        "dense",
        "lane_bits",
        "lanes",
        "lgkm",
        "mode",
        "n",
        "pc",
        "pending",
        "sel",
        "slots",
        "uninit",
        "vm",
    )

    def __init__(self, slots: Array, pc: int, uninit: int, mode: int) -> None:
        self.pc = pc
        self.mode = mode
        self.uninit = uninit
        """Registers that some wave of the group has not defined."""
        self._undefined_parts = {uninit: slots}
        self.pending = 0
        self.vm: list[Pending] = []
        self.lgkm: list[Pending] = []
        self.lanes: Array | None = None
        self.lane_bits: Array | None = None
        self._place(slots)

    def _place(self, slots: Array) -> None:
        self.slots = slots
        self.n = len(slots)
        first, last = int(slots[0]), int(slots[-1])
        self.dense = last - first + 1 == self.n
        self.sel: Any = slice(first, last + 1) if self.dense else slots
        self._lds_base: tuple[Array, Array] | None = None

    def lds_base(self, state: WaveState, words_each: int) -> tuple[Array, Array]:
        """[waves, 1]: byte position of each wave's workgroup in LDS, and from its words to the wave's race marks."""
        if self._lds_base is None:
            workgroup = state.workgroup[self.sel][:, None]
            self._lds_base = workgroup * (4 * words_each), (self.slots[:, None] - workgroup) * words_each
        return self._lds_base

    def refresh_lanes(self, state: WaveState) -> None:
        """Recompute the lane mask after EXEC changed. None stands for all lanes of all waves."""
        low, high = state.s[EXEC][self.sel], state.s[EXEC + 1][self.sel]
        if (low & high).min() == 0xFFFFFFFF:
            self.lanes = self.lane_bits = None
            return
        self.lanes = unpack_lanes(low, high)
        self.lane_bits = self.lanes * np.uint32(0xFFFFFFFF)

    def refresh_pending(self) -> None:
        bits = 0
        for entry in self.vm:
            bits |= entry.bits
        for entry in self.lgkm:
            bits |= entry.bits
        self.pending = bits

    @property
    def flushes(self) -> bool:
        """Whether MODE says that float32 denormals are flushed."""
        return self.mode >> 4 & 3 == 0

    def signature(self) -> tuple[object, ...]:
        """Groups merge only if their modes and outstanding operations agree."""
        return self.mode, tuple(entry.pc for entry in self.vm), tuple(entry.pc for entry in self.lgkm)

    def undefined(self) -> dict[int, Array]:
        """Undefined registers -> the waves that lack just these: each wave keeps its own account."""
        parts: dict[int, Array] = {}
        for mask, slots in self._undefined_parts.items():
            _add_part(parts, mask & self.uninit, slots)
        return parts

    def spread(self, unset: int, writes: int, tainted: int) -> dict[int, Array]:
        """The account after an instruction that reads `unset` and writes: only what reads them is undefined then."""
        parts: dict[int, Array] = {}
        for mask, slots in self.undefined().items():
            _add_part(parts, mask & ~writes | (tainted if mask & unset else 0), slots)
        return parts

    def undefine(self, parts: dict[int, Array], waves: Array, bits: int) -> dict[int, Array]:
        """The account `parts` with the registers `bits` undefined, too, in the waves that bool [waves] picks."""
        changed: dict[int, Array] = {}
        for mask, slots in parts.items():
            picked = np.isin(slots, self.slots[waves])
            for own, new in ((slots[picked], mask | bits), (slots[~picked], mask)):
                if len(own):
                    _add_part(changed, new, own)
        return changed

    def set_undefined(self, parts: dict[int, Array]) -> None:
        """Replace the account."""
        self._undefined_parts = parts
        self.uninit = functools.reduce(operator.or_, parts)

    def subset(self, index: Array, state: WaveState) -> Group:
        """A new group of the waves that the boolean `index` picks, at the same place."""
        slots = self.slots[index]
        parts = {mask: own[np.isin(own, slots)] for mask, own in self.undefined().items()}
        parts = {mask: own for mask, own in parts.items() if len(own)}
        part = Group(slots, self.pc, 0, self.mode)
        part.set_undefined(parts)
        part.vm = [entry.take(index) for entry in self.vm]
        part.lgkm = [entry.take(index) for entry in self.lgkm]
        part.pending = self.pending
        if self.lanes is not None:
            part.refresh_lanes(state)
        return part

    def absorb(self, other: Group, state: WaveState) -> None:
        """Take in the waves of a group with the same program counter and signature."""
        slots = np.concatenate((self.slots, other.slots))
        order = np.argsort(slots)
        pairs = [(self.vm, other.vm), (self.lgkm, other.lgkm)]
        joined = [
            [_join(a, b, self.n, other.n).take(order) for a, b in zip(mine, theirs, strict=True)]
            for mine, theirs in pairs
        ]
        self.vm, self.lgkm = joined
        parts = self.undefined()
        for mask, own in other.undefined().items():
            _add_part(parts, mask, own)
        self.set_undefined(parts)
        self._place(slots[order])
        self.refresh_lanes(state)
        self.refresh_pending()


def unpack_lanes(low: Array, high: Array) -> Array:
    """Two [waves, 1] words as bool [waves, 64], lane 0 first."""
    words = np.concatenate((low, high), axis=1)
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").view(bool)


def pack_lanes(mask: Array) -> Array:
    """bool [waves, 64] as uint32 [waves, 2], low word first."""
    return np.packbits(mask, axis=1, bitorder="little").view(np.uint32)
