"""What to compile: a kernel, its arguments as Triton's launcher would classify them, and the compiler's options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any

from workbench.compiler.targets import find_target
from workbench.compiler.versions import find_triton, installed_triton_version
from workbench.errors import CompileError
from workbench.launch import TensorMap

# Part of every key: entries written under another number are never read.
CACHE_FORMAT = 1

TENSOR_MAP = "tensordesc"
"""Triton's name of a tensor map's type, which goes on with the element and the block."""

_POINTEE_TYPES = {
    "bool": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
}


@dataclass(frozen=True)
class KernelRef:
    """A `triton.jit` function by name, so that a request can travel to a process with another Triton."""

    module: str
    name: str
    path: str | None = None
    """File of a module that is not on the import path."""


@dataclass(frozen=True)
class Argument:
    """A runtime argument, reduced to what Triton's launcher assumes from its value."""

    type: str
    """Triton's name: `*bf16`, `i32`, `fp32`, ...; `none` for an absent pointer."""
    divisible_by_16: bool = False
    within_2_gib: bool = False
    """AMD: the tensor's storage ends below 2^31 bytes, so a 32-bit buffer offset reaches all of it."""
    is_one: bool = False
    """The integer 1 becomes a constant unless the kernel forbids it."""


Value = int | float | bool | str | None


@dataclass(frozen=True, kw_only=True)
class KernelRequest:
    """One kernel to compile. Mappings are accepted for the four groups of pairs, which are kept sorted by name."""

    kernel: KernelRef
    arguments: tuple[tuple[str, Argument], ...]
    constexprs: tuple[tuple[str, Value], ...] = ()
    options: tuple[tuple[str, Value], ...] = ()
    """Compiler options by Triton's names (`num_warps`, `waves_per_eu`, ...). FP fusion is on unless set here."""
    knobs: tuple[tuple[str, bool], ...] = ()
    """Triton's AMD knobs by Triton's names (`use_async_copy`, ...); those not named keep Triton's default."""
    target: str = "gfx950"
    triton_version: str = ""
    """Empty means the installed version."""
    label: str = field(default="", compare=False)
    """How progress and errors name the request; no part of its identity."""

    def __post_init__(self) -> None:
        for name in ("arguments", "constexprs", "options", "knobs"):
            value = getattr(self, name)
            pairs = value.items() if isinstance(value, Mapping) else value
            object.__setattr__(self, name, tuple(sorted(pairs, key=lambda pair: pair[0])))
        if not self.triton_version:
            object.__setattr__(self, "triton_version", installed_triton_version())
        find_triton(self.triton_version)
        find_target(self.target)

    @property
    def title(self) -> str:
        """What messages call it."""
        return self.label or self.kernel.name

    def key(self, source_digest: str) -> str:
        """Identity of the result: SHA-256 of the request and of the kernel's source."""
        identity = {
            "format": CACHE_FORMAT,
            "sources": source_digest,
            "kernel": [self.kernel.module, self.kernel.name],
            "arguments": [(name, asdict(argument)) for name, argument in self.arguments],
            # The type counts too: 1, True and 1.0 are equal but compile to different code.
            "constexprs": [(name, type(value).__name__, value) for name, value in self.constexprs],
            "options": self.options,
            "knobs": self.knobs,
            "target": self.target,
            "triton": self.triton_version,
        }
        return sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def describe_argument(value: Any) -> Argument:
    """Classify a launch argument: a number, a bool, None, a tensor map, or a tensor (of any device, `meta` included).

    The rules are Triton's: 32 bits where an integer fits them, divisibility by 16 of integers and addresses.
    """
    if value is None:
        return Argument("none")
    if isinstance(value, Argument):
        return value
    if isinstance(value, bool):
        return Argument("u1")
    if isinstance(value, int):
        return Argument(_integer_type(value), divisible_by_16=value % 16 == 0, is_one=value == 1)
    if isinstance(value, float):
        return Argument("fp32")
    if hasattr(value, "data_ptr") and hasattr(value, "untyped_storage"):
        return pointer_argument(
            str(value.dtype).removeprefix("torch."),
            divisible_by_16=value.data_ptr() % 16 == 0,
            within_2_gib=value.untyped_storage().size() < 2**31,
        )
    if isinstance(value, TensorMap):
        pointee = pointer_argument(str(value.tensor.dtype).removeprefix("torch.")).type.removeprefix("*")
        return Argument(f"{TENSOR_MAP}<{pointee}{list(value.block)}>")
    raise CompileError(f"a kernel argument must be a tensor, a number, a bool or None, got {type(value).__name__}")


def pointer_argument(dtype: str, *, divisible_by_16: bool = True, within_2_gib: bool = True) -> Argument:
    """A pointer to elements of PyTorch's dtype name (`bfloat16`); by default aligned and under 2 GiB."""
    if dtype not in _POINTEE_TYPES:
        raise CompileError(f"no kernel argument can have dtype {dtype!r}; use one of {', '.join(_POINTEE_TYPES)}")
    return Argument(f"*{_POINTEE_TYPES[dtype]}", divisible_by_16=divisible_by_16, within_2_gib=within_2_gib)


def _integer_type(value: int) -> str:
    if -(2**31) <= value < 2**31:
        return "i32"
    if -(2**63) <= value < 2**63:
        return "i64"
    if value < 2**64:
        return "u64"
    raise CompileError(f"integer argument {value} does not fit 64 bits")
