"""The unified 2D and 3D kernels against the float64 reference, feature by feature."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.attention import run_unified, unified_attention
from workbench.dtypes import torch_dtype
from workbench.errors import BackendUnavailable, DeviceError, ProblemError, SpecError, TensorError, UnsupportedError
from workbench.inputs import make_unified_inputs
from workbench.poison import poisoned_output
from workbench.problem import UnifiedAttentionProblem
from workbench.reference import unified_eager, unified_reference
from workbench.spec import Unified2DSpec, Unified3DSpec
from workbench.tolerance import compare

MIXED = ((1, 40), (6, 33), (11, 11), (0, 5), (1, 100))
SMALL = {"block_m": 16, "tile_size": 32}
SPECS = {"2d": Unified2DSpec(**SMALL), "3d": Unified3DSpec(**SMALL, num_segments=4)}


def problem(**changes):
    fields = {"seq_lens": MIXED, "num_query_heads": 4, "num_kv_heads": 2, "head_size": 64, "block_size": 16}
    return UnifiedAttentionProblem(**(fields | {"dtype": "bf16"} | changes))


def check(given_problem, spec, device, *, seed=0, inputs=None):
    """Run on poisoned inputs and output; assert the tolerance and that no input changed. Returns the output."""
    inputs = inputs or make_unified_inputs(given_problem, seed=seed, device=device)
    before = inputs.clone()
    out = poisoned_output(given_problem, device)
    result = run_unified(given_problem, inputs, spec=spec, out=out)
    comparison = compare(
        out, unified_reference(given_problem, inputs), unified_eager(given_problem, inputs), given_problem.dtype
    )
    assert comparison.ok, f"{spec.describe()}: {comparison}"
    assert inputs.changed_since(before) == ()
    assert result.out is out
    return out


FEATURES = {
    "plain": {},
    "window": {"sliding_window": 9},
    "softcap": {"softcap": 5.0},
    "alibi": {"use_alibi": True, "use_sinks": True},
    "qq_bias": {"use_qq_bias": True, "qq_bias_size": 24},
    "sinks": {"use_sinks": True},
    "all": {
        "sliding_window": 17,
        "softcap": 5.0,
        "use_alibi": True,
        "use_qq_bias": True,
        "use_sinks": True,
        "softmax_scale": 0.2,
    },
}


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
def test_features(feature, dtype, device):
    """Every feature meets all dtypes and both kernels, each of which takes every other pair of them."""
    turn = list(FEATURES).index(feature) + ["fp16", "bf16", "fp32"].index(dtype)
    check(problem(dtype=dtype, **FEATURES[feature]), SPECS[list(SPECS)[turn % 2]], device)


def test_a_softcap_of_usual_size_keeps_float32_accurate(device):
    """Nearly all scores lie where tanh(x) is nearly x: an error of c * 2^-24 would show."""
    check(problem(dtype="fp32", softcap=50.0), SPECS["2d"], device, seed=1)


@pytest.mark.parametrize(
    ("head_size", "block_size", "dtype", "lane"),
    [
        (128, 16, "bf16", "2d"), (256, 32, "fp16", "3d"), (80, 16, "bf16", "2d"), (96, 64, "fp16", "3d"),
        (192, 16, "bf16", "2d"), (64, 128, "bf16", "3d"), (128, 16, "bf16", "3d"), (80, 16, "bf16", "3d"),
        (64, 128, "bf16", "2d"),
    ],
)  # fmt: skip
def test_head_and_block_sizes(head_size, block_size, dtype, lane, device):
    check(problem(head_size=head_size, block_size=block_size, dtype=dtype), SPECS[lane], device)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "lane"),
    [(5, 1, "2d"), (7, 1, "3d"), (6, 2, "2d"), (3, 3, "3d"), (16, 1, "2d"), (5, 1, "3d"), (7, 1, "2d")],
)
def test_any_gqa_group(heads, kv_heads, lane, device):
    check(problem(num_query_heads=heads, num_kv_heads=kv_heads, use_sinks=True), SPECS[lane], device)


LEVERS = {
    "transposed_qk": {"transposed_qk": True},
    "mask_once": {"mask_once": True, "mask_split": False},
    "mask_limit": {"mask_limit": True},
    "one masked loop": {"mask_split": False},
    "plain page addressing": {"fast_paged_kv": False},
    "one page per tile": {"tile_size": 16},
    "lazy_rescale": {"lazy_rescale": True},
    "lazy_rescale transposed": {"lazy_rescale": True, "transposed_qk": True},
    "i64_addressing": {"i64_addressing": True},
    "wide tile": {"block_m": 64, "tile_size": 128},
    "pages_ahead": {"pages_ahead": True},
    "late_sum": {"late_sum": True},
    "late_sum, lazy_rescale, transposed": {"late_sum": True, "lazy_rescale": True, "transposed_qk": True},
    "pages_ahead, one masked loop": {"pages_ahead": True, "mask_split": False, "tile_size": 16},
}


@pytest.mark.parametrize("lane", SPECS)
@pytest.mark.parametrize("lever", LEVERS)
def test_levers_change_nothing_but_the_schedule(lever, lane, device):
    check(problem(use_sinks=True), SPECS[lane].with_changes(**LEVERS[lever]), device)


@pytest.mark.parametrize("lever", ["transposed_qk", "one masked loop", "lazy_rescale"])
def test_levers_under_a_window_and_biases(lever, device):
    check(problem(**FEATURES["all"]), SPECS["2d"].with_changes(**LEVERS[lever]), device)


@pytest.mark.parametrize("lane", SPECS)
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("q_dtype", [None, "fp8_e4m3"])
def test_fp8_cache_and_query(q_dtype, dtype, lane, device):
    fp8 = problem(dtype=dtype, kv_dtype="fp8_e4m3", q_dtype=q_dtype, softcap=5.0, use_sinks=True)
    check(fp8, SPECS[lane], device)


FP8_BF16 = problem(kv_dtype="fp8_e4m3", use_sinks=True)
IN_FP16 = {
    "plain": {},
    "lazy_rescale": {"lazy_rescale": True},
    "transposed_qk": {"transposed_qk": True},
    "8 rows, pages ahead": {"transposed_qk": True, "block_m": 8, "pages_ahead": True},
}


@pytest.mark.parametrize("levers", IN_FP16)
def test_fp8_in_fp16(levers, device):
    check(FP8_BF16, SPECS["3d"].with_changes(fp8_in_fp16=True, **IN_FP16[levers]), device)


def test_fp8_in_fp16_under_a_window_and_biases(device):
    everything = problem(kv_dtype="fp8_e4m3", q_dtype="fp8_e4m3", **FEATURES["all"])
    check(everything, SPECS["2d"].with_changes(fp8_in_fp16=True), device)


def test_fp8_in_fp16_takes_the_range_of_bf16_queries(device):
    inputs = make_unified_inputs(FP8_BF16, device=device)
    inputs.q.mul_(torch.logspace(-60, 18, inputs.q.shape[0], 2.0, device=device, dtype=inputs.q.dtype)[:, None, None])
    check(FP8_BF16, SPECS["2d"].with_changes(fp8_in_fp16=True), device, inputs=inputs)


@pytest.mark.parametrize("in_fp16", [False, True])
def test_every_e4m3_code_of_a_value_arrives(in_fp16, device):
    """One key: the output is its value, NaN where that is NaN."""
    one = problem(seq_lens=((1, 1),), head_size=256, num_query_heads=2, num_kv_heads=1, kv_dtype="fp8_e4m3")
    inputs = make_unified_inputs(one, device=device)
    codes = torch.arange(256, dtype=torch.uint8, device=device).view(torch.float8_e4m3fn)
    inputs.v_cache.view(torch.uint8)[:] = codes.view(torch.uint8)
    inputs.v_scale.fill_(1.0)
    out = run_unified(one, inputs, spec=SPECS["2d"].with_changes(fp8_in_fp16=in_fp16)).out
    torch.testing.assert_close(out, codes.to(out.dtype).expand_as(out), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("in_fp16", [False, True])
def test_every_e4m3_code_of_a_key_counts(in_fp16, device):
    """Key n holds code n; its score decides how much of value n = +-1 arrives. The keys that are NaN come second."""
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
    finite = codes[codes.isfinite()]
    keyed = problem(seq_lens=((1, finite.numel()),), head_size=16, num_query_heads=2, num_kv_heads=1)
    keyed = keyed.with_changes(kv_dtype="fp8_e4m3", softmax_scale=1.0)
    inputs = make_unified_inputs(keyed, device=device, poison=False)
    slots = inputs.block_table[0, torch.arange(finite.numel()) // 16].long(), torch.arange(finite.numel()) % 16
    for cache, values in ((inputs.k_cache, finite), (inputs.v_cache, torch.arange(finite.numel()) % 2 * 2.0 - 1.0)):
        cache.view(torch.uint8).zero_()
        cache[slots[0], slots[1], 0, 0] = values.to(device).to(cache.dtype)
    inputs.k_scale.fill_(1.0)
    inputs.q.zero_()
    inputs.q[:, :, 0] = torch.tensor([[2.0**-9, 16.0]])
    spec = SPECS["2d"].with_changes(fp8_in_fp16=in_fp16)
    check(keyed, spec, device, inputs=inputs)
    inputs.k_cache[slots[0][7], slots[1][7], 0, 0] = float("nan")
    assert run_unified(keyed, inputs, spec=spec).out.isnan().all()


@pytest.mark.parametrize("block_size", [64, 128])
def test_pages_ahead_where_a_page_is_several_tiles(block_size, device):
    check(problem(block_size=block_size), SPECS["2d"].with_changes(pages_ahead=True), device)


@pytest.mark.parametrize(("heads", "levers"), [(16, {}), (10, {"pages_ahead": True}), (6, {"lazy_rescale": True})])
def test_query_tiles_of_8_rows(heads, levers, device):
    seq_lens = ((1, 40), (6, 33), (0, 5), (1, 100))
    grouped = problem(seq_lens=seq_lens, num_query_heads=heads, use_sinks=True, use_alibi=True, head_size=80)
    check(grouped, SPECS["3d"].with_changes(block_m=8, transposed_qk=True, **levers), device)


@pytest.mark.parametrize("num_segments", [1, 2, 8, 32])
def test_the_split_is_exact_for_every_segment_count(num_segments, device):
    split = problem(dtype="fp32", use_sinks=True, seq_lens=((1, 100), (3, 33)), num_query_heads=2)
    inputs = make_unified_inputs(split, device=device)
    whole = check(split, SPECS["2d"], device, inputs=inputs)
    merged = check(split, SPECS["3d"].with_changes(num_segments=num_segments), device, inputs=inputs)
    torch.testing.assert_close(merged, whole, rtol=2e-6, atol=2e-6)


FUSED = {
    "mixed lengths": {"use_sinks": True, "head_size": 80},
    "all biases, window": FEATURES["all"],
    "decode, group of 3": {"seq_lens": ((1, 40), (0, 3), (1, 100)), "num_query_heads": 6},
    "fp8, more segments than tiles": {"seq_lens": ((1, 300), (1, 20)), "kv_dtype": "fp8_e4m3", "num_query_heads": 16},
}


@pytest.mark.parametrize("case", FUSED)
def test_the_last_segment_merges_them_all(case, device):
    check(problem(**FUSED[case]), SPECS["3d"].with_changes(fused_reduce=True, num_segments=16), device)


@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("fused_reduce", [False, True])
def test_merging_segments_hides_no_nan(fused_reduce, device):
    decode = problem(seq_lens=((1, 100),))
    inputs = make_unified_inputs(decode, device=device)
    inputs.q[0, 1] = float("nan")
    out = run_unified(decode, inputs, spec=SPECS["3d"].with_changes(fused_reduce=fused_reduce)).out
    assert out[0, 1].isnan().all()
    assert out[0].isnan().any(1).sum() == 1


@pytest.mark.parametrize("lane", SPECS)
def test_strided_views(lane, device):
    """q, the cache and the output are views of wider tensors; the cache interleaves K and V."""
    viewed = problem()
    inputs = make_unified_inputs(viewed, device=device)
    both = torch.stack([inputs.k_cache, inputs.v_cache], dim=1)
    packed = torch.cat([inputs.q, torch.full_like(inputs.q, float("nan"))], dim=1)
    views = type(inputs)(
        **inputs.named_tensors() | {"k_cache": both[:, 0], "v_cache": both[:, 1], "q": packed[:, : inputs.q.shape[1]]}
    )
    assert not views.q.is_contiguous()
    wide = torch.full((*inputs.q.shape[:2], 96), float("nan"), dtype=inputs.q.dtype, device=device)
    run_unified(viewed, views, spec=SPECS[lane], out=wide[..., :64])
    comparison = compare(wide[..., :64], unified_reference(viewed, inputs), unified_eager(viewed, inputs), "bf16")
    assert comparison.ok, comparison
    assert wide[..., 64:].isnan().all()


def test_auto_follows_the_dispatcher_and_gives_its_reasons(device):
    result = run_unified(problem(), make_unified_inputs(problem(), device=device))
    assert result.lane == "2d"
    assert any("100" in reason for reason in result.reasons)


@settings(max_examples=20)
@given(data=st.data())
def test_random_problems(data, device):
    query_len = st.integers(0, 18)
    seq_lens = data.draw(
        st.lists(query_len.flatmap(lambda q: st.tuples(st.just(q), st.integers(q, q + 70))), min_size=1, max_size=4)
    )
    group, kv_heads = data.draw(st.sampled_from([1, 2, 3, 5])), data.draw(st.integers(1, 2))
    drawn = problem(
        seq_lens=tuple(seq_lens),
        num_query_heads=group * kv_heads,
        num_kv_heads=kv_heads,
        head_size=data.draw(st.sampled_from([16, 40, 64])),
        block_size=data.draw(st.sampled_from([16, 32])),
        dtype=data.draw(st.sampled_from(["fp16", "bf16", "fp32"])),
        sliding_window=data.draw(st.sampled_from([None, 1, 5, 40])),
        softcap=data.draw(st.sampled_from([0.0, 3.0])),
        use_alibi=data.draw(st.booleans()),
        use_sinks=data.draw(st.booleans()),
        use_qq_bias=data.draw(st.booleans()),
    )
    levers = {"transposed_qk": data.draw(st.booleans()), "mask_split": data.draw(st.booleans())}
    spec = data.draw(st.sampled_from(list(SPECS.values()))).with_changes(**levers)
    check(drawn, spec, device, seed=data.draw(st.integers(0, 99)))


def arguments(given_problem, inputs):
    """The problem's call in the public argument names."""
    return {
        "q": inputs.q,
        "k": inputs.k_cache,
        "v": inputs.v_cache,
        "out": torch.empty_like(inputs.q),
        "cu_seqlens_q": inputs.cu_seqlens_q,
        "max_seqlen_q": given_problem.max_query_len,
        "seqused_k": inputs.seqused_k,
        "max_seqlen_k": given_problem.max_kv_len,
        "softmax_scale": given_problem.softmax_scale,
        "causal": True,
        "window_size": (-1, -1),
        "block_table": inputs.block_table,
        "softcap": 0,
        "q_descale": None,
        "k_descale": None,
        "v_descale": None,
    }


def test_public_call_takes_the_names_of_aiter_and_vllm(device):
    plain = problem()
    inputs = make_unified_inputs(plain, device=device)
    call = arguments(plain, inputs)
    returned = unified_attention(**call)
    assert returned is call["out"]
    assert compare(returned, unified_reference(plain, inputs), unified_eager(plain, inputs), "bf16").ok


def test_window_size_counts_the_keys_to_the_left(device):
    windowed = problem(sliding_window=9)
    inputs = make_unified_inputs(windowed, device=device)
    out = unified_attention(**arguments(windowed, inputs) | {"window_size": (8, 0)})
    assert compare(out, unified_reference(windowed, inputs), unified_eager(windowed, inputs), "bf16").ok


BAD_CALLS = {
    "rank of q": ({"q": torch.zeros(3, 4)}, TensorError, r"q must have shape \[\*, \*, \*\], got \[3, 4\]"),
    "dtype": ({"q": torch.zeros(19, 4, 64, dtype=torch.float64)}, TensorError, "got torch.float64"),
    "not a tensor": ({"k": 3}, TensorError, "k must be a torch.Tensor, got int"),
    "causal": ({"causal": False}, UnsupportedError, "dense_attention"),
    "output scale": ({"output_scale": torch.ones(())}, UnsupportedError, "output_scale"),
    "right window": ({"window_size": (3, 2)}, UnsupportedError, r"\(3, 2\)"),
    "descale without fp8": ({"k_descale": 2.0}, TensorError, "k_descale is for fp8"),
    "scale": ({"softmax_scale": -1.0}, TensorError, "softmax_scale must be a finite number greater than 0"),
    "short max_seqlen_k": ({"max_seqlen_k": 99}, TensorError, "max_seqlen_k is 99, but a sequence has length 100"),
    "missing table": ({"block_table": None}, TensorError, "block_table are needed"),
    "strided lengths": (
        {"seqused_k": torch.zeros(10, dtype=torch.int32)[::2]},
        TensorError,
        "seqused_k must be contig",
    ),
    "strided table": (
        {"block_table": torch.zeros(9, 5, dtype=torch.int32).T},
        TensorError,
        "block_table must have stride",
    ),
    "ends past q": (
        {"cu_seqlens_q": torch.tensor([0, 1, 7, 18, 18, 20], dtype=torch.int32)},
        TensorError,
        "no more than the 19 query tokens, got 0 and 20",
    ),
    "no tensor at all": ({"q": None}, TensorError, "q must be a torch.Tensor, got NoneType"),
    "length as a word": ({"max_seqlen_q": "3"}, TensorError, "max_seqlen_q must be an integer, got '3'"),
    "window as a number": ({"window_size": 5}, TensorError, "window_size must be two integers"),
    "softcap as a word": ({"softcap": "big"}, TensorError, "softcap must be a number, got 'big'"),
    "block outside the cache": (
        {"block_table": torch.full((5, 7), 99, dtype=torch.int32)},
        TensorError,
        r"block_table\[0, 0\] is 99, but the cache has blocks 0 to",
    ),
    "device by name": ({"device": "mi355x"}, DeviceError, r"got 'mi355x'; write load_device"),
    "lane": ({"lane": "4d"}, SpecError, "auto, 2d, 3d"),
    "lane against spec": ({"lane": "2d", "spec": SPECS["3d"]}, SpecError, "contradict"),
    "backend": ({"backend": "tpu"}, BackendUnavailable, "tpu"),
}


def test_blocks_that_a_window_hides_and_an_expanded_output(device):
    """Entries before the window may be anything; rows of an output that share memory would overwrite each other."""
    windowed = problem(sliding_window=9)
    inputs = make_unified_inputs(windowed, device=device)
    inputs.block_table[4, 0] = -1
    check(windowed, SPECS["2d"], device, inputs=inputs)
    with pytest.raises(TensorError, match="out must not be expanded"):
        run_unified(windowed, inputs, out=torch.empty_like(inputs.q[:1]).expand(inputs.q.shape))


def test_a_run_of_what_is_no_problem_or_no_inputs():
    given, inputs = problem(), make_unified_inputs(problem())
    with pytest.raises(ProblemError, match="problem must be a UnifiedAttentionProblem, got NoneType"):
        run_unified(None, inputs)
    with pytest.raises(TensorError, match="inputs must be UnifiedInputs, as make_unified_inputs gives, got NoneType"):
        run_unified(given, None)


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls_fail_by_name_before_anything_runs(name):
    changes, error, message = BAD_CALLS[name]
    call = arguments(problem(), make_unified_inputs(problem()))
    call["out"].fill_(7.0)
    with pytest.raises(error, match=message):
        unified_attention(**call | changes)
    assert (call["out"] == 7.0).all()


def test_a_query_beyond_32_bit_offsets_is_refused():
    tokens = 2**17 + 1
    shapes = {"q": (tokens, 128, 128), "k": (8193, 16, 1, 128), "v": (8193, 16, 1, 128)}
    tensors = {name: torch.empty(shape, dtype=torch.bfloat16, device="meta") for name, shape in shapes.items()}
    lengths = {"cu_seqlens_q": (2,), "seqused_k": (1,), "block_table": (1, 8193)}
    tensors |= {name: torch.empty(shape, dtype=torch.int32, device="meta") for name, shape in lengths.items()}
    with pytest.raises(UnsupportedError, match=r"131073 tokens spans over 2\^31 elements of q"):
        unified_attention(**tensors, max_seqlen_q=tokens, max_seqlen_k=tokens)


def test_inputs_that_lack_what_the_problem_uses_are_refused():
    with pytest.raises(TensorError, match="the problem needs sinks"):
        run_unified(problem(use_sinks=True), make_unified_inputs(problem()))


def test_more_query_blocks_than_a_grid_holds_are_refused():
    many = problem(seq_lens=((1, 1),) * 65_536, num_query_heads=1, num_kv_heads=1, head_size=16)
    with pytest.raises(UnsupportedError, match="65536 query blocks exceed the 65535"):
        run_unified(many, make_unified_inputs(many), lane="2d")


def test_a_table_row_too_short_names_the_sequence_its_length_and_the_width():
    short = problem(seq_lens=((1, 16), (1, 40)))
    call = arguments(short, make_unified_inputs(short))
    with pytest.raises(TensorError, match="sequence 1 has 40 keys, but its block-table row of width 2 holds 32"):
        unified_attention(**call | {"block_table": call["block_table"][:, :2]})


BAD_SPECS = {
    "mask_once under a window": (Unified2DSpec(mask_once=True), {"sliding_window": 8}, "mask_once is for full"),
    "mask_limit under a window": (Unified2DSpec(mask_limit=True), {"sliding_window": 8}, "mask_limit is for full"),
    "tile under the group": (Unified2DSpec(), {"num_query_heads": 17, "num_kv_heads": 1}, "block_m=32"),
    "fp16 products of bf16": (Unified2DSpec(fp8_in_fp16=True), {}, "fp8_in_fp16 needs an fp8_e4m3 cache under bf16"),
    "native fp8 on bf16": (Unified2DSpec(fp8_native_qk=True), {}, "fp8_native_qk needs"),
    "32-bit offsets too short": (Unified2DSpec(i64_addressing=False), {"num_blocks": 2**20}, "would wrap"),
}


@pytest.mark.parametrize("name", BAD_SPECS)
def test_specs_that_cannot_serve_a_problem(name):
    spec, changes, message = BAD_SPECS[name]
    with pytest.raises(SpecError, match=message):
        spec.check(problem(**changes))


@pytest.mark.parametrize(
    "fields", [{"tile_size": 48}, {"num_warps": 3}, {"num_stages": 0}, {"block_m": 8}, {"waves_per_eu": 9}]
)
def test_impossible_geometry(fields):
    with pytest.raises(SpecError, match=next(iter(fields))):
        Unified2DSpec(**fields)


def test_levers_that_exclude_each_other_or_the_vendor():
    with pytest.raises(SpecError, match="exclude each other"):
        Unified2DSpec(fp8_in_fp16=True, fp8_native_qk=True)
    small = Unified2DSpec(block_m=8, transposed_qk=True)
    assert small.compiler_options("nvidia")["num_warps"] == 4
    with pytest.raises(SpecError, match=r"block_m=8 is for NVIDIA.* use block_m=16"):
        small.compiler_options("amd")


def test_an_unknown_spec_field_lists_the_known_ones():
    with pytest.raises(SpecError, match=r"has no field 'tile'; it has .*tile_size"):
        Unified2DSpec().with_changes(tile=3)


BAD_PROBLEMS = {
    "query longer than keys": ({"seq_lens": ((4, 3),)}, "sequence 0: need 0 <= query_len <= kv_len"),
    "heads": ({"num_query_heads": 5}, "multiple of num_kv_heads"),
    "block size": ({"block_size": 24}, "16, 32, 64, 128"),
    "dtype": ({"dtype": "fp64"}, "fp16, bf16, fp32"),
    "fp8 cache of another dtype": ({"kv_dtype": "fp16"}, "bf16, fp8_e4m3"),
    "window": ({"sliding_window": 0}, "sliding_window must be an integer >= 1"),
    "bias too small": ({"use_qq_bias": True, "qq_bias_size": 3}, "cover the longest query"),
    "infinite softcap": ({"softcap": float("inf")}, "softcap must be finite"),
    "fraction of a key": ({"seq_lens": ((1, 3.5),)}, "pairs of integers"),
    "no sequence": ({"seq_lens": ()}, "at least one"),
}


@pytest.mark.parametrize("name", BAD_PROBLEMS)
def test_contradictory_problems(name):
    changes, message = BAD_PROBLEMS[name]
    with pytest.raises(ProblemError, match=message):
        problem(**changes)


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks for a GPU where there is none")
def test_asking_for_the_gpu_without_one_says_what_to_do():
    inputs = make_unified_inputs(problem())
    with pytest.raises(BackendUnavailable, match="sees no GPU device"):
        run_unified(problem(), inputs, backend="gpu")


def test_output_dtype_must_match(device):
    inputs = make_unified_inputs(problem(), device=device)
    out = torch.empty(inputs.q.shape, dtype=torch_dtype("fp16"), device=device)
    with pytest.raises(TensorError, match=r"out must be torch\.bfloat16"):
        run_unified(problem(), inputs, out=out)
