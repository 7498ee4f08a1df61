"""How many workgroups a problem makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.device import DEFAULT_DEVICE, Device, load_device
from workbench.errors import SpecError
from workbench.spec import MIN_DOT_EXTENT, ceil_power_of_two

if TYPE_CHECKING:
    from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem

WORKGROUPS_PER_CU = 4
"""Workgroups per compute unit that fill a device (specification §6: target = num_sms * 4)."""
WAVES_PER_CU = 4 * WORKGROUPS_PER_CU
"""The same fill in waves, at four waves a workgroup: what a split of the keys aims at."""

LARGEST_BLOCK_M = 256


def floor_power_of_two(value: int) -> int:
    """Largest power of two <= value >= 1."""
    return 1 << (value.bit_length() - 1)


def smallest_block_m(problem: UnifiedAttentionProblem) -> int:
    """Rows of the smallest query tile: one whole GQA group, at least what a matrix instruction takes."""
    return max(MIN_DOT_EXTENT, ceil_power_of_two(problem.group_size))


def block_q(problem: UnifiedAttentionProblem, block_m: int) -> int:
    """Query positions in a tile of block_m rows: block_m // group. Raises SpecError if a group does not fit."""
    if block_m < problem.group_size:
        raise SpecError(
            f"a tile of {block_m} rows cannot hold a group of {problem.group_size} query heads; "
            f"use block_m={smallest_block_m(problem)} or more"
        )
    return block_m // problem.group_size


def num_query_blocks(problem: UnifiedAttentionProblem, block_m: int) -> int:
    """Upper bound on the query blocks, total_q // block_q + num_seqs: each sequence adds at most one partial block.

    Exact, one for each sequence, when no query is longer than one token.
    """
    if problem.max_query_len <= 1:
        return problem.num_seqs
    return problem.total_query_tokens // block_q(problem, block_m) + problem.num_seqs


def grid_2d(problem: UnifiedAttentionProblem, block_m: int) -> tuple[int, int, int]:
    """Return (KV heads, query blocks, 1), as specification §4."""
    return problem.num_kv_heads, num_query_blocks(problem, block_m), 1


def grid_3d(problem: UnifiedAttentionProblem, block_m: int, num_segments: int) -> tuple[int, int, int]:
    """Return (query blocks, KV heads, segments), as specification §5."""
    return num_query_blocks(problem, block_m), problem.num_kv_heads, num_segments


def grid_dense(problem: DenseAttentionProblem, block_m: int) -> tuple[int, int, int]:
    """Return (query blocks, query heads, batch), as specification §8.2; their product is the number of work items."""
    return -(-problem.seqlen_q // block_m), problem.num_query_heads, problem.batch


def visible_keys(problem: UnifiedAttentionProblem, block_m: int) -> int:
    """Most keys that the rows of one query block see."""
    if problem.sliding_window is None:
        return problem.max_kv_len
    return min(problem.max_kv_len, problem.sliding_window + block_q(problem, block_m) - 1)


def device_or_default(device: Device | None) -> tuple[Device, tuple[str, ...]]:
    """The device, or the default one and the sentence that says so."""
    if device is not None:
        return device, ()
    default = load_device(DEFAULT_DEVICE)
    return default, (f"No device is given: {default.title} is assumed.",)
