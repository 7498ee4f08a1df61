"""The dense kernel's work items on the host: their order, the keys that each needs, and who works on them when.

Twins of `decode_item`, `locate_block` and the work loop in kernels/dense.py, for a rectangular batch.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import numpy as np

from workbench.dispatch.work_order import paired_programs, sharers
from workbench.errors import ModelError, OrderError
from workbench.plan_dense import WorkOrder

if TYPE_CHECKING:
    from workbench.model.cache import Array
    from workbench.model.l2_assumptions import L2Assumptions
    from workbench.problem import DenseAttentionProblem

ORDERS: tuple[str, ...] = get_args(WorkOrder)
PAIRED = ("gqa_pair", "gqa_pair_2phase")
"""Orders that are for one number of programs each."""


@dataclass(frozen=True)
class WorkItems:
    """All work items of a launch, in their order: [items] each."""

    qblock: Array
    head: Array
    batch: Array


def decode_items(order: str, num_q_blocks: int, num_heads: int, batch: int, group: int) -> WorkItems:
    """Query block, query head and batch member of every work item (specification §8.2).

    order "grid" numbers the workgroups of the default grid (query blocks, query heads, batch), the first fastest.
    """
    item = np.arange(num_q_blocks * num_heads * batch)
    if order == "grid":
        return WorkItems(item % num_q_blocks, item // num_q_blocks % num_heads, item // (num_q_blocks * num_heads))
    member = item % batch
    if order == "qb_major":
        return WorkItems(item // (batch * num_heads), item // batch % num_heads, member)
    if order in PAIRED:
        return _decode_paired(item, order, num_q_blocks, num_heads, batch, group)
    if order != "hkv_major":
        raise ModelError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")
    head = item // (batch * group * num_q_blocks) * group + item // batch % group
    slot = item // (batch * group) % num_q_blocks
    half = num_q_blocks // 2
    return WorkItems(np.where(slot < half, slot, num_q_blocks - 1 - (slot - half)), head, member)


def check_pairs(order: str, num_q_blocks: int, group: int) -> None:
    """OrderError where query blocks or heads do not pair, so that a paired order would not meet every item once."""
    beside = sharers(order, group)
    if num_q_blocks % 2 or group % beside:
        raise OrderError(
            f"{order} pairs query blocks and shares a KV head between {beside} programs: it needs an even number of "
            f"blocks and a group that {beside} divides, got {num_q_blocks} blocks and a group of {group}"
        )


def _decode_paired(item: Array, order: str, num_q_blocks: int, num_heads: int, batch: int, group: int) -> WorkItems:
    check_pairs(order, num_q_blocks, group)
    programs, beside = paired_programs(order, num_q_blocks, num_heads, batch, group), sharers(order, group)
    served, num_kv_heads = group // beside, num_heads // group
    program, step = item % programs, item // programs
    head_kv = program // (beside * batch) % num_kv_heads
    pair = program // (beside * batch * num_kv_heads)
    head = head_kv * group + program % beside * served + step % served
    return WorkItems(np.where(step < served, pair, num_q_blocks - 1 - pair), head, program // beside % batch)


def key_ranges(problem: DenseAttentionProblem, block_m: int) -> tuple[Array, Array]:
    """First key and end of the keys that some row of each query block sees: two [query blocks].

    Where no row sees a key, both are equal.
    """
    first_row = np.arange(0, problem.seqlen_q, block_m)
    if not problem.causal:
        return np.zeros_like(first_row), np.full_like(first_row, problem.seqlen_kv)
    last_row = np.minimum(first_row + block_m, problem.seqlen_q) - 1
    high = np.clip(last_row + problem.causal_offset + 1, 0, problem.seqlen_kv)
    low = np.zeros_like(first_row)
    if problem.sliding_window is not None:
        low = np.maximum(first_row + problem.causal_offset + 1 - problem.sliding_window, 0)
    return np.minimum(low, high), high


@dataclass(frozen=True)
class Schedule:
    """Who works on which item from when on: [items] each, programs and items in the order of the launch."""

    item: Array
    program: Array
    xcd: Array
    start: Array
    """In steps: what a workgroup needs for one tile of keys."""
    pace: Array
    """Steps that its workgroup needs for a tile."""


def schedule(tiles: Array, order: str, num_persistent: int, xcds: int, slots: int, assumed: L2Assumptions) -> Schedule:
    """Lay out the work items over time.

    tiles: key tiles of each item, [items] in the launch's order. slots: workgroups that an XCD holds at a time.
    Program p runs on XCD p mod xcds, as soon as one of its slots is free.
    """
    items = len(tiles)
    programs = items if order == "grid" else min(num_persistent, items)
    rounds = -(-items // programs)
    item = np.arange(rounds * programs).reshape(rounds, programs)
    cost = np.where(item < items, np.append(tiles, np.zeros(item.size - items, int)).reshape(item.shape), 0)
    spread = np.random.default_rng(assumed.seed).uniform(-1.0, 1.0, programs)
    pace = 1.0 + assumed.drift * spread
    cost = cost * pace
    if assumed.pace == "phase":
        cost[:] = cost.max(axis=1, keepdims=True)
    begin = _program_starts(cost.sum(axis=0), xcds, slots)
    start = begin + np.cumsum(cost, axis=0) - cost
    real = item < items
    program = np.broadcast_to(np.arange(programs), item.shape)[real]
    return Schedule(item[real], program, program % xcds, start[real], pace[program])


def _program_starts(durations: Array, xcds: int, slots: int) -> Array:
    """When each program starts: those of an XCD in order, each in the first slot that becomes free."""
    starts = np.zeros(len(durations))
    for xcd in range(xcds):
        mine = range(xcd, len(durations), xcds)
        if len(mine) <= slots:
            continue
        free = [0.0] * slots
        for program in mine:
            starts[program] = heapq.heappop(free)
            heapq.heappush(free, starts[program] + float(durations[program]))
    return starts
