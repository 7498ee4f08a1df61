"""The cache lines that the dense kernel asks its L2 for, in the order of their arrival."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.model.cache import sample_sets
from workbench.model.dense_order import decode_items, key_ranges, schedule
from workbench.problem import DTYPE_BYTES

if TYPE_CHECKING:
    from workbench.model.cache import Array, CacheGeometry
    from workbench.model.l2_assumptions import L2Assumptions
    from workbench.problem import DenseAttentionProblem
    from workbench.spec import DenseGeometry

OPERANDS = ("q", "k", "v", "o")
_BASE_SHIFT = 40
"""Each operand starts at a line number of its own, far from the others."""
_TURN = {"o": 0, "q": 1, "k": 2, "v": 3}
"""Within a step a workgroup stores its last item before it loads the next one, and K before V."""


@dataclass(frozen=True)
class Requests:
    """First requests for lines of the sampled sets, by time: [requests] each."""

    xcds: Array
    operands: Array
    """Index into OPERANDS."""
    lines: Array
    span: float
    """Steps until the last workgroup ends; a step is what a workgroup needs for one tile of keys."""
    work: float
    """Steps of all workgroups together."""


@dataclass(frozen=True)
class _Blocks:
    """Row blocks that are asked for: rows low..high - 1 of one head, by one program at one time. [blocks] each."""

    xcd: Array
    time: Array
    program: Array
    head: Array
    """Batch member * heads + head."""
    low: Array
    high: Array


@functools.lru_cache(maxsize=16)
def _line_table(
    operand: str, batch: int, tokens: int, heads: int, row_bytes: int, geometry: CacheGeometry, sets: int, seed: int
) -> _LineTable:
    """The table of one operand; the orders of a study share it."""
    return _LineTable(operand, batch, tokens, heads, row_bytes, geometry, sample_sets(geometry, sets, seed))


class _LineTable:
    """The lines of one operand [B, S, H, d] that lie in sampled sets, sorted by head and token.

    A line that holds parts of several tokens of its head counts as the first one's.
    """

    def __init__(
        self, operand: str, batch: int, tokens: int, heads: int, row_bytes: int, geometry: CacheGeometry, chosen: Array
    ) -> None:
        self._stride = tokens + 1
        token = np.arange(tokens)
        width = (row_bytes + geometry.line_bytes - 2) // geometry.line_bytes + 1
        keys, lines = [], []
        for head in range(batch * heads):
            first_byte = ((head // heads * tokens + token) * heads + head % heads) * row_bytes
            last = (first_byte + row_bytes - 1) // geometry.line_bytes
            line = first_byte[:, None] // geometry.line_bytes + np.arange(width)
            owner = np.broadcast_to(token[:, None], line.shape)[line <= last[:, None]]
            line = line[line <= last[:, None]]
            new = np.r_[True, line[1:] > line[:-1]] if len(line) else np.zeros(0, bool)
            line = line[new] + (OPERANDS.index(operand) << _BASE_SHIFT)
            sampled = chosen[geometry.set_of(line)]
            keys.append(head * self._stride + owner[new][sampled])
            lines.append(line[sampled])
        self._keys, self._lines = np.concatenate(keys), np.concatenate(lines)

    def lines_of(self, blocks: _Blocks) -> tuple[Array, Array]:
        """(lines, how many each block has), the lines of a block behind those of the one before."""
        first = np.searchsorted(self._keys, blocks.head * self._stride + blocks.low)
        counts = np.searchsorted(self._keys, blocks.head * self._stride + blocks.high) - first
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return self._lines[np.repeat(first, counts) + within], counts


def dense_requests(
    problem: DenseAttentionProblem,
    spec: DenseGeometry,
    order: str,
    num_persistent: int,
    slots: int,
    geometry: CacheGeometry,
    assumed: L2Assumptions,
) -> Requests:
    """The first request of every workgroup for every line of the sampled sets.

    slots: workgroups that one XCD holds at a time.
    """
    parts, span, work = _blocks(problem, spec, order, num_persistent, slots, geometry.xcds, assumed)
    row_bytes = problem.head_size * DTYPE_BYTES[problem.dtype]
    columns: list[tuple[Array, ...]] = []
    for operand, blocks in parts.items():
        rows, heads = (
            (problem.seqlen_q, problem.num_query_heads)
            if operand in "qo"
            else (problem.seqlen_kv, problem.num_kv_heads)
        )
        if rows == 0 or len(blocks.head) == 0:
            continue
        sample = (assumed.sampled_sets, assumed.seed)
        table = _line_table(operand, problem.batch, rows, heads, row_bytes, geometry, *sample)
        lines, counts = table.lines_of(blocks)
        by_block = (blocks.time, blocks.program, np.full(len(counts), _TURN[operand]), blocks.xcd)
        columns.append((*(np.repeat(column, counts) for column in by_block), _constant(operand, lines), lines))
    if not columns:
        nothing = np.zeros(0, np.int64)
        return Requests(nothing, nothing, nothing, span, work)
    time, program, turn, xcd, operand_index, lines = (np.concatenate(column) for column in zip(*columns, strict=True))
    arrival = np.lexsort((turn, program, time))
    return Requests(xcd[arrival], operand_index[arrival], lines[arrival], span, work)


def _constant(operand: str, like: Array) -> Array:
    return np.full(len(like), OPERANDS.index(operand))


def _blocks(
    problem: DenseAttentionProblem,
    spec: DenseGeometry,
    order: str,
    num_persistent: int,
    slots: int,
    xcds: int,
    assumed: L2Assumptions,
) -> tuple[dict[str, _Blocks], float, float]:
    """What each operand is asked for, in rows; then the launch's span and work."""
    low, high = key_ranges(problem, spec.block_m)
    items = decode_items(order, len(low), problem.num_query_heads, problem.batch, problem.group_size)
    low, high = low[items.qblock], high[items.qblock]
    first_tile = low // spec.block_n
    tiles = np.where(low < high, -(-high // spec.block_n) - first_tile, 0)
    plan = schedule(tiles, order, num_persistent, xcds, slots, assumed)
    item, tiles = plan.item, tiles[plan.item]
    head = items.batch[item] * problem.num_query_heads + items.head[item]
    row = items.qblock[item] * spec.block_m
    rows = (head, row, np.minimum(row + spec.block_m, problem.seqlen_q))
    blocks = {}
    if assumed.q_requests:
        blocks["q"] = _Blocks(plan.xcd, plan.start, plan.program, *rows)
    if assumed.o_requests:
        blocks["o"] = _Blocks(plan.xcd, plan.start + tiles * plan.pace, plan.program, *rows)
    # One entry for each tile of each item.
    of = np.repeat(np.arange(len(item)), tiles)
    step = np.arange(len(of)) - np.repeat(np.cumsum(tiles) - tiles, tiles)
    key = (first_tile[item][of] + step) * spec.block_n
    head_kv = items.batch[item] * problem.num_kv_heads + items.head[item] // problem.group_size
    keys = _Blocks(
        plan.xcd[of],
        plan.start[of] + step * plan.pace[of],
        plan.program[of],
        head_kv[of],
        np.maximum(key, low[item][of]),
        np.minimum(key + spec.block_n, high[item][of]),
    )
    steps = tiles * plan.pace
    return blocks | {"k": keys, "v": keys}, float((plan.start + steps).max(initial=0.0)), float(steps.sum())
