"""Geometry for Triton's interpreter: the cost is per operation, whatever its size, so tiles are large and few."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.dispatch.geometry import Cohort, Geometry
from workbench.dispatch.grid import smallest_block_m, visible_keys
from workbench.spec import ceil_power_of_two

if TYPE_CHECKING:
    from workbench.problem import UnifiedAttentionProblem

ROWS = 64
TILE = 128
SEGMENTS = 4


def select_cohort(problem: UnifiedAttentionProblem) -> Cohort:
    """Up to 64 query rows and 128 keys a tile, no larger than the problem needs."""
    needed_rows = ceil_power_of_two(max(1, problem.max_query_len * problem.group_size))
    rows = max(smallest_block_m(problem), min(ROWS, needed_rows))
    needed_keys = ceil_power_of_two(max(problem.block_size, visible_keys(problem, rows)))
    tile = min(TILE, needed_keys)
    reason = f"No device: {rows} query rows and {tile} keys a tile keep the interpreter's operations few."
    return Cohort("interpreter", Geometry(rows, tile, num_warps=4, num_stages=1), (reason,))


def num_segments(problem: UnifiedAttentionProblem, geometry: Geometry) -> tuple[int, str]:
    """Four segments, or two where there are no four tiles; one of two may then be empty, which is a case to meet."""
    tiles = -(-visible_keys(problem, geometry.rows) // geometry.tile)
    segments = SEGMENTS if tiles >= SEGMENTS else SEGMENTS // 2
    return segments, f"{segments} segments for {tiles} tiles."
