"""The record of one result, and the validator that refuses a record which contradicts itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from workbench.errors import RecordError
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.spec import KernelSpec

Evidence = Literal["measured", "emulated", "modelled", "static", "published"]
Status = Literal["ok", "wrong", "compile_error", "runtime_error", "unsupported", "skipped"]
Backend = Literal["gpu", "interpreter", "emulator", "none"]
Lane = Literal["auto", "2d", "3d", "dense"]
Problem = UnifiedAttentionProblem | DenseAttentionProblem

EVIDENCE_KINDS = ("measured", "emulated", "modelled", "static", "published")
STATUSES = ("ok", "wrong", "compile_error", "runtime_error", "unsupported", "skipped")
BACKENDS = ("gpu", "interpreter", "emulator", "none")
LANES = ("auto", "2d", "3d", "dense")
PERFORMANCE_UNITS = ("us", "TFLOP/s", "TB/s", "x")


@dataclass(frozen=True)
class Metric:
    """A figure with its unit and how it was had. Units: "us", "TFLOP/s", "TB/s", "x" (ratio), "FLOP", "byte", "1"."""

    value: float
    unit: str
    evidence: Evidence

    def __post_init__(self) -> None:
        _accept("metric evidence", self.evidence, EVIDENCE_KINDS)
        _require(bool(self.unit), f'a metric needs a unit ("1" for a plain number), got {self.unit!r}')


def is_performance(metric: Metric) -> bool:
    """Whether the metric tells speed, which only a record with status `ok` may."""
    return metric.unit in PERFORMANCE_UNITS


@dataclass(frozen=True, kw_only=True)
class Record:
    """One candidate on one problem in one lane.

    Raises RecordError when the fields contradict each other: speed or samples without status `ok`; a measured speed
    without samples; samples without the error figures of the correctness pass; a failure without a message.
    """

    scenario: str
    problem: Problem
    lane: Lane
    """The lane that was asked for; `path` is the one that ran."""
    status: Status
    evidence: Evidence
    """How the result was had: `measured` on a device, `emulated` where software stands in for it."""
    backend: Backend
    """What executed; `none` for eager code on the CPU, and for figures that were only calculated or published."""
    target: str
    """What the kernel was built for, e.g. gfx950 or sm_90; `cpu` for eager code on the CPU."""
    environment: Mapping[str, str]
    candidate: str = "workbench"
    """Whose kernel: `workbench`, or the name of a baseline."""
    path: str | None = None
    spec: KernelSpec | None = None
    samples: tuple[float, ...] = ()
    """Raw times, microseconds per call, one per round. Records of one session share the round's index."""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    worst_index: tuple[int, ...] = ()
    """Element of the output that is furthest beyond its limit, or nearest to it."""
    reasons: tuple[str, ...] = ()
    """Why this path and this geometry, or how a baseline was run."""
    message: str = ""
    """What went wrong, or why nothing was run."""
    session: str = ""
    """Identifies the process and time span in which samples were interleaved."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", tuple(float(sample) for sample in self.samples))
        object.__setattr__(self, "reasons", tuple(self.reasons))
        object.__setattr__(self, "worst_index", tuple(self.worst_index))
        object.__setattr__(self, "metrics", dict(self.metrics))
        object.__setattr__(self, "environment", {key: str(value) for key, value in self.environment.items()})
        self._check_words()
        self._check_performance()
        self._check_values()

    def _check_words(self) -> None:
        _accept("status", self.status, STATUSES)
        _accept("evidence", self.evidence, EVIDENCE_KINDS)
        _accept("backend", self.backend, BACKENDS)
        _accept("lane", self.lane, LANES)
        dense = isinstance(self.problem, DenseAttentionProblem)
        _require(dense == (self.lane == "dense"), f"lane {self.lane!r} does not fit a {type(self.problem).__name__}")
        _require(
            self.status == "ok" or bool(self.message),
            f"{self._name}: status {self.status!r} needs a message that says why",
        )
        _require(
            self.evidence not in ("measured", "emulated") or bool(self.environment),
            f"{self._name}: a {self.evidence} record needs its environment",
        )

    def _check_performance(self) -> None:
        speeds = {name: metric for name, metric in self.metrics.items() if is_performance(metric)}
        if self.status != "ok":
            _require(
                not speeds and not self.samples,
                f"{self._name}: only status 'ok' may carry performance figures, but status is {self.status!r} and the "
                f"record holds {', '.join(speeds) or 'samples'}",
            )
        timed = [name for name, metric in speeds.items() if metric.evidence == "measured"]
        _require(
            not timed or bool(self.samples),
            f"{self._name}: measured {', '.join(timed)} need the raw samples they come from",
        )
        _require(
            not self.samples or "max_abs_error" in self.metrics,
            f"{self._name}: samples need the correctness pass of the same run: metric max_abs_error is missing",
        )

    def _check_values(self) -> None:
        _require(
            all(math.isfinite(sample) and sample > 0.0 for sample in self.samples),
            f"{self._name}: samples must be finite and positive microseconds",
        )
        for name, metric in self.metrics.items():
            # A wrong output may hold NaN, and then so do its error figures.
            _require(
                math.isfinite(metric.value) or self.status != "ok",
                f"{self._name}: metric {name} is {metric.value}; an ok record holds finite numbers",
            )

    @property
    def _name(self) -> str:
        return f"record {self.scenario}/{self.lane}/{self.candidate}"

    @property
    def failed(self) -> bool:
        """Something was run and did not give the right answer."""
        return self.status in ("wrong", "compile_error", "runtime_error")

    def value(self, name: str) -> float | None:
        """The metric's value, or None where the record has no such metric."""
        metric = self.metrics.get(name)
        return None if metric is None else metric.value

    def with_changes(self, **changes: object) -> Record:
        """A copy with some fields changed, validated again."""
        return replace(self, **changes)  # type: ignore[arg-type]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise RecordError(message)


def _accept(name: str, value: str, accepted: tuple[str, ...]) -> None:
    _require(value in accepted, f"{name} must be one of {', '.join(accepted)}, got {value!r}")
