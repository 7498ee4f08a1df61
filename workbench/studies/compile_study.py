"""What one lever does to a kernel's machine code. Nothing runs: every figure is static or modelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args, get_type_hints

from workbench.errors import CompileError, ParameterError, SpecError
from workbench.spec import KernelSpec
from workbench.spec_changes import change_spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.inspection import Inspection
    from workbench.scenarios import Scenario


@dataclass(frozen=True)
class Point:
    """One value of the lever, as text: the spec it gives, and the kernel that comes out or why none does."""

    value: str
    spec: KernelSpec | None
    inspection: Inspection | None
    status: str
    """`ok`, `unsupported` (the spec does not allow the value) or `compile_error`."""
    message: str = ""


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
    """The values to sweep: those given, else both settings of a switch. ParameterError for an unknown lever."""
    hints = get_type_hints(type(spec))
    if lever not in hints:
        raise ParameterError(f"{type(spec).__name__} has no lever {lever!r}; it has {', '.join(sorted(hints))}")
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
    from workbench.compiler import compile_many
    from workbench.compiler.variants import build_requests
    from workbench.inspection import inspect_compiled

    points: dict[int, Point] = {}
    requests = {}
    for index, value in enumerate(values):
        try:
            changed = change_spec(spec, [f"{lever}={value}"])
            built = build_requests(scenario.problem, changed, target, triton_version=triton_version)
        except SpecError as error:
            points[index] = Point(value, None, None, "unsupported", str(error))
        else:
            requests[index] = (changed, built[0])
    report = on_done or (lambda done, total: None)
    outcomes = compile_many(
        [request for _, request in requests.values()],
        progress=lambda done, total, _request, _outcome: report(done, total),
    )
    for (index, (changed, _)), outcome in zip(requests.items(), outcomes, strict=True):
        if isinstance(outcome, CompileError):
            points[index] = Point(values[index], changed, None, "compile_error", str(outcome))
        else:
            points[index] = Point(values[index], changed, inspect_compiled(outcome), "ok")
    return [points[index] for index in range(len(values))]
