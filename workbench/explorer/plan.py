"""What follows from a state without compiling: problem, lane, spec, launches, and the reasons. Takes milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from workbench.compiler import find_target
from workbench.device import detect_device, load_device
from workbench.dispatch import select_dense_spec, select_path, select_spec
from workbench.errors import ParameterError, SpecError, WorkbenchError
from workbench.explorer.fields import Field, kernel_of_spec, problem_fields, spec_fields
from workbench.explorer.problem_edits import edit_problem, spell_value
from workbench.explorer.state import AUTO
from workbench.levers import find_kernel, load_kernels
from workbench.problem import DenseAttentionProblem
from workbench.scenarios import find
from workbench.spec import TritonSpec
from workbench.spec_changes import change_spec
from workbench.spec_gfx950 import Gfx950DenseSpec
from workbench.spec_gfx950_unified import FP8, Gfx950Unified2DSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.compiler import KernelRequest
    from workbench.device import Device
    from workbench.explorer.state import State
    from workbench.launch import KernelLaunch
    from workbench.levers import KernelLevers
    from workbench.scenario_files import Problem
    from workbench.spec import KernelSpec


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A state worked out. `error` says why it has no spec or no launches; the rest is there all the same."""

    state: State
    problem: Problem
    device: Device
    lane: str
    """`dense`, `2d` or `3d`."""
    facts: Mapping[str, int]
    """What the lane was chosen by, with names."""
    reasons: tuple[str, ...]
    base: KernelSpec
    """What dispatch picks, or the kernel's defaults where it picks another one."""
    spec: KernelSpec | None
    launches: tuple[KernelLaunch, ...]
    requests: tuple[KernelRequest, ...]
    problem_fields: tuple[Field, ...]
    spec_fields: tuple[Field, ...]
    error: str = ""

    @property
    def kernel(self) -> KernelLevers | None:
        """The registry's kernel of the spec."""
        return kernel_of_spec(type(self.base))


def kernels_for(problem: Problem) -> tuple[KernelLevers, ...]:
    """Kernels of the registry that are for problems of this kind."""
    dense = isinstance(problem, DenseAttentionProblem)
    return tuple(kernel for kernel in load_kernels() if (kernel.lane == "dense") == dense)


def make_plan(state: State) -> Plan:
    """Work a state out. Raises the error of a problem, scenario, kernel or target that cannot be; never SpecError."""
    scenario = find(state.scenario, state.size)  # type: ignore[arg-type]
    problem = edit_problem(scenario.problem, state.edits)
    device = _device_for(state.target)
    lane, facts, reasons, base = _choose(problem, state.kernel, device)
    changed = dict(state.changes)
    spec, error = _changed(base, changed)
    launches: tuple[KernelLaunch, ...] = ()
    requests: tuple[KernelRequest, ...] = ()
    if spec is not None:
        launches, requests, error = _launches(problem, spec, device, state)
    return Plan(
        state=state,
        problem=problem,
        device=device,
        lane=lane,
        facts=facts,
        reasons=reasons,
        base=base,
        spec=spec,
        launches=launches,
        requests=requests,
        problem_fields=problem_fields(scenario.problem, problem),
        spec_fields=spec_fields(base, _spelled(base, changed)),
        error=error,
    )


def main_request(state: State) -> KernelRequest | None:
    """The request of a state's main kernel alone, in a tenth of the time; None where `make_plan` names an error."""
    try:
        scenario = find(state.scenario, state.size)  # type: ignore[arg-type]
        problem = edit_problem(scenario.problem, state.edits)
        device = _device_for(state.target)
        *_, base = _choose(problem, state.kernel, device)
        spec, _ = _changed(base, dict(state.changes))
        requests = _launches(problem, spec, device, state)[1] if spec is not None else ()
    except WorkbenchError:
        return None
    return requests[0] if requests else None


def _device_for(target: str) -> Device:
    """The GPU here where it is of the target's architecture, else the target's usual one."""
    usual, here = load_device(find_target(target).device), detect_device()
    return here if here is not None and here.arch == usual.arch else usual


def _choose(
    problem: Problem, kernel: str, device: Device
) -> tuple[str, Mapping[str, int], tuple[str, ...], KernelSpec]:
    """Lane, the figures it was chosen by, reasons, spec."""
    named = None if kernel == AUTO else find_kernel(kernel)
    if named is not None and named not in kernels_for(problem):
        raise ParameterError(
            f"{kernel} does not serve a {type(problem).__name__}; choose {AUTO} or one of "
            f"{', '.join(each.kernel for each in kernels_for(problem))}"
        )
    portable = named is not None and issubclass(named.spec_class, TritonSpec)
    facts: dict[str, int]
    reasons: tuple[str, ...]
    picked: KernelSpec
    if isinstance(problem, DenseAttentionProblem):
        lane, facts, reasons = "dense", {}, ()
        choice = select_dense_spec(problem, device, portable=portable)
        picked, why = choice.spec, choice.reasons
    else:
        path = select_path(problem, device)
        lane = named.lane if named else path.lane
        facts = {"2D workgroups at the smallest query tile": path.grid, "workgroups that fill the device": path.target}
        reasons = path.reasons if named is None else (f"Lane {lane}: of the kernel that was asked for.",)
        unified = select_spec(problem, device, lane, portable=portable)
        picked, why = unified.spec, unified.reasons
    if named is not None and type(picked) is not named.spec_class:
        dispatched = kernel_of_spec(type(picked))
        other = dispatched.kernel if dispatched else type(picked).__name__
        picked, why = named.spec_class(), (f"Dispatch takes {other} here; {kernel} has the defaults of its spec.",)
    return lane, facts, (*reasons, *why), picked


def _changed(base: KernelSpec, changes: Mapping[str, str]) -> tuple[KernelSpec | None, str]:
    known = {field.name for field in fields(base)}
    try:
        return change_spec(base, [f"{name}={text}" for name, text in changes.items() if name in known]), ""
    except SpecError as error:
        return None, str(error)


def _launches(
    problem: Problem, spec: KernelSpec, device: Device, state: State
) -> tuple[tuple[KernelLaunch, ...], tuple[KernelRequest, ...], str]:
    from workbench.compiler.plans import plan_without_storage
    from workbench.compiler.variants import launch_request

    try:
        launches = tuple(plan_without_storage(problem, spec, device))
    except SpecError as error:
        return (), (), str(error)
    requests = (launch_request(each, state.target, triton_version=state.triton) for each in launches)
    return launches, tuple(requests), ""


def _spelled(base: KernelSpec, changes: Mapping[str, str]) -> dict[str, str]:
    """Changes of fields that the spec has, `on` and the like written as fields are."""
    words = {"on": "true", "off": "false"}
    known = {field.name for field in fields(base)}
    return {name: words.get(text.lower(), text) for name, text in changes.items() if name in known}


def planned_lds(plan: Plan) -> int | None:
    """LDS of a workgroup in bytes by the spec's own account; None where the compiler alone decides it."""
    spec, problem = plan.spec, plan.problem
    if isinstance(spec, Gfx950DenseSpec):
        return spec.lds_bytes(problem.head_size)
    if isinstance(spec, Gfx950Unified2DSpec):
        return spec.lds_bytes(problem.head_size, problem.dtype, FP8 if spec.fp8_native_qk else problem.dtype)
    return None


def changed_fields(plan: Plan) -> dict[str, str]:
    """Fields of the spec that differ from what dispatch picks."""
    if plan.spec is None:
        return {}
    return {
        field.name: spell_value(getattr(plan.spec, field.name))
        for field in fields(plan.base)
        if getattr(plan.spec, field.name) != getattr(plan.base, field.name)
    }
