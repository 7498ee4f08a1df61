"""The tolerance lets a right result of another summation order pass, and nothing that is wrong."""

import math

import pytest
import torch

from workbench import tolerance
from workbench.dtypes import torch_dtype
from workbench.errors import TensorError
from workbench.inputs import make_dense_inputs, make_unified_inputs
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.reference import dense_eager, dense_reference, unified_eager, unified_reference
from workbench.tolerance import compare

DTYPES = ("fp16", "bf16", "fp32")


def streamed(problem, inputs, tile=32, accumulate=torch.float32, ahead=0):
    """Dense causal attention as a kernel does it: online softmax, unnormalised probabilities rounded per tile.

    ahead: keys beyond its own position that a row sees, which is wrong unless 0.
    """
    kind = torch_dtype(problem.dtype)
    group = problem.group_size
    q = inputs.q.float().permute(0, 2, 1, 3)
    k, v = (x.float().permute(0, 2, 1, 3).repeat_interleave(group, 1) for x in (inputs.k, inputs.v))
    rows = torch.arange(problem.seqlen_q)[:, None] + problem.causal_offset + ahead
    highest = torch.full((*q.shape[:3], 1), -1e30)
    total = torch.zeros_like(highest)
    out = torch.zeros_like(q).to(accumulate)
    for first in range(0, problem.seqlen_kv, tile):
        keys = torch.arange(first, min(first + tile, problem.seqlen_kv))
        scores = (q @ k[:, :, keys].mT) * (problem.softmax_scale * math.log2(math.e))
        scores = scores.masked_fill(keys[None, :] > rows, -torch.inf)
        new_highest = torch.maximum(highest, scores.amax(-1, keepdim=True))
        weights = torch.exp2(scores - new_highest)
        rescale = torch.exp2(highest - new_highest)
        total = total * rescale + weights.sum(-1, keepdim=True)
        out = (out.float() * rescale + weights.to(kind).float() @ v[:, :, keys]).to(accumulate)
        highest = new_highest
    return (out.float() / total).permute(0, 2, 1, 3).to(kind)


def dense_case(dtype, seed=0, **changes):
    shape = {"batch": 2, "num_query_heads": 6, "num_kv_heads": 2, "seqlen_q": 150, "seqlen_kv": 170, "head_size": 64}
    problem = DenseAttentionProblem(**(shape | changes), dtype=dtype)
    inputs = make_dense_inputs(problem, seed=seed)
    return problem, inputs, dense_reference(problem, inputs), dense_eager(problem, inputs)


@pytest.fixture(params=DTYPES)
def case(request):
    """A right output with reference, eager output and dtype name; its rows differ in magnitude by a factor of ten."""
    problem, inputs, reference, eager = dense_case(request.param)
    return streamed(problem, inputs), reference, eager, request.param


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_streamed_softmax_passes(dtype, seed):
    problem, inputs, reference, eager = dense_case(dtype, seed)
    for tile in (16, 64, 256):
        result = compare(streamed(problem, inputs, tile), reference, eager, dtype)
        assert result.ok, result.describe()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_long_context_passes(dtype):
    changes = {"batch": 1, "num_kv_heads": 6, "seqlen_q": 3, "seqlen_kv": 20_000}
    problem, inputs, reference, eager = dense_case(dtype, **changes)
    result = compare(streamed(problem, inputs, 128), reference, eager, dtype)
    assert result.ok, result.describe()


def test_the_correctly_rounded_result_and_the_eager_run_itself_pass(case):
    _, reference, eager, dtype = case
    rounded = compare(reference.to(torch_dtype(dtype)), reference, eager, dtype)
    assert rounded.ok
    assert 0 < rounded.max_abs < 4 * torch.finfo(torch_dtype(dtype)).eps
    assert compare(eager, reference, eager, dtype).ok


def test_zeros_fail_however_small_the_output(case):
    out, reference, eager, dtype = case
    assert not compare(torch.zeros_like(out), reference, eager, dtype).ok
    small = 2.0**-9  # exact in every dtype
    result = compare(torch.zeros_like(out), reference * small, eager * small, dtype)
    assert not result.ok
    assert result.n_over > 0.9 * out.numel()


def test_half_written_output_fails(case):
    out, reference, eager, dtype = case
    out[:, 75:] = torch.nan
    result = compare(out, reference, eager, dtype)
    assert (result.ok, result.n_nan, result.max_abs) == (False, out.numel() // 2, math.inf)
    assert result.worst_index == (0, 75, 0, 0)
    out[:, 75:] = 0
    assert not compare(out, reference, eager, dtype).ok


def test_one_wrong_row_fails_and_is_named(case):
    out, reference, eager, dtype = case
    out[1, 140, 3] = out[1, 139, 3]
    result = compare(out, reference, eager, dtype)
    assert not result.ok
    assert result.worst_index[:3] == (1, 140, 3)
    assert result.n_over <= 64


def test_one_wrong_element_fails_and_is_named(case):
    out, reference, eager, dtype = case
    # The smallest row there is, and in it an element of ordinary size.
    row = reference.square().mean(-1).argmin()
    index = tuple(torch.unravel_index(row, reference.shape[:-1]))
    channel = reference[index].abs().argmax()
    out[(*index, channel)] *= 0.9
    result = compare(out, reference, eager, dtype)
    assert (result.ok, result.n_over) == (False, 1)
    assert result.worst_index == (*(int(i) for i in index), int(channel))
    assert result.worst_abs > result.allowed > 0


def test_rows_shifted_by_one_fail_even_where_neighbours_are_alike():
    problem, inputs, reference, eager = dense_case("bf16", batch=1, seqlen_q=40, seqlen_kv=6000)
    out = streamed(problem, inputs, 256)
    assert compare(out, reference, eager, "bf16").ok
    assert not compare(out.roll(1, dims=1), reference, eager, "bf16").ok


def test_heads_swapped_fail(case):
    out, reference, eager, dtype = case
    assert not compare(out.roll(1, dims=2), reference, eager, dtype).ok


def test_an_accumulator_in_low_precision_fails():
    problem, inputs, reference, eager = dense_case("bf16", batch=1, seqlen_q=40, seqlen_kv=2000)
    assert compare(streamed(problem, inputs), reference, eager, "bf16").ok
    assert not compare(streamed(problem, inputs, accumulate=torch.bfloat16), reference, eager, "bf16").ok


def test_a_uniform_error_within_each_element_s_limit_fails_by_its_rms(case):
    _, reference, _, dtype = case
    unit = torch.finfo(torch_dtype(dtype)).eps / 2
    scaled = reference * (1 + (1.9 * unit + tolerance.FLOAT32_TERM))
    result = compare(scaled, reference, reference.to(torch_dtype(dtype)), dtype)
    assert result.n_over == 0
    assert result.relative_rms > result.allowed_relative_rms
    assert not result.ok


def test_a_row_that_sees_nothing_must_be_exactly_zero():
    problem, inputs, reference, eager = dense_case("fp16", seqlen_q=90, seqlen_kv=60)
    out = streamed(problem, inputs).nan_to_num(0.0)
    out[:, :30] = 0
    assert compare(out, reference, eager, "fp16").ok
    out[0, 3, 2, 5] = 1e-7
    result = compare(out, reference, eager, "fp16")
    assert (result.ok, result.worst_index, result.allowed) == (False, (0, 3, 2, 5), 0.0)


def test_infinity_counts_as_not_finite(case):
    out, reference, eager, dtype = case
    out[0, 9, 1, 4] = -torch.inf
    result = compare(out, reference, eager, dtype)
    assert (result.ok, result.n_nan, result.worst_index) == (False, 1, (0, 9, 1, 4))
    assert "WRONG" in result.describe()


def test_an_eager_run_that_overflows_excuses_nothing(case):
    out, reference, eager, dtype = case
    eager[0, 9, 1, 4] = torch.inf
    assert compare(out, reference, eager, dtype).allowed < 0.1
    out[0, 9, 1, 4] = 100.0
    assert not compare(out, reference, eager, dtype).ok


def test_chunks_add_up(case, monkeypatch):
    out, reference, eager, dtype = case
    out[1, 100, 0, 0] += 1
    whole = compare(out, reference, eager, dtype)
    monkeypatch.setattr(tolerance, "_CHUNK_ELEMENTS", 64 * 7)
    chunked = compare(out, reference, eager, dtype)
    assert chunked.worst_index == whole.worst_index == (1, 100, 0, 0)
    assert (chunked.ok, chunked.max_abs, chunked.n_over) == (whole.ok, whole.max_abs, whole.n_over)
    assert chunked.rms == pytest.approx(whole.rms)
    assert chunked.allowed_relative_rms == pytest.approx(whole.allowed_relative_rms)


def test_an_empty_output_passes():
    empty = torch.empty(0, 2, 64)
    assert compare(empty, empty.double(), empty, "fp16").ok


def test_shapes_and_reference_are_checked():
    values = torch.ones(2, 64)
    with pytest.raises(TensorError, match="actual has shape \\[64\\], the reference \\[2, 64\\]"):
        compare(values[0], values, values, "fp16")
    with pytest.raises(TensorError, match="reference holds NaN or infinity"):
        compare(values, values * torch.nan, values, "fp16")


@pytest.mark.parametrize("head_size", [1, 2, 3, 4, 8, 16])
def test_heads_of_few_channels_pass_when_right_and_fail_with_a_wrong_mask(head_size):
    """Single values may be small by chance, and the eager run exact there: neither says what rounding costs."""
    changes = {"batch": 1, "head_size": head_size, "seqlen_q": 7, "seqlen_kv": 60}
    for seed in range(12):
        problem, inputs, reference, eager = dense_case(("bf16", "fp16", "fp32")[seed % 3], seed, **changes)
        right = compare(streamed(problem, inputs), reference, eager, problem.dtype)
        assert right.ok, right.describe()
        for ahead in (-1, 1):
            wrong = streamed(problem, inputs, ahead=ahead)
            assert not compare(wrong, reference, eager, problem.dtype).ok


def test_one_value_alone_is_judged_by_itself():
    problem, inputs, reference, eager = dense_case(
        "fp16", batch=1, num_query_heads=1, num_kv_heads=1, head_size=1, seqlen_q=1, seqlen_kv=40
    )
    assert compare(streamed(problem, inputs), reference, eager, "fp16").ok
    assert not compare(reference * 1.02, reference, eager, "fp16").ok


def test_rows_of_32_channels_are_held_to_their_own_scale():
    reference = torch.ones(64, 32, dtype=torch.float64)
    reference[20] = 2.0**-9
    out = reference.clone()
    out[20, 3] *= 1 + 3 * 2.0**-8
    result = compare(out, reference, reference, "bf16")
    assert (result.ok, result.n_over, result.worst_index) == (False, 1, (20, 3))
    # 16 channels share their scale with the row beside them, which says more of it.
    assert compare(out[:, :16], reference[:, :16], reference[:, :16], "bf16").n_over == 0


@pytest.mark.parametrize("feature", ["softcap", "use_alibi", "use_qq_bias", "use_sinks", "sliding_window"])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_kernel_that_ignores_a_feature_fails_on_random_inputs(feature, dtype):
    problem = UnifiedAttentionProblem(
        ((9, 700), (80, 80), (1, 400)),
        8,
        2,
        64,
        16,
        dtype=dtype,
        softcap=50.0,
        use_alibi=True,
        use_qq_bias=True,
        use_sinks=True,
        sliding_window=150,
    )
    inputs = make_unified_inputs(problem)
    off = {"softcap": 0.0, "sliding_window": None, "use_qq_bias": False}
    changes = {feature: off.get(feature, False)} | ({"qq_bias_size": None} if feature == "use_qq_bias" else {})
    ignoring = unified_eager(problem.with_changes(**changes), inputs)
    result = compare(ignoring, unified_reference(problem, inputs), unified_eager(problem, inputs), dtype)
    assert not result.ok
