"""What one lever does to a kernel's machine code, static and modelled, and to its emulated LDS bank conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, get_args, get_type_hints

from workbench.errors import CompileError, ParameterError, SpecError
from workbench.spec import KernelSpec
from workbench.spec_changes import change_spec, read_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.inspection import Inspection
    from workbench.model import Ceilings
    from workbench.parity.flops import Work
    from workbench.scenarios import Scenario
    from workbench.studies.lever_study import LeverStudy, Problem, Progress


@dataclass(frozen=True)
class Point:
    """One value of the lever, as text: the spec it gives, and the kernel that comes out or why none does."""

    value: str
    spec: KernelSpec | None
    inspection: Inspection | None
    status: str
    """`ok`, `unsupported` (the spec does not allow the value) or `compile_error`."""
    message: str = ""
    workgroups: int | None = None
    """Workgroups of the main kernel's launch."""


@dataclass(frozen=True)
class CallLimits:
    """What a call cannot do without, over the published peaks of the target's device. Evidence kind: modelled."""

    compute_units: int
    work: Work
    ceilings: Ceilings

    @property
    def memory_us(self) -> float:
        """Least time of the least bytes at peak bandwidth."""
        return self.work.bytes / self.ceilings.memory.value * 1e6

    @property
    def compute_us(self) -> float:
        """Least time of the FLOPs at the peak of the matrix units."""
        return self.work.flops / self.ceilings.compute.value * 1e6

    @property
    def binding(self) -> str:
        """`memory` or `compute`."""
        return self.ceilings.binding(self.work.flops / self.work.bytes)


def call_limits(problem: Problem, target: str) -> CallLimits:
    """The problem's FLOPs and least bytes over the data sheet of the target's device."""
    from workbench.compiler import find_target
    from workbench.device import load_device
    from workbench.model import datasheet_ceilings
    from workbench.parity.flops import work_of

    device = load_device(find_target(target).device)
    return CallLimits(device.compute_units, work_of(problem), datasheet_ceilings(device))


def base_spec(scenario: Scenario, lane: str, target: str, changes: Sequence[str] = ()) -> KernelSpec:
    """What dispatch picks for the scenario on the target's device, with `changes` (field=value) applied.

    lane is '2d', '3d', or 'auto', which follows the dispatcher; a dense scenario has 'auto' alone.
    """
    from workbench.compiler import find_target
    from workbench.device import load_device
    from workbench.dispatch import select_dense_spec, select_path, select_spec
    from workbench.problem import UnifiedAttentionProblem

    device = load_device(find_target(target).device)
    problem = scenario.problem
    spec: KernelSpec
    if isinstance(problem, UnifiedAttentionProblem):
        path = select_path(problem, device).lane if lane == "auto" else lane
        spec = select_spec(problem, device, path).spec
    elif lane == "auto":
        spec = select_dense_spec(problem, device).spec
    else:
        raise ParameterError(f"{scenario.name} is a dense scenario and has no lanes; set lane to 'auto'")
    return change_spec(spec, changes)


def lever_values(spec: KernelSpec, lever: str, values: Sequence[str]) -> list[str]:
    """The values to sweep: those given, else both settings of a switch.

    ParameterError for an unknown lever, a value that is not of its type, and one that is given twice. Whether spec and
    problem allow the value is not asked here.
    """
    hints = get_type_hints(type(spec))
    if lever not in hints:
        raise ParameterError(f"{type(spec).__name__} has no lever {lever!r}; it has {', '.join(sorted(hints))}")
    for value in values:
        try:
            read_value(lever, value, hints[lever])
        except SpecError as error:
            raise ParameterError(str(error)) from None
    if twice := [value for value in values if list(values).count(value) > 1]:
        raise ParameterError(f"values of {lever}: {twice[0]} is given twice; name each value once")
    if values:
        return list(values)
    if bool in (hints[lever], *get_args(hints[lever])):
        return ["false", "true"]
    raise ParameterError(f"{lever} is not a switch: name the values to sweep, such as 1 and 2")


def sweep_lever(
    scenario: Scenario,
    spec: KernelSpec,
    lever: str,
    values: Sequence[str],
    *,
    target: str = "gfx950",
    triton_version: str = "",
    on_done: Callable[[int, int], None] | None = None,
) -> list[Point]:
    """Compile and inspect the scenario's main kernel for each value of the lever, several at once."""
    from workbench.compiler import compile_many, find_target
    from workbench.compiler.plans import plan_without_storage
    from workbench.compiler.variants import launch_request
    from workbench.device import load_device
    from workbench.inspection import inspect_compiled

    points: dict[int, Point] = {}
    requests = {}
    device = load_device(find_target(target).device)
    for index, value in enumerate(values):
        try:
            changed = change_spec(spec, [f"{lever}={value}"])
            launch = plan_without_storage(scenario.problem, changed, device)[0]
        except SpecError as error:
            points[index] = Point(value, None, None, "unsupported", str(error))
        else:
            request = launch_request(launch, target, triton_version=triton_version)
            requests[index] = (changed, request, prod(launch.grid))
    report = on_done or (lambda done, total: None)
    outcomes = compile_many(
        [request for _, request, _ in requests.values()],
        progress=lambda done, total, _request, _outcome: report(done, total),
    )
    for (index, (changed, _, workgroups)), outcome in zip(requests.items(), outcomes, strict=True):
        if isinstance(outcome, CompileError):
            points[index] = Point(values[index], changed, None, "compile_error", str(outcome))
        else:
            points[index] = Point(values[index], changed, inspect_compiled(outcome), "ok", workgroups=workgroups)
    return [points[index] for index in range(len(values))]


def emulate_values(
    scenario: Scenario,
    points: Sequence[Point],
    *,
    target: str = "gfx950",
    triton_version: str = "",
    on_step: Progress | None = None,
) -> LeverStudy | None:
    """Run each value's kernel on the emulator, on a small problem of the scenario's kind, for its LDS bank conflicts.

    Variants of the study are named as the values. None where nothing can run: for another target than the emulator's,
    and without a kernel.
    """
    from workbench.studies.lever_study import TARGET, Variant, study_variants

    variants = [Variant(point.value, scenario.problem, point.spec) for point in points if point.inspection]
    if target != TARGET or not variants:
        return None
    return study_variants(variants, triton_version=triton_version, timing=False, on_step=on_step)
