"""Which vector registers hold values that are still needed, and where in a kernel most of them do.

A backward data-flow analysis over the basic blocks. A register lives from the instruction that writes it to the last
one that reads it. Writes under an execution mask count as whole writes, as they do for the register allocator; an
instruction that leaves a part of its destination as it was reads it too. Evidence kind: static.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.gfx950.isa import classify
from workbench.gfx950.registers import vector_registers

if TYPE_CHECKING:
    from workbench.gfx950.cfg import ControlFlow, Loop
    from workbench.gfx950.machine_code import Instruction

# Families whose first operand is read: an address, or data on its way out.
_READS_ALL = ("lds write", "vmem store", "scratch store", "vmem to lds", "unknown")
_ADDS_TO_DESTINATION = (
    "v_fmac_",
    "v_mac_",
    "v_pk_fmac_",
    "v_dot2c_",
    "v_dot4c_",
    "v_dot8c_",
    "v_smfmac_",
    "v_writelane",
)


def peak_pressure(flow: ControlFlow) -> tuple[int, dict[int, int]]:
    """(most vector registers alive at once in the kernel, the same for each loop by its header).

    A loop's peak leaves out its inner loops. Registers that are only passed through count: they are taken all the same.
    """
    peaks = _block_peaks(flow)
    by_loop = {loop.header: max(peaks[block] for block in _own_blocks(loop)) for loop in flow.loops}
    return max(peaks, default=0), by_loop


def reads_and_writes(instruction: Instruction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Vector registers that an instruction reads, and those that it writes."""
    operands = [vector_registers(operand) for operand in instruction.operands]
    if not operands or not any(operands):
        return (), ()
    everything = tuple(register for registers in operands for register in registers)
    mnemonic, family = instruction.mnemonic, classify(instruction).family
    if family in _READS_ALL or (family in ("lds atomic", "vmem atomic") and not _returns(instruction)):
        return everything, ()
    if "_swap" in mnemonic:
        return everything, everything
    if _keeps_a_part(instruction):
        return everything, operands[0]
    return tuple(register for registers in operands[1:] for register in registers), operands[0]


def _keeps_a_part(instruction: Instruction) -> bool:
    """Whether the destination's old value lives on in part of it."""
    mnemonic, modifiers = instruction.mnemonic, instruction.modifiers
    if mnemonic.startswith(_ADDS_TO_DESTINATION) or "_d16" in mnemonic:
        return True
    if classify(instruction).detail == "dpp":
        return not any(modifier.startswith("bound_ctrl") for modifier in modifiers)
    halves = () if mnemonic.startswith("v_pk_") else ("op_sel:[0,0,1", "op_sel:[0,0,0,1")
    return any(modifier.startswith(("dst_unused:UNUSED_PRESERVE", *halves)) for modifier in modifiers)


def _returns(atomic: Instruction) -> bool:
    return "_rtn" in atomic.mnemonic or "sc0" in atomic.modifiers or "glc" in atomic.modifiers


def _own_blocks(loop: Loop) -> set[int]:
    return set(loop.blocks) - {block for child in loop.children for block in child.blocks}


def _block_peaks(flow: ControlFlow) -> list[int]:
    numbers: dict[str, int] = {}
    accesses = []
    for block in flow.blocks:
        rows = [reads_and_writes(i) for i in flow.kernel.instructions[block.start : block.end]]
        accesses.append([(_mask(reads, numbers), _mask(writes, numbers)) for reads, writes in rows])
    alive_in = [0] * len(flow.blocks)
    changed = True
    while changed:
        changed = False
        for block in reversed(flow.blocks):
            alive = _alive_out(block.successors, alive_in)
            for reads, writes in reversed(accesses[block.index]):
                alive = (alive & ~writes) | reads
            if alive != alive_in[block.index]:
                alive_in[block.index], changed = alive, True
    peaks = []
    for block in flow.blocks:
        alive = _alive_out(block.successors, alive_in)
        peak = alive.bit_count()
        for reads, writes in reversed(accesses[block.index]):
            peak = max(peak, (alive | writes).bit_count())
            alive = (alive & ~writes) | reads
            peak = max(peak, alive.bit_count())
        peaks.append(peak)
    return peaks


def _alive_out(successors: tuple[int, ...], alive_in: list[int]) -> int:
    alive = 0
    for successor in successors:
        alive |= alive_in[successor]
    return alive


def _mask(registers: tuple[str, ...], numbers: dict[str, int]) -> int:
    mask = 0
    for register in registers:
        mask |= 1 << numbers.setdefault(register, len(numbers))
    return mask
