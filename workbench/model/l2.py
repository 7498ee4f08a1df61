"""L2 traffic of the dense kernel under an order of its work items. Evidence kind: modelled.

The requests of a launch are laid out in time from the kernel's own order (workbench.model.dense_order), expanded to the
cache lines of contiguous [B, S, H, d] tensors, and looked up in one LRU cache per XCD (workbench.model.cache). What is
taken for granted is in L2Assumptions, and in words in its `sentences`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.errors import ModelError
from workbench.model.cache import Array, CacheGeometry, l2_geometry, lru_hits, sample_sets
from workbench.model.dense_order import PAIRED, check_pairs
from workbench.model.dense_requests import OPERANDS, Requests, dense_requests
from workbench.model.l2_assumptions import L2Assumptions

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.gfx950.emulator.counters import MemoryTrace
    from workbench.problem import DenseAttentionProblem
    from workbench.spec import DenseGeometry


@dataclass(frozen=True)
class L2Result:
    """Requests and misses of one launch, [operands, XCDs] each, scaled up from the sampled sets."""

    order: str
    num_persistent: int
    geometry: CacheGeometry
    assumptions: L2Assumptions
    operands: tuple[str, ...]
    requests: Array
    misses: Array
    hit_rate_error: float
    """Standard error of `hit_rate` that comes from simulating a sample of the sets; 0 if all were."""
    longest_over_mean: float
    """Time until the last workgroup ends over that of a perfectly shared load, both counted in tiles; 1 at best."""

    @property
    def hit_rate(self) -> float:
        """Hits over requests, pooled over operands and XCDs."""
        return 1.0 - float(self.misses.sum() / self.requests.sum())

    @property
    def hit_rate_by_xcd(self) -> Array:
        """Hits over requests of each XCD, [XCDs]."""
        return 1.0 - self.misses.sum(axis=0) / self.requests.sum(axis=0)

    @property
    def total_misses(self) -> float:
        return float(self.misses.sum())

    @property
    def bytes_beyond_l2(self) -> float:
        """Misses in bytes: read for a missing line, or written back for one of O. At most this comes from HBM."""
        return self.total_misses * self.geometry.line_bytes

    def hit_rate_of(self, *operands: str) -> float:
        """Hit rate of some operands alone, such as "k", "v"."""
        rows = [self.operands.index(operand) for operand in operands]
        return 1.0 - float(self.misses[rows].sum() / self.requests[rows].sum())


def model_l2(
    problem: DenseAttentionProblem,
    spec: DenseGeometry,
    device: Device,
    order: str,
    *,
    num_persistent: int | None = None,
    geometry: CacheGeometry | None = None,
    assumptions: L2Assumptions | None = None,
) -> L2Result:
    """Hit rate and misses of one launch of the dense kernel.

    order: a WorkOrder of the kernel; also one that the dispatcher would refuse for its balance.
    num_persistent: programs of the persistent grid; None: those that a paired order is for, else the spec's, else one
    per compute unit.
    geometry: the L2 caches; None: the device's. ModelError for what cannot be modelled.
    """
    assumptions = (assumptions or L2Assumptions()).for_spec(spec)
    geometry = geometry or l2_geometry(device)
    programs = num_persistent if num_persistent is not None else default_programs(problem, spec, device, order)
    if problem.seqlen_q == 0:
        raise ModelError("the problem asks nothing of the L2: it has no query rows")
    if programs < 1:
        raise ModelError(f"num_persistent must be >= 1, got {programs}")
    slots = max(1, device.compute_units // geometry.xcds) * assumptions.workgroups_per_cu
    chosen = sample_sets(geometry, assumptions.sampled_sets, assumptions.seed)
    requests = dense_requests(problem, spec, order, programs, slots, geometry, assumptions)
    return _counted(order, programs, geometry, assumptions, requests, chosen, slots * geometry.xcds)


def default_programs(problem: DenseAttentionProblem, spec: DenseGeometry, device: Device, order: str) -> int:
    """Programs of the persistent grid: those that a paired order is for, else the spec's, else one per compute unit."""
    from workbench.dispatch.work_order import num_persistent_programs, paired_programs

    if order in PAIRED:
        blocks = -(-problem.seqlen_q // spec.block_m)
        check_pairs(order, blocks, problem.group_size)
        return paired_programs(order, blocks, problem.num_query_heads, problem.batch, problem.group_size)
    return num_persistent_programs(spec, device)


def _counted(
    order: str,
    programs: int,
    geometry: CacheGeometry,
    assumed: L2Assumptions,
    requests: Requests,
    chosen: Array,
    slots: int,
) -> L2Result:
    if len(requests.lines) == 0:
        raise ModelError("nothing is asked of the L2: no row sees a key, and Q and O are left out")
    hits = lru_hits(geometry, requests.xcds, requests.lines)
    scale = geometry.sets / int(chosen.sum())
    shape = (len(OPERANDS), geometry.xcds)
    cell = requests.operands * geometry.xcds + requests.xcds
    weights = np.array([assumed.q_requests, assumed.kv_requests, assumed.kv_requests, assumed.o_requests or 0])
    firsts = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
    misses = np.bincount(cell, ~hits, minlength=shape[0] * shape[1]).reshape(shape)
    rank = np.cumsum(chosen) - 1
    in_set = rank[geometry.set_of(requests.lines)]
    error = _ratio_error(
        np.bincount(in_set, weights[requests.operands], int(chosen.sum())),
        np.bincount(in_set, ~hits, int(chosen.sum())),
        geometry.sets,
    )
    return L2Result(
        order=order,
        num_persistent=programs,
        geometry=geometry,
        assumptions=assumed,
        operands=OPERANDS,
        requests=firsts * weights[:, None] * scale,
        misses=misses * scale,
        hit_rate_error=error,
        longest_over_mean=requests.span * slots / requests.work if requests.work else 1.0,
    )


def _ratio_error(requests: Array, misses: Array, population: int) -> float:
    """Standard error of sum(misses) / sum(requests) over sets drawn without replacement."""
    count = len(requests)
    if count == population:
        return 0.0
    if count < 2:
        return float("nan")
    residual = misses - requests * (misses.sum() / requests.sum())
    spread = float(np.sqrt((residual**2).sum() * count / (count - 1)))
    return spread / float(requests.sum()) * float(np.sqrt(1.0 - count / population))


@dataclass(frozen=True)
class TraceResult:
    """Requests and misses of an emulated launch in a modelled cache, [XCDs] each.

    The requests are emulated, hits and misses modelled.
    """

    geometry: CacheGeometry
    requests: Array
    misses: Array

    @property
    def hit_rate(self) -> float:
        """Hits over requests, pooled over XCDs; NaN without a request."""
        total = self.requests.sum()
        return 1.0 - float(self.misses.sum() / total) if total else float("nan")


def replay_trace(trace: MemoryTrace, waves_per_workgroup: int, geometry: CacheGeometry) -> TraceResult:
    """The requests of an emulated launch, in the emulator's order, through the caches that the model uses.

    Workgroup i runs on XCD i mod xcds. ModelError unless the geometry's lines are the trace's, which has 128 bytes.
    """
    from workbench.gfx950.emulator.counters import LINE_BYTES

    if geometry.line_bytes != LINE_BYTES:
        raise ModelError(f"the trace has lines of {LINE_BYTES} bytes, the cache has {geometry.line_bytes}")
    if waves_per_workgroup < 1:
        raise ModelError(f"waves_per_workgroup must be >= 1, got {waves_per_workgroup}")
    xcds = trace.wave // waves_per_workgroup % geometry.xcds
    hits = lru_hits(geometry, xcds, trace.line // np.uint64(LINE_BYTES))
    requests = np.bincount(xcds, minlength=geometry.xcds)
    misses = np.bincount(xcds, ~hits, minlength=geometry.xcds).astype(np.int64)
    return TraceResult(geometry, requests, misses)
