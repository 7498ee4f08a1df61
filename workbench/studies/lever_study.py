"""Named variants of a kernel side by side, in one tidy frame: static, modelled, emulated, measured and published.

The machine code that is taken apart is the problem's own for gfx950; the emulator runs a smaller problem of the same
kind, and holds every output to float64. Times come from a GPU of the kernel's kind, all variants interleaved in one
session; elsewhere from the records that came with the workbench, or the frame says why there are none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from workbench.errors import CompileError, EmulationError, ParameterError, SpecError, UnsupportedError
from workbench.levers.emulated import describe, small_problem
from workbench.levers.registry import KernelLevers, Setting, find_kernel
from workbench.levers.table import base_of, spell
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.published import Published, load_published
from workbench.spec import KernelSpec, Unified3DSpec
from workbench.spec_gfx950 import Gfx950Spec
from workbench.studies.lever_figures import (
    Figure,
    absent_time,
    conflict_figures,
    emulated_figures,
    measured_figures,
    modelled_figures,
    published_figures,
    static_figures,
)
from workbench.studies.times import timed_records

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from workbench.compiler import KernelRequest
    from workbench.gfx950.emulator import EmulationResult
    from workbench.inspection import Inspection
    from workbench.parity.timing import TimingPlan
    from workbench.records import Record
    from workbench.tolerance import Comparison

Problem = DenseAttentionProblem | UnifiedAttentionProblem
Progress = Callable[[int, int, str], None]
Status = Literal["ok", "unsupported", "compile_error", "runtime_error"]

TARGET = "gfx950"


@dataclass(frozen=True)
class Variant:
    """A problem and a spec under a name; no spec, but a refusal, where none can be built."""

    name: str
    problem: Problem
    spec: KernelSpec | None
    refusal: str = ""

    @property
    def lane(self) -> str:
        """`dense`, `2d` or `3d`."""
        if isinstance(self.problem, DenseAttentionProblem):
            return "dense"
        return "3d" if isinstance(self.spec, Unified3DSpec) else "2d"


@dataclass(frozen=True)
class Emulated:
    """One call on the emulator: its launches, its output held to float64."""

    launches: tuple[EmulationResult, ...]
    comparison: Comparison
    problem: Problem
    out: torch.Tensor


@dataclass
class Outcome:
    """What became of a variant. `inspection` is of the kernel that computes the products."""

    variant: Variant
    status: Status = "ok"
    message: str = ""
    inspection: Inspection | None = None
    emulated: Emulated | None = None
    record: Record | None = None
    figures: list[Figure] = field(default_factory=list)


@dataclass(frozen=True)
class LeverStudy:
    """Outcomes of all variants, in order; the first that gave a kernel is the baseline of every ratio."""

    outcomes: Mapping[str, Outcome]
    published: tuple[Published, ...]
    triton_version: str

    @property
    def baseline(self) -> str:
        """What the others are held against."""
        return next(iter(self.names), next(iter(self.outcomes)))

    @property
    def names(self) -> tuple[str, ...]:
        """Variants that gave a kernel."""
        return tuple(name for name, outcome in self.outcomes.items() if outcome.inspection is not None)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Every line of the frame."""
        own = [figure for outcome in self.outcomes.values() for figure in outcome.figures]
        return (*own, *published_figures(self.published))

    def frame(self) -> pd.DataFrame:
        """One line per variant and figure: variant, figure, value, unit, evidence, text, of."""
        import pandas as pd

        return pd.DataFrame([asdict(figure) for figure in self.figures])

    def find(self, variant: str, figure: str) -> Figure | None:
        """One line of a variant's own figures."""
        outcome = self.outcomes.get(variant)
        return next((each for each in outcome.figures if each.figure == figure), None) if outcome else None

    def value(self, variant: str, figure: str) -> float | None:
        """The figure's value, None where it is missing."""
        found = self.find(variant, figure)
        return found.value if found else None

    def over_baseline(self, variant: str, figure: str) -> float | None:
        """The baseline's figure over the variant's: above 1 the variant asks for less. None where either is 0."""
        ours, base = self.value(variant, figure), self.value(self.baseline, figure)
        return base / ours if ours and base else None

    def inspections(self, names: Sequence[str] = ()) -> list[Inspection]:
        """Those of the named variants, or of all that gave a kernel."""
        found = [self.outcomes[name].inspection for name in names or self.names]
        return [inspection for inspection in found if inspection is not None]


def lever_variants(
    kernel: str | KernelLevers,
    problem: Problem,
    lever: str,
    values: Sequence[Setting] = (),
    *,
    base: KernelSpec | None = None,
) -> list[Variant]:
    """A variant per value of a registered lever (None: the registry's, the one without the lever first).

    `base` is what the lever is applied to, by default what dispatch picks for the problem on an MI355X. ParameterError
    for an unknown kernel or lever.
    """
    kernel = find_kernel(kernel) if isinstance(kernel, str) else kernel
    found = kernel.lever(lever)
    base = base or base_of(kernel, problem)
    return spec_variants(problem, base, {f"{lever}={spell(value)}": {lever: value} for value in values or found.values})


def spec_variants(problem: Problem, base: KernelSpec, changes: Mapping[str, Mapping[str, Any]]) -> list[Variant]:
    """A variant per named set of changes to the base; one that the spec or the problem refuses says why."""
    variants = []
    for name, changed in changes.items():
        try:
            spec = base.with_changes(**changed)
            _check(spec, problem)
        except SpecError as error:
            variants.append(Variant(name, problem, None, str(error)))
        else:
            variants.append(Variant(name, problem, spec))
    return variants


def study_variants(
    variants: Sequence[Variant],
    *,
    published: Sequence[str] = (),
    triton_version: str = "",
    small: Callable[[Problem], Problem] | None = small_problem,
    timing: TimingPlan | bool | str = True,
    seed: int = 0,
    on_step: Progress | None = None,
) -> LeverStudy:
    """Every figure of every variant.

    published: topics of data/published.csv. small: from a variant's problem to the one that the emulator runs; None
    leaves the emulator out. timing: whether to time where there is a GPU that the kernels are for, how, or in words why
    not. on_step(done, total, label) is called after each compilation and emulation. ParameterError for two variants of
    one name.
    """
    from workbench.compiler import installed_triton_version

    outcomes = {variant.name: Outcome(variant) for variant in variants}
    if len(outcomes) != len(variants) or not variants:
        raise ParameterError(f"a study needs variants with different names, got {[each.name for each in variants]}")
    version = triton_version or installed_triton_version()
    steps = _Steps(on_step)
    requests = _requests(outcomes, version, small)
    steps.total = len(requests) + (len(variants) if small else 0)
    _compile(outcomes, requests, version, steps)
    if small:
        for outcome in outcomes.values():
            _emulate(outcome, small, version, seed)
            steps.done_with(f"emulating {outcome.variant.name}")
    _measure(list(outcomes.values()), timing, seed)
    rows = tuple(row for topic in published for row in load_published(topic))
    return LeverStudy(outcomes, rows, version)


class _Steps:
    def __init__(self, report: Progress | None) -> None:
        self._report = report or (lambda done, total, label: None)
        self._done = 0
        self.total = 0

    def done_with(self, label: str) -> None:
        self._done += 1
        self._report(self._done, self.total, label)


def _check(spec: KernelSpec, problem: Problem) -> None:
    """Raise SpecError where no kernel of the spec serves the problem."""
    from workbench.attention.backends import EMULATED_DEVICE
    from workbench.compiler.plans import plan_without_storage
    from workbench.device import load_device

    plan_without_storage(problem, spec, load_device(EMULATED_DEVICE))


def _requests(
    outcomes: Mapping[str, Outcome], version: str, small: Callable[[Problem], Problem] | None
) -> list[tuple[str | None, KernelRequest]]:
    """Each variant's main kernel under its name, then, nameless, all that the emulator will run: compiled together."""
    from workbench.compiler.variants import build_requests

    named: list[tuple[str | None, KernelRequest]] = []
    along: list[tuple[str | None, KernelRequest]] = []
    for name, outcome in outcomes.items():
        variant = outcome.variant
        if variant.spec is None:
            outcome.status, outcome.message = "unsupported", variant.refusal
            continue
        built = build_requests(variant.problem, variant.spec, TARGET, triton_version=version, label=name)
        named.append((name, built[0]))
        if small:
            try:
                along += [
                    (None, request)
                    for request in build_requests(
                        small(variant.problem), variant.spec, TARGET, triton_version=version, label=name
                    )
                ]
            except SpecError as error:
                outcome.message = f"not emulated: {error}"
    return [*named, *along]


def _compile(
    outcomes: Mapping[str, Outcome], requests: Sequence[tuple[str | None, KernelRequest]], version: str, steps: _Steps
) -> None:
    from workbench.compiler import compile_many
    from workbench.inspection import inspect_compiled

    compiled = compile_many(
        [request for _, request in requests],
        progress=lambda done, total, request, _: steps.done_with(f"compiling {request.title}"),
    )
    for (name, _), kernel in zip(requests, compiled, strict=True):
        if name is None:
            continue
        outcome = outcomes[name]
        if isinstance(kernel, CompileError):
            outcome.status, outcome.message = "compile_error", str(kernel)
            continue
        spec, head_size = outcome.variant.spec, outcome.variant.problem.head_size
        if spec is None:
            continue
        outcome.inspection = inspect_compiled(kernel, f"{kernel.name}, {name}, Triton {version}")
        of = f"{TARGET}, Triton {version}"
        outcome.figures += static_figures(name, outcome.inspection, spec, head_size, of)
        outcome.figures += modelled_figures(name, outcome.inspection, spec, of)


def _emulate(outcome: Outcome, small: Callable[[Problem], Problem], version: str, seed: int) -> None:
    variant = outcome.variant
    if outcome.status != "ok" or outcome.message or variant.spec is None:
        return
    problem = small(variant.problem)
    try:
        outcome.emulated = emulate_checked(problem, variant.spec, variant.lane, version, seed)
    except (EmulationError, UnsupportedError, CompileError) as error:
        outcome.status, outcome.message = "runtime_error", f"emulator: {error}"
        return
    of = f"gfx950 emulator, {describe(problem)}"
    launches = outcome.emulated.launches
    outcome.figures += emulated_figures(variant.name, launches, outcome.emulated.comparison, of)
    if outcome.inspection is not None:
        of = f"{TARGET}, Triton {version}; conflicts of {describe(problem)}"
        outcome.figures += conflict_figures(variant.name, outcome.inspection, variant.spec, launches, of)


@functools.lru_cache(maxsize=64)
def emulate_checked(
    problem: Problem, spec: KernelSpec, lane: str, triton_version: str, seed: int = 0, query_factor: float = 1.0
) -> Emulated:
    """Run a problem on the emulator, once in a process, and hold its output to the float64 reference.

    query_factor: multiplies the queries, whose scores otherwise have a spread of about 1 (natural log).
    Raises EmulationError for what the emulator cannot run; findings are kept, not raised.
    """
    from workbench.attention import run_dense, run_unified
    from workbench.gfx950.emulator import EmulatorOptions
    from workbench.inputs import make_dense_inputs, make_unified_inputs
    from workbench.reference import dense_eager, dense_reference, unified_eager, unified_reference
    from workbench.tolerance import compare

    options = EmulatorOptions(triton_version=triton_version, strict=False)
    chosen: Any = spec
    if isinstance(problem, DenseAttentionProblem):
        dense = make_dense_inputs(problem, seed=seed)
        dense.q.mul_(query_factor)
        result = run_dense(problem, dense, spec=chosen, backend="emulator", emulator=options)
        expected, eager = dense_reference(problem, dense), dense_eager(problem, dense)
    else:
        paged = make_unified_inputs(problem, seed=seed)
        if query_factor != 1.0:  # which fp8 queries cannot take in place
            paged.q.mul_(query_factor)
        result = run_unified(problem, paged, lane=lane, spec=chosen, backend="emulator", emulator=options)
        expected, eager = unified_reference(problem, paged), unified_eager(problem, paged)
    return Emulated(result.emulation, compare(result.out, expected, eager, problem.dtype), problem, result.out)


def _measure(outcomes: Sequence[Outcome], timing: TimingPlan | bool | str, seed: int) -> None:
    """Times of all variants that a GPU here is for, those of one problem in one session; else a stored record's.

    Where there is neither, the reason.
    """
    from workbench.parity.harness import Contestant
    from workbench.parity.timing import TimingPlan
    from workbench.scenarios import Scenario

    plan = timing if isinstance(timing, TimingPlan) else TimingPlan()
    groups: dict[Problem, list[Contestant]] = {}
    reasons: dict[str, str] = {}
    for outcome in outcomes:
        variant = outcome.variant
        why = outcome.message if variant.spec is None else why_not_timed(variant.spec, timing)
        if why or variant.spec is None:
            reasons[variant.name] = why
        else:
            groups.setdefault(variant.problem, []).append(Contestant(variant.name, variant.lane, variant.spec))
    by_name = {outcome.variant.name: outcome for outcome in outcomes}
    for problem, contestants in groups.items():
        scenario = Scenario(describe(problem), "study", problem)
        for record in timed_records(scenario, contestants, seed=seed, plan=plan):
            by_name[record.candidate].record = record
    if timing and not isinstance(timing, str):
        for name, record in _recalled([by_name[name].variant for name in reasons]).items():
            by_name[name].record = record
    for name, outcome in by_name.items():
        if outcome.record is not None:
            outcome.figures += measured_figures(name, outcome.record)
        else:
            outcome.figures.append(absent_time(name, reasons.get(name, "not timed"), "no GPU timing"))


def _recalled(variants: Sequence[Variant]) -> dict[str, Record]:
    """Stored times of variants by name: all of one device, and those of one problem interleaved with each other.

    A gfx950 goes before others, then the device that timed most of the variants; for each problem likewise.
    """
    from workbench.records import stored_study_records

    found: dict[tuple[bool, str], dict[Problem, dict[str, dict[str, Record]]]] = {}
    for variant in variants:
        for record in stored_study_records(variant.problem, variant.name, variant.spec) if variant.spec else ():
            if record.samples:
                place = (record.environment.get("gpu_arch") == TARGET, record.environment.get("device", ""))
                sessions = found.setdefault(place, {}).setdefault(variant.problem, {})
                sessions.setdefault(record.session, {})[variant.name] = record
    chosen = {
        place: {name: each for sessions in problems.values() for name, each in max(sessions.values(), key=len).items()}
        for place, problems in found.items()
    }
    return chosen[max(chosen, key=lambda place: (place[0], len(chosen[place]), place[1]))] if chosen else {}


def why_not_timed(spec: KernelSpec, timing: TimingPlan | bool | str = True) -> str:
    """Why a kernel of this spec cannot be timed here; nothing where it can."""
    from workbench.device import detect_device

    if timing is False:
        return "timing was not asked for"
    if isinstance(timing, str):
        return timing
    device = detect_device()
    if device is None:
        return "PyTorch sees no GPU here"
    if isinstance(spec, Gfx950Spec) and device.arch != TARGET:
        return f"the kernel is for {TARGET}; here is {device.title} ({device.arch})"
    return ""
