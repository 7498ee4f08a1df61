"""Tile rules that the tiers of both vendors share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.dispatch.grid import (
    WAVES_PER_CU,
    floor_power_of_two,
    num_query_blocks,
    smallest_block_m,
    visible_keys,
)
from workbench.spec import ceil_power_of_two

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.dispatch.geometry import Geometry
    from workbench.problem import UnifiedAttentionProblem

WORKGROUPS_FOR_ROWS = ((128, 6), (64, 2), (32, 1))
"""(query rows, workgroups per compute unit that must remain for a tile of so many rows)."""
MAX_SEGMENTS = 128
MIN_TILES_PER_SEGMENT = 2
SEGMENTS_AT_ONCE = 32
FP32_ROWS = 32
FP32_TILE = 32


def fits_smallest_tile(problem: UnifiedAttentionProblem) -> bool:
    """Whether every sequence's rows fit the smallest query tile: one token each, or a few."""
    return problem.max_query_len * problem.group_size <= smallest_block_m(problem)


def page_tile(problem: UnifiedAttentionProblem, tile: int) -> int:
    """At least one whole page of up to 64 tokens, so that the block table is read once per page."""
    return max(tile, min(problem.block_size, 64))


def widest_block_m(problem: UnifiedAttentionProblem, device: Device) -> tuple[int, str]:
    """The largest query tile that still leaves every compute unit enough workgroups, and why."""
    smallest = smallest_block_m(problem)
    longest = ceil_power_of_two(max(1, problem.max_query_len * problem.group_size))
    for rows, wanted in WORKGROUPS_FOR_ROWS:
        grid = num_query_blocks(problem, max(rows, smallest)) * problem.num_kv_heads
        if rows > smallest and rows <= longest and grid >= wanted * device.compute_units:
            return rows, f"{rows} query rows leave {grid} workgroups, at least {wanted} x {device.compute_units}."
    return smallest, f"{smallest} query rows: wider tiles would leave compute units idle or rows empty."


def num_segments(problem: UnifiedAttentionProblem, geometry: Geometry, device: Device) -> tuple[int, str]:
    """Segments of the 3D kernel, a power of two, and why.

    As many as make 16 waves per compute unit, as long as each keeps about two tiles of the keys a query block sees; on
    NVIDIA up to 32 even of one tile, since a warp of the reduction reads so many at once.
    """
    base = num_query_blocks(problem, geometry.rows) * problem.num_kv_heads
    target = device.compute_units * WAVES_PER_CU // geometry.num_warps
    to_fill = ceil_power_of_two(max(1, -(-target // base)))
    tiles = -(-visible_keys(problem, geometry.rows) // geometry.tile)
    most = floor_power_of_two(max(1, tiles // MIN_TILES_PER_SEGMENT))
    if device.vendor == "nvidia":
        most = max(most, min(SEGMENTS_AT_ONCE, floor_power_of_two(max(1, tiles))))
    segments = min(to_fill, most, MAX_SEGMENTS)
    reason = (
        f"{segments} segments: {to_fill} would fill {target} workgroups from {base}, "
        f"{tiles} tiles allow {most}, and {MAX_SEGMENTS} is the limit."
    )
    return segments, reason
