"""The dispatcher: each rule at and around its boundary, each cohort, and a valid spec for every scenario and device."""

import pytest

from workbench.device import Device, list_devices, load_device
from workbench.dispatch import (
    admitted_lanes,
    block_q,
    grid_2d,
    grid_3d,
    grid_dense,
    num_query_blocks,
    select_path,
    select_spec,
)
from workbench.dispatch.geometry import Geometry, estimate_lds_bytes
from workbench.errors import SpecError, UnsupportedError
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.scenarios import load_all
from workbench.spec import Unified2DSpec, Unified3DSpec
from workbench.spec_gfx950_unified import Gfx950Unified2DSpec

MI355X = load_device("mi355x")
MI300X = load_device("mi300x")
H200 = load_device("h200")
FP8 = "fp8_e4m3"
SCENARIOS = tuple(load_all())
UNIFIED = [scenario for scenario in SCENARIOS if isinstance(scenario.problem, UnifiedAttentionProblem)]


def unified(seq_lens, *, heads=(16, 2), head_size=128, block_size=16, dtype="bf16", **changes):
    return UnifiedAttentionProblem(
        seq_lens=tuple(seq_lens),
        num_query_heads=heads[0],
        num_kv_heads=heads[1],
        head_size=head_size,
        block_size=block_size,
        dtype=dtype,
        **changes,
    )


def gpu(compute_units=256, vendor="amd", arch="gfx950", lds=163840):
    return Device(
        name="test",
        title="Test",
        vendor=vendor,
        arch=arch,
        compute_units=compute_units,
        wave_size=64 if vendor == "amd" else 32,
        lds_bytes_per_workgroup=lds,
    )


# --- grids


@pytest.mark.parametrize(("block_m", "expected"), [(16, 3), (32, 6), (64, 12)])
def test_block_q_of_a_group_of_five(block_m, expected):
    assert block_q(unified([(1, 1)], heads=(40, 8)), block_m) == expected


def test_a_tile_smaller_than_the_group_is_an_error():
    with pytest.raises(SpecError, match=r"a tile of 16 rows cannot hold a group of 20 .* use block_m=32 or more"):
        block_q(unified([(1, 1)], heads=(20, 1)), 16)


def test_query_blocks_are_bounded_by_tokens_and_sequences():
    problem = unified([(1, 9), (7, 9), (8, 8)])
    assert num_query_blocks(problem, 16) == 16 // 2 + 3
    exact = sum(-(-query_len // 2) for query_len, _ in problem.seq_lens)
    assert exact <= num_query_blocks(problem, 16)


def test_query_blocks_of_decode_are_the_sequences():
    assert num_query_blocks(unified([(1, 9)] * 5), 64) == 5
    assert num_query_blocks(unified([(1, 9)] * 4 + [(2, 9)]), 64) == 6 // 8 + 5


def test_grids_have_the_axes_of_the_specification():
    problem = unified([(100, 200)])
    assert grid_2d(problem, 64) == (2, 13, 1)
    assert grid_3d(problem, 64, 8) == (13, 2, 8)
    dense = DenseAttentionProblem(batch=2, num_query_heads=8, num_kv_heads=2, seqlen_q=257, seqlen_kv=257, head_size=64)
    assert grid_dense(dense, 256) == (2, 8, 2)


# --- tier one: the path


@pytest.mark.parametrize(("kv_len", "lane"), [(511, "2d"), (512, "2d"), (513, "3d")])
def test_short_context_is_at_most_512_keys(kv_len, lane):
    choice = select_path(unified([(1, kv_len), (1, 1)]), MI355X)
    assert choice.lane == lane
    assert str(kv_len) in choice.reasons[-1]


@pytest.mark.parametrize(("num_seqs", "lane"), [(127, "3d"), (128, "3d"), (129, "2d")])
def test_the_grid_must_exceed_four_workgroups_per_compute_unit(num_seqs, lane):
    choice = select_path(unified([(1, 4096)] * num_seqs, heads=(64, 8)), gpu(compute_units=256))
    assert (choice.grid, choice.target, choice.lane) == (8 * num_seqs, 1024, lane)
    assert f"{num_seqs} query blocks x 8 KV heads = {8 * num_seqs} workgroups" in choice.reasons[0]
    assert "the target of 1024 (4 x 256 compute units)" in choice.reasons[0]


@pytest.mark.parametrize("window", [1, 4096, 100_000])
def test_any_window_is_2d(window):
    choice = select_path(unified([(1, 32768)], sliding_window=window), MI355X)
    assert choice.lane == "2d"
    assert choice.reasons == (f"2D: a window of {window} keys leaves little to split.",)


def test_every_rule_that_holds_is_named():
    reasons = select_path(unified([(500, 500)] * 64, sliding_window=8), MI355X).reasons
    assert len(reasons) == 3


def test_a_prefill_counts_blocks_of_the_smallest_tile():
    # 2 queries a block at group 8: 512 // 2 + 1 blocks x 2 heads.
    assert select_path(unified([(512, 2048)]), MI355X).grid == 514


def test_without_a_device_the_default_is_assumed_and_named():
    choice = select_path(unified([(1, 4096)]))
    assert choice.target == 4 * MI355X.compute_units
    assert "AMD Instinct MI355X is assumed" in choice.reasons[0]


def test_one_problem_takes_two_paths_on_two_devices():
    problem = unified([(512, 1024)] * 2)
    assert select_path(problem, MI355X).lane == "2d"
    assert select_path(problem, MI300X).lane == "3d"


FASTER_PATH_ON_H200 = {
    "decode_d128_b16": "3d",
    "decode_d128_b64": "3d",
    "decode_d256_b16": "3d",
    "prefill_d128_b16": "2d",
    "mixed_d128_b16": "3d",
    "sliding_d128_b16": "3d",
    "softcap_d128_b16": "3d",
    "qq_bias_prefill_d128_b16": "2d",
    "combo_bf16_d64_b32_gqa8_64x8": "2d",
    "combo_bf16_d64_b32_gqa8_16x2": "2d",
    "single_batch_d128_S4096": "2d",
    "creative_decode_32k": "3d",
    "serving_decode_b64_4k": "2d",
}


@pytest.mark.parametrize("name", FASTER_PATH_ON_H200)
def test_the_path_is_the_faster_one_on_an_h200(name):
    problem = next(scenario.problem for scenario in UNIFIED if scenario.name == name)
    assert select_path(problem, H200).lane == FASTER_PATH_ON_H200[name]


def test_lengths_of_single_sequences_play_no_part():
    one = unified([(100, 700), (1, 600), (1, 2000)])
    other = unified([(100, 2000), (2, 2), (0, 0)])
    assert select_path(one, H200) == select_path(other, H200)
    for lane in ("2d", "3d"):
        assert select_spec(one, H200, lane) == select_spec(other, H200, lane)


# --- tier two: the geometry


@pytest.mark.parametrize("device", [*list_devices(), None])
@pytest.mark.parametrize("scenario", UNIFIED, ids=lambda scenario: scenario.name)
def test_every_scenario_gets_a_valid_spec_that_fits(scenario, device):
    device = load_device(device) if device else None
    for dtype in (scenario.problem.dtype, "fp32"):
        same = scenario.problem.dtype == dtype
        dtypes = {} if same else {"dtype": dtype, "q_dtype": dtype, "kv_dtype": dtype}
        problem = scenario.problem.with_changes(**dtypes)
        for lane in admitted_lanes(problem):
            choice = select_spec(problem, device, lane)
            choice.spec.check(problem)
            assert f"Cohort {choice.cohort}." == choice.reasons[0]
            portable = select_spec(problem, device, lane, portable=True).spec
            assert isinstance(portable, Unified2DSpec if lane == "2d" else Unified3DSpec)
            assert choice.spec == portable or (type(choice.spec), device.arch) == (Gfx950Unified2DSpec, "gfx950")
            if device is not None:
                assert lds_bytes(portable, problem) <= device.lds_bytes_per_workgroup


def lds_bytes(spec, problem):
    geometry = Geometry(spec.block_m, spec.tile_size, spec.num_warps, spec.num_stages)
    return estimate_lds_bytes(geometry, problem.head_size, problem.dtype)


def choose(problem, device=MI355X, lane="2d"):
    choice = select_spec(problem, device, lane, portable=True)
    spec = choice.spec
    return choice.cohort, (spec.block_m, spec.tile_size, spec.num_warps, spec.num_stages, spec.waves_per_eu)


D128 = {"heads": (64, 8), "head_size": 128, "block_size": 32}
D64 = {"heads": (64, 8), "head_size": 64, "block_size": 32}


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_single_batch_d128_prefill_has_one_k_buffer(dtype):
    problem = unified([(1024, 1024)], **D128, dtype=dtype)
    assert choose(problem) == ("single-batch-d128-prefill", (64, 64, 2, 1, 2))
    spec = select_spec(problem, MI355X, "2d", portable=True).spec
    assert not spec.transposed_qk
    assert spec.mask_once
    assert spec.mask_limit
    assert not spec.mask_split


def test_single_batch_d128_states_the_lds_of_the_device_at_hand():
    problem = unified([(1024, 1024)], **D128)
    assert "160 KiB of LDS hold 5 workgroups, 3 with a second K buffer" in select_spec(problem, MI355X, "2d").reasons[1]
    assert "64 KiB of LDS hold 2 workgroups, 1 with a second K buffer" in select_spec(problem, MI300X, "2d").reasons[1]


@pytest.mark.parametrize(("query_len", "cohort"), [(256, "prefill"), (257, "single-batch-d128-prefill")])
def test_a_long_prefill_has_more_than_256_queries(query_len, cohort):
    assert choose(unified([(query_len, 4096)], **D128))[0] == cohort


@pytest.mark.parametrize(
    "changes",
    [
        {"heads": (8, 8)},
        {"dtype": "fp32"},
        {"kv_dtype": "fp8_e4m3"},
        {"use_alibi": True},
        {"use_qq_bias": True},
        {"sliding_window": 128},
        {"head_size": 80},
        {"seq_lens": [(1024, 1024), (1, 1)]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_leaves_the_single_batch_cohort(changes):
    arguments = {"seq_lens": [(1024, 1024)], **D128} | changes
    assert choose(unified(**arguments))[0] == "prefill"


def test_single_batch_d64_prefill_has_the_wide_tile():
    problem = unified([(1024, 1024)], **D64 | {"block_size": 16})
    assert choose(problem) == ("single-batch-d64-prefill", (128, 128, 4, 2, 0))
    # 64 KiB of LDS hold the tile with one buffer only.
    assert choose(problem, MI300X) == ("single-batch-d64-prefill", (128, 128, 4, 1, 0))


def test_serving_full_attention_aims_at_the_waves_that_spill_nothing():
    problem = unified([(512, 1024)] * 2, **D64, use_sinks=True)
    assert choose(problem) == ("d64-b32-gqa8-serving", (128, 64, 4, 2, 3))
    fp8 = problem.with_changes(kv_dtype="fp8_e4m3")
    assert choose(fp8) == ("d64-b32-gqa8-serving", (128, 64, 4, 2, 2))
    assert choose(problem, MI300X) == ("d64-b32-gqa8-serving", (128, 64, 4, 2, 2))


def test_serving_under_a_window_is_light_in_bf16_and_one_page_wide_in_fp8():
    problem = unified([(512, 1024)] * 2, **D64, sliding_window=128)
    assert choose(problem) == ("d64-b32-gqa8-serving-window", (64, 64, 2, 2, 2))
    fp8 = problem.with_changes(kv_dtype="fp8_e4m3")
    assert choose(fp8) == ("d64-b32-gqa8-serving-window-fp8", (128, 32, 4, 2, 3))
    for changed in (problem, fp8):
        spec = select_spec(changed, MI355X, "2d", portable=True).spec
        assert not spec.mask_once
        assert not spec.mask_limit


GLUON = {
    "single-batch-d128-prefill": ({"seq_lens": [(1024, 1024)], **D128}, (2, 64, 2, True)),
    "single-batch-d64-prefill": ({"seq_lens": [(1024, 1024)], **D64 | {"block_size": 16}}, (4, 128, 3, False)),
    "d64-b32-gqa8-serving": ({"seq_lens": [(512, 1024)] * 2, **D64}, (4, 64, 4, False)),
    "d64-b32-gqa8-serving-window": ({"seq_lens": [(9, 1024)] * 2, **D64, "sliding_window": 128}, (2, 64, 3, False)),
    "d64-b32-gqa8-serving-window-fp8": (
        {"seq_lens": [(9, 1024)] * 2, **D64, "sliding_window": 128, "kv_dtype": "fp8_e4m3"},
        (4, 32, 4, False),
    ),
}


@pytest.mark.parametrize("cohort", GLUON)
def test_the_cohorts_of_gfx950_get_the_gluon_kernel(cohort):
    arguments, levers = GLUON[cohort]
    problem = unified(**arguments)
    choice = select_spec(problem, MI355X, "2d")
    spec = choice.spec
    assert (choice.cohort, type(spec)) == (cohort, Gfx950Unified2DSpec)
    assert (spec.num_warps, spec.tile_size, spec.waves_per_eu, spec.k_single_buffer) == levers
    assert spec.transposed_mask_limit == spec.transposed_mask_once == (problem.sliding_window is None)
    assert "Gluon kernel" in choice.reasons[-1]
    assert type(select_spec(problem, MI300X, "2d").spec) is Unified2DSpec


def test_an_fp8_cache_leaves_registers_for_one_wave_less():
    problem = unified([(512, 1024)] * 2, **D64, kv_dtype="fp8_e4m3")
    assert select_spec(problem, MI355X, "2d").spec.waves_per_eu == 3


def test_a_cohort_whose_pages_the_gluon_kernel_lacks_stays_portable():
    problem = unified([(1024, 1024)], **D128 | {"block_size": 128})
    assert type(select_spec(problem, MI355X, "2d").spec) is Unified2DSpec


@pytest.mark.parametrize(
    "changes",
    [{"block_size": 16}, {"heads": (32, 8)}, {"head_size": 128}, {"dtype": "fp16"}, {"use_alibi": True}],
    ids=lambda changes: next(iter(changes)),
)
def test_what_leaves_the_serving_cohort(changes):
    arguments = {"seq_lens": [(512, 1024)] * 2, **D64} | changes
    assert choose(unified(**arguments))[0] == "prefill"


def test_cohorts_are_for_the_2d_kernel_on_cdna3_and_4():
    problem = unified([(1024, 1024)], **D128)
    assert choose(problem, lane="3d")[0] == "prefill"
    assert choose(problem, gpu(arch="gfx90a", lds=65536))[0] == "prefill"
    assert choose(problem, MI300X)[0] == "single-batch-d128-prefill"


@pytest.mark.parametrize(
    ("device", "query_len", "cohort"),
    [
        (MI355X, 1, ("decode", 16)),
        (MI355X, 2, ("decode", 16)),
        (MI355X, 3, ("prefill", 16)),
        (H200, 1, ("decode", 8)),
        (H200, 2, ("decode", 16)),
        (H200, 3, ("split-prefill", 32)),
    ],
)
def test_decode_is_what_fits_the_smallest_tile(device, query_len, cohort):
    name, (block_m, *_) = choose(unified([(query_len, 4096)] * 2), device, "3d")
    assert (name, block_m) == cohort


def test_hopper_takes_rows_as_columns_where_eight_hold_them():
    spec = select_spec(unified([(1, 4096)], heads=(8, 1)), H200, "3d").spec
    assert (spec.block_m, spec.transposed_qk) == (8, True)
    for changes in ({"heads": (9, 1)}, {"head_size": 256}):
        spec = select_spec(unified([(1, 4096)], **({"heads": (8, 1)} | changes)), H200, "3d").spec
        assert (spec.block_m, spec.transposed_qk) == (16, False), changes


@pytest.mark.parametrize(
    ("dtype", "kv_dtype", "halves"), [("bf16", None, False), ("bf16", FP8, True), ("fp16", FP8, False)]
)
def test_hopper_multiplies_an_fp8_cache_in_fp16(dtype, kv_dtype, halves):
    assert select_spec(unified([(1, 4096)], dtype=dtype, kv_dtype=kv_dtype), H200, "3d").spec.fp8_in_fp16 is halves
    assert select_spec(unified([(1, 4096)], dtype=dtype, kv_dtype=kv_dtype), MI355X, "3d").spec.fp8_in_fp16 is False


def test_a_large_group_widens_the_smallest_tile():
    assert choose(unified([(1, 4096)], heads=(71, 1)), lane="3d")[1][0] == 128


@pytest.mark.parametrize(("tokens", "rows"), [(20, 16), (33, 64), (12543, 64), (12544, 128)])
def test_query_tiles_widen_while_every_compute_unit_keeps_work(tokens, rows):
    # Eight KV heads of group 1: 99 blocks x 8 = 6 x 132 from 12544 tokens on; 64 rows as soon as a query fills them.
    assert choose(unified([(tokens, tokens)], heads=(8, 8), head_size=64), H200)[1][0] == rows


def test_hopper_d128_prefill_keeps_64_rows_and_a_window_small_tiles():
    long = unified([(16384, 16384)], heads=(8, 8))
    assert choose(long, H200)[1] == (64, 64, 4, 3, 0)
    windowed = long.with_changes(sliding_window=128)
    assert choose(windowed, H200)[1] == (64, 32, 4, 3, 0)
    assert not select_spec(windowed, H200, "2d").spec.mask_split


def test_hopper_decode_of_many_sequences_takes_fewer_warps_and_more_segments():
    few = unified([(1, 8192)] * 32, heads=(64, 8), head_size=64)
    many = unified([(1, 8192)] * 33, heads=(64, 8), head_size=64)
    assert choose(few, H200, "3d") == ("decode", (8, 64, 4, 2, 0))
    assert choose(many, H200, "3d") == ("decode", (8, 64, 2, 2, 0))
    assert choose(many.with_changes(kv_dtype="fp8_e4m3"), H200, "3d") == ("decode", (8, 64, 2, 3, 0))
    assert select_spec(few, H200, "3d").spec.num_segments == 4
    assert select_spec(many, H200, "3d").spec.num_segments == 4


def test_hopper_prefill_with_qq_bias_takes_fewer_rows_in_one_loop():
    problem = unified([(256, 256)], use_qq_bias=True, qq_bias_size=256)
    spec = select_spec(problem, H200, "2d").spec
    assert (spec.block_m, spec.num_stages, spec.mask_split) == (32, 2, False)
    assert select_spec(unified([(256, 256)]), H200, "2d").spec.block_m == 64


def test_d256_decode_takes_whole_tiles():
    assert choose(unified([(1, 8192)], head_size=256), H200, "3d")[1] == (16, 64, 4, 2, 0)
    assert choose(unified([(1, 8192)], head_size=256), MI355X, "3d")[1][1] == 32


@pytest.mark.parametrize(("block_size", "fast"), [(16, True), (32, True), (64, True), (128, False)])
def test_the_fast_page_path_needs_whole_pages(block_size, fast):
    spec = select_spec(unified([(1, 4096)], block_size=block_size), H200, "3d").spec
    assert spec.fast_paged_kv is fast
    assert (spec.tile_size % block_size == 0) is fast


@pytest.mark.parametrize(
    ("kv_len", "segments", "on_nvidia"),
    [(64, 1, 1), (192, 1, 2), (193, 2, 4), (2048, 16, 32), (4096, 32, 32), (16384, 128, 128), (131072, 128, 128)],
)
def test_a_segment_keeps_two_tiles_and_there_are_128_at_most(kv_len, segments, on_nvidia):
    assert select_spec(unified([(1, kv_len)]), MI355X, "3d").spec.num_segments == segments
    assert select_spec(unified([(1, kv_len)]), H200, "3d").spec.num_segments == on_nvidia


@pytest.mark.parametrize(("num_seqs", "segments"), [(32, 8), (33, 4), (65, 4), (66, 4), (263, 2), (264, 1)])
def test_segments_stop_at_the_fill(num_seqs, segments):
    # Four workgroups a sequence; 528 fill an H200 with 4 warps each, and 1056 with the 2 that many sequences get.
    choice = select_spec(unified([(1, 8192)] * num_seqs, heads=(8, 4)), H200, "3d")
    assert choice.spec.num_warps == (2 if num_seqs >= 66 else 4)
    assert choice.spec.num_segments == segments


def test_segments_share_only_what_a_window_leaves():
    problem = unified([(1, 65536)], sliding_window=512)
    assert select_spec(problem, MI355X, "3d").spec.num_segments == 4
    assert select_spec(problem, H200, "3d").spec.num_segments == 16


def test_fp32_shrinks_to_fit():
    problem = unified([(2048, 2048)] * 8, head_size=256, dtype="fp32")
    choice = select_spec(problem, H200, "2d")
    assert (choice.spec.block_m, choice.spec.tile_size) == (32, 32)
    assert any(reason.startswith("fp32: at most 32 rows") for reason in choice.reasons)


def test_shrinking_keeps_two_stages_on_nvidia_and_says_so():
    problem = unified([(1, 4096)], head_size=256)
    small = gpu(vendor="nvidia", arch="sm_75", lds=65536, compute_units=40)
    choice = select_spec(problem, small, "3d")
    assert (choice.spec.num_stages, choice.spec.tile_size) == (2, 16)
    assert any(reason.startswith("Shrunk from 139264 to 40960 bytes of LDS, of 65536") for reason in choice.reasons)


def test_a_device_too_small_for_any_geometry():
    with pytest.raises(SpecError, match="no geometry fits the LDS"):
        select_spec(unified([(1, 4096)], head_size=256), gpu(lds=16384), "3d")


def test_no_lane_serves_a_group_beyond_the_largest_tile():
    problem = unified([(1, 4096)], heads=(512, 1))
    assert admitted_lanes(problem) == ()
    assert admitted_lanes(unified([(1, 4096)], heads=(256, 1))) == ("2d", "3d")
    with pytest.raises(UnsupportedError, match="a GQA group of 512 query heads exceeds"):
        select_spec(problem, MI355X, "2d")


def test_auto_is_no_lane_of_a_spec():
    with pytest.raises(SpecError, match="lane must be one of 2d, 3d, got 'auto'"):
        select_spec(unified([(1, 1)]), MI355X, "auto")


@pytest.mark.parametrize(
    ("query_len", "kv_len", "rows", "tile"),
    [(1, 4096, 16, 128), (4, 4096, 32, 128), (512, 512, 64, 128), (1, 20, 16, 32)],
)
def test_the_interpreter_gets_few_large_tiles(query_len, kv_len, rows, tile):
    choice = select_spec(unified([(query_len, kv_len)]), None, "2d")
    assert (choice.cohort, choice.spec.block_m, choice.spec.tile_size) == ("interpreter", rows, tile)
    assert choice.spec.mask_split
    assert choice.spec.mask_once
    assert choice.spec.fast_paged_kv


@pytest.mark.parametrize(("kv_len", "segments"), [(100, 2), (384, 2), (385, 4)])
def test_the_interpreter_splits_into_few_segments(kv_len, segments):
    assert select_spec(unified([(1, kv_len)]), None, "3d").spec.num_segments == segments
