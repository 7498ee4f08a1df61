"""A profile explained: what was counted, the figures that follow, and the least bytes that the problem has to move.

Counts keep the evidence of their file, measured or emulated; the least bytes and FLOPs are static.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import EmulationError, ParameterError, ScenarioError
from workbench.parity.flops import work_of
from workbench.problem import DTYPE_BYTES, DenseAttentionProblem, UnifiedAttentionProblem
from workbench.profile import Derivation, Group, Metric, Profile, derive, read
from workbench.profile.definitions import definitions
from workbench.profile.explain import shown_groups
from workbench.resources import data_path
from workbench.scenarios import Scenario, find

if TYPE_CHECKING:
    from workbench.attention import AttentionResult
    from workbench.tolerance import Comparison

Problem = DenseAttentionProblem | UnifiedAttentionProblem

RECORDED = ("measured", "h200", "profiles")
"""Folder below data/ with the recorded profiles, each named as its scenario."""
TARGET = "gfx950"


@dataclass(frozen=True)
class Explained:
    """A profile with its figures, and the scenario whose call was profiled, where that is known."""

    name: str
    profile: Profile
    derivation: Derivation
    groups: Sequence[Group]
    """The kernels to show, the longest-running first."""
    scenario: Scenario | None
    remark: str = ""

    @property
    def main(self) -> Group:
        """The longest-running kernel."""
        return self.groups[0]


@dataclass(frozen=True)
class LeastBytes:
    """Bytes that a call cannot do without: Q, K and V read once, O written once. Static."""

    read: int
    written: int


def recorded_path(name: str) -> Path:
    """The recorded profile of that name. ParameterError if there is none."""
    path = data_path(*RECORDED, f"{name}.csv")
    if not path.is_file():
        known = ", ".join(sorted(each.stem for each in path.parent.glob("*.csv"))) or "none"
        raise ParameterError(f"no recorded profile {name!r}; there are {known}, and path= takes a file of your own")
    return path


def explain(path: str | Path, *, scenario: str = "", kernel: str = "", device: str = "") -> Explained:
    """Read a profile and derive its figures.

    scenario: whose call was profiled; empty: the one that the file or folder is named after, if there is one.
    kernel: a regular expression; empty: the longest-running kernels. device: for files that name no GPU.
    ProfileError and ScenarioError for what cannot be read and what is unknown.
    """
    where = Path(path)
    profile = read(where)
    if kernel:
        profile = profile.only(kernel)
    derivation = derive(profile, device=device or None)
    known = find(scenario) if scenario else _scenario_of(where.stem)
    return Explained(where.stem, profile, derivation, shown_groups(derivation, bool(kernel)), known)


def explain_emulated(name: str) -> Explained:
    """Emulate the small form of a scenario and read the counters as any profile is read.

    The counters go through the same file as everybody's: rocprofv3's layout. EmulationError if the output is wrong.
    """
    from workbench.gfx950.emulator import write_counter_csv

    scenario = find(name, "small")
    result, comparison = _attend(scenario)
    if not comparison.ok:
        raise EmulationError(f"{name} at small size, emulated: {comparison.describe()}; its counters say nothing")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counters.csv"
        write_counter_csv(result.emulation, path)
        profile = read(path)
    derivation = derive(profile)
    title = f"{name}, small size"
    return Explained(title, profile, derivation, derivation.groups, scenario, f"Output {comparison.describe()}.")


def least_bytes(problem: Problem) -> LeastBytes:
    """The bytes of `parity.flops.work_of`, those of O apart."""
    rows = (
        problem.batch * problem.seqlen_q if isinstance(problem, DenseAttentionProblem) else problem.total_query_tokens
    )
    written = rows * problem.num_query_heads * problem.head_size * DTYPE_BYTES[problem.dtype]
    return LeastBytes(work_of(problem).bytes - written, written)


def moved(group: Group, direction: str) -> float | None:
    """Bytes `read` or `written` a launch, beyond the L2; None where they were not counted.

    NVIDIA counts them at DRAM. AMD counts what leaves L2, of which the Infinity Cache serves a part.
    """
    kind = {"read": "read_bytes", "written": "write_bytes"}[direction]
    return a_launch(metric_of(group, f"dram_{kind}", f"hbm_{kind}"), group)


def metric_of(group: Group, *names: str) -> Metric | None:
    """The first of the figures that the architecture defines and the counts give."""
    found = [metric for metric in group.metrics if metric.name in names and metric.value is not None]
    return found[0] if found else None


def a_launch(metric: Metric | None, group: Group) -> float | None:
    """The figure's value; of a total, its value for one launch."""
    if metric is None or metric.value is None:
        return None
    total = definitions(group.architecture).metric(metric.name).total
    return metric.value / metric.used if total else metric.value


def _scenario_of(stem: str) -> Scenario | None:
    try:
        return find(stem)
    except ScenarioError:
        return None


def _attend(scenario: Scenario) -> tuple[AttentionResult, Comparison]:
    from workbench.attention import run_dense, run_unified
    from workbench.inputs import make_dense_inputs, make_unified_inputs
    from workbench.reference import dense_eager, dense_reference, unified_eager, unified_reference
    from workbench.studies.compile_study import base_spec
    from workbench.tolerance import compare

    problem = scenario.problem
    options: dict[str, Any] = {"spec": base_spec(scenario, "auto", TARGET), "backend": "emulator"}
    if isinstance(problem, UnifiedAttentionProblem):
        paged = make_unified_inputs(problem)
        result = run_unified(problem, paged, **options)
        expected, eager = unified_reference(problem, paged), unified_eager(problem, paged)
    else:
        dense = make_dense_inputs(problem)
        result = run_dense(problem, dense, **options)
        expected, eager = dense_reference(problem, dense), dense_eager(problem, dense)
    return result, compare(result.out, expected, eager, problem.dtype)
