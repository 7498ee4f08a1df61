"""Where dispatch takes the 2D and where the split-KV 3D kernel, and what either does to the longest queue of work.

The queue model: a device has four slots for workgroups on each compute unit, the number that the rule itself assumes.
A launch fills them in rounds, and each slot works through its workgroups' key tiles one after the other:

    steps = rounds * tiles of a workgroup * query rows of a tile,  rounds = ceil(workgroups / slots)

Latency, bandwidth and the reduction behind the 3D kernel are not in it. Evidence: lanes and grids static, steps
modelled, times measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from statistics import median
from typing import TYPE_CHECKING, Any

from workbench.dispatch import grid_2d, grid_3d, select_path, select_spec
from workbench.dispatch.grid import WORKGROUPS_PER_CU, num_query_blocks, smallest_block_m, visible_keys
from workbench.dispatch.path import SHORT_CONTEXT
from workbench.errors import ParameterError
from workbench.problem import UnifiedAttentionProblem
from workbench.spec import Unified3DSpec

if TYPE_CHECKING:
    import pandas as pd

    from workbench.device import Device
    from workbench.dispatch.path import Lane
    from workbench.records import Record

UNIFIED_SETS = ("default", "creative", "fmha", "gqa", "serving")
OWN = "workbench"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """All of a problem but its batch and context."""

    query_len: int = 1
    num_query_heads: int = 64
    num_kv_heads: int = 8
    head_size: int = 128
    block_size: int = 16
    dtype: str = "bf16"
    sliding_window: int | None = None

    def problem(self, batch: int, context: int) -> UnifiedAttentionProblem:
        """`batch` sequences of `context` keys, the queries among them."""
        return UnifiedAttentionProblem(
            ((min(self.query_len, context), context),) * batch,
            num_query_heads=self.num_query_heads,
            num_kv_heads=self.num_kv_heads,
            head_size=self.head_size,
            block_size=self.block_size,
            dtype=self.dtype,  # type: ignore[arg-type]
            sliding_window=self.sliding_window,
        )

    def describe(self) -> str:
        """`1 query token, 64/8 heads, d128`."""
        tokens = f"{self.query_len} query token{'' if self.query_len == 1 else 's'}"
        window = f", window {self.sliding_window}" if self.sliding_window else ""
        return f"{tokens}, {self.num_query_heads}/{self.num_kv_heads} heads, d{self.head_size}{window}"


@dataclass(frozen=True)
class Queue:
    """One launch of a lane's main kernel on a device."""

    workgroups: int
    rounds: int
    tiles: int
    """Of one workgroup."""
    segments: int
    steps: int
    """Of the longest queue, in key tiles times query rows."""
    busy: float
    """Workgroups over slots, all rounds counted: the share of slots that have work."""


def queue_of(problem: UnifiedAttentionProblem, device: Device, lane: str) -> Queue:
    """The queue model for the spec that dispatch has for the lane."""
    spec = select_spec(problem, device, lane, tuned=False).spec
    split = isinstance(spec, Unified3DSpec)
    segments = spec.num_segments if isinstance(spec, Unified3DSpec) else 1
    grid = grid_3d(problem, spec.block_m, segments) if split else grid_2d(problem, spec.block_m)
    slots = WORKGROUPS_PER_CU * device.compute_units
    rounds = -(-prod(grid) // slots)
    tiles = -(-visible_keys(problem, spec.block_m) // spec.tile_size)
    tiles = -(-tiles // segments)
    return Queue(prod(grid), rounds, tiles, segments, rounds * tiles * spec.block_m, prod(grid) / (rounds * slots))


def specification_lane(problem: UnifiedAttentionProblem, device: Device) -> Lane:
    """The rule of specification §6: 2D under a window, for a short context, or with a grid over 4 a compute unit."""
    grid = num_query_blocks(problem, smallest_block_m(problem)) * problem.num_kv_heads
    flat = problem.sliding_window is not None or problem.max_kv_len <= SHORT_CONTEXT
    return "2d" if flat or grid > WORKGROUPS_PER_CU * device.compute_units else "3d"


def gain(problem: UnifiedAttentionProblem, device: Device) -> float:
    """Steps of the 2D kernel's longest queue over those of the 3D kernel's."""
    return queue_of(problem, device, "2d").steps / queue_of(problem, device, "3d").steps


def route_frame(device: Device, shape: Shape, batches: Sequence[int], contexts: Sequence[int]) -> pd.DataFrame:
    """A line per batch and context: what dispatch decides, and the queue model of both lanes."""
    import pandas as pd

    if not batches or not contexts:
        raise ParameterError("a map needs at least one batch and one context")
    found = []
    for batch in batches:
        for context in contexts:
            problem = shape.problem(batch, context)
            path = select_path(problem, device, tuned=False)
            flat, split = queue_of(problem, device, "2d"), queue_of(problem, device, "3d")
            found.append(
                {
                    "device": device.title,
                    "shape": shape.describe(),
                    "batch": batch,
                    "context": context,
                    "lane": path.lane,
                    "grid": path.grid,
                    "target": path.target,
                    "fill": path.grid / path.target,
                    "segments": split.segments,
                    "workgroups_2d": flat.workgroups,
                    "workgroups_3d": split.workgroups,
                    "busy_2d": flat.busy,
                    "busy_3d": split.busy,
                    "steps_2d": flat.steps,
                    "steps_3d": split.steps,
                    "gain": flat.steps / split.steps,
                    "why": path.reasons[-1],
                    "evidence": "static; steps, busy and gain modelled",
                }
            )
    return pd.DataFrame(found)


def measured_frame(records: Sequence[Record], device: Device) -> pd.DataFrame:
    """A line per scenario that was timed in both lanes: 2D time over 3D time, what the rules take, the queue model.

    `lane` and `loss` are of dispatch as it is, heuristics alone; `rule` and `rule_loss` of specification §6.
    """
    import pandas as pd

    by_scenario: dict[tuple[str, str], dict[str, Record]] = {}
    for record in records:
        if record.candidate == OWN and record.samples and isinstance(record.problem, UnifiedAttentionProblem):
            by_scenario.setdefault((record.session, record.scenario), {})[record.lane] = record
    found = []
    for (_, scenario), lanes in by_scenario.items():
        if not {"2d", "3d"} <= set(lanes):
            continue
        problem: Any = lanes["2d"].problem
        path, rule = select_path(problem, device, tuned=False), specification_lane(problem, device)
        ratio = median(lanes["2d"].samples) / median(lanes["3d"].samples)
        found.append(
            {
                "scenario": scenario,
                "lane": path.lane,
                "rule": rule,
                "context": problem.max_kv_len,
                "window": problem.sliding_window,
                "fill": path.grid / path.target,
                "gain": gain(problem, device),
                "ratio": ratio,
                "loss": _loss(ratio, path.lane),
                "rule_loss": _loss(ratio, rule),
                "hardware": lanes["2d"].environment.get("device", ""),
                "evidence": "measured; gain modelled",
            }
        )
    return pd.DataFrame(found)


def _loss(ratio: float, lane: Lane) -> float:
    """Time of the lane over that of the faster one."""
    return max(1.0, ratio if lane == "2d" else 1 / ratio)


def timed_points(
    shape: Shape,
    points: Sequence[tuple[int, int]],
    *,
    rounds: int = 10,
    on_done: Callable[[int, int, str], None] | None = None,
) -> list[Record]:
    """Both lanes at (batch, context) points, timed on the GPU here; nothing without one."""
    from workbench.device import detect_device
    from workbench.parity.harness import run_lanes
    from workbench.parity.timing import TimingPlan
    from workbench.records import keep_records
    from workbench.scenarios import Scenario

    if detect_device() is None:
        return []
    found: list[Record] = []
    for done, (batch, context) in enumerate(points, start=1):
        name = f"batch {batch}, context {context}"
        scenario = Scenario(name, "routing", shape.problem(batch, context))
        records = run_lanes(scenario, ("2d", "3d"), timing=TimingPlan(rounds=rounds))
        keep_records(records)
        found += records
        if on_done:
            on_done(done, len(points), name)
    return found
