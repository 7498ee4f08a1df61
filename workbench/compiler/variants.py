"""From a problem and a spec to the kernels to compile.

What is compiled is what a launch would compile, because both read the same plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.compiler.plans import plan_without_storage
from workbench.compiler.request import KernelRef, KernelRequest, describe_argument
from workbench.compiler.targets import find_target
from workbench.device import load_device
from workbench.launch import constants, options

if TYPE_CHECKING:
    from workbench.launch import KernelLaunch
    from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
    from workbench.spec import KernelSpec


def build_requests(
    problem: UnifiedAttentionProblem | DenseAttentionProblem,
    spec: KernelSpec,
    target: str = "gfx950",
    *,
    triton_version: str = "",
    label: str = "",
) -> list[KernelRequest]:
    """List the kernels that serve the problem under this spec, in launch order; two for the 3D lane.

    Tensors are taken as freshly allocated: 16-byte aligned, contiguous, the block table as wide as the longest
    sequence needs. Raises SpecError where the spec does not serve the problem, TargetError, TritonVersionError.
    """
    device = load_device(find_target(target).device)
    return [
        launch_request(launch, target, triton_version=triton_version, label=label)
        for launch in plan_without_storage(problem, spec, device)
    ]


def launch_request(
    launch: KernelLaunch, target: str = "gfx950", *, triton_version: str = "", label: str = ""
) -> KernelRequest:
    """The request for what Triton would compile for this launch on the target."""
    vendor = "amd" if find_target(target).is_amd else "nvidia"
    return KernelRequest(
        kernel=KernelRef(f"workbench.kernels.{launch.module}", launch.kernel),
        arguments={name: describe_argument(value) for name, value in launch.args.items()},  # type: ignore[arg-type]
        constexprs=constants(launch, vendor),  # type: ignore[arg-type]
        options=options(launch, vendor),  # type: ignore[arg-type]
        knobs=launch.spec.compiler_knobs() if vendor == "amd" else (),  # type: ignore[arg-type]
        target=target,
        triton_version=triton_version,
        label=label,
    )
