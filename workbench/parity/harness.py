"""Run one scenario in its lanes, check it under two seeds, and on a GPU time it beside its baselines.

The order is fixed: every candidate and baseline passes its own correctness check first, under two sets of values in
the same tensors; those that pass are captured, each capture is checked again on a poisoned output, and only then are
all of them timed, interleaved in one session.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from workbench.errors import BackendUnavailable, ParameterError
from workbench.parity.baselines import Baseline
from workbench.parity.candidate import Candidate, Failure, guarded, workbench_kernels
from workbench.parity.entrant import BaselineEntrant, Entrant, KernelEntrant
from workbench.parity.recording import AGAIN, Session, entrant_record, lost_record, skipped_record
from workbench.parity.timing import TimedCall, TimingPlan, capture, interleave
from workbench.parity.trial import Expected, Trials
from workbench.problem import DenseAttentionProblem
from workbench.records import Record
from workbench.spec import KernelSpec

if TYPE_CHECKING:
    from workbench.scenarios import Scenario

SEED_STEP = 7919
"""Distance between the seeds of the two checks."""


def run_scenario(
    scenario: Scenario,
    lane: str = "auto",
    *,
    backend: str = "auto",
    device: str = "auto",
    seed: int = 0,
    spec: KernelSpec | None = None,
    timing: bool | TimingPlan = False,
    candidate: Candidate = workbench_kernels,
    name: str = "workbench",
) -> Record:
    """One candidate, one scenario, one lane: its record. A failure is a status of the record, not an exception.

    Raises BackendUnavailable if the device that is asked for is not there, or if timing is asked for without a GPU.
    """
    records = run_lanes(
        scenario,
        (lane,),
        backend=backend,
        device=device,
        seed=seed,
        spec=spec,
        timing=timing,
        candidate=candidate,
        name=name,
    )
    return records[0]


def run_lanes(
    scenario: Scenario,
    lanes: Sequence[str],
    *,
    baselines: Sequence[Baseline] = (),
    backend: str = "auto",
    device: str = "auto",
    seed: int = 0,
    spec: KernelSpec | None = None,
    timing: bool | TimingPlan = False,
    candidate: Candidate = workbench_kernels,
    name: str = "workbench",
) -> list[Record]:
    """The candidate in every lane, then every baseline: one record each, of one session.

    A dense problem has the one lane `dense`, whatever lanes are asked for. A baseline that is missing here, or that
    does not do the problem, has a record that says so.
    """
    chosen = resolve_device(device)
    plan = (TimingPlan() if timing else None) if isinstance(timing, bool) else timing
    if plan is not None and chosen.type != "cuda":
        raise BackendUnavailable("timing needs a GPU: times on the CPU say nothing about a kernel; pass timing=False")
    problem = scenario.problem
    if isinstance(problem, DenseAttentionProblem):
        lanes = ("dense",)
    session = Session(scenario.name, problem, chosen, uuid.uuid4().hex[:12], plan)
    choice = _Choice(tuple(lanes), tuple(baselines), backend, seed, spec, candidate, name)
    records = guarded(lambda: _run(session, choice))
    if chosen.type == "cuda":
        # The next scenario's cache may need the memory that this one's leaves reserved.
        torch.cuda.empty_cache()
    if isinstance(records, Failure):
        return [lost_record(session, name, lane, records.message) for lane in lanes]
    return records


@dataclass(frozen=True)
class _Choice:
    """What takes part."""

    lanes: tuple[str, ...]
    baselines: tuple[Baseline, ...]
    backend: str
    seed: int
    spec: KernelSpec | None
    candidate: Candidate
    name: str


def _run(session: Session, choice: _Choice) -> list[Record]:
    trials = Trials(session.problem, session.device, (choice.seed, choice.seed + SEED_STEP))
    entrants: list[Entrant] = [
        KernelEntrant(choice.candidate, trials, name=choice.name, lane=lane, spec=choice.spec, backend=choice.backend)
        for lane in choice.lanes
    ]
    skipped = []
    for baseline in choice.baselines:
        for lane in baseline.lanes(choice.lanes):
            absent = baseline.missing(session.device) or baseline.unsupported(session.problem, lane)
            if absent is None:
                entrants.append(BaselineEntrant(baseline, session.problem, lane))
            else:
                skipped.append(skipped_record(session, baseline, lane, absent))
    for expected in trials:
        for entrant in entrants:
            entrant.check(trials, expected)
    samples, notes = _time(entrants, trials, expected, session.plan) if session.plan else ({}, {})
    return [entrant_record(session, entrant, samples, notes) for entrant in entrants] + skipped


def resolve_device(device: str) -> torch.device:
    """`auto` is the GPU if one is visible, else the CPU. BackendUnavailable for a GPU that is not there.

    ParameterError for what names neither.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise ParameterError(f"device must be auto, cpu, cuda (also on ROCm) or cuda:<index>, got {device!r}")
    chosen = torch.device(device)
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise BackendUnavailable(
            f"device {device!r} was asked for, but PyTorch sees no GPU; use device 'cpu', or see `workbench doctor`"
        )
    return chosen


def _time(
    entrants: Sequence[Entrant], trials: Trials, expected: Expected, plan: TimingPlan
) -> tuple[dict[str, tuple[float, ...]], dict[str, str]]:
    """Samples and notes by key of the entrant; an entrant whose capture fails its check gets a failure instead."""
    calls: dict[str, TimedCall] = {}
    for entrant in entrants:
        if entrant.passed:
            timed = guarded(lambda entrant=entrant: _captured(entrant, trials, expected, plan))  # type: ignore[misc]
            if isinstance(timed, Failure):
                entrant.verdicts.append(timed)
            else:
                calls[entrant.key] = timed
    if not calls:
        return {}, {}
    first = next(iter(calls))
    samples = interleave({**calls, AGAIN: calls[first]}, plan)
    notes = {key: timed.note for key, timed in calls.items() if timed.note}
    return samples, notes


def _captured(entrant: Entrant, trials: Trials, expected: Expected, plan: TimingPlan) -> TimedCall | Failure:
    timed = capture(entrant.call, plan)
    entrant.poison(timed.result)
    replayed = timed.replay()
    comparison = trials.compare(entrant.read(timed.result if timed.captured else replayed), expected)
    if not comparison.ok:
        return Failure("wrong", f"the captured call does not give the output again: {comparison.describe()}")
    return timed
