"""Where the steps of the streaming softmax are in a compiled 2D kernel: found in the code, not assumed. Static."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from workbench.errors import ParameterError

if TYPE_CHECKING:
    from workbench.gfx950.emulator.debug import Debugger
    from workbench.gfx950.emulator.operands import Operand
    from workbench.gfx950.emulator.program import Instruction

# Lines of kernels/primitives.py, by their text: debug information leads from them to instructions.
_MAXIMUM = "b_m_new = tl.maximum(b_m, tl.max(b_s, KEY_AXIS) * scale_log2)"
_ALPHA = "b_alpha = tl.exp2(b_m - b_m_new)"
_PROBABILITIES = "b_p = tl.exp2(b_s * scale_log2"
_DENOMINATOR = "tl.sum(b_p, KEY_AXIS))"


@dataclass(frozen=True)
class Chain:
    """MFMA that hand one accumulator on: the C operand of each is the D of the one before."""

    steps: tuple[Instruction, ...]

    @property
    def first(self) -> Instruction:
        return self.steps[0]

    @property
    def last(self) -> Instruction:
        return self.steps[-1]

    @property
    def starts_at_zero(self) -> bool:
        return self.first.operands[3].kind == "const"


@dataclass(frozen=True)
class Landmarks:
    """Instructions of the hot loop, in program order within each field."""

    loop: tuple[Instruction, ...]
    qk: tuple[Chain, ...]
    """Chains that start at zero: each ends with a block of S transposed, keys along its rows."""
    pv: tuple[Chain, ...]
    """Chains that go on from the last tile: each ends with a block of O transposed, head channels along its rows."""
    exponentials: tuple[Instruction, ...]
    """The v_exp of P."""
    maximum: Instruction
    """Writes the new running maximum m."""
    alpha: Instruction
    """Writes 2^(m_old - m_new)."""
    denominator: Instruction
    """Writes the new denominator l."""

    @property
    def header_line(self) -> int:
        return self.loop[0].line

    @property
    def extent(self) -> int:
        """Rows and columns of one MFMA result, 16 or 32."""
        return int(self.qk[0].first.kind.detail.split("x")[0])

    @property
    def probabilities(self) -> tuple[tuple[Instruction, Operand], ...]:
        """P in bf16: for each step of the chains the second operand, with the first MFMA that reads it."""
        steps = zip(*(chain.steps for chain in self.pv), strict=True)
        readers = [min(step, key=lambda ins: ins.index) for step in steps]
        return tuple((ins, ins.operands[2]) for ins in readers)


def find_landmarks(debugger: Debugger, loop: Sequence[int]) -> Landmarks:
    """Landmarks of the loop whose instructions have these indices. ParameterError for a kernel of another form."""
    instructions = tuple(debugger.program.instructions[index] for index in loop)
    chains = _chains(debugger, [ins for ins in instructions if ins.kind.family == "mfma"])
    qk = tuple(chain for chain in chains if chain.starts_at_zero)
    pv = tuple(chain for chain in chains if not chain.starts_at_zero)
    if not qk or not pv:
        raise ParameterError("the hot loop does not hold both products; choose a spec whose loop has QK and PV")
    return Landmarks(
        loop=instructions,
        qk=qk,
        pv=pv,
        exponentials=tuple(ins for ins in _at(instructions, _PROBABILITIES) if ins.kind.family == "trans"),
        maximum=_last_write(instructions, _MAXIMUM),
        alpha=next(ins for ins in _at(instructions, _ALPHA) if ins.kind.family == "trans"),
        denominator=_last_write(instructions, _DENOMINATOR),
    )


def _chains(debugger: Debugger, products: Sequence[Instruction]) -> list[Chain]:
    chains: list[list[Instruction]] = []
    for ins in products:
        before = next((chain for chain in chains if _continues(debugger, chain[-1], ins)), None)
        if before is None:
            chains.append([ins])
        else:
            before.append(ins)
    return [Chain(tuple(chain)) for chain in chains]


def _continues(debugger: Debugger, before: Instruction, ins: Instruction) -> bool:
    """Whether C of `ins` is what `before` left in D, untouched in between."""
    result, source = before.operands[0], ins.operands[3]
    if (result.kind, result.index) != (source.kind, source.index):
        return False
    code = debugger.machine.code
    return not any(step.writes & code[before.index].writes for step in code[before.index + 1 : ins.index])


def _at(instructions: Sequence[Instruction], text: str) -> list[Instruction]:
    place = _place_of(text)
    found = [ins for ins in instructions if ins.source == place]
    if not found:
        raise ParameterError(f"no instruction of the hot loop comes from {place}; walk a kernel with plain softmax")
    return found


def _last_write(instructions: Sequence[Instruction], text: str) -> Instruction:
    """The last instruction of a source line that computes a vector register; copies do not count."""
    found = _at(instructions, text)
    return [ins for ins in found if ins.kind.family == "valu" and not ins.opcode.startswith("v_mov")][-1]


@cache
def _place_of(text: str) -> str:
    """`primitives.py:116` of the first line that holds the text."""
    from importlib.util import find_spec
    from pathlib import Path

    spec = find_spec("workbench.kernels.primitives")
    lines = Path(spec.origin if spec and spec.origin else "").read_text().splitlines()
    return f"primitives.py:{next(number for number, line in enumerate(lines, start=1) if text in line)}"
