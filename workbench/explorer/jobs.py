"""The slow figures, as functions that run in a process of their own (workbench.explorer.helper)."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from workbench.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from workbench.parity.timing import Timer
    from workbench.scenario_files import Problem
    from workbench.spec import KernelSpec


def emulate(problem: Problem, spec: KernelSpec, lane: str, triton_version: str) -> dict[str, int]:
    """LDS conflict cycles of the K read, the V read and all else on the emulator."""
    from workbench.levers.emulated import conflicts_of_spec

    return conflicts_of_spec(lane, problem, spec, triton_version)


def measure(
    problem: Problem, lineup: Sequence[tuple[str, str, KernelSpec]], *, timer: Timer | None = None
) -> dict[str, dict[str, Any]]:
    """Times of (name, lane, spec) on this machine's GPU, interleaved in one session; `note` where one has none."""
    from workbench.parity.harness import Contestant, run_contestants
    from workbench.parity.timing import TimingPlan
    from workbench.scenarios import Scenario

    contestants = [Contestant(name, lane, spec) for name, lane, spec in lineup]
    found: dict[str, dict[str, Any]] = {}
    scenario = Scenario("explorer", "explorer", problem)
    for record in run_contestants(scenario, contestants, plan=TimingPlan(), timer=timer):
        if not record.samples:
            found[record.candidate] = {"note": f"{record.status}: {record.message}"}
            continue
        found[record.candidate] = {
            "median_us": median(record.samples),
            "least_us": min(record.samples),
            "most_us": max(record.samples),
            "rounds": len(record.samples),
            "device": record.environment.get("device", "unknown device"),
            **{name: record.metrics[name].value for name in ("tflops", "tbps") if name in record.metrics},
        }
    return found


def find_job(name: str) -> Callable[..., Any]:
    """The job of that name; ParameterError lists them."""
    jobs: dict[str, Callable[..., Any]] = {"emulate": emulate, "measure": measure}
    if name not in jobs:
        raise ParameterError(f"there is no job {name!r}; choose one of {', '.join(jobs)}")
    return jobs[name]
