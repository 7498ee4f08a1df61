import itertools

import pytest

from workbench.parity import is_decode, work_of
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem


def visible(rows, offset, keys, window):
    pairs = [
        (row, key)
        for row, key in itertools.product(range(rows), range(keys))
        if key <= row + offset and (window is None or key > row + offset - window)
    ]
    return len(pairs), len({key for _, key in pairs})


@pytest.mark.parametrize("window", [None, 1, 4, 100])
@pytest.mark.parametrize("lengths", [(1, 17), (7, 7), (5, 40), (0, 9)])
def test_unified_work_counts_visible_pairs_and_touched_keys(lengths, window):
    query_len, kv_len = lengths
    problem = UnifiedAttentionProblem(
        seq_lens=(lengths, (1, 1)),
        num_query_heads=6,
        num_kv_heads=2,
        head_size=64,
        block_size=16,
        sliding_window=window,
        kv_dtype="fp8_e4m3",
    )
    pairs, keys = visible(query_len, kv_len - query_len, kv_len, window)
    work = work_of(problem)
    assert work.flops == 4 * 64 * 6 * (pairs + 1)
    assert work.bytes == (query_len + 1) * 6 * 64 * (2 + 2) + 2 * (keys + 1) * 2 * 64 * 1


@pytest.mark.parametrize("alignment", ["bottom_right", "top_left"])
@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize("lengths", [(12, 12), (40, 8), (8, 40)])
def test_dense_work_counts_visible_pairs_and_touched_keys(lengths, window, alignment):
    problem = DenseAttentionProblem(3, 4, 2, *lengths, 128, alignment=alignment, sliding_window=window)
    pairs, keys = visible(lengths[0], problem.causal_offset, lengths[1], window)
    work = work_of(problem)
    assert work.flops == 4 * 128 * 4 * 3 * pairs
    assert work.bytes == 3 * 2 * 128 * (2 * lengths[0] * 4 + 2 * keys * 2)


def test_a_rate_is_the_work_over_the_time():
    """One sequence of 4096 over 64 heads of 128 in 827 us: about 332 TFLOP/s."""
    problem = UnifiedAttentionProblem(
        seq_lens=((4096, 4096),), num_query_heads=64, num_kv_heads=8, head_size=128, block_size=32
    )
    assert work_of(problem).tflops(827.0) == pytest.approx(332.4, rel=1e-3)
    assert not is_decode(problem)


def test_fp8_decode_bandwidth():
    """64 sequences of one query over 8192 fp8 keys, d64, 64/8 heads, in 244 us: about 2.20 TB/s."""
    problem = UnifiedAttentionProblem(
        seq_lens=((1, 8192),) * 64,
        num_query_heads=64,
        num_kv_heads=8,
        head_size=64,
        block_size=16,
        kv_dtype="fp8_e4m3",
    )
    assert work_of(problem).tbps(244.0) == pytest.approx(2.20, rel=5e-3)
    assert is_decode(problem)
