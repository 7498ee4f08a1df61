"""From verdicts and samples to records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import torch

from workbench.attention.backends import EMULATED_DEVICE
from workbench.device import load_device
from workbench.environment import environment_facts
from workbench.parity.candidate import Failure
from workbench.parity.flops import work_of
from workbench.parity.stats import paired_ratio
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.records import Metric, Record
from workbench.records.record import Evidence, Status
from workbench.tolerance import Comparison

if TYPE_CHECKING:
    from workbench.parity.baselines import Baseline
    from workbench.parity.entrant import Entrant, Verdict
    from workbench.parity.timing import TimingPlan

AGAIN = "again"
"""Samples of the first entrant, timed a second time: its ratio to itself is the noise of the measurement."""


def noise_of(records: Sequence[Record]) -> float | None:
    """The A/A noise of a session: how far from 1 the interval of a call's ratio to itself reaches. None if untimed."""
    for record in records:
        low, high = (record.value(f"speedup_over_{AGAIN}_{end}") for end in ("low", "high"))
        if low is not None and high is not None:
            return max(abs(low - 1.0), abs(high - 1.0))
    return None


@dataclass(frozen=True)
class Session:
    """What all records of one scenario's run share."""

    scenario: str
    problem: UnifiedAttentionProblem | DenseAttentionProblem
    device: torch.device
    identifier: str
    plan: TimingPlan | None

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def evidence(self) -> Evidence:
        """On a CPU software stands in for a device, so what it computes is emulated."""
        return "measured" if self.on_gpu else "emulated"

    @property
    def target(self) -> str:
        return environment_facts()["gpu_arch"] if self.on_gpu else "cpu"


def skipped_record(session: Session, baseline: Baseline, lane: str, why: str) -> Record:
    """The row of a baseline that did not take part."""
    return _record(
        session, baseline.name, lane, status="skipped", message=why, reasons=(baseline.note,), backend="none"
    )


def refused_record(session: Session, candidate: str, lane: str, why: str) -> Record:
    """The row of a contestant whose spec does not serve the problem."""
    return _record(session, candidate, lane, status="unsupported", message=why, backend="none")


def lost_record(session: Session, candidate: str, lane: str, why: str) -> Record:
    """The row of a lane that could not be run at all: no inputs, no reference, or a process that died."""
    return _record(session, candidate, lane, status="runtime_error", message=why, backend="none")


def entrant_record(
    session: Session, entrant: Entrant, samples: Mapping[str, tuple[float, ...]], notes: Mapping[str, str]
) -> Record:
    """The record of one entrant; speed only if every check passed."""
    worst = max(entrant.verdicts, key=_badness)
    status, message = _status(worst)
    key = entrant.key
    own = samples.get(key, ()) if status == "ok" else ()
    metrics = _error_metrics(worst, session.evidence)
    work = work_of(session.problem)
    metrics["flops"] = Metric(float(work.flops), "FLOP", "static")
    metrics["bytes"] = Metric(float(work.bytes), "byte", "static")
    if own:
        metrics |= _speed_metrics(session, key, samples)
    how = (notes[key],) if notes.get(key) else ()
    return _record(
        session,
        entrant.name,
        entrant.lane,
        status=status,
        message=message,
        reasons=(*entrant.reasons, *how),
        backend="gpu" if session.on_gpu else entrant.backend,
        target=load_device(EMULATED_DEVICE).arch if entrant.backend == "emulator" else session.target,
        path=entrant.path,
        spec=entrant.spec,
        samples=own,
        metrics=metrics,
        worst_index=worst.worst_index if isinstance(worst, Comparison) else (),
    )


def _record(session: Session, candidate: str, lane: str, **facts: object) -> Record:
    return Record(
        scenario=session.scenario,
        problem=session.problem,
        candidate=candidate,
        lane=lane,  # type: ignore[arg-type]
        evidence=session.evidence,
        environment={**environment_facts(), **_timing_facts(session)},
        session=session.identifier,
        **({"target": session.target} | facts),  # type: ignore[arg-type]
    )


def _timing_facts(session: Session) -> dict[str, str]:
    if session.plan is None:
        return {}
    return {"timing": "interleaved graph replays", "rounds": str(session.plan.rounds), "cache": session.plan.cache}


def _badness(verdict: Verdict) -> tuple[int, float]:
    """Orders verdicts: exceptions over wrong outputs over right ones, and these by the share of their limit."""
    if isinstance(verdict, Failure):
        return 2, 0.0
    share = verdict.worst_abs / verdict.allowed if verdict.allowed else verdict.worst_abs
    return (0 if verdict.ok else 1), share


def _status(verdict: Verdict) -> tuple[Status, str]:
    if isinstance(verdict, Failure):
        return verdict.status, verdict.message
    return ("ok", "") if verdict.ok else ("wrong", verdict.describe().removeprefix("WRONG: "))


def _error_metrics(verdict: Verdict, evidence: Evidence) -> dict[str, Metric]:
    if isinstance(verdict, Failure):
        return {}
    figures = {
        "max_abs_error": verdict.max_abs,
        "rms_error": verdict.rms,
        "worst_error": verdict.worst_abs,
        "allowed_error": verdict.allowed,
        "relative_rms": verdict.relative_rms,
        "allowed_relative_rms": verdict.allowed_relative_rms,
    }
    return {name: Metric(value, "1", evidence) for name, value in figures.items()}


def _speed_metrics(session: Session, key: str, samples: Mapping[str, tuple[float, ...]]) -> dict[str, Metric]:
    """Median time, rates, and every other series timed beside it over this one: above 1, this one is faster."""
    work, time_us = work_of(session.problem), median(samples[key])
    metrics = {
        "time": Metric(time_us, "us", "measured"),
        "tflops": Metric(work.tflops(time_us), "TFLOP/s", "measured"),
        "tbps": Metric(work.tbps(time_us), "TB/s", "measured"),
    }
    for other, series in samples.items():
        if other != key and (other != AGAIN or key == next(iter(samples))):
            ratio = paired_ratio(series, samples[key])
            name = f"speedup_over_{other}"
            metrics[name] = Metric(ratio.value, "x", "measured")
            metrics[f"{name}_low"] = Metric(ratio.low, "x", "measured")
            metrics[f"{name}_high"] = Metric(ratio.high, "x", "measured")
    return metrics
