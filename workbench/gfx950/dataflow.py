"""Where values of an attention loop go: which product an LDS read feeds, and what moves P across lanes. Static.

Registers are followed around the loop's circle in program order; branches within it are not told apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.gfx950.clusters import Role, product_roles, written_operands
from workbench.gfx950.isa import LDS_FAMILIES, MEMORY_FAMILIES, classify
from workbench.gfx950.registers import vector_registers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.gfx950.machine_code import Instruction

_ORIGINS = ("mfma", "trans", *LDS_FAMILIES, *MEMORY_FAMILIES)
"""Families behind which a value of P is not traced back."""


def reads_by_product(loop: Sequence[Instruction]) -> dict[int, Role]:
    """Place of each LDS read -> role of the first MFMA that multiplies what was read, also after a conversion.

    `fresh` is QK, so the read is of K or Q; `carried` is PV, so it is of V or P. A read that feeds no MFMA is missing.
    """
    roles = product_roles(loop)
    found = {}
    for place, instruction in enumerate(loop):
        if classify(instruction).family == "lds read":
            role = _first_product(loop, place, roles)
            if role is not None:
                found[place] = role
    return found


def _first_product(loop: Sequence[Instruction], place: int, roles: dict[int, Role]) -> Role | None:
    held = _writes(loop[place])
    for step in range(1, len(loop)):
        other = (place + step) % len(loop)
        instruction = loop[other]
        if other in roles:
            if held & _multiplied(instruction):
                return roles[other]
            held -= _writes(instruction)
        elif held & _sources(instruction):
            held |= _writes(instruction)
        else:
            held -= _writes(instruction)
        if not held:
            return None
    return None


def moves_of_probabilities(loop: Sequence[Instruction]) -> int:
    """Cross-lane instructions between the exponentials and the PV products that take their results as an operand."""
    moves: set[int] = set()
    for place, role in product_roles(loop).items():
        if role == "carried":
            moves |= _moves_before(loop, place)
    return len(moves)


def _moves_before(loop: Sequence[Instruction], place: int) -> set[int]:
    wanted = set(_multiplied(loop[place]))
    moves = set()
    for step in range(1, len(loop)):
        other = (place - step) % len(loop)
        instruction = loop[other]
        written = _writes(instruction)
        if not wanted & written:
            continue
        family = classify(instruction).family
        if family == "cross-lane":
            moves.add(other)
        wanted -= written
        if family not in _ORIGINS:
            wanted |= _sources(instruction)
        if not wanted:
            break
    return moves


def _writes(instruction: Instruction) -> set[str]:
    return {register for operand in written_operands(instruction) for register in vector_registers(operand)}


def _sources(instruction: Instruction) -> set[str]:
    first = 0 if "_swap" in instruction.mnemonic or not written_operands(instruction) else 1
    return {register for operand in instruction.operands[first:] for register in vector_registers(operand)}


def _multiplied(mfma: Instruction) -> set[str]:
    return {register for operand in mfma.operands[1:3] for register in vector_registers(operand)}
