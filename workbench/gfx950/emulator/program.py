"""One gfx950 kernel as the emulator needs it: decoded operands, labels, descriptor and argument layout."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from workbench.errors import AssemblyError, UnsupportedError
from workbench.gfx950.asm import Instruction as TextInstruction
from workbench.gfx950.asm import Kernel, find_label, parse_assembly
from workbench.gfx950.emulator.operands import Operand, parse_operand
from workbench.gfx950.isa import InstructionClass, classify
from workbench.gfx950.machine_code import is_branch

TARGET = "gfx950"
_ENCODING = re.compile(r"^(.*?)(?:_e64)?_(e32|e64|dpp|sdwa)$")
_LDS_ACCESS = ("lds read", "lds write", "lds atomic", "vmem to lds")
_PRELOAD_WINDOW = 12
"""Instructions among which the branch over the compatibility prologue is looked for."""


@dataclass(frozen=True)
class Instruction:
    """One machine instruction; `index` is its place in the program, `line` its line in the assembly text."""

    index: int
    line: int
    opcode: str
    """Mnemonic without the encoding suffix."""
    encoding: str
    """'', 'e32', 'e64', 'dpp' or 'sdwa'."""
    operands: tuple[Operand, ...]
    modifiers: dict[str, Any]
    text: str
    source: str
    """`file.py:line` of the kernel's source, or ''."""
    kind: InstructionClass

    def where(self) -> str:
        """`line 120 (kernel.py:31): ds_read_b32 v0, v1`, for messages."""
        source = f" ({self.source})" if self.source else ""
        return f"line {self.line}{source}: {self.text}"


@dataclass(frozen=True)
class ArgumentSlot:
    """One slot of the kernarg segment, in bytes. `kind` is the metadata's: `global_buffer`, `by_value`, ..."""

    offset: int
    size: int
    kind: str


@dataclass(frozen=True)
class Program:
    """A kernel's code with all that a launch needs to know about it."""

    name: str
    instructions: tuple[Instruction, ...]
    labels: tuple[tuple[str, int], ...]
    descriptor: dict[str, int]
    """The `.amdhsa_*` directives without their prefix."""
    arguments: tuple[ArgumentSlot, ...]
    metadata: dict[str, Any]
    code: Kernel = field(repr=False, compare=False)
    """As it was read, for static analysis: the instructions have the same places."""

    @property
    def workgroup_size(self) -> int:
        """Threads of a workgroup."""
        return int(self.metadata.get(".max_flat_workgroup_size", 256))

    @property
    def kernarg_size(self) -> int:
        """Bytes of the kernarg segment."""
        return int(self.metadata.get(".kernarg_segment_size", self.descriptor.get("kernarg_size", 0)))

    @property
    def entry(self) -> int:
        """First instruction as the hardware starts it: past the compatibility prologue when arguments are preloaded."""
        if self.descriptor.get("user_sgpr_kernarg_preload_length", 0):
            for instruction in self.instructions[:_PRELOAD_WINDOW]:
                if instruction.opcode == "s_branch":
                    return self.target_of(instruction)
        return 0

    def target_of(self, branch: Instruction) -> int:
        """Index of the instruction that a branch goes to."""
        position = find_label(self.labels, branch.operands[-1].label, branch.index)
        if position is None:
            raise AssemblyError(f"{branch.where()}: the branch target is not a label of {self.name}")
        return position

    def loops_around(self, index: int) -> list[str]:
        """The loops that an instruction lies in, innermost first: `the loop of lines 10..20 (s_branch .LBB0_1)`."""
        found = []
        for branch in self.instructions[index:]:
            if is_branch(branch.opcode) and (first := self.target_of(branch)) <= index:
                lines = f"{self.instructions[first].line}..{branch.line}"
                found.append((branch.index - first, f"the loop of lines {lines} ({branch.text})"))
        return [text for _, text in sorted(found)]

    def first_lds_access(self) -> Instruction | None:
        """The first instruction that touches LDS memory, None if none does."""
        return next((ins for ins in self.instructions if ins.kind.family in _LDS_ACCESS), None)

    def at_line(self, line: int) -> int:
        """Index of the first instruction at or after a line of the assembly text."""
        for instruction in self.instructions:
            if instruction.line >= line:
                return instruction.index
        raise AssemblyError(f"{self.name} has no instruction at or after line {line}")


@lru_cache(maxsize=32)
def parse_program(assembly: str, kernel: str | None = None) -> Program:
    """Decode the text of an `.amdgcn` file; the last few are kept, since a kernel is mostly run more than once.

    `kernel` picks one of several. AssemblyError when the text is truncated, or an operand is not understood.
    """
    parsed = parse_assembly(assembly).kernel(kernel)
    return decode_program(parsed, _read_descriptor(assembly.splitlines(), parsed.name))


def decode_program(kernel: Kernel, descriptor: dict[str, int]) -> Program:
    """Decode the operands of a kernel that was read from text or from a binary. UnsupportedError for another target."""
    if kernel.target != TARGET:
        raise UnsupportedError(
            f"{kernel.name} is code for {kernel.target}; only {TARGET} is emulated, compile it for that"
        )
    return Program(
        name=kernel.name,
        instructions=tuple(_decode(instruction) for instruction in kernel.instructions),
        labels=kernel.labels,
        descriptor=descriptor,
        arguments=_argument_slots(kernel),
        metadata=dict(kernel.metadata),
        code=kernel,
    )


def _decode(instruction: TextInstruction) -> Instruction:
    match = _ENCODING.match(instruction.mnemonic)
    opcode, encoding = (match[1], match[2]) if match else (instruction.mnemonic, "")
    source = instruction.source
    place = f"{source.file.rsplit('/', 1)[-1]}:{source.line}" if source else ""
    if opcode == "s_waitcnt":
        operands: tuple[Operand, ...] = ()
        modifiers: dict[str, Any] = _wait_counts(instruction.operands)
    else:
        try:
            operands = tuple(parse_operand(word) for word in instruction.operands)
        except ValueError as error:
            raise AssemblyError(f"line {instruction.line}: cannot read `{instruction.text}`: {error}") from None
        modifiers = dict(_modifier(word) for word in instruction.modifiers)
    return Instruction(
        instruction.index,
        instruction.line,
        opcode,
        encoding,
        operands,
        modifiers,
        instruction.text,
        place,
        classify(instruction),
    )


def _modifier(word: str) -> tuple[str, Any]:
    name, colon, value = word.partition(":")
    if not colon:
        return word, True
    if value.startswith("["):
        return name, tuple(int(item, 0) for item in value.strip("[]").split(","))
    try:
        return name, int(value, 0)
    except ValueError:
        return name, value


def _wait_counts(words: tuple[str, ...]) -> dict[str, int]:
    counts = {name: int(value, 0) for name, value in re.findall(r"(\w+)\(([^)]+)\)", " ".join(words))}
    if counts:
        return counts
    raw = int(words[0], 0)
    return {"vmcnt": (raw & 0xF) | (raw >> 14 & 3) << 4, "expcnt": raw >> 4 & 7, "lgkmcnt": raw >> 8 & 0xF}


def _read_descriptor(lines: list[str], name: str) -> dict[str, int]:
    values: dict[str, int] = {}
    inside = False
    for raw in lines:
        text = raw.split(";")[0].strip()
        if text.startswith(".amdhsa_kernel "):
            inside = text.split()[1] == name
        elif text == ".end_amdhsa_kernel":
            inside = False
        elif inside and text.startswith(".amdhsa_"):
            key, _, value = text.removeprefix(".amdhsa_").partition(" ")
            if value.strip().isdigit():
                values[key] = int(value)
    return values


def _argument_slots(kernel: Kernel) -> tuple[ArgumentSlot, ...]:
    entries: Any = kernel.metadata.get(".args", ())
    return tuple(ArgumentSlot(entry[".offset"], entry[".size"], entry[".value_kind"]) for entry in entries)
