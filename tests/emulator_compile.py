"""Compiles the small kernels of emulator_kernels.py for the emulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from workbench.compiler import CompiledKernel, KernelRef, KernelRequest, compile_kernel, describe_argument

SOURCE = str(Path(__file__).parent / "emulator_kernels.py")


def compile_for(name: str, args: dict[str, Any], block: int, version: str = "") -> CompiledKernel:
    """A kernel specialised for these arguments."""
    request = KernelRequest(
        kernel=KernelRef("emulator_kernels", name, SOURCE),
        arguments={key: describe_argument(value) for key, value in args.items()},  # type: ignore[arg-type]
        constexprs={"BLOCK": block},  # type: ignore[arg-type]
        triton_version=version,
    )
    return compile_kernel(request)


def nan(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full(shape, float("nan"), dtype=dtype)
