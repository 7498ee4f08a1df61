"""Geometry of the unified kernels on NVIDIA, after a sweep of tiles, warps and stages on an H200."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.dispatch.geometry import Cohort, Geometry
from workbench.dispatch.grid import WORKGROUPS_PER_CU, smallest_block_m
from workbench.dispatch.tiles import fits_smallest_tile, page_tile, widest_block_m
from workbench.spec import TRANSPOSED_BLOCK_M, ceil_power_of_two, head_pad

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.problem import UnifiedAttentionProblem

LONG_CONTEXT = 2048
"""Keys from which a d64 prefill gains from tiles of 128."""
DEEP_CONTEXT = 16_384
"""Keys from which a split decode has several tiles a segment, and copies two of them ahead."""


def select_cohort(problem: UnifiedAttentionProblem, device: Device, lane: str) -> Cohort:
    """`decode` where each sequence fits one query tile, else `prefill`, or `split-prefill` in the 3D lane."""
    if fits_smallest_tile(problem):
        cohort = _decode(problem, device)
    else:
        cohort = _split_prefill(problem) if lane == "3d" else _prefill(problem, device)
    geometry = replace(
        cohort.geometry,
        early_launch=True,
        pages_ahead=True,
        fp8_in_fp16=problem.kv_dtype == "fp8_e4m3" and problem.dtype == "bf16" and problem.q_dtype != "fp8_e4m3",
    )
    return replace(cohort, geometry=geometry)


def _decode(problem: UnifiedAttentionProblem, device: Device) -> Cohort:
    rows, pad = smallest_block_m(problem), head_pad(problem.head_size)
    base = problem.num_seqs * problem.num_kv_heads
    many = 2 * base >= WORKGROUPS_PER_CU * device.compute_units
    tile = page_tile(problem, 32 if problem.sliding_window is not None else 64)
    num_warps = 2 if many else 4
    count = (
        f"{base} sequences x KV heads {'nearly fill' if many else 'do not fill'} {device.compute_units} compute units, "
        f"so num_warps {num_warps}"
    )
    swapped = problem.max_query_len * problem.group_size <= TRANSPOSED_BLOCK_M and pad <= 128
    if swapped:
        rows = TRANSPOSED_BLOCK_M
        count += "; the rows are the product's 8 columns"
    # Few programs have a tile or two each: a loop for whole tiles would be more code to fetch than masks to apply.
    deep = many or problem.max_kv_len >= DEEP_CONTEXT
    # Many programs hide each other's loads, if shared memory holds them: two tiles ahead of 16 bits each halve those.
    crowded = many and swapped and problem.kv_dtype != "fp8_e4m3"
    num_stages = 3 if deep and not crowded else 2
    geometry = Geometry(rows, tile, num_warps, num_stages, mask_split=many, transposed_qk=swapped)
    return Cohort("decode", geometry, (f"{count}.",))


def _split_prefill(problem: UnifiedAttentionProblem) -> Cohort:
    longest = ceil_power_of_two(problem.max_query_len * problem.group_size)
    rows = max(smallest_block_m(problem), min(64, longest))
    pad = head_pad(problem.head_size)
    geometry = Geometry(rows, page_tile(problem, 32), _warps(rows, pad), 3, mask_split=False)
    return Cohort("split-prefill", geometry, (f"{rows} query rows: few blocks, whose keys are split instead.",))


def _prefill(problem: UnifiedAttentionProblem, device: Device) -> Cohort:
    rows, reason = widest_block_m(problem, device)
    longest = ceil_power_of_two(problem.max_query_len * problem.group_size)
    if rows < 64 <= longest:
        rows, reason = 64, "64 query rows: one warpgroup's product, faster than smaller tiles on more multiprocessors."
    pad = head_pad(problem.head_size)
    split = problem.sliding_window is None and not problem.use_qq_bias
    if problem.use_qq_bias:
        # Every element loads a bias of its own: fewer rows leave more programs to wait for them at once.
        rows, tile, num_stages = _at_most(32, rows, problem), 64, 2
        reason = "32 query rows and one masked loop: each score waits for its bias."
    elif problem.sliding_window is not None:
        # A block visits few tiles: small ones waste less of them at the window's two edges, and nearly all are masked.
        rows, tile, num_stages = _at_most(64, rows, problem), 32, 3
    elif pad > 128:
        tile, num_stages = 32, 2
    elif pad == 128:
        rows, tile, num_stages = _at_most(64, rows, problem), 64, 3
    else:
        # An fp8 tile takes registers twice while it is converted.
        long = rows == 128 and problem.max_kv_len >= LONG_CONTEXT and problem.kv_dtype != "fp8_e4m3"
        tile, num_stages = (128, 3) if long else (64, 3)
    geometry = Geometry(rows, page_tile(problem, tile), _warps(rows, pad), num_stages, mask_split=split)
    return Cohort("prefill", geometry, (reason,))


def _warps(rows: int, pad: int) -> int:
    """As many as leave a lane under 128 accumulator registers, rows * pad / (32 lanes * warps): more would spill."""
    return 8 if rows * pad > 128 * 32 * 3 else 4


def _at_most(limit: int, rows: int, problem: UnifiedAttentionProblem) -> int:
    """Rows of the query tile, limited, but still holding a whole GQA group."""
    return max(smallest_block_m(problem), min(limit, rows))
