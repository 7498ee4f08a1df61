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

MAX_GRID_YZ = 65_535
"""Programs along the second and the third axis of a grid, on CUDA and ROCm."""


@dataclass(frozen=True)
class KernelLaunch:
    """One kernel launch, described."""

    module: str
    """Module of workbench.kernels."""
    kernel: str
    grid: tuple[int, int, int]
    args: dict[str, Any]
    """Run-time arguments in the kernel's order: tensors, numbers, or None for an absent tensor."""
    constexprs: dict[str, Any]
    """Compile-time constants: numbers, booleans and strings."""
    spec: KernelSpec = field(default_factory=TritonSpec)
    num_warps: int | None = None
    """Overrides the spec's, for the reduction."""


def options(launch: KernelLaunch, vendor: str) -> dict[str, Any]:
    """Compiler options for `vendor` ('amd' or 'nvidia')."""
    chosen = launch.spec.compiler_options(vendor) | {"enable_fp_fusion": True}
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
    import triton

    for launch in launches:
        settings = launch.spec.compiler_knobs() if vendor == "amd" else {}
        function = _compiled_function(launch.module, launch.kernel, tuple(sorted(settings.items())))
        with triton.knobs.amd.scope():
            for name, value in settings.items():
                setattr(triton.knobs.amd, name, value)
            function[launch.grid](**launch.args, **launch.constexprs, **options(launch, vendor))


def run_in_interpreter(launches: Sequence[KernelLaunch]) -> None:
    """Run on CPU tensors, program by program."""
    import numpy as np

    from workbench.interpreter import patched_once, rounded_bf16

    for launch in launches:
        function = getattr(kernel_module(launch.module, interpreted=True), launch.kernel)
        # Masked scores are -inf and a row without keys stays at the lowest float: both overflow on purpose.
        with patched_once(), rounded_bf16(), np.errstate(over="ignore", invalid="ignore"):
            function[launch.grid](**launch.args, **launch.constexprs)
