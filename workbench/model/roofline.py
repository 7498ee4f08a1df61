"""Points of a roofline: what a kernel did, or at most could do, for the bytes it moves.

FLOPs and minimal bytes are those of workbench.parity.flops: causal limit, window and GQA are counted, masked pairs that
a tile computes anyway are not.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.device import device_named
from workbench.errors import ModelError

if TYPE_CHECKING:
    from workbench.model.ceilings import Ceilings
    from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
    from workbench.records.record import Evidence, Record

LEFT_OUT = (
    "FLOPs are those of the visible pairs in QK and PV. Softmax, exponentials, masks, biases and masked pairs of a "
    "tile take time and count nothing, so that the compute ceiling itself is out of reach.",
    "Minimal bytes are Q, K, V and O once. Tables, lengths, workspaces and whatever is fetched twice are not in them.",
    "Inputs still in a cache from the last call need not move: a warm point may lie above the memory line.",
    "Launches, the tail of the last workgroups and clocks below the peak are in a point's time and in neither line.",
    "Records keep the clocks of their own session; ceilings from another one, or from a data sheet, may not.",
    "The compute ceiling is that of bf16 and fp16; products in other dtypes have others.",
)
"""What a roofline of this kind does not know."""


@dataclass(frozen=True)
class Point:
    """One kernel on one problem."""

    label: str
    hardware: str
    flops: float
    bytes: float
    bytes_evidence: Evidence
    """static for minimal bytes, modelled, emulated or measured for those of a model or of counters."""
    seconds: float | None = None
    """None for a point that no time is known of: only its limit is."""
    time_evidence: Evidence | None = None

    def __post_init__(self) -> None:
        if self.flops < 0 or self.bytes <= 0 or (self.seconds is not None and self.seconds <= 0):
            raise ModelError(
                f"{self.label}: a point needs flops >= 0, bytes > 0 and seconds > 0 or None, "
                f"got {self.flops}, {self.bytes}, {self.seconds}"
            )
        if (self.seconds is None) != (self.time_evidence is None):
            raise ModelError(f"{self.label}: seconds and time_evidence come together")

    @property
    def intensity(self) -> float:
        """FLOP per byte."""
        return self.flops / self.bytes

    @property
    def flop_per_s(self) -> float | None:
        """Throughput, None without a time."""
        return None if self.seconds is None else self.flops / self.seconds

    @property
    def byte_per_s(self) -> float | None:
        """Bandwidth, None without a time."""
        return None if self.seconds is None else self.bytes / self.seconds


def point_from_problem(label: str, hardware: str, problem: DenseAttentionProblem | UnifiedAttentionProblem) -> Point:
    """The point of minimal bytes, without a time. hardware: whose ceilings are to limit it."""
    from workbench.parity.flops import work_of

    work = work_of(problem)
    return Point(label, hardware, work.flops, work.bytes, "static")


def point_from_record(record: Record) -> Point:
    """The median time of a record over the FLOPs and minimal bytes of its problem.

    ModelError for a record without samples.
    """
    from workbench.parity.flops import work_of

    if not record.samples:
        raise ModelError(f"{record.scenario}, lane {record.lane}: status {record.status}, so there is no time to place")
    work = work_of(record.problem)
    seconds = statistics.median(record.samples) * 1e-6
    name = record.environment.get("device", "an unnamed device")
    described = device_named(name)
    hardware = described.title if described else name
    return Point(record.scenario, hardware, work.flops, work.bytes, "static", seconds, record.evidence)


def share_of_roof(point: Point, ceilings: Ceilings) -> float:
    """Throughput over what the ceilings allow at the point's intensity.

    ModelError for a point without a time and for one from other hardware.
    """
    if point.hardware != ceilings.hardware:
        raise ModelError(
            f"{point.label} ran on {point.hardware}, but the ceilings are those of {ceilings.hardware}; "
            "take the ceilings of the same device"
        )
    if point.flop_per_s is None:
        raise ModelError(f"{point.label} has no time, so it has no share of the roof; look at its limit instead")
    return point.flop_per_s / ceilings.attainable(point.intensity)
