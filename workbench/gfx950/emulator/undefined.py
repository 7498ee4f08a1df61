"""Values that nobody defined, followed through registers until they matter.

Compilers copy, spill and combine registers whose content is never used, so reading one is no fault by itself, nor is a
read of LDS that nobody wrote. It is a fault when the value reaches global memory, an address, a branch or EXEC. Each
wave has its own account; the lanes of a register have not, and a result is undefined as soon as one of its inputs is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from workbench.gfx950.emulator.program import Instruction, Program
from workbench.gfx950.emulator.state import SCALAR_BIT, Array, Group

if TYPE_CHECKING:
    from workbench.gfx950.emulator.machine import Machine, Step

LANE_BIT = SCALAR_BIT + 128
"""First bit after the scalar registers, for the lanes of LaneFiles."""
_SINKS = {"vmem load", "vmem store", "vmem to lds", "vmem atomic", "scratch load", "scratch store", "lds read",
          "lds write", "lds atomic", "smem", "branch"}  # fmt: skip
_HALVES_APART = ("v_mad_u64_u32", "v_mad_i64_i32", "v_lshl_add_u64", "v_mov_b64", "v_pk_")
"""Instructions whose low result does not depend on the high half of a source pair."""


class LaneFiles:
    """Vector registers that hold spilled scalars, one a lane: each lane counts as a register of its own.

    These are the registers that the program names in v_writelane and v_readlane with constant lanes alone.
    """

    def __init__(self, program: Program) -> None:
        files: set[int] = set()
        others: set[int] = set()
        for ins in program.instructions:
            owner = _lane_access(ins)
            for position, operand in enumerate(ins.operands):
                if operand.kind == "v":
                    named = range(operand.index, operand.index + operand.count)
                    (files if owner == position else others).update(named)
        self._first_bit = {register: LANE_BIT + 64 * place for place, register in enumerate(sorted(files - others))}

    @property
    def all_registers(self) -> int:
        """Mask of every register there is."""
        return (1 << LANE_BIT + 64 * len(self._first_bit)) - 1

    def masks(self, ins: Instruction, reads: int, writes: int) -> tuple[int, int]:
        """What an instruction reads and writes, with lanes in the place of such registers."""
        owner = _lane_access(ins)
        if owner is None or ins.operands[owner].index not in self._first_bit:
            return reads, writes
        register = ins.operands[owner].index
        lane = 1 << self._first_bit[register] + int(ins.operands[2].value) % 64
        return (reads, lane) if owner == 0 else (reads & ~(1 << register) | lane, writes)


def _lane_access(ins: Instruction) -> int | None:
    """Position of the vector register of which an instruction writes or reads one, constant lane."""
    position = {"v_writelane_b32": 0, "v_readlane_b32": 1}.get(ins.opcode)
    return position if position is not None and ins.operands[2].kind == "const" else None


class UndefinedValues:
    """Where each undefined register was first read."""

    def __init__(self) -> None:
        self._origin: dict[int, tuple[str, Instruction]] = {}

    def meet(self, machine: Machine, step: Step, g: Group, unset: int) -> None:
        """An instruction reads undefined registers: report if they matter, else what it writes is undefined too."""
        ins = step.ins
        if (ins.kind.family in _SINKS or step.writes_exec) and (unset := self._that_matter(step, unset)):
            origin = self._origin.get(unset.bit_length() - 1)
            detail = f"; the value comes from {origin[0]}, first read at {origin[1].where()}" if origin else ""
            wave = self._first_wave(g, unset)
            machine.report("undefined-use", ins, g, wave, f"uses {register_names(unset)}, never defined{detail}")
            g.uninit &= ~unset
            return
        tainted = step.writes
        if ins.opcode.startswith(_HALVES_APART) and ins.operands[0].count == 2 and "op_sel" not in ins.text:
            low = 1 << (0 if ins.operands[0].kind == "v" else 256) + ins.operands[0].index
            if not unset & self._low_halves(ins):
                tainted &= ~low
        source = self._origin.get(unset.bit_length() - 1, (register_names(unset), ins))
        for bit in _bits(tainted):
            self._origin[bit] = source
        # The instruction defines what it writes, so this takes effect after it has run.
        machine.tainted = g.spread(unset, step.writes, tainted)

    def from_lds(self, machine: Machine, ins: Instruction, g: Group, waves: Array, bits: int, byte: int) -> None:
        """The running instruction loads LDS that nobody wrote into registers of some waves, bool [waves]."""
        for bit in _bits(bits):
            self._origin[bit] = f"LDS byte {byte}, which nobody wrote", ins
        parts = machine.tainted if machine.tainted is not None else g.spread(0, bits, 0)
        machine.tainted = g.undefine(parts, waves, bits)

    @staticmethod
    def _first_wave(g: Group, unset: int) -> int:
        slots = next(slots for mask, slots in g.undefined().items() if mask & unset)
        return int(np.searchsorted(g.slots, slots.min()))

    @staticmethod
    def _that_matter(step: Step, unset: int) -> int:
        """Data written to LDS and scratch is let through, addresses are not.

        LDS data may be padding: it counts only when it is read back, which the LDS check sees. Scratch data may be the
        spare half of a spilled pair; what is read back from scratch counts as defined.
        """
        ins = step.ins
        if ins.kind.family not in ("lds write", "scratch store"):
            return unset
        address = ins.operands[0]
        return unset & (1 << address.index) if address.kind == "v" else 0

    @staticmethod
    def _low_halves(ins: Instruction) -> int:
        bits = 0
        for operand in ins.operands[1:]:
            if operand.kind in ("v", "a", "s"):
                base = {"v": 0, "a": 256, "s": SCALAR_BIT}[operand.kind]
                bits |= 1 << base + operand.index
        return bits


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def register_names(bits: int) -> str:
    """`v3, a0, s[vcc]` for a register mask."""
    names = []
    for bit in range(bits.bit_length()):
        if bits >> bit & 1:
            scalar = bit - SCALAR_BIT
            special = {106: "vcc_lo", 107: "vcc_hi", 124: "m0", 125: "scc", 126: "exec_lo", 127: "exec_hi"}
            if bit >= LANE_BIT:
                names.append("a spilled scalar")
            elif scalar >= 0:
                names.append(special.get(scalar, f"s{scalar}"))
            else:
                names.append(f"a{bit - 256}" if bit >= 256 else f"v{bit}")
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
