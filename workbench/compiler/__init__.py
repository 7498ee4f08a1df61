"""Offline compilation: a kernel, its arguments and a target in; every stage, the binary and its figures out.

Needs no GPU. Compiles in processes of its own, with the Triton version that the request names, and keeps the results
by content. Importing this package imports neither Triton nor PyTorch.
"""

from workbench.compiler.artifact import CompiledKernel, KernelArgument
from workbench.compiler.figures import RegisterFigures
from workbench.compiler.pool import close_workers, warm_workers
from workbench.compiler.request import (
    Argument,
    KernelRef,
    KernelRequest,
    describe_argument,
    pointer_argument,
)
from workbench.compiler.service import compile_kernel, compile_many
from workbench.compiler.targets import TARGETS, Target, find_target
from workbench.compiler.versions import installed_triton_version, triton_versions

__all__ = [
    "TARGETS",
    "Argument",
    "CompiledKernel",
    "KernelArgument",
    "KernelRef",
    "KernelRequest",
    "RegisterFigures",
    "Target",
    "close_workers",
    "compile_kernel",
    "compile_many",
    "describe_argument",
    "find_target",
    "installed_triton_version",
    "pointer_argument",
    "triton_versions",
    "warm_workers",
]
