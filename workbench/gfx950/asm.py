"""Read AMD assembly text (.amdgcn, .s): kernels, instructions, resources, and the source line of each instruction.

Accepts what LLVM prints and what people write by hand, as long as it can be loaded: a target, and for every kernel its
code, its `.amdhsa_kernel` block and its entry in the metadata. Anything less is reported as truncated.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from workbench.errors import AssemblyError, UnsupportedError
from workbench.gfx950.asm_blocks import collect_blocks, declared_functions, require, triple_of
from workbench.gfx950.asm_code import Function, collect_code, split_operands
from workbench.gfx950.machine_code import (
    ENDS_CODE,
    Instruction,
    Kernel,
    MachineCode,
    SourceLine,
    find_label,
    is_branch,
    is_modern,
)
from workbench.gfx950.resources import resources_of

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "Instruction",
    "Kernel",
    "MachineCode",
    "SourceLine",
    "parse_assembly",
    "read_assembly",
    "split_operands",
]

_NVIDIA = re.compile(r"^\s*\.target\s+sm_|^\s*\.headerflags|\bEIATTR_|^\s*Function : ", re.MULTILINE)
_PADDING = {"s_nop", "s_code_end"}


def read_assembly(path: Path) -> MachineCode:
    """Read an assembly file. AssemblyError when it is missing, not text, truncated or without a kernel."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise AssemblyError(f"cannot read {path}: {error.strerror}; give an .amdgcn, .s or .hsaco file") from None
    if content.startswith(b"\x7fELF"):
        raise AssemblyError(f"{path} is an ELF binary, not assembly text; name it .hsaco if it is a code object")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise AssemblyError(f"{path} is not text; give an .amdgcn, .s or .hsaco file") from None
    return parse_assembly(text, name=path.name)


def parse_assembly(text: str, name: str = "assembly") -> MachineCode:
    """Parse assembly text, which errors call `name`. AssemblyError as above, UnsupportedError for PTX and SASS."""
    if ".amdgcn_target" not in text and _NVIDIA.search(text):
        raise UnsupportedError(f"{name} is NVIDIA code; only AMD assembly (gfx950, gfx942) can be inspected")
    lines = text.splitlines()
    blocks = collect_blocks(lines, name)
    triple = triple_of(text, blocks)
    target = "".join(re.findall(r"gfx[0-9a-f]+", triple)[:1])
    require(target, name, "a target (.amdgcn_target, or amdhsa.target in the metadata)")
    entries = blocks.entries
    names = dict.fromkeys([*blocks.directives, *entries])
    require(names, name, "a kernel (.amdhsa_kernel block and metadata entry)")
    code = collect_code(lines, set(names) | declared_functions(text))
    kernels = []
    for kernel in names:
        function = code.get(kernel, Function())
        require(function.instructions, name, f"the code of kernel {kernel}")
        require(kernel in blocks.directives, name, f"the .amdhsa_kernel block of kernel {kernel}")
        _check_whole(function, name, kernel)
        entry = entries.get(kernel, {})
        resources = resources_of(blocks.directives[kernel], entry, function.comments)
        kernels.append(Kernel(kernel, target, tuple(function.instructions), tuple(function.labels), resources, entry))
    return MachineCode(name, target, tuple(kernels), modern_llvm=is_modern(triple))


def _check_whole(function: Function, name: str, kernel: str) -> None:
    """A kernel's code must end for good, and its branches must land inside it."""
    labels = tuple(function.labels)
    require(function.instructions[-1].mnemonic in ENDS_CODE | _PADDING, name, f"the end of kernel {kernel}'s code")
    for instruction in function.instructions:
        if is_branch(instruction.mnemonic) and instruction.operands:
            label = instruction.operands[-1]
            known = (
                re.fullmatch(r"-?\d+|0x[0-9a-f]+", label) or find_label(labels, label, instruction.index) is not None
            )
            require(known, name, f"label {label} of kernel {kernel}, to which line {instruction.line} branches")
