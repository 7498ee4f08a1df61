"""Launch plans: which kernel, grid, arguments, constants and options. Planning runs nothing and needs no Triton.

The same plan is executed on a GPU or in the interpreter, compiled offline, or run by the emulator.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.errors import BackendUnavailable
from workbench.spec import KernelSpec, TritonSpec

if TYPE_CHECKING:
    from types import ModuleType

    import torch

MAX_GRID_YZ = 65_535
"""Programs along the second and the third axis of a grid, on CUDA and ROCm."""


@dataclass(frozen=True)
class TensorMap:
    """A tensor as a copy engine sees it: in blocks, with zeros past the ends. For Gluon kernels on Hopper."""

    tensor: torch.Tensor
    block: tuple[int, ...]
    """Extents of a block, one for each axis; the last axis of the tensor has stride 1."""


@dataclass(frozen=True)
class KernelLaunch:
    """One kernel launch, described."""

    module: str
    """Module of workbench.kernels."""
    kernel: str
    grid: tuple[int, int, int]
    args: dict[str, Any]
    """Run-time arguments in the kernel's order: tensors, tensor maps, numbers, or None for an absent tensor."""
    constexprs: dict[str, Any]
    """Compile-time constants: numbers, booleans and strings."""
    vendor_constexprs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Further ones on the GPUs of a vendor; the interpreter gets the kernel's defaults."""
    vendor_options: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Compiler options beyond the spec's on the GPUs of a vendor, by Triton's names."""
    spec: KernelSpec = field(default_factory=TritonSpec)
    num_warps: int | None = None
    """Overrides the spec's, for the reduction."""


def constants(launch: KernelLaunch, vendor: str) -> dict[str, Any]:
    """Compile-time constants on the GPUs of `vendor`."""
    return launch.constexprs | launch.vendor_constexprs.get(vendor, {})


def options(launch: KernelLaunch, vendor: str) -> dict[str, Any]:
    """Compiler options for `vendor` ('amd' or 'nvidia')."""
    chosen = launch.spec.compiler_options(vendor) | {"enable_fp_fusion": True} | launch.vendor_options.get(vendor, {})
    return chosen | ({"num_warps": launch.num_warps} if launch.num_warps else {})


def kernel_module(name: str, *, interpreted: bool) -> ModuleType:
    """Import workbench.kernels.<name> for the GPU or for the interpreter; a process has room for one of the two."""
    import importlib
    import sys

    if interpreted and "triton" not in sys.modules:
        os.environ["TRITON_INTERPRET"] = "1"
    import triton
    import triton.language as tl

    # tl.sum and its like are decorated when Triton is first imported, so the mode cannot change afterwards.
    process_interprets = not isinstance(tl.sum, triton.JITFunction)
    if interpreted and not process_interprets:
        raise BackendUnavailable(
            "CPU tensors run in Triton's interpreter, but this process imported Triton for compilation; "
            "start the process with TRITON_INTERPRET=1"
        )
    if not interpreted and process_interprets:
        raise BackendUnavailable(
            "GPU tensors need compiled kernels, but this process runs Triton's interpreter; "
            "start the process without TRITON_INTERPRET, or use CPU tensors in a process of their own"
        )
    return importlib.import_module(f"workbench.kernels.{name}")


@functools.cache
def _compiled_function(module: str, kernel: str, knob_items: tuple[tuple[str, bool], ...]) -> Any:
    """The JIT function; each setting of the knobs has its own, since Triton's in-process cache ignores them."""
    import triton

    function = getattr(kernel_module(module, interpreted=False), kernel)
    return triton.JITFunction(function.fn) if knob_items else function


def run_on_gpu(launches: Sequence[KernelLaunch], vendor: str) -> None:
    """Launch on the current stream of the tensors' device. Does not synchronise."""
    for launch in launches:
        _on_gpu(launch, vendor, warmup=False)


def compile_on_gpu(launches: Sequence[KernelLaunch], vendor: str) -> list[Any]:
    """Compile what `run_on_gpu` would launch on the current GPU, and launch nothing.

    The result lands in Triton's disk cache, where a later launch from any process finds it. Tensors may be of the
    `meta` device. Returns Triton's compiled kernels.
    """
    return [_on_gpu(launch, vendor, warmup=True) for launch in launches]


def _on_gpu(launch: KernelLaunch, vendor: str, *, warmup: bool) -> Any:
    import triton

    settings = launch.spec.compiler_knobs() if vendor == "amd" else {}
    function = _compiled_function(launch.module, launch.kernel, tuple(sorted(settings.items())))
    with triton.knobs.amd.scope():
        for name, value in settings.items():
            setattr(triton.knobs.amd, name, value)
        args = {name: _encoded(value) for name, value in launch.args.items()}
        values = {**args, **constants(launch, vendor), **options(launch, vendor)}
        return function.run(grid=launch.grid, warmup=warmup, **values)


def _encoded(value: Any) -> Any:
    """A tensor map in the form that Gluon takes; anything else as it is."""
    if not isinstance(value, TensorMap):
        return value
    import torch
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    block, tensor = list(value.block), value.tensor
    element = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16}[tensor.dtype]
    layout = gl.NVMMASharedLayout.get_default_for(block, element)
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), block, layout)


def run_in_interpreter(launches: Sequence[KernelLaunch]) -> None:
    """Run on CPU tensors, program by program."""
    import numpy as np

    from workbench.interpreter import e4m3_with_nan, patched_once, rounded_bf16, without_dropped_checks

    for launch in launches:
        function = getattr(kernel_module(launch.module, interpreted=True), launch.kernel)
        # Masked scores are -inf and a row without keys stays at the lowest float: both overflow on purpose.
        with (
            patched_once(),
            without_dropped_checks(),
            rounded_bf16(),
            e4m3_with_nan(),
            np.errstate(over="ignore", invalid="ignore"),
        ):
            function[launch.grid](**launch.args, **launch.constexprs)
