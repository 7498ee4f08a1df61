"""How the dense kernel's work is cut and handed out: key tiles, ragged lengths, grids. Counts are exact: static."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from workbench.errors import OrderError
from workbench.parity.flops import work_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pandas as pd

    from workbench.device import Device
    from workbench.inspection import Inspection
    from workbench.problem import DenseAttentionProblem
    from workbench.spec import DenseGeometry

COLD_START_TILES = 4.5
"""Tile-equivalents before the first tile of a program: published for another kernel, specification §8.2."""


def tiles_of_blocks(problem: DenseAttentionProblem, block_m: int, block_n: int) -> np.ndarray:
    """Key tiles that each query block walks, [query blocks]: up to the last key that one of its rows sees."""
    from workbench.model.dense_order import key_ranges

    return -(-key_ranges(problem, block_m)[1] // block_n)


def scores_computed(problem: DenseAttentionProblem, block_m: int, block_n: int) -> int:
    """Scores that the MFMA compute, masked and padded ones included, over the whole problem."""
    tiles = int(tiles_of_blocks(problem, block_m, block_n).sum())
    return tiles * block_m * block_n * problem.num_query_heads * problem.batch


def scores_needed(problem: DenseAttentionProblem) -> int:
    """Visible (row, key) pairs."""
    return work_of(problem).flops // (4 * problem.head_size)


def waste_frame(
    problem: DenseAttentionProblem, lengths: Sequence[int], block_m: int, block_ns: Sequence[int]
) -> pd.DataFrame:
    """A line per length and key tile: scores computed over scores needed, less 1. Static."""
    import pandas as pd

    found = []
    for length in lengths:
        sized = problem.with_changes(seqlen_q=length, seqlen_kv=length)
        for block_n in block_ns:
            waste = scores_computed(sized, block_m, block_n) / scores_needed(sized) - 1
            found.append({"length": length, "block_n": block_n, "waste": waste, "evidence": "static"})
    return pd.DataFrame(found)


@dataclass(frozen=True)
class Hand:
    """How one grid hands out the work: [compute units] each."""

    label: str
    order: str
    tiles: np.ndarray
    """Key tiles."""
    items: np.ndarray
    """Work items."""
    starts: np.ndarray
    """Cold starts: one a program of the persistent grid, one an item of the default grid."""

    @property
    def span(self) -> float:
        """Tile-times until the last compute unit is done, if a tile takes the same everywhere. Modelled."""
        return float((self.tiles + COLD_START_TILES * self.starts).max())

    @property
    def busy(self) -> float:
        """Share of the compute units' time until then that goes into tiles. Modelled."""
        return float(self.tiles.sum() / (self.span * len(self.tiles)))


def hand_out(problem: DenseAttentionProblem, spec: DenseGeometry, order: str, programs: int, units: int) -> Hand:
    """The work of each of `units` compute units, which hold one workgroup at a time and take the next when free.

    order: `grid`, whose workgroups are the work items and where `programs` has no meaning, or a persistent order.
    OrderError for a persistent order that does not meet every item of this problem.
    """
    import heapq

    import numpy as np

    tiles = item_tiles(problem, spec, order)
    groups = len(tiles) if order == "grid" else programs
    owner = np.arange(len(tiles)) % groups
    work = np.bincount(owner, weights=tiles, minlength=groups)
    counts = np.bincount(owner, minlength=groups)
    free = [(0.0, unit) for unit in range(units)]
    done = np.zeros((3, units))
    for cost, count in zip(work.tolist(), counts.tolist(), strict=True):
        start, unit = heapq.heappop(free)
        done[:, unit] += (cost, count, 1)
        heapq.heappush(free, (start + cost + COLD_START_TILES, unit))
    label = "default grid" if order == "grid" else f"{order}, {programs} programs"
    return Hand(label, order, *done)


def item_tiles(problem: DenseAttentionProblem, spec: DenseGeometry, order: str) -> np.ndarray:
    """Key tiles of each work item, [items] in the order in which they are handed out."""
    from workbench.model.dense_order import decode_items

    blocks = -(-problem.seqlen_q // spec.block_m)
    items = decode_items(order, blocks, problem.num_query_heads, problem.batch, problem.group_size)
    return tiles_of_blocks(problem, spec.block_m, spec.block_n)[items.qblock]


def hands(
    problem: DenseAttentionProblem, spec: DenseGeometry, device: Device, orders: Sequence[str], programs: Sequence[int]
) -> list[Hand]:
    """Each order under each number of programs; the default grid once. Orders that miss items are left out."""
    found = []
    for order in orders:
        for count in programs[:1] if order == "grid" else programs:
            with suppress(OrderError):
                found.append(hand_out(problem, spec, order, count, device.compute_units))
    return found


def same_loop(first: Inspection, second: Inspection) -> float:
    """Share of the hot loops' instructions, by mnemonic in program order, that both kernels have. Static."""
    ours, theirs = ([each.mnemonic for each in loop.hot_instructions] for loop in (first, second))
    return SequenceMatcher(a=ours, b=theirs, autojunk=False).ratio()
