"""A sweep: compile and prune, check and time in interleaved chunks, then the best once more against the heuristics.

Every point of the space is a record. What is not timed says why: refused by its spec, does not compile, pruned
(static), or wrong. What is timed stands in a session with the dispatcher's choice and carries the ratio to it.
The best of each problem key and lane meet in a final session with more rounds, beside the heuristics in every lane;
only that decides.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import log
from statistics import fmean
from typing import TYPE_CHECKING

from workbench.bench.verdict import verdicts
from workbench.dispatch.tuned import problem_key
from workbench.environment import environment_facts
from workbench.parity.timing import TimingPlan
from workbench.problem import DenseAttentionProblem
from workbench.records import Metric, Record
from workbench.tune.compiled import Compiled, CompileJob, compile_offline, compile_on_this_gpu
from workbench.tune.futures import run_jobs
from workbench.tune.jobs import OWN, Entry, MeasureJob, measure_on_a_gpu
from workbench.tune.prune import resident_waves, why_pruned
from workbench.tune.space import Configuration, Space, configurations
from workbench.tune.winners import Winner, find_winner

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.device import Device
    from workbench.scenarios import Scenario
    from workbench.spec import KernelSpec
    from workbench.tune.store import Store

CHUNK = 24
"""Specs of one session beside the dispatcher's choice: what an interrupted sweep loses at most."""
FINALISTS = 4
"""Of each lane."""
FINAL_ROUNDS = 3
"""Times the rounds of the sweep."""

OnStep = Callable[[str, int, int, str], None]
"""Called with (phase, done, total, label): phases are compile, measure and final."""


@dataclass(frozen=True)
class Plan:
    """What is swept."""

    scenarios: tuple[Scenario, ...]
    spaces: tuple[Space, ...]
    device: Device
    triton: str
    timing: TimingPlan = field(default_factory=TimingPlan)
    seed: int = 0
    limit: int | None = None
    """Specs of each space that are tried, chosen at random; None: all."""
    target: str = ""
    """Of an offline compilation; empty: the GPU of the workers."""

    @property
    def keys(self) -> dict[str, list[Scenario]]:
        """Scenarios by the key that their winner would have."""
        found: dict[str, list[Scenario]] = {}
        for scenario in self.scenarios:
            found.setdefault(problem_key(scenario.problem), []).append(scenario)
        return found


@dataclass(frozen=True)
class Point:
    """One configuration for one scenario, compiled."""

    scenario: Scenario
    configuration: Configuration
    compiled: Compiled | None
    """None where the spec was refused."""
    why_not: str
    """Why it is not timed, or ""."""


@dataclass(frozen=True)
class Outcome:
    """A finished sweep."""

    records: tuple[Record, ...]
    """Everything that was tried, the finals included."""
    winners: tuple[Winner, ...]
    """One for each key, empty where nothing beat the heuristics."""


def run_sweep(
    plan: Plan,
    executor: Executor,
    store: Store,
    *,
    measuring: Executor | None = None,
    width: int = 8,
    measuring_width: int = 1,
    compile_job: Callable[[CompileJob], Compiled] = compile_on_this_gpu,
    measure_job: Callable[[MeasureJob], list[Record]] = measure_on_a_gpu,
    on_step: OnStep | None = None,
) -> Outcome:
    """Run what the store does not hold yet, on any executor that has concurrent.futures' interface.

    `measuring` takes the timed jobs (default: the same executor); `width` jobs are under way at once, `measuring_width`
    timed ones. A job whose worker dies is taken apart, so that only the spec at fault is lost.
    """
    report = on_step or (lambda phase, done, total, label: None)
    timed_on = measuring or executor
    points = list(compile_points(plan, executor, width, compile_job, report))
    own = {scenario.name: own_entries(scenario, plan.device) for scenario in plan.scenarios}
    records = [record for scenario in plan.scenarios for record in _untimed(plan, scenario, points, store)]
    jobs = [job for scenario in plan.scenarios for job in _chunks(plan, scenario, points, own[scenario.name])]
    measured = _measure(plan, "measure", jobs, timed_on, store, measuring_width, measure_job, report)
    records += [record for session in measured for record in session]
    finals = [job for key in plan.keys.values() for job in _finals(plan, key, measured, own)]
    sessions = _measure(plan, "final", finals, timed_on, store, measuring_width, measure_job, report)
    by_scenario = {session[0].scenario: session for session in sessions if session}
    winners = [
        find_winner(key, found)
        for key, scenarios in plan.keys.items()
        if (found := [by_scenario[each.name] for each in scenarios if each.name in by_scenario])
    ]
    records += [record for session in sessions for record in session]
    return Outcome(tuple(records), tuple(winners))


def rank_statically(plan: Plan, jobs: int | None = None, on_step: OnStep | None = None) -> list[Record]:
    """Compile and prune for the plan's target, `jobs` at once (None: one per CPU): a static record for every point."""
    width = jobs or os.cpu_count() or 1
    with ThreadPoolExecutor(width) as executor:
        report = on_step or (lambda phase, done, total, label: None)
        return [untimed_record(point, plan) for point in compile_points(plan, executor, width, compile_offline, report)]


def compile_points(
    plan: Plan,
    executor: Executor,
    width: int,
    compile_job: Callable[[CompileJob], Compiled],
    report: OnStep,
) -> Iterator[Point]:
    """Every configuration of every scenario, compiled and held against the dispatcher's choice in its lane."""
    tried = [
        (scenario, configuration)
        for scenario in plan.scenarios
        for space in plan.spaces
        for configuration in configurations(space, scenario.problem, plan.device, limit=plan.limit, seed=plan.seed)
    ]
    jobs: dict[tuple[object, KernelSpec], CompileJob] = {}
    for scenario in plan.scenarios:
        for entry in own_entries(scenario, plan.device):
            jobs[scenario.problem, entry.spec] = _compile(plan, scenario, entry.spec)
    for scenario, configuration in tried:
        if configuration.spec is not None:
            jobs[scenario.problem, configuration.spec] = _compile(plan, scenario, configuration.spec)
    compiled: dict[tuple[object, KernelSpec], Compiled] = {}
    report("compile", 0, len(jobs), "")
    for done, (job, result) in enumerate(run_jobs(executor, compile_job, jobs.values(), width), start=1):
        lost = isinstance(result, Exception)
        compiled[job.problem, job.spec] = Compiled(error=f"{type(result).__name__}: {result}") if lost else result  # type: ignore[assignment]
        report("compile", done, len(jobs), job.spec.describe())
    for scenario, configuration in tried:
        yield _point(plan, scenario, configuration, compiled)


def _compile(plan: Plan, scenario: Scenario, spec: KernelSpec) -> CompileJob:
    return CompileJob(scenario.problem, spec, plan.device, plan.target, plan.triton if plan.target else "")


def _point(
    plan: Plan,
    scenario: Scenario,
    configuration: Configuration,
    compiled: dict[tuple[object, KernelSpec], Compiled],
) -> Point:
    if configuration.spec is None:
        return Point(scenario, configuration, None, configuration.refusal)
    facts = compiled[scenario.problem, configuration.spec]
    own = next(entry for entry in own_entries(scenario, plan.device) if entry.lane == configuration.lane)
    return Point(scenario, configuration, facts, why_pruned(facts, compiled[scenario.problem, own.spec], plan.device))


def own_entries(scenario: Scenario, device: Device) -> tuple[Entry, ...]:
    """The heuristics' choice for `auto` first, then in each lane. A dense scenario has one lane."""
    from workbench.dispatch import admitted_lanes, select_dense_spec, select_path, select_spec

    problem = scenario.problem
    if isinstance(problem, DenseAttentionProblem):
        return (Entry(OWN, "dense", select_dense_spec(problem, device, tuned=False).spec),)
    specs = {lane: select_spec(problem, device, lane, tuned=False).spec for lane in admitted_lanes(problem)}
    auto = specs[select_path(problem, device, tuned=False).lane]
    return (Entry(OWN, "auto", auto), *(Entry(OWN, lane, spec) for lane, spec in specs.items()))


def _untimed(plan: Plan, scenario: Scenario, points: Sequence[Point], store: Store) -> list[Record]:
    """The records of what is not timed, kept beside the others."""
    left_out = [point for point in points if point.scenario is scenario and point.why_not]
    path = store.path("untimed", scenario.name, (plan.device.name, plan.triton, left_out))
    records = store.load(path)
    if records is None:
        records = [untimed_record(point, plan) for point in left_out]
        store.save(path, records)
    return records


def untimed_record(point: Point, plan: Plan) -> Record:
    """The record of a configuration that was not timed: refused, not compiled or pruned."""
    configuration, facts = point.configuration, point.compiled
    pruned = point.why_not.startswith("pruned")
    status = "unsupported" if facts is None else "skipped" if pruned or not point.why_not else "compile_error"
    metrics = {}
    if facts is not None and not facts.error:
        figures = {
            "vgprs": (facts.vgprs, "1"),
            "spill_bytes": (facts.spill_bytes, "byte"),
            "lds_bytes": (facts.lds_bytes, "byte"),
            "resident_waves": (resident_waves(facts, plan.device), "1"),
        }
        metrics = {
            name: Metric(float(value), unit, "static") for name, (value, unit) in figures.items() if value is not None
        }
    return Record(
        scenario=point.scenario.name,
        problem=point.scenario.problem,
        candidate=configuration.name,
        lane=configuration.lane,  # type: ignore[arg-type]
        status=status,  # type: ignore[arg-type]
        evidence="static",
        backend="none",
        target=plan.target or plan.device.arch,
        environment={**environment_facts(), "triton": plan.triton},
        spec=configuration.spec,
        metrics=metrics,
        message=point.why_not or "not timed: no GPU took part",
    )


def _chunks(plan: Plan, scenario: Scenario, points: Sequence[Point], own: Sequence[Entry]) -> Iterator[MeasureJob]:
    entries = [
        Entry(point.configuration.name, point.configuration.lane, point.configuration.spec)
        for point in points
        if point.scenario is scenario and not point.why_not and point.configuration.spec is not None
    ]
    for start in range(0, len(entries), CHUNK):
        yield MeasureJob(scenario, (own[0], *entries[start : start + CHUNK]), plan.timing, plan.seed)


def _finals(
    plan: Plan, scenarios: Sequence[Scenario], measured: Sequence[Sequence[Record]], own: dict[str, tuple[Entry, ...]]
) -> Iterator[MeasureJob]:
    """One job per scenario of a key: the heuristics in every lane, and the best of each lane over all its scenarios."""
    names = {scenario.name for scenario in scenarios}
    ratios: dict[tuple[str, KernelSpec], dict[str, float]] = {}
    called: dict[tuple[str, KernelSpec], str] = {}
    for session in measured:
        for verdict in verdicts(session)[1:]:
            record = verdict.record
            if record.scenario in names and verdict.ratio is not None and record.spec is not None:
                ratios.setdefault((record.lane, record.spec), {})[record.scenario] = verdict.ratio.value
                called[record.lane, record.spec] = record.candidate
    everywhere = {point: fmean(map(log, found.values())) for point, found in ratios.items() if set(found) == names}
    finalists: list[Entry] = []
    for lane in dict.fromkeys(lane for lane, _ in everywhere):
        ranked = sorted((point for point in everywhere if point[0] == lane), key=lambda point: -everywhere[point])
        finalists += [Entry(called[point], lane, point[1]) for point in ranked[:FINALISTS]]
    timing = replace(plan.timing, rounds=plan.timing.rounds * FINAL_ROUNDS)
    if finalists:
        for scenario in scenarios:
            yield MeasureJob(scenario, (*own[scenario.name], *finalists), timing, plan.seed)


def _measure(
    plan: Plan,
    phase: str,
    jobs: Sequence[MeasureJob],
    executor: Executor,
    store: Store,
    width: int,
    measure_job: Callable[[MeasureJob], list[Record]],
    report: OnStep,
) -> list[list[Record]]:
    """The sessions of all jobs, from the store where they have been run before."""
    sessions: list[list[Record]] = []
    missing: list[MeasureJob] = []
    for job in jobs:
        known = store.load(_path(plan, phase, store, job))
        if known is None:
            missing.append(job)
        else:
            sessions.append(known)
    done, total = len(sessions), len(jobs)
    report(phase, done, total, "")
    broken: list[MeasureJob] = []
    for job, result in run_jobs(executor, measure_job, missing, width):
        if isinstance(result, Exception):
            broken.append(job)
            continue
        sessions.append(_settle(plan, phase, store, job, result))
        done += 1
        report(phase, done, total, job.scenario.name)
    for job in broken:
        sessions.append(_settle(plan, phase, store, job, _one_by_one(plan, job, executor, measure_job)))
        done += 1
        report(phase, done, total, job.scenario.name)
    return sessions


def _one_by_one(
    plan: Plan, job: MeasureJob, executor: Executor, measure_job: Callable[[MeasureJob], list[Record]]
) -> list[Record]:
    """A job whose worker died, spec by spec beside its first entry: those that survive, timed together again."""
    first, *others = job.entries
    alive, lost = [first], []
    for entry in others:
        brief = replace(job, entries=(first, entry), plan=replace(job.plan, rounds=3))
        ((_, result),) = run_jobs(executor, measure_job, [brief], 1)
        if isinstance(result, Exception):
            lost.append(_lost(plan, job, entry, f"its worker died: {type(result).__name__}: {result}"))
        else:
            alive.append(entry)
    ((_, result),) = run_jobs(executor, measure_job, [replace(job, entries=tuple(alive))], 1)
    if isinstance(result, Exception):
        why = f"its worker died in company: {type(result).__name__}: {result}"
        return [_lost(plan, job, entry, why) for entry in alive] + lost
    return result + lost


def _lost(plan: Plan, job: MeasureJob, entry: Entry, why: str) -> Record:
    return Record(
        scenario=job.scenario.name,
        problem=job.scenario.problem,
        candidate=entry.name,
        lane=entry.lane,  # type: ignore[arg-type]
        status="runtime_error",
        evidence="measured",
        backend="none",
        target=plan.device.arch,
        environment=environment_facts(),
        spec=entry.spec,
        message=why,
    )


def _settle(plan: Plan, phase: str, store: Store, job: MeasureJob, records: list[Record]) -> list[Record]:
    """Say in every record how it fared, and keep them."""
    settled = []
    for verdict in verdicts(records):
        record = verdict.record
        if verdict.ratio is not None and record is not records[0]:
            text = f"{verdict.ratio.value:.3f} [{verdict.ratio.low:.3f}, {verdict.ratio.high:.3f}]"
            record = record.with_changes(
                reasons=(*record.reasons, f"Tuning, {phase}: {verdict.word}, {text} times as fast as the heuristics.")
            )
        settled.append(record)
    store.save(_path(plan, phase, store, job), settled)
    return settled


def _path(plan: Plan, phase: str, store: Store, job: MeasureJob) -> Path:
    identity = (plan.device.name, plan.triton, _kernel_digest(), job.scenario.problem, job.entries, job.plan, job.seed)
    return store.path(phase, job.scenario.name, identity)


@lru_cache
def _kernel_digest() -> str:
    """Times of another state of the kernels are no times of these."""
    from workbench.compiler.request import KernelRef
    from workbench.compiler.sources import source_digest, source_root

    return source_digest(source_root(KernelRef("workbench.kernels.unified_2d", "unified_attention_2d")))
