"""The reference against values worked out by hand, and against PyTorch where it defines the same thing."""

import math

import pytest
import torch
from edge_cases import (
    DENSE_CASES,
    HUGE_CASES,
    MANY_SEQUENCES,
    UNIFIED_CASES,
    VARLEN_CASES,
    assert_right,
    paged,
    problem_of,
    table_too_narrow,
)

from workbench import eager
from workbench.dtypes import torch_dtype
from workbench.errors import TensorError
from workbench.inputs import DenseInputs, make_dense_inputs, make_unified_inputs
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.reference import dense_eager, dense_reference, dense_reference_varlen, unified_eager, unified_reference

DTYPES = ("fp32", "fp16", "bf16")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("build", UNIFIED_CASES.values(), ids=UNIFIED_CASES)
def test_unified_edge_cases(build, dtype):
    case = build(dtype)
    assert_right(case, unified_reference(case.problem, case.inputs), "fp32")
    assert_right(case, unified_eager(case.problem, case.inputs), dtype)


def test_many_sequences_with_and_without_a_query():
    case = MANY_SEQUENCES("fp32")
    assert_right(case, unified_reference(case.problem, case.inputs, dtype=torch.float32), "fp32")


@pytest.mark.parametrize("build", HUGE_CASES.values(), ids=HUGE_CASES)
def test_caches_beyond_2_gib(build):
    case = build("bf16")
    assert_right(case, unified_reference(case.problem, case.inputs), "bf16")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("build", DENSE_CASES.values(), ids=DENSE_CASES)
def test_dense_edge_cases(build, dtype):
    case = build(dtype)
    assert_right(case, dense_reference(case.problem, case.inputs), "fp32")
    assert_right(case, dense_eager(case.problem, case.inputs), dtype)


@pytest.mark.parametrize("build", VARLEN_CASES.values(), ids=VARLEN_CASES)
def test_packed_edge_cases(build):
    case = build("fp16")
    out = dense_reference_varlen(case.q, case.k, case.v, case.cu_seqlens_q, case.cu_seqlens_k)
    assert_right(case, out, "fp32")


def test_a_table_too_narrow_is_named_with_the_sequence_and_its_length():
    case = table_too_narrow("fp16")
    with pytest.raises(TensorError, match="sequence 0 has 40 keys, 3 blocks of 16, but block_table is only 2 wide"):
        unified_reference(case.problem, case.inputs)


def test_qq_bias_belongs_to_the_query_section():
    # Two context keys, then two query tokens. log 3 on (query 1, key 1): weights 1, 1, 1, 3 over V = 0 .. 3.
    problem = problem_of([(2, 4)], "fp32", use_qq_bias=True, qq_bias_size=3)
    bias = torch.zeros(3, 3)
    bias[1, 1] = math.log(3)
    bias[0, 1] = 50.0  # the causal mask hides it
    bias[1, 2] = 50.0
    out = unified_reference(problem, paged(problem, qq_bias=bias))
    torch.testing.assert_close(out[:, 0, 0], torch.tensor([1.0, 2.0], dtype=torch.float64))


def test_sinks_take_weight_and_add_no_value():
    # Three keys of weight 1 and a sink of weight 1: three quarters of the mean.
    problem = problem_of([(1, 3)], "fp32", use_sinks=True)
    out = unified_reference(problem, paged(problem, sinks=torch.zeros(1)))
    torch.testing.assert_close(out[0, 0], torch.full((64,), 0.75, dtype=torch.float64))


def test_a_row_without_keys_is_zero_with_a_sink_too():
    problem = DenseAttentionProblem(1, 1, 1, 3, 1, 64, dtype="fp32", use_sinks=True)
    inputs = DenseInputs(
        q=torch.ones(1, 3, 1, 64), k=torch.zeros(1, 1, 1, 64), v=torch.ones(1, 1, 1, 64), sinks=torch.zeros(1)
    )
    torch.testing.assert_close(
        dense_reference(problem, inputs)[0, :, 0, 0], torch.tensor([0.0, 0.0, 0.5], dtype=torch.float64)
    )


def test_a_value_that_only_later_rows_see_poisons_only_them():
    problem = problem_of([(4, 4)], "fp32")
    v = torch.arange(4.0)[:, None, None].repeat(1, 1, 64)
    v[2] = math.nan
    out = unified_reference(problem, paged(problem, v=[v]))[:, 0, 0]
    assert out[:2].tolist() == [0.0, 0.5]
    assert out[2:].isnan().all()


@pytest.mark.parametrize("chunk", [1, 5000])
def test_chunking_does_not_change_the_result(monkeypatch, chunk):
    problem = UnifiedAttentionProblem(((37, 90), (1, 65), (50, 50)), 6, 2, 32, 16, sliding_window=23, softcap=5.0)
    inputs = make_unified_inputs(problem)
    whole = unified_reference(problem, inputs)
    monkeypatch.setattr(eager, "_SCORE_ELEMENTS", chunk)
    torch.testing.assert_close(unified_reference(problem, inputs), whole, rtol=1e-13, atol=1e-13)


def _sdpa(q, k, v, mask, scale):
    """[S, H, d] operands through PyTorch in float64."""
    operands = (x.double().permute(1, 0, 2)[None] for x in (q, k, v))
    out = torch.nn.functional.scaled_dot_product_attention(*operands, attn_mask=mask, scale=scale, enable_gqa=True)
    return out[0].permute(1, 0, 2)


def _visible(num_rows, num_keys, offset, window):
    distance = torch.arange(num_rows)[:, None] + offset - torch.arange(num_keys)[None, :]
    return (distance >= 0) & (distance < (window or num_keys + num_rows))


@pytest.mark.parametrize("window", [None, 1, 20, 500])
@pytest.mark.parametrize("dtype", DTYPES)
def test_unified_agrees_with_sdpa(window, dtype):
    problem = UnifiedAttentionProblem(
        ((1, 70), (13, 40), (33, 33), (0, 5)), 10, 2, 80, 16, dtype=dtype, softmax_scale=0.3, sliding_window=window
    )
    inputs = make_unified_inputs(problem, seed=1)
    out = unified_reference(problem, inputs)
    first = 0
    for index, (query_len, kv_len) in enumerate(problem.seq_lens):
        blocks = inputs.block_table[index, : -(-kv_len // 16)].long()
        k, v = (cache[blocks].flatten(0, 1)[:kv_len] for cache in (inputs.k_cache, inputs.v_cache))
        rows = slice(first, first + query_len)
        expected = _sdpa(inputs.q[rows], k, v, _visible(query_len, kv_len, kv_len - query_len, window), 0.3)
        torch.testing.assert_close(out[rows], expected, rtol=1e-12, atol=1e-12)
        first += query_len


@pytest.mark.parametrize(("alignment", "seqlen_q", "seqlen_kv"), [("bottom_right", 30, 77), ("top_left", 50, 50)])
@pytest.mark.parametrize("window", [None, 9])
def test_dense_agrees_with_sdpa(alignment, seqlen_q, seqlen_kv, window):
    problem = DenseAttentionProblem(
        2, 6, 2, seqlen_q, seqlen_kv, 64, alignment=alignment, sliding_window=window, dtype="bf16"
    )
    inputs = make_dense_inputs(problem, seed=2)
    out = dense_reference(problem, inputs)
    mask = _visible(seqlen_q, seqlen_kv, problem.causal_offset, window)
    for q, k, v, one in zip(inputs.q, inputs.k, inputs.v, out, strict=True):
        torch.testing.assert_close(one, _sdpa(q, k, v, mask, 0.125), rtol=1e-12, atol=1e-12)


def test_dense_without_a_mask_agrees_with_sdpa_and_with_the_packed_form():
    problem = DenseAttentionProblem(2, 4, 4, 7, 19, 64, causal=False, dtype="fp16")
    inputs = make_dense_inputs(problem, seed=3)
    out = dense_reference(problem, inputs)
    for q, k, v, one in zip(inputs.q, inputs.k, inputs.v, out, strict=True):
        torch.testing.assert_close(one, _sdpa(q, k, v, None, 0.125), rtol=1e-12, atol=1e-12)
    packed = [x.flatten(0, 1) for x in (inputs.q, inputs.k, inputs.v)]
    ends = [torch.tensor([0, length, 2 * length]) for length in (7, 19)]
    assert torch.equal(dense_reference_varlen(*packed, *ends, causal=False), out.flatten(0, 1))


def test_a_sequence_without_keys_or_rows_is_served():
    no_keys = DenseAttentionProblem(2, 2, 1, 3, 0, 64, dtype="fp16")
    assert not dense_reference(no_keys, make_dense_inputs(no_keys)).any()
    no_rows = DenseAttentionProblem(2, 2, 1, 0, 3, 64, dtype="fp16")
    assert dense_reference(no_rows, make_dense_inputs(no_rows)).shape == (2, 0, 2, 64)


@pytest.mark.parametrize("kv_dtype", [None, "fp8_e4m3"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_eager_rounds_to_the_compute_dtype_and_stays_near(dtype, kv_dtype):
    problem = UnifiedAttentionProblem(((20, 50), (1, 200)), 4, 2, 64, 16, dtype=dtype, kv_dtype=kv_dtype)
    inputs = make_unified_inputs(problem)
    reference, rounded = unified_reference(problem, inputs), unified_eager(problem, inputs)
    assert rounded.dtype == torch_dtype(dtype)
    error = (rounded.double() - reference).square().mean().sqrt() / reference.square().mean().sqrt()
    epsilon = torch.finfo(rounded.dtype).eps
    assert 0.01 * epsilon < error < 4 * epsilon


def test_float32_is_offered_and_low_precision_refused():
    problem = problem_of([(5, 9)], "fp16")
    inputs = make_unified_inputs(problem)
    wide, narrow = unified_reference(problem, inputs), unified_reference(problem, inputs, dtype=torch.float32)
    assert narrow.dtype == torch.float32
    torch.testing.assert_close(narrow.double(), wide, rtol=1e-5, atol=1e-6)
    with pytest.raises(TensorError, match=r"float32 or torch\.float64, got torch\.float16"):
        unified_reference(problem, inputs, dtype=torch.float16)


def test_packed_lengths_are_checked():
    q, kv = torch.ones(3, 1, 64), torch.ones(4, 1, 64)
    with pytest.raises(TensorError, match="cu_seqlens_k must rise from 0 to 4 tokens, got \\[0, 5\\]"):
        dense_reference_varlen(q, kv, kv, torch.tensor([0, 3]), torch.tensor([0, 5]))
    with pytest.raises(TensorError, match="equally long, got 2, 3"):
        dense_reference_varlen(q, kv, kv, torch.tensor([0, 3]), torch.tensor([0, 2, 4]))
