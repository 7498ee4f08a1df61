"""The `small` size: the same scenario with less work, for Triton's interpreter on a CPU.

The interpreter pays some ten milliseconds for a step of the key loop and a few for a program, whatever their size, so
scaling stops as soon as their number fits the budget. What makes a scenario itself stays: features, dtypes, head size,
block size, the GQA group, decode against prefill against chunk, a ragged tail, a context of more than one step, a
window shorter than the keys, a cache with blocks to spare. Deterministic; a scenario that fits already is not changed.
"""

from __future__ import annotations

from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem

SMALL_SIZE_RULE = (
    "small size: at most 2 KV heads and 4 sequences (dense: a batch of 2) are kept, then lengths and windows are "
    "halved and, if need be, sequences (dense: KV heads too) left out until the interpreter's work fits its budget; "
    "tails, GQA groups, head sizes and block sizes stay"
)

MAX_KV_HEADS = 2
MAX_SEQUENCES = 4
MAX_BATCH = 2
MAX_STEPS = 96
"""Key-loop steps over all programs of one launch."""
MAX_DENSE_STEPS = 144
"""The same for a dense launch, which runs in one lane only."""
MAX_ROWS = 1280
"""Query tokens times query heads: the split-KV merge has a program for each."""
MIN_KEYS = 160
"""Keys that halving leaves to a sequence with a context: a step and a bit."""
MIN_SQUARE = 64
"""Tokens that halving leaves to a sequence without one, where each token is MAX_ROWS' business too."""
MIN_DENSE = 256
"""Tokens that halving leaves to a dense sequence: two steps."""
MIN_WINDOW = 20
"""Keys that halving leaves to a window: more than the smallest block, and not a multiple of it."""

# Tiles that the dispatcher gives to the interpreter, and the quantum of dense lengths.
_QUERY_TILE, _KEY_TILE = 64, 128
_MAX_HALVINGS = 20


def small_unified(problem: UnifiedAttentionProblem) -> UnifiedAttentionProblem:
    """The problem at small size."""
    smallest = problem
    for num_seqs in range(MAX_SEQUENCES, 0, -1):
        for halvings in range(_MAX_HALVINGS):
            smallest = _scaled_unified(problem, num_seqs, halvings)
            rows = smallest.total_query_tokens * smallest.num_query_heads
            if _unified_steps(smallest) <= MAX_STEPS and rows <= MAX_ROWS:
                return smallest
    return smallest


def small_dense(problem: DenseAttentionProblem) -> DenseAttentionProblem:
    """The problem at small size."""
    smallest = problem
    for batch, num_kv_heads in ((MAX_BATCH, MAX_KV_HEADS), (1, MAX_KV_HEADS), (1, 1)):
        for halvings in range(_MAX_HALVINGS):
            smallest = _scaled_dense(problem, batch, num_kv_heads, halvings)
            if _dense_steps(smallest) <= MAX_DENSE_STEPS:
                return smallest
    return smallest


def _unified_steps(problem: UnifiedAttentionProblem) -> int:
    tokens_per_tile = max(1, _QUERY_TILE // problem.group_size)
    tiles = sum(-(-query_len // tokens_per_tile) * -(-kv_len // _KEY_TILE) for query_len, kv_len in problem.seq_lens)
    return tiles * problem.num_kv_heads


def _dense_steps(problem: DenseAttentionProblem) -> int:
    query_tiles = -(-problem.seqlen_q // _QUERY_TILE)
    return problem.batch * problem.num_query_heads * query_tiles * -(-problem.seqlen_kv // _KEY_TILE)


def _scaled_unified(problem: UnifiedAttentionProblem, num_seqs: int, halvings: int) -> UnifiedAttentionProblem:
    lengths = _spread(problem.seq_lens, num_seqs)
    seq_lens = tuple(_halved_pair(query_len, kv_len, problem.block_size, halvings) for query_len, kv_len in lengths)
    num_kv_heads = min(problem.num_kv_heads, MAX_KV_HEADS)
    longest_query = max(query_len for query_len, _ in seq_lens)
    longest_kv = max(kv_len for _, kv_len in seq_lens)
    blocks = sum(-(-kv_len // problem.block_size) for _, kv_len in seq_lens)
    spare = (problem.num_blocks or 0) > problem.blocks_needed
    bias_size = problem.qq_bias_size
    if bias_size is not None:
        bias_size = max(bias_size >> halvings, longest_query + (bias_size > problem.max_query_len))
    return problem.with_changes(
        seq_lens=seq_lens,
        num_query_heads=problem.group_size * num_kv_heads,
        num_kv_heads=num_kv_heads,
        sliding_window=_halved_window(problem.sliding_window, problem.max_kv_len, longest_kv, halvings),
        qq_bias_size=bias_size,
        num_blocks=max(1, 2 * blocks if spare else blocks),
    )


def _scaled_dense(
    problem: DenseAttentionProblem, max_batch: int, max_kv_heads: int, halvings: int
) -> DenseAttentionProblem:
    num_kv_heads = min(problem.num_kv_heads, max_kv_heads)
    seqlen_kv = _halved_length(problem.seqlen_kv, _KEY_TILE, MIN_DENSE, halvings)
    return problem.with_changes(
        batch=min(problem.batch, max_batch),
        num_query_heads=problem.group_size * num_kv_heads,
        num_kv_heads=num_kv_heads,
        seqlen_q=_halved_length(problem.seqlen_q, _KEY_TILE, MIN_DENSE, halvings),
        seqlen_kv=seqlen_kv,
        sliding_window=_halved_window(problem.sliding_window, problem.seqlen_kv, seqlen_kv, halvings),
    )


def _spread(seq_lens: tuple[tuple[int, int], ...], limit: int) -> tuple[tuple[int, int], ...]:
    """At most `limit` of the sequences, evenly spaced from the first to the last."""
    if len(seq_lens) <= limit:
        return seq_lens
    return tuple(seq_lens[index * (len(seq_lens) - 1) // max(1, limit - 1)] for index in range(limit))


def _halved_length(length: int, quantum: int, minimum: int, halvings: int) -> int:
    """Whole quanta are halved, down to the minimum rounded up; what is left over stays."""
    whole, tail = divmod(length, quantum)
    floor = min(whole, -(-minimum // quantum))
    return quantum * max(floor, whole >> halvings) + tail


def _halved_pair(query_len: int, kv_len: int, block_size: int, halvings: int) -> tuple[int, int]:
    """Equal lengths stay equal, a context stays a context, one query token stays one, odd stays odd."""
    if query_len == kv_len:
        length = _halved_length(kv_len, block_size, MIN_SQUARE, halvings)
        return length, length
    keys = _halved_length(kv_len, block_size, MIN_KEYS, halvings)
    queries = query_len if query_len < 2 else max(2, query_len >> halvings) | (query_len & 1)
    while keys <= queries:
        keys += block_size
    return queries, keys


def _halved_window(window: int | None, longest: int, small_longest: int, halvings: int) -> int | None:
    """A window that hides keys of the longest sequence still does."""
    if window is None:
        return None
    halved = max(min(window, MIN_WINDOW), window >> halvings)
    return max(1, min(halved, small_longest - 1)) if window < longest else halved
