"""Compilation of one spec for one problem, where the sweep runs: what pruning has to know, and a filled cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from workbench.errors import CompileError
from workbench.parity.candidate import in_compiler
from workbench.problem import DenseAttentionProblem

if TYPE_CHECKING:
    from workbench.compiler.figures import RegisterFigures
    from workbench.device import Device
    from workbench.launch import KernelLaunch
    from workbench.problem import UnifiedAttentionProblem
    from workbench.spec import KernelSpec


@dataclass(frozen=True)
class CompileJob:
    """One spec to compile for one problem."""

    problem: UnifiedAttentionProblem | DenseAttentionProblem
    spec: KernelSpec
    device: Device
    target: str = ""
    """Target of an offline compilation; empty: the GPU of the process that compiles."""
    triton_version: str = ""
    """Of an offline compilation; empty: the installed one."""


@dataclass(frozen=True)
class Compiled:
    """Static facts of the first kernel that a spec launches."""

    num_warps: int = 0
    lds_bytes: int = 0
    vgprs: int | None = None
    """Vector registers of a lane, as the occupancy rule counts them; None where the compiler does not say."""
    spill_bytes: int | None = None
    """Private memory of a lane."""
    error: str = ""
    """Why there is no kernel."""


def compile_on_this_gpu(job: CompileJob) -> Compiled:
    """Compile through Triton's launcher, so that a later launch on this host finds the result in Triton's cache."""
    from workbench.compiler.plans import plan_without_storage
    from workbench.launch import compile_on_gpu

    try:
        plan = [_as_timed(launch, job.problem) for launch in plan_without_storage(job.problem, job.spec, job.device)]
        first, *_ = compile_on_gpu(plan, job.device.vendor)
    except Exception as error:  # noqa: BLE001 - whatever Triton raises belongs to this spec alone
        # What fails outside the compiler may be no fault of the kernel's: the check on real tensors will tell.
        return Compiled(error=_one_line(error)) if in_compiler(error) else Compiled()
    figures = _launcher_figures(job.device, first)
    return _compiled(int(first.metadata.num_warps), int(first.metadata.shared), figures)


def _as_timed(launch: KernelLaunch, problem: UnifiedAttentionProblem | DenseAttentionProblem) -> KernelLaunch:
    """The launch with the table's row stride that the timed inputs have, since the code is specialised on it."""
    from workbench.inputs import table_width

    if isinstance(problem, DenseAttentionProblem) or "stride_table" not in launch.args:
        return launch
    return replace(launch, args=launch.args | {"stride_table": table_width(problem)})


def compile_offline(job: CompileJob) -> Compiled:
    """Compile for the job's target in a process of the compiler's own; needs no GPU."""
    from workbench.compiler import compile_kernel
    from workbench.compiler.variants import build_requests

    try:
        request, *_ = build_requests(job.problem, job.spec, job.target, triton_version=job.triton_version)
        kernel = compile_kernel(request)
    except CompileError as error:
        return Compiled(error=_one_line(error))
    return _compiled(kernel.num_warps, kernel.lds_bytes, kernel.registers)


def _compiled(num_warps: int, lds_bytes: int, figures: RegisterFigures | None) -> Compiled:
    if figures is None:
        return Compiled(num_warps, lds_bytes)
    return Compiled(num_warps, lds_bytes, figures.vgprs, figures.scratch_bytes)


def _launcher_figures(device: Device, kernel: Any) -> RegisterFigures | None:
    """Register figures of a kernel that Triton's launcher compiled; None where its tools do not tell."""
    from workbench.compiler.targets import Target
    from workbench.compiler.worker import read_figures

    amd = device.vendor == "amd"
    target = Target(device.arch, "hip" if amd else "cuda", device.arch, device.wave_size, device.name)
    try:
        return read_figures(target, kernel)
    except Exception:  # noqa: BLE001 - pruning then goes without registers
        return None


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".strip().splitlines()[0]
