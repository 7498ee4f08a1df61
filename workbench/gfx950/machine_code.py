"""Machine code as data: instructions with their source lines, kernels, and the file that held them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.errors import AssemblyError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.gfx950.resources import Resources

Labels = tuple[tuple[str, int], ...]
"""(label, index of the instruction that follows it), in order."""

ENDS_CODE = frozenset({"s_endpgm", "s_endpgm_saved", "s_branch", "s_setpc_b64", "s_trap", "s_sethalt"})
"""Instructions that never fall through to the next one."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A place in the kernel's source, 1-based."""

    file: str
    line: int
    column: int = 0


@dataclass(frozen=True, slots=True)
class Instruction:
    """One machine instruction."""

    index: int
    """Position among the kernel's instructions."""
    line: int
    """Line of the assembly file, 1-based."""
    mnemonic: str
    """As written, encoding suffix included: `v_add_f32_e32`."""
    operands: tuple[str, ...] = ()
    """`v[0:3]`, `s2`, `0x3ff`, `off`, `.LBB0_1`, `vmcnt(0)`."""
    modifiers: tuple[str, ...] = ()
    """What follows the last operand: `offen`, `offset:16`, `lds`, `row_shr:1`."""
    source: SourceLine | None = None
    """None where the compiler names no source line."""

    @property
    def text(self) -> str:
        """The instruction in one line, without comments."""
        separator = " " if self.mnemonic == "s_waitcnt" else ", "
        return " ".join(filter(None, (self.mnemonic, separator.join(self.operands), *self.modifiers)))


@dataclass(frozen=True)
class Kernel:
    """Code and resources of one kernel."""

    name: str
    target: str
    """gfx950, gfx942, ..."""
    instructions: tuple[Instruction, ...]
    """Empty when only a binary was read and no disassembler was at hand."""
    labels: Labels
    resources: Resources
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The kernel's entry of `amdhsa.kernels`."""

    def target_of(self, branch: Instruction) -> int | None:
        """Index of the instruction that a branch jumps to; None when its operand is no label of this kernel."""
        return find_label(self.labels, branch.operands[-1], branch.index) if branch.operands else None


@dataclass(frozen=True)
class MachineCode:
    """What one file held."""

    name: str
    target: str
    kernels: tuple[Kernel, ...]
    modern_llvm: bool = False
    """Written by an LLVM that spells the target triple `amdgpu9.50-...`; see occupancy.llvm_occupancy."""
    note: str = ""
    """How a binary was disassembled, or why it was not."""

    def kernel(self, name: str | None = None) -> Kernel:
        """The kernel of that name, or the only one; AssemblyError lists the names."""
        names = [kernel.name for kernel in self.kernels]
        if name is None and len(names) == 1:
            return self.kernels[0]
        if name in names:
            return self.kernels[names.index(name)]
        asked = f"{self.name} has no kernel {name!r}" if name else f"{self.name} holds {len(names)} kernels"
        raise AssemblyError(f"{asked}; choose one of {', '.join(names)}")


def find_label(labels: Labels, label: str, index: int) -> int | None:
    """Resolve a label as seen from the instruction at `index`; `1f` and `1b` are the next and the last label `1`."""
    numeric = re.fullmatch(r"(\d+)([fb])", label)
    if numeric is None:
        return next((place for known, place in labels if known == label), None)
    places = [place for known, place in labels if known == numeric[1]]
    position = bisect_right(places, index) if numeric[2] == "f" else bisect_left(places, index + 1) - 1
    return places[position] if 0 <= position < len(places) else None


def is_branch(mnemonic: str) -> bool:
    """Whether the instruction jumps to a label that it names."""
    return mnemonic == "s_branch" or mnemonic.startswith("s_cbranch_")


def is_modern(triple: str) -> bool:
    """Whether an LLVM of 2026 or later wrote the target triple: `amdgpu9.50-...` where it was `amdgcn-...` before."""
    return re.match(r"amdgpu\d", triple) is not None
