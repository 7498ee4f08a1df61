"""Machine code to instructions through LLVM's disassembler, where the machine has one that knows the target."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.gfx950.asm_code import split_operands
from workbench.gfx950.machine_code import Instruction, Labels, SourceLine, is_branch

if TYPE_CHECKING:
    from collections.abc import Iterator

OBJDUMP_VARIABLE = "WORKBENCH_LLVM_OBJDUMP"
_TIME_LIMIT_S = 60
# Stands between the end of a function and the next one, or the end of the section.
_PADDING = ("s_nop", "s_code_end")
_FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_SOURCE = re.compile(r"^; (.+):(\d+)(?: \(discriminator \d+\))?$")
_LINE = re.compile(r"^\s+([a-z_]\w*)\s*(.*?)\s*//\s*([0-9A-F]+):")
Code = dict[str, tuple[tuple[Instruction, ...], Labels]]
_Line = tuple[int, int, str, str, SourceLine | None]


def disassemble(path: Path) -> tuple[Code, str]:
    """(function -> instructions and labels, why there are none or which tool read them).

    Looks at WORKBENCH_LLVM_OBJDUMP, the path, and ROCm's usual place. An older LLVM does not know gfx950.
    """
    refusals = []
    for tool in _candidates():
        arguments = [tool, "--disassemble", "--line-numbers", str(path)]
        try:
            done = subprocess.run(arguments, capture_output=True, text=True, timeout=_TIME_LIMIT_S, check=False)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired) as error:
            refusals.append(f"{tool}: {error}")
            continue
        if done.returncode == 0 and (code := parse_objdump(done.stdout)):
            return code, f"disassembled by {tool}"
        refusals.append(f"{tool} cannot disassemble it")
    reason = "; ".join(refusals) or "no llvm-objdump on this machine"
    return (
        {},
        f"registers and metadata only: {reason}. Set {OBJDUMP_VARIABLE} to one of LLVM 20 or later, or give .amdgcn",
    )


def parse_objdump(text: str) -> Code:
    """Read the output of `llvm-objdump --disassemble --line-numbers`; branch targets become labels."""
    return {name: _with_labels(list(lines)) for name, lines in _functions(text) if lines}


def _candidates() -> tuple[str, ...]:
    named = os.environ.get(OBJDUMP_VARIABLE)
    rocm = sorted(Path("/opt").glob("rocm*/llvm/bin/llvm-objdump"), reverse=True)
    numbered = [f"llvm-objdump-{version}" for version in range(30, 14, -1)]
    found = [shutil.which(name) for name in ([named] if named else [*map(str, rocm), "llvm-objdump", *numbered])]
    return tuple(dict.fromkeys(path for path in found if path))


def _functions(text: str) -> Iterator[tuple[str, list[_Line]]]:
    name: str | None = None
    lines: list[_Line] = []
    source = None
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _FUNCTION.match(line):
            if name:
                yield name, lines
            name, lines, source = match[1], [], None
        elif match := _SOURCE.match(line):
            source = SourceLine(match[1], int(match[2])) if match[2] != "0" else None
        elif name and (match := _LINE.match(line)):
            lines.append((number, int(match[3], 16), match[1], match[2], source))
    if name:
        yield name, lines


def _with_labels(lines: list[_Line]) -> tuple[tuple[Instruction, ...], Labels]:
    while lines and lines[-1][2] in _PADDING:
        lines.pop()
    index_at = {address: index for index, (_, address, *_) in enumerate(lines)}
    labels: dict[str, int] = {}
    instructions = []
    for index, (number, address, mnemonic, rest, source) in enumerate(lines):
        operands, modifiers = split_operands(rest)
        if is_branch(mnemonic) and operands and operands[-1].isdigit():
            # A branch counts 4-byte words from the next instruction, as a signed 16-bit number.
            words = int(operands[-1])
            target = address + 4 + 4 * (words - 0x10000 if words >= 0x8000 else words)
            if target in index_at:
                label = f"L_{target:x}"
                labels[label] = index_at[target]
                operands = (label,)
        instructions.append(Instruction(index, number, mnemonic, operands, modifiers, source))
    return tuple(instructions), tuple(sorted(labels.items(), key=lambda item: item[1]))
