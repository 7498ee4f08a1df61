"""Launch plans on the emulator: compile each kernel for gfx950 offline, then run it on the plan's CPU tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.gfx950.emulator.api import EmulationResult, emulate

if TYPE_CHECKING:
    from workbench.launch import KernelLaunch

TARGET = "gfx950"
_OUTPUT_PREFIXES = ("p_out", "p_segm_")


def emulate_plan(
    launches: Sequence[KernelLaunch], *, triton_version: str = "", **options: Any
) -> list[EmulationResult]:
    """Run the launches one after the other, as a stream would; one result each.

    triton_version: the compiler to use, empty for the installed one. options: as for `emulate`.
    """
    from workbench.compiler import compile_kernel
    from workbench.compiler.variants import launch_request

    results = []
    for launch in launches:
        kernel = compile_kernel(launch_request(launch, TARGET, triton_version=triton_version))
        outputs = [name for name in launch.args if name.startswith(_OUTPUT_PREFIXES)]
        results.append(emulate(kernel, launch.grid, launch.args, outputs=outputs, **options))
    return results
