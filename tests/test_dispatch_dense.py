"""The dispatcher's dense specs: kernel, geometry, grid, and the order of a persistent grid's work."""

import numpy as np
import pytest

from workbench.device import list_devices, load_device
from workbench.dispatch import (
    num_persistent_programs,
    resolve_persist_decode,
    select_dense_spec,
    select_work_order,
)
from workbench.dispatch.geometry import Geometry, estimate_lds_bytes
from workbench.dispatch.work_order import EVEN_LOAD, is_even_by_head, kv_heads_of_an_l2
from workbench.errors import SpecError
from workbench.model.dense_order import decode_items, key_ranges
from workbench.problem import DenseAttentionProblem
from workbench.scenarios import load_all
from workbench.spec import DenseSpec

MI355X = load_device("mi355x")
H200 = load_device("h200")
DENSE = [scenario for scenario in load_all() if isinstance(scenario.problem, DenseAttentionProblem)]


def dense(batch=1, heads=(16, 2), seqlen=4096, **changes):
    return DenseAttentionProblem(
        batch=batch,
        num_query_heads=heads[0],
        num_kv_heads=heads[1],
        seqlen_q=seqlen,
        **{"head_size": 128, "seqlen_kv": seqlen} | changes,
    )


@pytest.mark.parametrize("device", [*list_devices(), None])
@pytest.mark.parametrize("scenario", DENSE, ids=lambda scenario: scenario.name)
def test_every_dense_scenario_gets_a_valid_spec_that_fits(scenario, device):
    device = load_device(device) if device else None
    for dtype in ("bf16", "fp32"):
        problem = scenario.problem.with_changes(dtype=dtype)
        spec = select_dense_spec(problem, device, portable=True).spec
        if device is not None:
            geometry = Geometry(spec.block_m, spec.block_n, spec.num_warps, spec.num_stages)
            assert estimate_lds_bytes(geometry, problem.head_size, dtype) <= device.lds_bytes_per_workgroup


def test_gfx950_dense_has_256_rows_and_one_program_per_compute_unit():
    choice = select_dense_spec(dense(seqlen=8192), MI355X)
    spec = choice.spec
    assert (spec.block_m, spec.num_warps, spec.grid, spec.persist_decode) == (256, 8, "persistent", "auto")
    portable = select_dense_spec(dense(seqlen=8192), MI355X, portable=True).spec
    assert (portable.block_m, portable.num_warps, portable.transposed_qk) == (256, 8, False)
    assert num_persistent_programs(spec, MI355X) == 256
    assert "256 programs share 512 work items" in choice.reasons[-1]


@pytest.mark.parametrize(("head_size", "lazy"), [(64, True), (80, False), (128, False)])
def test_gfx950_rescales_lazily_where_the_branch_spills_nothing(head_size, lazy):
    choice = select_dense_spec(dense(seqlen=8192, head_size=head_size), MI355X, portable=True)
    assert choice.spec.lazy_rescale == lazy


@pytest.mark.parametrize(("seqlen", "grid"), [(4096, "persistent"), (33 * 128, "default")])
def test_hopper_takes_heads_that_share_nothing_one_after_the_other_where_that_is_even(seqlen, grid):
    # 132 programs are 4 x 33: with 33 query blocks each would meet the same one in every round.
    spec = select_dense_spec(dense(batch=4, heads=(32, 32), seqlen=seqlen), H200).spec
    assert spec.grid == grid
    assert spec.persist_decode == ("hkv_major" if grid == "persistent" else "auto")


def test_hopper_counts_its_blocks_down_where_it_weighs_the_load():
    # Counted up, the longest program would have 1.08 times the mean; counted down, as the kernel does, 1.12.
    assert select_dense_spec(dense(batch=4, heads=(16, 16), seqlen=5000), H200).spec.grid == "default"


def test_hopper_d64_dense_always_rescales_over_eight_warps():
    spec = select_dense_spec(dense(seqlen=8192, head_size=64), H200).spec
    assert isinstance(spec, DenseSpec)
    assert (spec.block_m, spec.num_warps, spec.num_stages, spec.lazy_rescale) == (128, 8, 3, False)
    assert select_dense_spec(dense(seqlen=8192), H200, portable=True).spec.lazy_rescale


def test_a_spec_may_name_its_own_programs():
    assert num_persistent_programs(DenseSpec(num_persistent=512), MI355X) == 512
    assert num_persistent_programs(DenseSpec(), None) == 4


def test_short_dense_queries_take_a_short_tile():
    assert select_dense_spec(dense(seqlen=100), MI355X).spec.block_m == 128
    assert select_dense_spec(dense(seqlen=0), MI355X).spec.block_m == 16


@pytest.mark.parametrize(
    ("seqlen", "mode"), [(256 * 7, "qb_major"), (256 * 8 - 255, "hkv_major"), (256 * 8, "hkv_major")]
)
def test_auto_takes_hkv_major_from_the_balance_on(seqlen, mode):
    # g 8 x 8 blocks x batch 1 = 64 = 2 x 32 programs.
    assert resolve_persist_decode(dense(seqlen=seqlen), DenseSpec(block_m=256), 32)[0] == mode


def test_the_balance_counts_group_blocks_and_batch():
    spec = DenseSpec(block_m=256)
    problem = dense(batch=3, heads=(10, 2), seqlen=512)
    mode, reason = resolve_persist_decode(problem, spec, 15)
    assert mode == "hkv_major"
    assert "g 5 x 2 query blocks x batch 3 = 30, at least 2 x 15 programs" in reason
    assert resolve_persist_decode(problem, spec, 16)[0] == "qb_major"


def test_auto_needs_a_group():
    mode, reason = resolve_persist_decode(dense(heads=(8, 8), seqlen=65536), DenseSpec(), 16)
    assert (mode, reason) == ("qb_major", "qb_major: with a group of 1 no query heads share K and V.")


@pytest.mark.parametrize(
    ("shape", "order", "programs"),
    [
        ((1, (128, 8), 8192, True), "hkv_major", 256),
        ((1, (32, 8), 8192, True), "gqa_pair_2phase", 512),
        ((4, (32, 32), 4096, True), "gqa_pair_2phase", 1024),  # a group of one pairs its blocks too
        ((1, (40, 8), 4096, True), "gqa_pair_2phase", 320),  # qb_major would hit less than every other order
        ((1, (64, 8), 2048, True), "qb_major", 256),  # one round of a paired order would hit no more
        ((4, (32, 8), 4096, True), "qb_major", 256),  # batch members apart: four on each L2 instead of one
        ((1, (32, 8), 256 * 31, True), "qb_major", 256),  # an odd number of blocks does not pair
        ((1, (64, 8), 4096, False), "hkv_major", 256),  # nothing to balance
        ((1, (32, 32), 2048, False), "qb_major", 256),  # every L2 would serve every head
    ],
)
def test_auto_on_several_l2_caches(shape, order, programs):
    batch, heads, seqlen, causal = shape
    problem = dense(batch=batch, heads=heads, seqlen=seqlen, causal=causal)
    spec = select_dense_spec(problem, MI355X).spec
    chosen = select_work_order(problem, spec, MI355X)
    assert (chosen.order, chosen.num_persistent) == (order, programs)
    assert chosen.reason.startswith(f"{order}: ")
    given = select_work_order(problem, spec.with_changes(num_persistent=200), MI355X)
    assert given.num_persistent == 200
    assert "gqa" not in given.order


def test_auto_without_a_device_keeps_its_programs():
    problem = dense(heads=(8, 4), seqlen=1024)
    assert select_work_order(problem, DenseSpec(block_m=64)).num_persistent == 4


def test_a_paired_order_brings_its_programs_unless_they_are_given():
    problem, spec = dense(heads=(16, 8), seqlen=1024), DenseSpec(block_m=256, persist_decode="gqa_pair")
    assert select_work_order(problem, spec, MI355X).num_persistent == 2 * 2 * 8
    with pytest.raises(SpecError, match="is for num_persistent=32 here"):
        select_work_order(problem, spec.with_changes(num_persistent=256), MI355X)


def test_an_explicit_order_is_kept_or_refused():
    spec = DenseSpec(block_m=256)
    assert resolve_persist_decode(dense(), spec.with_changes(persist_decode="qb_major"), 1)[0] == "qb_major"
    explicit = spec.with_changes(persist_decode="hkv_major")
    assert resolve_persist_decode(dense(heads=(8, 8), seqlen=8192), explicit, 16)[0] == "hkv_major"
    even, reason = resolve_persist_decode(dense(heads=(8, 8), seqlen=8192), explicit, 17)
    assert (even, "under 2 x 17 programs, the longest program has at most 1.1" in reason) == ("hkv_major", True)
    # 64 programs meet the same query block in every round.
    with pytest.raises(SpecError, match=r"= 32, under 2 x 64 programs; use 'auto' or 'qb_major'"):
        resolve_persist_decode(dense(heads=(8, 8), seqlen=8192), explicit, 64)
    assert resolve_persist_decode(dense(heads=(8, 8), seqlen=8192, causal=False), explicit, 17)[0] == "hkv_major"


@pytest.mark.parametrize("changes", [{}, {"sliding_window": 300}, {"causal": False}, {"alignment": "top_left"}])
@pytest.mark.parametrize("heads", [(8, 8), (16, 4)])
def test_dispatch_counts_work_items_as_the_model_hands_them_out(heads, changes):
    problem, spec = dense(batch=3, heads=heads, seqlen=2000, seqlen_kv=1900, **changes), DenseSpec(block_m=256)
    for order in ("qb_major", "hkv_major"):
        items = decode_items(order, 8, heads[0], 3, problem.group_size)
        for programs in (17, 64, 100):
            met = {(items.head[item] // problem.group_size, items.batch[item]) for item in range(0, programs, 8)}
            assert kv_heads_of_an_l2(problem, order, 8, programs, 8) == len(met)
    low, high = key_ranges(problem, 256)
    for programs in (8, 17, 24, 64):
        keys = (high - low)[items.qblock]
        loads = np.bincount(np.arange(len(keys)) % programs, keys)
        assert is_even_by_head(problem, spec, programs) == (loads.max() <= EVEN_LOAD * loads.mean())
