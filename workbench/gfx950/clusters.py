"""Runs of instructions between the MFMA of a loop: how long the matrix pipe can be left without work.

The loop's instructions are read in program order as a circle: after the last comes the first. An attention loop has
two products, told apart by what they add to. The scores (QK) start from zero in every iteration; the output (PV) adds
to a value that the loop carries. So an MFMA whose third source is the constant 0, a register set to 0, or the result
of such an MFMA is of role `fresh`; every other is of role `carried`. A cluster is a longest sequence of MFMA of one
role around the circle, whatever stands between them; a GEMM loop, all `carried`, is one cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from workbench.gfx950.isa import Mix, classify, mix_of
from workbench.gfx950.registers import vector_registers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.gfx950.machine_code import Instruction

Role = Literal["fresh", "carried"]

_COPIES = ("v_mov_b32", "v_mov_b64", "v_accvgpr_")


@dataclass(frozen=True)
class Run:
    """Instructions between two MFMA, both ends excluded."""

    instructions: tuple[Instruction, ...]
    before: Role
    """Role of the MFMA in front of the run."""
    after: Role

    @property
    def length(self) -> int:
        return len(self.instructions)

    @property
    def mix(self) -> Mix:
        return mix_of(self.instructions)


@dataclass(frozen=True)
class RunReport:
    """Runs in one loop. Lengths count every instruction, waits and branches included. Evidence kind: static."""

    mfma: int
    clusters: int
    """How often the role changes around the circle; 1 when it never does."""
    longest: Run
    qk_to_pv: Run | None
    """The longest run from a QK MFMA to a PV MFMA; None unless the loop has both."""
    pv_to_qk: Run | None


def find_runs(loop: Sequence[Instruction]) -> RunReport | None:
    """Runs between the MFMA of a loop given in program order; None for a loop without MFMA."""
    places = [place for place, instruction in enumerate(loop) if classify(instruction).family == "mfma"]
    if not places:
        return None
    roles = product_roles(loop)
    runs = []
    for here, there in zip(places, [*places[1:], places[0]], strict=True):
        between = loop[here + 1 : there] if there > here else [*loop[here + 1 :], *loop[:there]]
        runs.append(Run(tuple(between), roles[here], roles[there]))
    changes = [run for run in runs if run.before != run.after]
    to_pv = [run for run in changes if run.before == "fresh"]
    to_qk = [run for run in changes if run.before == "carried"]
    return RunReport(
        mfma=len(places),
        clusters=max(len(changes), 1),
        longest=max(runs, key=lambda run: run.length),
        qk_to_pv=max(to_pv, key=lambda run: run.length, default=None),
        pv_to_qk=max(to_qk, key=lambda run: run.length, default=None),
    )


def product_roles(loop: Sequence[Instruction]) -> dict[int, Role]:
    """Role of each MFMA by its place in the loop. Two rounds, so that values of the previous iteration are known."""
    written: dict[str, str] = {}
    roles: dict[int, Role] = {}
    for _ in range(2):
        for place, instruction in enumerate(loop):
            if not instruction.operands:
                continue
            result = "other"
            if classify(instruction).family == "mfma":
                roles[place] = _role_of(instruction, written)
                result = roles[place]
            elif instruction.mnemonic.startswith(_COPIES) and len(instruction.operands) > 1:
                result = _copied(instruction.operands[1], written)
            for operand in written_operands(instruction):
                for register in vector_registers(operand):
                    written[register] = result
    return roles


def _role_of(mfma: Instruction, written: dict[str, str]) -> Role:
    addend = mfma.operands[3] if len(mfma.operands) > 3 else mfma.operands[0]
    if addend == "0":
        return "fresh"
    registers = vector_registers(addend)
    return "fresh" if registers and written.get(registers[0]) in ("fresh", "zero") else "carried"


def _copied(source: str, written: dict[str, str]) -> str:
    if source == "0":
        return "zero"
    registers = vector_registers(source)
    return written.get(registers[0], "other") if registers else "other"


def written_operands(instruction: Instruction) -> tuple[str, ...]:
    """Operands that the instruction writes, as far as they are vector registers."""
    if "store" in instruction.mnemonic or instruction.mnemonic.startswith(("ds_write", "s_")):
        return ()
    return instruction.operands[:2] if "_swap" in instruction.mnemonic else instruction.operands[:1]
