"""Declared spaces: what they hold for a problem, and what is left out before anything is compiled."""

import json

import pytest

from workbench.device import list_devices, load_device
from workbench.errors import TuneError
from workbench.problem import UnifiedAttentionProblem
from workbench.scenarios import find
from workbench.tune.compiled import Compiled, CompileJob, compile_offline
from workbench.tune.prune import resident_waves, why_pruned
from workbench.tune.space import configurations, load_spaces, read_space

H200 = load_device("h200")
MI355X = load_device("mi355x")
DECODE = UnifiedAttentionProblem(((1, 4000),) * 4, 16, 2, 128, 16)


def specs(kernel, problem, device=H200, **options):
    space = next(space for space in load_spaces(device) if space.kernel == kernel)
    return [point.spec for point in configurations(space, problem, device, **options) if point.spec is not None]


@pytest.mark.parametrize("device", list_devices())
@pytest.mark.parametrize("scenario", ["decode_d128_b16", "dense_headline"])
def test_every_device_has_a_space_for_every_kind_of_problem(device, scenario):
    problem, target = find(scenario).problem, load_device(device)
    found = [point for space in load_spaces(target) for point in configurations(space, problem, target, limit=2)]
    assert found
    assert len({point.name for point in found}) == len(found)


def test_a_decode_has_one_query_tile_and_no_more_segments_than_tiles():
    assert {spec.block_m for spec in specs("unified-2d", DECODE)} == {16}
    assert {spec.tile_size for spec in specs("unified-2d", DECODE)} == {32, 64, 128}
    for spec in specs("unified-3d", DECODE.with_changes(seq_lens=((1, 600),))):
        assert spec.num_segments <= -(-600 // spec.tile_size)


def test_what_is_not_named_follows_the_dispatcher():
    windowed = DECODE.with_changes(sliding_window=100, block_size=64)
    for spec in specs("unified-2d", windowed):
        assert not spec.mask_limit
        assert spec.fast_paged_kv == (spec.tile_size % 64 == 0)


def test_keys_are_not_split_where_the_2d_grid_fills_the_device():
    assert specs("unified-3d", DECODE.with_changes(seq_lens=((1, 4000),) * 400)) == []
    assert specs("unified-3d", DECODE)


def test_what_a_spec_refuses_is_refused_in_its_words():
    space = next(space for space in load_spaces(MI355X) if space.kernel == "gfx950-unified-2d")
    refusals = {point.refusal for point in configurations(space, DECODE, MI355X) if point.spec is None}
    assert any("cluster halves the tile" in refusal for refusal in refusals)
    fp32 = configurations(space, DECODE.with_changes(dtype="fp32", q_dtype="fp32", kv_dtype="fp32"), MI355X)
    assert all("computes in bf16 or fp16" in point.refusal or "cluster" in point.refusal for point in fp32)


def test_a_limit_is_a_choice_that_a_seed_repeats():
    some = specs("unified-2d", DECODE, limit=5)
    assert len(some) == 5
    assert some == specs("unified-2d", DECODE, limit=5)
    assert some != specs("unified-2d", DECODE, limit=5, seed=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spec": "Unified4DSpec"}, "spec must be one of Unified2DSpec"),
        ({"lane": "4d"}, "lane one of 2d, 3d, dense"),
        ({"fields": {"num_wraps": [4]}}, "fields of Unified2DSpec"),
        ({"fields": {"num_warps": []}}, "num_warps must be a list of at least one value"),
        ({"extra": 1}, "one object with kernel, lane, spec, fields"),
    ],
)
def test_a_malformed_space_names_its_fault(change, message, tmp_path):
    good = {"kernel": "unified-2d", "lane": "2d", "spec": "Unified2DSpec", "fields": {"num_warps": [4]}}
    path = tmp_path / "space.json"
    path.write_text(json.dumps(good))
    assert read_space(path).fields == (("num_warps", (4,)),)
    path.write_text(json.dumps(good | change))
    with pytest.raises(TuneError, match=message):
        read_space(path)


def test_an_unknown_kernel_and_an_unreadable_file_are_refused(tmp_path):
    with pytest.raises(TuneError, match="no space for kernel unified-4d on h200; there are dense, sm90-dense, unified"):
        load_spaces(H200, ["unified-4d"])
    with pytest.raises(TuneError, match="cannot be read"):
        read_space(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("{")
    with pytest.raises(TuneError, match="not JSON"):
        read_space(tmp_path / "text.json")


@pytest.mark.parametrize(
    ("vgprs", "lds_bytes", "num_warps", "waves"),
    [
        (128, 0, 4, 16),  # 512 / 128 = 4 waves on each of 4 SIMDs
        (129, 0, 4, 12),  # rounded up to 136
        (64, 0, 8, 32),
        (32, 81_920, 4, 8),  # 160 KiB of LDS hold two workgroups
        (32, 32_768, 4, 16),  # LDS comes in 1280 bytes: 33,280 of 163,840 are four workgroups, not five
        (512, 0, 8, 0),
    ],
)
def test_resident_waves_of_gfx950(vgprs, lds_bytes, num_warps, waves):
    assert resident_waves(Compiled(num_warps, lds_bytes, vgprs, 0), MI355X) == waves


def test_nvidia_keeps_a_kibibyte_of_each_workgroup():
    assert resident_waves(Compiled(4, 57 * 1024, 64, 0), H200) == 3 * 4
    assert resident_waves(Compiled(4, 56 * 1024, 64, 0), H200) == 4 * 4


def test_pruning_says_why():
    own = Compiled(4, 0, 128, spill_bytes=8)
    assert why_pruned(Compiled(4, 0, 128, 8), own, MI355X) == ""
    assert "spills 12 bytes a lane, the dispatcher's choice 8" in why_pruned(Compiled(4, 0, 128, 12), own, MI355X)
    assert "200000 bytes of LDS, of 163840" in why_pruned(Compiled(4, 200_000, 128, 0), own, MI355X)
    assert "2 resident waves leave some of the 4 SIMDs" in why_pruned(Compiled(2, 100_000, 128, 0), own, MI355X)
    assert why_pruned(Compiled(error="CompileError: no"), own, MI355X) == "CompileError: no"
    assert why_pruned(Compiled(4, 0), own, MI355X) == "", "what the compiler does not say prunes nothing"


def test_offline_compilation_tells_registers_spills_and_lds():
    tiny = UnifiedAttentionProblem(((1, 64),), 1, 1, 16, 16, dtype="fp16", q_dtype="fp16", kv_dtype="fp16")
    spec = specs("unified-2d", tiny, MI355X, limit=1)[0]
    facts = compile_offline(CompileJob(tiny, spec, MI355X, "gfx950"))
    assert facts.error == ""
    assert facts.num_warps == spec.num_warps
    assert 0 < facts.vgprs <= 512
    assert facts.spill_bytes == 0
