"""Geometry of the unified kernels on AMD: the cohorts of specification §6, then rules for the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.dispatch.geometry import MFMA_ROWS, Cohort, Geometry, rows_of_32
from workbench.dispatch.grid import smallest_block_m
from workbench.dispatch.tiles import fits_smallest_tile, page_tile, widest_block_m
from workbench.problem import DTYPE_BYTES
from workbench.spec import head_pad

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.problem import UnifiedAttentionProblem

COHORT_ARCHS = ("gfx942", "gfx950")
LONG_QUERY = 256
"""A prefill is long when its query has more tokens than this."""


def select_cohort(problem: UnifiedAttentionProblem, device: Device, lane: str) -> Cohort:
    """The first cohort that the problem belongs to. The cohorts of §6 are for the 2D kernel."""
    if lane == "2d" and device.arch in COHORT_ARCHS:
        cohort = _single_batch_prefill(problem, device) or _serving(problem, device)
        if cohort is not None and cohort.geometry.rows >= problem.group_size:
            return cohort
    return _decode(problem) if fits_smallest_tile(problem) else _prefill(problem, device)


def _one_loop(rows: int, tile: int, num_stages: int, waves_per_eu: int = 0) -> Geometry:
    # The plain product: Triton swaps the operands by itself, so that a lane holds keys of one row; transposed_qk swaps
    # them back and spills. One loop with a masked tail inside: two loops cost 7 % here, in instruction cache
    # (specification §4).
    return rows_of_32(rows, tile, num_stages, waves_per_eu=waves_per_eu, mask_split=False)


def _single_batch_prefill(problem: UnifiedAttentionProblem, device: Device) -> Cohort | None:
    long_prefill = problem.num_seqs == 1 and problem.max_query_len > LONG_QUERY
    plain = not (problem.use_alibi or problem.use_qq_bias or problem.sliding_window)
    low_precision = problem.dtype in ("fp16", "bf16") and problem.q_dtype == problem.kv_dtype == problem.dtype
    if not (long_prefill and plain and low_precision and problem.group_size > 1):
        return None
    shape = f"One sequence of {problem.max_query_len} queries (over {LONG_QUERY}), group {problem.group_size}"
    if problem.head_size == 128:
        geometry = _one_loop(rows=64, tile=64, num_stages=1, waves_per_eu=2)
        buffer_kib = geometry.tile * problem.head_size * DTYPE_BYTES[problem.dtype] // 1024
        lds_kib = device.lds_bytes_per_workgroup // 1024
        reason = (
            f"{shape}, d128: with one K and one V buffer of {buffer_kib} KiB, {lds_kib} KiB of LDS hold "
            f"{lds_kib // (2 * buffer_kib)} workgroups, {lds_kib // (3 * buffer_kib)} with a second K buffer."
        )
        return Cohort("single-batch-d128-prefill", geometry, (reason,))
    if problem.head_size == 64:
        tile = min(8 * problem.block_size, 128)
        reason = f"{shape}, d64: bound by its KV loop, so four waves and a tile of {tile} keys."
        return Cohort("single-batch-d64-prefill", _one_loop(rows=128, tile=tile, num_stages=2), (reason,))
    return None


def _serving(problem: UnifiedAttentionProblem, device: Device) -> Cohort | None:
    family = (problem.head_size, problem.block_size, problem.group_size, problem.dtype, problem.q_dtype)
    prefill = problem.max_query_len > 1
    if family != (64, 32, 8, "bf16", "bf16") or not prefill or problem.use_alibi or problem.use_qq_bias:
        return None
    name, shape = "d64-b32-gqa8-serving", "d64, 32-token pages, group 8"
    if problem.sliding_window is None:
        waves = 3 if device.arch == "gfx950" and problem.kv_dtype == "bf16" else 2
        reason = (
            f"{shape}, full attention: limited by registers, so waves_per_eu {waves}, the most that spills nothing."
        )
        return Cohort(name, _one_loop(rows=128, tile=64, num_stages=2, waves_per_eu=waves), (reason,))
    window = f"{shape}, window of {problem.sliding_window} keys"
    if problem.kv_dtype == "fp8_e4m3":
        reason = f"{window}, fp8 cache: bound by dequantisation, so a tile of one page, 32 keys."
        return Cohort(f"{name}-window-fp8", _one_loop(rows=128, tile=32, num_stages=2, waves_per_eu=3), (reason,))
    reason = f"{window}: few tiles, so the prelude counts and is halved with two waves and 64 rows."
    return Cohort(f"{name}-window", _one_loop(rows=64, tile=64, num_stages=2, waves_per_eu=2), (reason,))


def _decode(problem: UnifiedAttentionProblem) -> Cohort:
    rows = smallest_block_m(problem)
    geometry = Geometry(rows, _plain_tile(problem), num_warps=2, num_stages=2, matrix_instr_nonkdim=16)
    reason = f"Query length {problem.max_query_len} x group {problem.group_size} fits one tile of {rows} rows."
    return Cohort("decode", geometry, (reason,))


def _prefill(problem: UnifiedAttentionProblem, device: Device) -> Cohort:
    rows, reason = widest_block_m(problem, device)
    num_warps = max(2, rows // MFMA_ROWS)
    return Cohort("prefill", Geometry(rows, _plain_tile(problem), num_warps, num_stages=2), (reason,))


def _plain_tile(problem: UnifiedAttentionProblem) -> int:
    return page_tile(problem, 32 if head_pad(problem.head_size) > 128 else 64)
