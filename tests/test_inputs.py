"""Random inputs: what they hold, where they are poisoned, and that a change to them is noticed."""

import pytest
import torch

from workbench.dtypes import TORCH_DTYPES, bits, dtype_name, nan_bits, torch_dtype
from workbench.errors import ParameterError, ProblemError, TensorError
from workbench.input_checks import check_dense_inputs, check_unified_inputs
from workbench.inputs import DenseInputs, UnifiedInputs, alibi_slopes, make_dense_inputs, make_unified_inputs
from workbench.poison import fill_nan, poisoned_like, poisoned_output
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem


def unified(**changes):
    shape = {"num_query_heads": 6, "num_kv_heads": 2, "head_size": 64, "block_size": 16, "num_blocks": 40}
    return UnifiedAttentionProblem(**({"seq_lens": ((3, 37), (1, 64), (5, 5), (0, 0))} | shape | changes))


FEATURES = {"use_alibi": True, "use_qq_bias": True, "use_sinks": True}
FP8 = {"q_dtype": "fp8_e4m3", "kv_dtype": "fp8_e4m3"}


@pytest.mark.parametrize("changes", [{}, FEATURES, FP8, {"dtype": "fp32"}], ids=["plain", "features", "fp8", "fp32"])
def test_inputs_fit_their_problem(changes):
    problem = unified(**changes)
    inputs = make_unified_inputs(problem)
    check_unified_inputs(problem, inputs)
    assert inputs.cu_seqlens_q.tolist() == [0, 3, 4, 9, 9]
    assert inputs.seqused_k.tolist() == [37, 64, 5, 0]
    assert set(inputs.named_tensors()) == {
        *("q", "k_cache", "v_cache", "block_table", "cu_seqlens_q", "seqused_k"),
        *(("alibi_slopes", "qq_bias", "sinks") if changes is FEATURES else ()),
        *(("q_scale", "k_scale", "v_scale") if changes is FP8 else ()),
    }


@pytest.mark.parametrize("kv_dtype", [None, "fp8_e4m3"])
def test_every_used_slot_is_finite_and_every_other_slot_nan(kv_dtype):
    problem = unified(kv_dtype=kv_dtype)
    inputs = make_unified_inputs(problem)
    used = torch.zeros(problem.num_blocks, problem.block_size, dtype=torch.bool)
    for row, (_, kv_len) in zip(inputs.block_table.tolist(), problem.seq_lens, strict=True):
        for position in range(kv_len):
            slot = (row[position // 16], position % 16)
            assert not used[slot], "a block belongs to one sequence"
            used[slot] = True
    for cache in (inputs.k_cache.float(), inputs.v_cache.float()):
        assert cache[used].isfinite().all()
        assert cache[~used].isnan().all()
        assert cache[used].std() > 0.3


def test_table_entries_past_a_sequence_lie_outside_the_cache():
    table = make_unified_inputs(unified()).block_table
    for row, count in zip(table, (3, 4, 1, 0), strict=True):
        assert ((row[:count] >= 0) & (row[:count] < 40)).all()
        assert ((row[count:] < 0) | (row[count:] >= 40)).all()
        assert row[count:].numel() >= 3


def test_lengths_are_followed_by_huge_values_in_their_storage():
    inputs = make_unified_inputs(unified())
    for lengths in (inputs.cu_seqlens_q, inputs.seqused_k):
        beyond = torch.as_strided(lengths, (2,), (1,), lengths.numel())
        assert (beyond == 2**30).all()


def test_without_poison_nothing_is_nan_and_no_id_is_wild():
    inputs = make_unified_inputs(unified(), poison=False)
    assert inputs.k_cache.isfinite().all()
    assert inputs.v_cache.isfinite().all()
    assert ((inputs.block_table >= 0) & (inputs.block_table < 40)).all()
    assert inputs.block_table.shape[1] == 4


def test_values_follow_the_seed():
    problem = unified(**FEATURES)
    first, again, other = (make_unified_inputs(problem, seed=seed) for seed in (7, 7, 8))
    assert again.changed_since(first) == ()
    assert set(other.changed_since(first)) == {"q", "k_cache", "v_cache", "block_table", "qq_bias", "sinks"}


def test_scales_are_not_trivial_and_fp8_values_use_the_range():
    for seed in range(8):
        inputs = make_unified_inputs(unified(**FP8, seq_lens=((40, 300),)), seed=seed)
        for scale in (inputs.q_scale, inputs.k_scale, inputs.v_scale):
            assert scale.dtype == torch.float32
            assert 0.2 < abs(scale.log2().item()) <= 1
    stored = inputs.k_cache[inputs.block_table[0, :18].long()].float()
    spread = (stored * inputs.k_scale).std().item()
    assert spread == pytest.approx(1, abs=0.05)


def test_scores_reach_into_the_softcap():
    for problem in (unified(softcap=50.0), unified(softcap=50.0, softmax_scale=0.9)):
        inputs = make_unified_inputs(problem)
        keys = inputs.k_cache[inputs.block_table[1, :4].long(), :, 0].flatten(0, 1).float()
        scores = problem.softmax_scale * inputs.q[3, :3].float() @ keys.T
        assert 10 < scores.abs().max() < 50


def test_sinks_weigh_about_as_much_as_the_visible_keys():
    problem = unified(use_sinks=True, seq_lens=((1, 400),), num_query_heads=64, sliding_window=100)
    assert make_unified_inputs(problem).sinks.float().mean().item() == pytest.approx(4.6, abs=0.5)


def test_alibi_slopes_of_eight_heads_are_the_published_ones():
    assert alibi_slopes(8).tolist() == [2.0**-power for power in range(1, 9)]


def test_a_cache_too_small_is_refused():
    with pytest.raises(ProblemError, match="need 8 blocks of 16 tokens, num_blocks is 7"):
        make_unified_inputs(unified(num_blocks=7))


def test_a_changed_bit_is_named_and_nan_equals_itself():
    inputs = make_unified_inputs(unified(**FP8))
    before = inputs.clone()
    assert inputs.changed_since(before) == ()
    bits(inputs.v_cache)[5, 2, 1, 7] ^= 1
    inputs.seqused_k[0] += 1
    assert inputs.changed_since(before) == ("v_cache", "seqused_k")


def test_to_moves_every_tensor():
    inputs = make_unified_inputs(unified(**FEATURES)).to("meta")
    assert {str(tensor.device) for tensor in inputs.named_tensors().values()} == {"meta"}
    assert inputs.q_scale is None


@pytest.mark.gpu
def test_inputs_made_on_the_gpu_are_poisoned_there(device):
    problem = unified(kv_dtype="fp8_e4m3", use_sinks=True)
    inputs = make_unified_inputs(problem, device=device)
    check_unified_inputs(problem, inputs)
    assert {tensor.device.type for tensor in inputs.named_tensors().values()} == {"cuda"}
    used = inputs.k_cache.float().isfinite().all(-1).all(-1)
    assert used.sum().item() == 37 + 64 + 5


def test_dense_inputs_fit_and_are_followed_by_nan():
    problem = DenseAttentionProblem(2, 6, 2, 5, 9, 64, use_sinks=True)
    inputs = make_dense_inputs(problem)
    check_dense_inputs(problem, inputs)
    for tensor in (inputs.q, inputs.k, inputs.v):
        assert tensor.is_contiguous()
        assert tensor.isfinite().all()
        beyond = torch.as_strided(tensor, tensor[0, 0].shape, tensor[0, 0].stride(), tensor.numel())
        assert beyond.isnan().all()
    assert make_dense_inputs(problem, poison=False).k.untyped_storage().nbytes() == 2 * 9 * 2 * 64 * 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": torch.ones(9, 6, 32, dtype=torch.bfloat16)}, r"q must have shape \[9, 6, 64\], got \[9, 6, 32\]"),
        ({"q": torch.ones(9, 6, 64)}, "q must be torch.bfloat16, got torch.float32"),
        ({"sinks": None}, r"the problem needs sinks \[6\], got None"),
        ({"block_table": torch.zeros(3, 4, dtype=torch.int32)}, r"block_table must be \[4, max_blocks\], got \[3, 4\]"),
        ({"block_table": torch.zeros(4, 3, dtype=torch.int32)}, "sequence 1 has 64 keys, 4 blocks of 16, .* 3 wide"),
        ({"seqused_k": torch.zeros(4, dtype=torch.int32, device="meta")}, "must be on one device"),
    ],
)
def test_inputs_that_do_not_fit_are_named(change, message):
    problem = unified(use_sinks=True)
    inputs = make_unified_inputs(problem)
    with pytest.raises(TensorError, match=message):
        check_unified_inputs(problem, UnifiedInputs(**(inputs.named_tensors() | change)))


def test_dense_inputs_that_do_not_fit_are_named():
    problem = DenseAttentionProblem(2, 6, 2, 5, 9, 64)
    inputs = make_dense_inputs(problem)
    with pytest.raises(TensorError, match=r"k must have shape \[2, 9, 2, 64\], got \[2, 5, 6, 64\]"):
        check_dense_inputs(problem, DenseInputs(inputs.q, inputs.q, inputs.v))


@pytest.mark.parametrize("dtype", TORCH_DTYPES.values(), ids=TORCH_DTYPES)
def test_poison_is_nan_in_every_dtype(dtype):
    values = torch.zeros(3, 4).to(dtype)
    assert poisoned_like(values).float().isnan().all()
    assert not values.float().any()
    assert fill_nan(values).float().isnan().all()
    assert (bits(values) == nan_bits(dtype)).all()


def test_a_poisoned_output_has_the_problem_s_shape_and_compute_dtype():
    out = poisoned_output(unified(**FP8))
    assert (tuple(out.shape), out.dtype) == ((9, 6, 64), torch.bfloat16)
    assert out.isnan().all()
    assert tuple(poisoned_output(DenseAttentionProblem(2, 6, 2, 5, 9, 64)).shape) == (2, 5, 6, 64)


def test_dtype_names_go_both_ways_and_others_are_refused():
    assert [dtype_name(torch_dtype(name)) for name in TORCH_DTYPES] == list(TORCH_DTYPES)
    with pytest.raises(ProblemError, match="dtype must be one of fp16, bf16, fp32, fp8_e4m3, got 'half'"):
        torch_dtype("half")
    with pytest.raises(ProblemError, match=r"no dtype name for torch\.float64"):
        dtype_name(torch.float64)


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, "1", None, True])
def test_a_seed_that_is_none(seed):
    for make, problem in (
        (make_unified_inputs, unified()),
        (make_dense_inputs, DenseAttentionProblem(1, 4, 2, 5, 9, 32)),
    ):
        with pytest.raises(ParameterError, match=f"seed must be an integer in 0 .. .*, got {seed!r}"):
            make(problem, seed=seed)


def test_what_is_no_problem_of_the_kind():
    with pytest.raises(ProblemError, match="problem must be a UnifiedAttentionProblem, got NoneType"):
        make_unified_inputs(None)
    with pytest.raises(ProblemError, match="problem must be a DenseAttentionProblem, got UnifiedAttentionProblem"):
        make_dense_inputs(unified())
