"""Geometry of the unified kernels on NVIDIA, after a sweep of tiles, warps and stages on an H200."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.dispatch.geometry import Cohort, Geometry
from workbench.dispatch.grid import WORKGROUPS_PER_CU, smallest_block_m
from workbench.dispatch.tiles import is_decode, page_tile, widest_block_m
from workbench.spec import head_pad

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.problem import UnifiedAttentionProblem

LONG_CONTEXT = 2048
"""Keys from which a d64 prefill gains from tiles of 128."""


def select_cohort(problem: UnifiedAttentionProblem, device: Device, lane: str) -> Cohort:
    """`decode` where each sequence fits one query tile, else `prefill`, or `split-prefill` in the 3D lane."""
    if is_decode(problem):
        cohort = _decode(problem, device)
    else:
        cohort = _split_prefill(problem) if lane == "3d" else _prefill(problem, device)
    return replace(cohort, geometry=replace(cohort.geometry, early_launch=True))


def _decode(problem: UnifiedAttentionProblem, device: Device) -> Cohort:
    rows, pad = smallest_block_m(problem), head_pad(problem.head_size)
    base = problem.num_seqs * problem.num_kv_heads
    many = 2 * base >= WORKGROUPS_PER_CU * device.compute_units
    num_warps = max(1, min(4, pad // 64)) if many else 4
    tile = page_tile(problem, 32 if pad > 128 else 64)
    reason = (
        f"{base} sequences x KV heads {'nearly fill' if many else 'do not fill'} "
        f"{device.compute_units} compute units, so num_warps {num_warps}."
    )
    if many:
        return Cohort("decode", Geometry(rows, tile, num_warps, num_stages=3), (reason,))
    # A program has a tile or two: a second loop for whole tiles would cost more code to fetch than masks to apply.
    return Cohort("decode", Geometry(rows, tile, num_warps, num_stages=2, mask_split=False), (reason,))


def _split_prefill(problem: UnifiedAttentionProblem) -> Cohort:
    rows = max(32, smallest_block_m(problem))
    wide = head_pad(problem.head_size) > 128
    geometry = Geometry(rows, page_tile(problem, 32 if wide else 64), 4 if wide else 2, num_stages=2, mask_split=False)
    return Cohort("split-prefill", geometry, (f"{rows} query rows: few blocks, whose keys are split instead.",))


def _prefill(problem: UnifiedAttentionProblem, device: Device) -> Cohort:
    rows, reason = widest_block_m(problem, device)
    pad = head_pad(problem.head_size)
    if problem.sliding_window is not None:
        # A block visits few tiles: small ones waste less of them at the window's two edges.
        rows, tile, num_stages = _at_most(64, rows, problem), 32, 2
    elif pad > 128:
        tile, num_stages = 32, 2
    elif pad == 128:
        rows, tile, num_stages = _at_most(64, rows, problem), 64, 3
    else:
        tile, num_stages = (128, 3) if rows == 128 and problem.max_kv_len >= LONG_CONTEXT else (64, 2)
    # More than 128 accumulator registers a lane would spill: rows * pad / (32 lanes * warps).
    num_warps = max(4, min(8, rows * pad // (128 * 32)))
    return Cohort("prefill", Geometry(rows, page_tile(problem, tile), num_warps, num_stages), (reason,))


def _at_most(limit: int, rows: int, problem: UnifiedAttentionProblem) -> int:
    """Rows of the query tile, limited, but still holding a whole GQA group."""
    return max(smallest_block_m(problem), min(limit, rows))
