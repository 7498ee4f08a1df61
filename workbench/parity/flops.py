"""Work counts of a problem, from its shape alone: the visible (row, key) pairs and the bytes that must move.

FLOPs: 4 * d * Hq * pairs. Each visible pair costs a dot product of d in QK^T and one in PV, two operations per
multiply-add. A pair is visible if the causal limit and the sliding window leave it; masked pairs that a tile computes
anyway are not work, and neither are the softmax, the biases and the address arithmetic.

Bytes: Q read once, O written once, and each visible key and value read once per KV head, whatever the number of query
heads that share it. The block table, lengths, biases, scales and the split's workspace are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.problem import DTYPE_BYTES, DenseAttentionProblem, UnifiedAttentionProblem

DECODE_QUERY_TOKENS = 8
"""Up to so many query tokens per sequence, bytes and not FLOPs are what limits the kernel."""


@dataclass(frozen=True)
class Work:
    """What one call has to do."""

    flops: int
    bytes: int

    def tflops(self, microseconds: float) -> float:
        """TFLOP/s of a call that takes so long."""
        return self.flops / microseconds * 1e-6

    def tbps(self, microseconds: float) -> float:
        """TB/s (10^12 bytes per second) of a call that takes so long."""
        return self.bytes / microseconds * 1e-6


def work_of(problem: UnifiedAttentionProblem | DenseAttentionProblem) -> Work:
    """FLOPs and bytes of one call; the module's docstring has the formulae."""
    if isinstance(problem, DenseAttentionProblem):
        return _dense_work(problem)
    window = problem.sliding_window
    pairs = sum(_visible_pairs(query, kv - query, kv, window) for query, kv in problem.seq_lens)
    keys = sum(_keys_touched(query, kv - query, kv, window) for query, kv in problem.seq_lens)
    query_elements = problem.total_query_tokens * problem.num_query_heads * problem.head_size
    kv_elements = 2 * keys * problem.num_kv_heads * problem.head_size
    moved = (
        query_elements * (DTYPE_BYTES[problem.q_dtype or problem.dtype] + DTYPE_BYTES[problem.dtype])
        + kv_elements * DTYPE_BYTES[problem.kv_dtype or problem.dtype]
    )
    return Work(4 * problem.head_size * problem.num_query_heads * pairs, moved)


def is_decode(problem: UnifiedAttentionProblem | DenseAttentionProblem) -> bool:
    """Whether TB/s rather than TFLOP/s is the figure to look at."""
    return isinstance(problem, UnifiedAttentionProblem) and problem.max_query_len <= DECODE_QUERY_TOKENS


def _dense_work(problem: DenseAttentionProblem) -> Work:
    rows, keys = problem.seqlen_q, problem.seqlen_kv
    if problem.causal:
        pairs = _visible_pairs(rows, problem.causal_offset, keys, problem.sliding_window)
        touched = _keys_touched(rows, problem.causal_offset, keys, problem.sliding_window)
    else:
        pairs, touched = rows * keys, keys
    elements = 2 * rows * problem.num_query_heads + 2 * touched * problem.num_kv_heads
    moved = problem.batch * elements * problem.head_size * DTYPE_BYTES[problem.dtype]
    return Work(4 * problem.head_size * problem.num_query_heads * problem.batch * pairs, moved)


def _visible_pairs(rows: int, offset: int, keys: int, window: int | None) -> int:
    """Pairs with i + offset - window < j <= i + offset, 0 <= j < keys, over rows i: two clipped ramps apart."""
    upper = _clipped_ramp(rows, offset + 1, keys)
    return upper if window is None else upper - _clipped_ramp(rows, offset + 1 - window, keys)


def _clipped_ramp(rows: int, first: int, limit: int) -> int:
    """Sum over i = 0..rows-1 of min(max(first + i, 0), limit)."""
    start = min(max(-first, 0), rows)  # rows before it count 0
    full = min(max(limit - first, start), rows)  # rows from it on count limit
    ramp = full - start
    return ramp * (first + start) + ramp * (ramp - 1) // 2 + (rows - full) * limit


def _keys_touched(rows: int, offset: int, keys: int, window: int | None) -> int:
    """Keys that at least one row sees."""
    if rows == 0:
        return 0
    first = 0 if window is None else min(max(offset + 1 - window, 0), keys)
    last = min(max(offset + rows, 0), keys)
    return max(last - first, 0)
