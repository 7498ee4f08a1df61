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
from functools import partial
from typing import TYPE_CHECKING

import torch

from workbench.errors import BackendUnavailable, ParameterError
from workbench.parity.baselines import Baseline
from workbench.parity.candidate import Candidate, Failure, guarded, workbench_kernels
from workbench.parity.entrant import BaselineEntrant, Entrant, KernelEntrant
from workbench.parity.flops import work_of
from workbench.parity.recording import AGAIN, Session, entrant_record, lost_record, refused_record, skipped_record
from workbench.parity.rotation import Rotation
from workbench.parity.timing import TimedCall, Timer, TimingPlan
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
    if isinstance(scenario.problem, DenseAttentionProblem):
        lanes = ("dense",)
    contestants = [Contestant(name, lane, spec, backend, candidate) for lane in lanes]
    plan = (TimingPlan() if timing else None) if isinstance(timing, bool) else timing
    return run_contestants(scenario, contestants, baselines=baselines, device=device, seed=seed, plan=plan)


@dataclass(frozen=True)
class Contestant:
    """A candidate under a name of its own in one lane, with a spec or the dispatcher's choice."""

    name: str
    lane: str
    spec: KernelSpec | None = None
    backend: str = "auto"
    candidate: Candidate = workbench_kernels
    refusal: str = ""
    """Why it cannot take part, which becomes its record's message."""


def run_contestants(
    scenario: Scenario,
    contestants: Sequence[Contestant],
    *,
    baselines: Sequence[Baseline] = (),
    device: str = "auto",
    seed: int = 0,
    plan: TimingPlan | None = None,
    timer: Timer | None = None,
) -> list[Record]:
    """Every contestant, then every baseline in the contestants' lanes: one record each, of one session.

    Names and lanes together must differ (ParameterError). The first contestant is captured and timed twice: its ratio
    to itself, `speedup_over_again`, is the noise of the timing. Without a plan nothing is timed.
    """
    keys = [(each.name, each.lane) for each in contestants]
    if len(set(keys)) < len(keys):
        raise ParameterError(f"two contestants share a name and a lane: {keys}; give each a name of its own")
    chosen = resolve_device(device)
    timer = timer or Timer()
    if plan is not None:
        timer.check(chosen)
    session = Session(scenario.name, scenario.problem, chosen, uuid.uuid4().hex[:12], plan)
    records = guarded(lambda: _run(session, contestants, baselines, seed, timer))
    if chosen.type == "cuda":
        # The next scenario's cache may need the memory that this one's leaves reserved.
        torch.cuda.empty_cache()
    if isinstance(records, Failure):
        return [lost_record(session, each.name, each.lane, records.message) for each in contestants]
    return records


def _run(
    session: Session, contestants: Sequence[Contestant], baselines: Sequence[Baseline], seed: int, timer: Timer
) -> list[Record]:
    trials = Trials(session.problem, session.device, (seed, seed + SEED_STEP))
    entrants: list[Entrant] = [
        KernelEntrant(each.candidate, trials, name=each.name, lane=each.lane, spec=each.spec, backend=each.backend)
        for each in contestants
        if not each.refusal
    ]
    left_out = [refused_record(session, each.name, each.lane, each.refusal) for each in contestants if each.refusal]
    lanes = list(dict.fromkeys(each.lane for each in contestants))
    for baseline in baselines:
        for lane in baseline.lanes(lanes):
            absent = baseline.missing(session.device) or baseline.unsupported(session.problem, lane)
            if absent is None:
                entrants.append(BaselineEntrant(baseline, session.problem, lane))
            else:
                left_out.append(skipped_record(session, baseline, lane, absent))
    for expected in trials:
        for entrant in entrants:
            entrant.check(trials, expected)
    samples, notes = _time(entrants, trials, expected, session.plan, timer) if session.plan else ({}, {})
    return [entrant_record(session, entrant, samples, notes) for entrant in entrants] + left_out


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
    entrants: Sequence[Entrant], trials: Trials, expected: Expected, plan: TimingPlan, timer: Timer
) -> tuple[dict[str, tuple[float, ...]], dict[str, str]]:
    """Samples and notes by key of the entrant; an entrant whose capture fails its check gets a failure instead.

    The first is captured twice: a second capture has workspaces at other addresses, which alone moves a short kernel by
    some percent, so that the ratio of the two is the whole noise.
    """
    calls: dict[str, TimedCall] = {}
    again: TimedCall | Failure | None = None
    rotation = _rotation(entrants, trials, timer) if plan.cache == "cold" else None
    copies = trials.copies(rotation.copies - 1) if rotation is not None else []
    flush = rotation is not None and not rotation.covers

    def ready(entrant: Entrant) -> TimedCall | Failure:
        entrant.rotate(copies)
        return _captured(entrant, trials, expected, timer.capture(entrant.calls(), plan, flush=flush))

    for entrant in entrants:
        if entrant.passed:
            timed = guarded(partial(ready, entrant))
            if isinstance(timed, Failure):
                entrant.verdicts.append(timed)
            else:
                calls[entrant.key] = timed
                again = again or guarded(partial(ready, entrant))
    if not calls:
        return {}, {}
    noise = {AGAIN: again} if isinstance(again, TimedCall) else {}
    samples = timer.interleave({**calls, **noise}, plan)
    cold = "" if rotation is None else rotation.describe()
    return samples, {key: " ".join(filter(None, (timed.note, cold))) for key, timed in calls.items()}


def _rotation(entrants: Sequence[Entrant], trials: Trials, timer: Timer) -> Rotation:
    """Baselines may hold a copy of their own of every set of inputs."""
    sets = 1 + sum(isinstance(entrant, BaselineEntrant) for entrant in entrants)
    return timer.rotation(work_of(trials.problem).bytes, sets * trials.held_bytes)


def _captured(entrant: Entrant, trials: Trials, expected: Expected, timed: TimedCall) -> TimedCall | Failure:
    """The captured calls, once each of them has given its output again."""
    entrant.poison(timed.result or ())
    replayed = timed.replay()
    for output in entrant.read(timed.result if timed.captured else replayed):
        comparison = trials.compare(output, expected)
        if not comparison.ok:
            return Failure("wrong", f"the captured call does not give the output again: {comparison.describe()}")
    return timed
