"""The process that runs under a profiler: makes inputs, compiles, then makes the calls that are to be profiled.

`python -m workbench.profile.target --scenario NAME` runs on the GPU that PyTorch sees.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from workbench.errors import BackendUnavailable, ParameterError
from workbench.profile.plan import WARM_UPS
from workbench.scenarios import Scenario, find


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one scenario: WARM_UPS calls, then --launches calls between the profiler's start and stop."""
    parser = argparse.ArgumentParser(prog="workbench.profile.target", description=main.__doc__)
    parser.add_argument("--scenario", required=True)
    parser.add_argument("--lane", default="auto", choices=("auto", "2d", "3d"))
    parser.add_argument("--size", default="full", choices=("full", "small"))
    parser.add_argument("--launches", type=int, default=3)
    given = parser.parse_args(arguments)
    run(find(given.scenario, given.size), given.lane, given.launches)


def run(scenario: Scenario, lane: str, launches: int) -> None:
    """The calls. BackendUnavailable without a GPU, ParameterError for fewer than one launch."""
    import torch

    if launches < 1:
        raise ParameterError(f"at least one launch is profiled, got {launches}")
    if not torch.cuda.is_available():
        raise BackendUnavailable(
            "profiling needs a GPU, and PyTorch sees none; check the driver and the build of torch"
        )
    call = _call(scenario, lane)
    for _ in range(WARM_UPS):
        call()
    torch.cuda.synchronize()
    switch = torch.cuda.profiler if torch.version.hip is None else None
    if switch:
        switch.start()
    for _ in range(launches):
        call()
    torch.cuda.synchronize()
    if switch:
        switch.stop()


def _call(scenario: Scenario, lane: str) -> Callable[[], Any]:
    from workbench.attention import run_dense, run_unified
    from workbench.inputs import make_dense_inputs, make_unified_inputs
    from workbench.problem import UnifiedAttentionProblem

    problem = scenario.problem
    if isinstance(problem, UnifiedAttentionProblem):
        paged = make_unified_inputs(problem, device="cuda")
        return lambda: run_unified(problem, paged, lane=lane, backend="gpu")
    dense = make_dense_inputs(problem, device="cuda")
    return lambda: run_dense(problem, dense, backend="gpu")


if __name__ == "__main__":
    main()
