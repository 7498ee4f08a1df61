"""A compiled kernel: every stage as text, the binary, and what a launcher or an emulator needs to run it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.compiler.figures import RegisterFigures

_SCALAR_BYTES = {"u1": 1, "i1": 1, "i8": 1, "u8": 1, "fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8}
_TENSOR_MAP_BYTES = 128
"""CUtensorMap; Triton passes the tensor's extents and strides behind it, which are not listed."""


@dataclass(frozen=True)
class KernelArgument:
    """One entry of the argument block: `type` is Triton's (`*bf16`, `i32`), offset and size are in bytes."""

    name: str
    type: str
    offset: int
    size: int


@dataclass(frozen=True, kw_only=True)
class CompiledKernel:
    """What the compiler made of one request. Evidence kind: static."""

    name: str
    """Symbol of the kernel in the binary."""
    target: str
    triton_version: str
    key: str
    """Identity of source, request, Triton version and target: equal keys, equal code."""
    ttir: str
    ttgir: str
    llir: str
    assembly: str
    """AMD assembly or PTX."""
    binary: bytes
    """hsaco or cubin."""
    metadata: dict[str, Any]
    """As Triton reports it."""
    arguments: tuple[KernelArgument, ...]
    """Runtime arguments in the order of the argument block, whose last two entries, not listed here, are pointers to
    Triton's own scratch and may be null."""
    registers: RegisterFigures | None
    compile_seconds: float
    """CPU seconds that the compiler took."""

    @property
    def num_warps(self) -> int:
        """Waves (warps) of a workgroup."""
        return int(self.metadata["num_warps"])

    @property
    def lds_bytes(self) -> int:
        """LDS (shared memory) of a workgroup in bytes."""
        return int(self.metadata["shared"])


def lay_out_arguments(signature: list[tuple[str, str]]) -> tuple[KernelArgument, ...]:
    """Place (name, type) pairs one after the other, each at its natural alignment."""
    placed = []
    end = 0
    for name, type_name in signature:
        size = _size_of(type_name)
        offset = -(-end // size) * size
        placed.append(KernelArgument(name, type_name, offset, size))
        end = offset + size
    return tuple(placed)


def _size_of(type_name: str) -> int:
    if type_name.startswith("*"):
        return 8
    if type_name.startswith("tensordesc"):
        return _TENSOR_MAP_BYTES
    if type_name in _SCALAR_BYTES:
        return _SCALAR_BYTES[type_name]
    bits = re.fullmatch(r"[iu](\d+)", type_name)
    if bits is None:
        raise ValueError(f"kernel argument of unknown size: {type_name}")
    return int(bits.group(1)) // 8
