"""Turns the operands of one instruction into readers and writers over a group of waves.

A reader is `f(group) -> array` that broadcasts against [waves, 64] (vector) or [waves, 1] (scalar); a writer is
`f(group, array)`. Which registers an instruction reads and writes is recorded on the way, for the hazard checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.errors import EmulationError
from workbench.gfx950.emulator import crosslane
from workbench.gfx950.emulator.operands import EXEC, SCC, VCC, Operand
from workbench.gfx950.emulator.program import Instruction
from workbench.gfx950.emulator.state import SCALAR_BIT, WAVE, Array, Group, pack_lanes, unpack_lanes

Reader = Callable[[Group], Any]
Writer = Callable[[Group, Any], None]
Run = Callable[[Group], "int | None"]

_U32 = np.uint32
SIGN = _U32(0x80000000)
MAGNITUDE = _U32(0x7FFFFFFF)


class Builder:
    """Operand access of one instruction on one machine."""

    def __init__(self, instruction: Instruction, machine: Any) -> None:
        self.ins = instruction
        self.machine = machine
        self.state = machine.state
        self.reads = 0
        self.writes = 0
        self.writes_exec = False
        self.dpp = crosslane.parse_dpp(instruction)

    # -- bookkeeping -----------------------------------------------------------------------------------------------

    def error(self, message: str) -> EmulationError:
        return EmulationError(f"{self.ins.where()}: {message}")

    def operand(self, position: int) -> Operand:
        try:
            return self.ins.operands[position]
        except IndexError:
            raise self.error(f"operand {position} is missing") from None

    def has(self, position: int) -> bool:
        return position < len(self.ins.operands)

    def modifier(self, name: str, default: Any = 0) -> Any:
        return self.ins.modifiers.get(name, default)

    def row(self, operand: Operand, offset: int = 0) -> int:
        """Row of the vector file."""
        return operand.index + offset + (self.state.num_arch if operand.kind == "a" else 0)

    @staticmethod
    def bit(operand: Operand, offset: int = 0) -> int:
        base = {"v": 0, "a": 256, "s": SCALAR_BIT}[operand.kind]
        return 1 << (base + operand.index + offset)

    def mark_read(self, operand: Operand, count: int = 1, first: int = 0) -> None:
        for offset in range(first, first + count):
            self.reads |= self.bit(operand, offset)

    # -- readers ---------------------------------------------------------------------------------------------------

    def _register(self, operand: Operand, offset: int, flavour: str) -> Reader:
        self.mark_read(operand, 1, offset)
        if operand.kind == "s":
            array = getattr(self.state, "s" + flavour)[operand.index + offset]
        else:
            array = getattr(self.state, "v" + flavour)[self.row(operand, offset)]
        return lambda g: array[g.sel]

    def u32(self, position: int, offset: int = 0) -> Reader:
        """Raw bits of one 32-bit register or constant; SDWA and DPP apply."""
        operand = self.operand(position)
        if operand.kind == "const":
            value = _U32(operand.bits32() if offset == 0 else operand.bits64(False) >> 32)
            return lambda g: value
        if operand.kind not in "vas":
            raise self.error(f"operand {position} must be a register or a constant")
        reader = self._register(operand, offset, "")
        reader = self._dpp_reader(reader, position)
        return self._sdwa_reader(reader, position, operand)

    def k16(self, position: int) -> Reader:
        """The 16-bit constant of a SOPK instruction, which assembly shows unsigned: zero-extended for _u32 forms."""
        operand = self.operand(position)
        if operand.kind != "const":
            raise self.error(f"operand {position} must be a constant")
        value = operand.bits16()
        extends = value >> 15 and not self.ins.opcode.endswith("_u32")
        constant = _U32(value | 0xFFFF0000 if extends else value)
        return lambda g: constant

    def i32(self, position: int) -> Reader:
        reader = self.u32(position)
        if self._is_plain_register(position):
            return self._register(self.operand(position), 0, "i")
        return lambda g: reader(g).view(np.int32)

    def f32(self, position: int, offset: int = 0) -> Reader:
        """float32 with its neg and abs modifiers."""
        operand = self.operand(position)
        if self._is_plain_register(position):
            reader = self._register(operand, offset, "f")
        elif operand.kind == "const":
            constant = _U32(operand.bits32()).view(np.float32)
            return self.signed(lambda g: constant, operand)
        else:
            raw = self.u32(position, offset)
            reader = lambda g: raw(g).view(np.float32)  # noqa: E731
        return self.signed(reader, operand)

    def f16(self, position: int, high: bool = False) -> Reader:
        """The low (or high) half of a register as float16."""
        operand = self.operand(position)
        if operand.kind == "const":
            constant = np.uint16(operand.bits16()).view(np.float16)
            return self.signed(lambda g: constant, operand)
        raw = self.u32(position)
        shift = _U32(16 if high else 0)
        reader = lambda g: (raw(g) >> shift).astype(np.uint16).view(np.float16)  # noqa: E731
        return self.signed(reader, operand)

    def u64(self, position: int, as_float: bool = False) -> Reader:
        """Two registers (or a widened constant) as uint64."""
        operand = self.operand(position)
        if operand.kind == "const":
            value = np.uint64(operand.bits64(as_float))
            return lambda g: value
        low, high = self._register(operand, 0, ""), self._register(operand, 1, "")
        shift = np.uint64(32)
        return lambda g: low(g) | (high(g).astype(np.uint64) << shift)

    def lds_offsets(self, position: int, extra: int) -> Reader:
        """LDS addresses in bytes; base and offset add up in 32 bits, so a base below zero is allowed."""
        reader, constant = self.u32(position), _U32(extra)
        return lambda g: (reader(g) + constant).astype(np.int64)

    def f64(self, position: int) -> Reader:
        raw = self.u64(position, as_float=True)
        return self.signed(lambda g: raw(g).view(np.float64), self.operand(position))

    def lanes_of(self, position: int | None = None) -> Reader:
        """A 64-bit lane mask (VCC when position is None) as bool [waves, 64]."""
        operand = Operand("s", VCC, 2) if position is None else self.operand(position)
        if operand.kind == "const":
            value = np.broadcast_to(
                np.array([[operand.bits64(False) >> lane & 1 for lane in range(WAVE)]], bool), (1, WAVE)
            )
            return lambda g: value
        low, high = self._register(operand, 0, ""), self._register(operand, 1, "")
        return lambda g: unpack_lanes(low(g), high(g))

    def _is_plain_register(self, position: int) -> bool:
        operand = self.operand(position)
        return operand.kind in "vas" and not self._modified(position)

    def _modified(self, position: int) -> bool:
        return self.ins.encoding == "sdwa" or (self.dpp is not None and position == self.dpp.position)

    @staticmethod
    def signed(reader: Reader, operand: Operand) -> Reader:
        """`reader` with the operand's neg and abs applied."""
        if operand.abs and operand.neg:
            return lambda g: -np.abs(reader(g))
        if operand.abs:
            return lambda g: np.abs(reader(g))
        if operand.neg:
            return lambda g: np.negative(reader(g))
        return reader

    def _dpp_reader(self, reader: Reader, position: int) -> Reader:
        dpp = self.dpp
        if dpp is None or position != dpp.position:
            return reader
        source, valid = dpp.source, dpp.valid
        return lambda g: crosslane.gather_lanes(reader(g), source, valid, g.lanes)

    def _sdwa_reader(self, reader: Reader, position: int, operand: Operand) -> Reader:
        if self.ins.encoding != "sdwa":
            return reader
        first_source = 0 if self.ins.opcode.startswith("v_cmp") and not self._compare_has_destination() else 1
        select = self.modifier(f"src{position - first_source}_sel", "DWORD")
        return crosslane.select_reader(reader, select, operand.sext)

    def _compare_has_destination(self) -> bool:
        return len(self.ins.operands) == 3

    # -- writers ---------------------------------------------------------------------------------------------------

    def write_mask(self, g: Group) -> Array | None:
        """Lanes a vector result may change, as uint32 of ones and zeros; None means all."""
        if self.dpp is None:
            return g.lane_bits
        return self.dpp.write_bits(g)

    def vdst(self, position: int = 0, offset: int = 0) -> Writer:
        """Writer of raw bits; accepts uint32, int32 or float32."""
        operand = self.operand(position)
        if not operand.is_vector:
            raise self.error(f"operand {position} must be a vector register")
        self.writes |= self.bit(operand, offset)
        row = self.state.v[self.row(operand, offset)]
        sdwa = crosslane.destination(self.ins)
        if self.dpp is not None and not self.dpp.writes_all:
            self.mark_read(operand, 1, offset)
        if sdwa is None and self.dpp is None:
            return lambda g, value: store(row, g, value, g.lane_bits)
        if sdwa is not None and sdwa.preserves:
            self.mark_read(operand, 1, offset)

        def write(g: Group, value: Any) -> None:
            bits = value if value.dtype == np.uint32 else value.view(np.uint32)
            if sdwa is not None:
                bits = sdwa.insert(row[g.sel], bits)
            store(row, g, bits, self.write_mask(g))

        return write

    def vdst64(self, position: int = 0) -> Writer:
        low, high = self.vdst(position), self.vdst(position, 1)

        def write(g: Group, value: Any) -> None:
            bits = value if value.dtype == np.uint64 else value.view(np.uint64)
            low(g, bits.astype(np.uint32))
            high(g, (bits >> np.uint64(32)).astype(np.uint32))

        return write

    def vdst16(self, position: int = 0) -> Writer:
        """Writer of 16-bit results: the upper half is cleared, or with op_sel the upper half alone is written."""
        op_sel = self.modifier("op_sel", ())
        write = self.vdst(position)
        if not (op_sel and op_sel[-1]):
            return lambda g, value: write(g, value.view(np.uint16).astype(np.uint32))
        operand = self.operand(position)
        old = self._register(operand, 0, "")
        low_half = _U32(0xFFFF)
        shift = _U32(16)
        return lambda g, value: write(g, (old(g) & low_half) | (value.view(np.uint16).astype(np.uint32) << shift))

    def sdst(self, position: int = 0, offset: int = 0) -> Writer:
        operand = self.operand(position)
        if operand.kind != "s":
            raise self.error(f"operand {position} must be a scalar register")
        return self.scalar_writer(operand.index + offset)

    def scalar_writer(self, index: int) -> Writer:
        self.writes |= 1 << (SCALAR_BIT + index)
        self.writes_exec |= index in (EXEC, EXEC + 1)
        row = self.state.s[index]

        def write(g: Group, value: Any) -> None:
            row[g.sel] = value

        return write

    def scc(self) -> Writer:
        return self.scalar_writer(SCC)

    def scc_reader(self) -> Reader:
        return self._register(Operand("s", SCC), 0, "")

    def sdst64(self, position: int = 0) -> Writer:
        low, high = self.sdst(position), self.sdst(position, 1)

        def write(g: Group, value: Any) -> None:
            low(g, (value & np.uint64(0xFFFFFFFF)).astype(np.uint32))
            high(g, (value >> np.uint64(32)).astype(np.uint32))

        return write

    def mask_dst(self, position: int | None) -> Writer:
        """Writer of a lane mask to a scalar pair (VCC when None); inactive lanes give 0."""
        index = VCC if position is None else self.operand(position).index
        low, high = self.scalar_writer(index), self.scalar_writer(index + 1)

        def write(g: Group, mask: Array) -> None:
            if mask.shape != (g.n, WAVE):
                mask = np.broadcast_to(mask, (g.n, WAVE))
            if g.lanes is not None:
                mask = mask & g.lanes
            words = pack_lanes(mask)
            low(g, words[:, :1])
            high(g, words[:, 1:])

        return write


def store(row: Array, g: Group, value: Any, bits: Array | None) -> None:
    """Write one vector register of a group: `value` in the lanes whose `bits` are ones, the old content elsewhere."""
    if value.dtype != np.uint32:
        value = value.view(np.uint32)
    if bits is None:
        row[g.sel] = value
        return
    target = row[g.sel]
    change = np.bitwise_xor(target, value)
    change &= bits
    if g.dense:
        target ^= change
    else:
        row[g.sel] = target ^ change
