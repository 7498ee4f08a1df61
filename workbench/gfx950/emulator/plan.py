"""Launch plans on the emulator: compile the kernels for gfx950 offline, then run them on the plan's CPU tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.errors import CompileError
from workbench.gfx950.emulator.api import EmulationResult, emulate
from workbench.gfx950.emulator.options import EmulatorOptions

if TYPE_CHECKING:
    from workbench.compiler import CompiledKernel
    from workbench.launch import KernelLaunch

TARGET = "gfx950"


def emulate_plan(launches: Sequence[KernelLaunch], options: EmulatorOptions | None = None) -> list[EmulationResult]:
    """Run the launches one after the other, as a stream would; one result each.

    CompileError, TritonVersionError or TargetError before anything runs; EmulationError as for `emulate`.
    """
    options = options or EmulatorOptions()
    results = []
    for launch, kernel in zip(launches, _compiled(launches, options.triton_version), strict=True):
        result = emulate(
            kernel,
            launch.grid,
            launch.args,
            outputs=_outputs(launch),
            seed=options.seed,
            strict=options.strict,
            check_races=options.check_races,
            trace=options.trace,
        )
        results.append(result)
    return results


def _outputs(launch: KernelLaunch) -> list[str]:
    """The output; of the 3D segments the workspaces, and where the reduction is fused the counters too."""
    if launch.kernel != "unified_attention_3d":
        return ["p_out"]
    return ["p_out", "p_arrivals", *(name for name in launch.args if name.startswith("p_segm_"))]


def _compiled(launches: Sequence[KernelLaunch], triton_version: str) -> list[CompiledKernel]:
    from workbench.compiler import compile_many
    from workbench.compiler.variants import launch_request

    kernels = []
    for outcome in compile_many([launch_request(launch, TARGET, triton_version=triton_version) for launch in launches]):
        if isinstance(outcome, CompileError):
            raise outcome
        kernels.append(outcome)
    return kernels
