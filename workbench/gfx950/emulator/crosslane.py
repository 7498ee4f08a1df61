"""DPP and SDWA: operand modifiers that move data between lanes or within a register."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.errors import EmulationError
from workbench.gfx950.emulator.program import Instruction
from workbench.gfx950.emulator.state import WAVE, Array, Group

_LANES = np.arange(WAVE)
_ROW = _LANES & ~15


@dataclass(frozen=True)
class Dpp:
    """Lane movement of the first source: lane l reads lane source[l] where valid[l]."""

    position: int
    source: Array
    valid: Array
    enabled: Array
    """Lanes that row_mask and bank_mask let through."""
    zero_invalid: bool
    """bound_ctrl: an invalid source reads as 0; otherwise the lane is not written."""

    @property
    def writes_all(self) -> bool:
        return self.zero_invalid and bool(self.enabled.all())

    def write_bits(self, g: Group) -> Array | None:
        """uint32 mask [waves or 1, 64] of the lanes that are written; None means all."""
        if self.writes_all:
            return g.lane_bits
        mask = self.enabled[None, :]
        if not self.zero_invalid:
            mask = mask & self.valid[None, :]
            if g.lanes is not None:
                mask = mask & g.lanes[:, self.source]
        if g.lanes is not None:
            mask = mask & g.lanes
        return mask * np.uint32(0xFFFFFFFF)


def gather_lanes(values: Array, source: Array, valid: Array, lanes: Array | None) -> Array:
    """Values moved between lanes; invalid and inactive source lanes read as 0."""
    moved = values[:, source]
    if not valid.all():
        moved = np.where(valid, moved, np.uint32(0))
    if lanes is not None:
        moved = np.where(lanes[:, source], moved, np.uint32(0))
    return moved


def parse_dpp(instruction: Instruction) -> Dpp | None:
    """The DPP control of an instruction, or None. EmulationError for a control this target lacks."""
    mods = instruction.modifiers
    control = next((name for name in mods if name in _CONTROLS), None)
    if control is None:
        if instruction.encoding == "dpp":
            raise EmulationError(f"{instruction.where()}: this DPP control is not modelled")
        return None
    source, valid = _CONTROLS[control](mods[control])
    row_mask, bank_mask = mods.get("row_mask", 0xF), mods.get("bank_mask", 0xF)
    enabled = (row_mask >> (_LANES // 16) & 1) & (bank_mask >> (_LANES % 16 // 4) & 1)
    compare = instruction.opcode.startswith("v_cmp") and len(instruction.operands) == 2
    return Dpp(0 if compare else 1, source, valid, enabled.astype(bool), "bound_ctrl" in mods)


def _moved(source: Array, valid: Array) -> tuple[Array, Array]:
    return np.where(valid, source, _LANES), valid


def _always(source: Array) -> tuple[Array, Array]:
    return source, np.ones(WAVE, bool)


def _row_shift(distance: int) -> tuple[Array, Array]:
    source = _LANES + distance
    return _moved(source, source & ~15 == _ROW)


def _wave_shift(distance: int) -> tuple[Array, Array]:
    source = _LANES + distance
    return _moved(source, (source >= 0) & (source < WAVE))


def _row_broadcast(lane: int) -> tuple[Array, Array]:
    """row_bcast:15 feeds the last lane of each row to the next row; row_bcast:31 lane 31 to the upper half."""
    source = _ROW - 1 if lane == 15 else np.full(WAVE, 31)
    return _moved(source, _LANES >= 16 if lane == 15 else _LANES >= 32)


_CONTROLS: dict[str, Callable[[Any], tuple[Array, Array]]] = {
    "quad_perm": lambda p: _always((_LANES & ~3) + np.array(p)[_LANES & 3]),
    "row_shl": _row_shift,
    "row_shr": lambda n: _row_shift(-n),
    "row_ror": lambda n: _always(_ROW + ((_LANES - n) & 15)),
    "row_newbcast": lambda n: _always(_ROW + n),
    "row_bcast": _row_broadcast,
    "wave_shl": _wave_shift,
    "wave_shr": lambda n: _wave_shift(-n),
    "wave_rol": lambda n: _always((_LANES + n) % WAVE),
    "wave_ror": lambda n: _always((_LANES - n) % WAVE),
    "row_mirror": lambda _: _always(_ROW + 15 - (_LANES & 15)),
    "row_half_mirror": lambda _: _always((_LANES & ~7) + 7 - (_LANES & 7)),
}

_SELECT = {
    "BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8), "WORD_0": (0, 16), "WORD_1": (16, 16),
}  # fmt: skip


def select_reader(reader: Callable[[Group], Any], select: str, sext: bool) -> Callable[[Group], Any]:
    """An SDWA source: a byte or half of the register, zero- or sign-extended."""
    if select == "DWORD":
        return reader
    shift, width = _SELECT[select]
    left, right = 32 - shift - width, 32 - width
    if sext:
        return lambda g: ((reader(g) << np.uint32(left)).view(np.int32) >> np.int32(right)).view(np.uint32)
    return lambda g: (reader(g) >> np.uint32(shift)) & np.uint32((1 << width) - 1)


@dataclass(frozen=True)
class SdwaDestination:
    """Where an SDWA result goes inside its register, and what becomes of the rest."""

    shift: int
    width: int
    unused: str

    @property
    def preserves(self) -> bool:
        return self.unused == "UNUSED_PRESERVE" and self.width < 32

    def insert(self, old: Array, value: Array) -> Array:
        if self.width == 32:
            return value
        field = np.uint32((1 << self.width) - 1 << self.shift)
        placed = (value << np.uint32(self.shift)) & field
        if self.unused == "UNUSED_PRESERVE":
            return placed | (old & ~field)
        if self.unused == "UNUSED_SEXT":
            left = 32 - self.width
            extended = ((value << np.uint32(left)).view(np.int32) >> np.int32(left)).view(np.uint32)
            return extended << np.uint32(self.shift)
        return placed


def destination(instruction: Instruction) -> SdwaDestination | None:
    """The SDWA destination selection of an instruction, or None."""
    select = instruction.modifiers.get("dst_sel")
    if select is None or select == "DWORD":
        return None
    shift, width = _SELECT[select]
    return SdwaDestination(shift, width, instruction.modifiers.get("dst_unused", "UNUSED_PAD"))
