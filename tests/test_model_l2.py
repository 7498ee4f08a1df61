"""The L2 model of the dense kernel: its order against the kernel's, its counts against emulation and publication."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from workbench.kernels.dense import Config, Member, decode_item, locate_block

from workbench import EmulatorOptions
from workbench.attention import run_dense
from workbench.device import load_device
from workbench.errors import ModelError, OrderError
from workbench.inputs import make_dense_inputs
from workbench.model import CacheGeometry, L2Assumptions, l2_geometry, model_l2, replay_trace
from workbench.model.dense_order import PAIRED, decode_items, key_ranges, schedule
from workbench.model.l2_assumptions import STORES_PER_LINE
from workbench.problem import DenseAttentionProblem
from workbench.published import load_published
from workbench.scenarios import find
from workbench.spec import DenseSpec
from workbench.spec_gfx950 import Gfx950DenseSpec

MI355X = load_device("mi355x")
HEADLINE = find("dense_headline").problem
SPECS = {
    DenseSpec: DenseSpec(block_m=256, block_n=64, num_warps=8, num_stages=1, waves_per_eu=2, matrix_instr_nonkdim=32),
    Gfx950DenseSpec: Gfx950DenseSpec(wide_lds_dma=True),
}
ALL_SETS = 10**6
ORDERS = ("qb_major", "hkv_major")
SMALL = DenseAttentionProblem(
    batch=1, num_query_heads=4, num_kv_heads=2, seqlen_q=160, seqlen_kv=160, head_size=64, dtype="bf16"
)


@triton.jit
def decode_kernel(p_out, num_q_blocks, num_heads, batch, GROUP: tl.constexpr, ORDER: tl.constexpr):
    i_item = tl.program_id(0)
    i_qblock, i_head, i_batch = decode_item(i_item, num_q_blocks, num_heads, batch, GROUP, ORDER)
    tl.store(p_out + 3 * i_item, i_qblock)
    tl.store(p_out + 3 * i_item + 1, i_head)
    tl.store(p_out + 3 * i_item + 2, i_batch)


@triton.jit
def range_kernel(
    p_out, seqlen_q, seqlen_kv, BLOCK_M: tl.constexpr, CAUSAL: tl.constexpr, TOP_LEFT: tl.constexpr,
    WINDOW: tl.constexpr,
):  # fmt: skip
    cfg: tl.constexpr = Config(BLOCK_M, 16, 1, 64, 64, CAUSAL, TOP_LEFT, WINDOW, False, True, False)
    i_qblock = tl.program_id(0)
    block = locate_block(Member(0, 0, seqlen_q, seqlen_kv), i_qblock, cfg)
    tl.store(p_out + 2 * i_qblock, block.key_lo)
    tl.store(p_out + 2 * i_qblock + 1, block.key_hi)


@pytest.mark.parametrize("order", [*ORDERS, *PAIRED])
@pytest.mark.parametrize(
    ("blocks", "heads", "batch", "group"), [(5, 6, 2, 3), (4, 8, 1, 8), (6, 8, 3, 4), (1, 2, 3, 1), (4, 3, 2, 1)]
)
def test_work_items_are_the_kernels(order, blocks, heads, batch, group, device):
    if order in PAIRED and (blocks % 2 or (group == 1 and order == "gqa_pair")):
        with pytest.raises(OrderError, match="needs an even number of blocks"):
            decode_items(order, blocks, heads, batch, group)
        return
    count = blocks * heads * batch
    out = torch.empty(count, 3, dtype=torch.int32, device=device)
    decode_kernel[(count,)](out, blocks, heads, batch, GROUP=group, ORDER=order)
    items = decode_items(order, blocks, heads, batch, group)
    triples = np.stack([items.qblock, items.head, items.batch], axis=1)
    assert triples.tolist() == out.tolist()
    assert len(np.unique(triples, axis=0)) == count


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"causal": False, "seqlen_kv": 90},
        {"seqlen_q": 70, "seqlen_kv": 101},
        {"seqlen_q": 101, "seqlen_kv": 70},
        {"seqlen_q": 101, "seqlen_kv": 70, "alignment": "top_left"},
        {"sliding_window": 20},
        {"seqlen_q": 101, "seqlen_kv": 40, "sliding_window": 7, "alignment": "top_left"},
    ],
)
def test_keys_of_a_query_block_are_the_kernels(changes, device):
    problem = SMALL.with_changes(**changes)
    low, high = key_ranges(problem, 32)
    out = torch.empty(len(low), 2, dtype=torch.int32, device=device)
    range_kernel[(len(low),)](
        out, problem.seqlen_q, problem.seqlen_kv, BLOCK_M=32, CAUSAL=problem.causal,
        TOP_LEFT=problem.alignment == "top_left", WINDOW=problem.sliding_window or 0,
    )  # fmt: skip
    for mine, kernels in zip(zip(low.tolist(), high.tolist(), strict=True), out.tolist(), strict=True):
        assert mine == tuple(kernels) or (mine[0] == mine[1] and kernels[0] >= kernels[1])


def small_spec(order, **changes):
    grid = {"grid": "default"} if order == "grid" else {"num_persistent": 4, "persist_decode": order}
    return DenseSpec(block_m=32, block_n=32, num_warps=2, **grid, **changes)


@pytest.fixture(scope="module")
def traces():
    inputs = make_dense_inputs(SMALL, seed=0)
    return {
        order: run_dense(
            SMALL, inputs, spec=small_spec(order), backend="emulator", emulator=EmulatorOptions(trace=True)
        ).emulation[0].trace
        for order in (*ORDERS, "grid")
    }  # fmt: skip


def both(traces, order, xcds, ways, sets):
    """(emulated requests in the modelled cache, the model)."""
    geometry = CacheGeometry(xcds=xcds, bytes_per_xcd=ways * sets * 128, ways=ways, line_bytes=128)
    assumed = L2Assumptions(sampled_sets=ALL_SETS, workgroups_per_cu=4)
    return (
        replay_trace(traces[order], 2, geometry),
        model_l2(SMALL, small_spec(order), MI355X, order, geometry=geometry, assumptions=assumed),
    )


@pytest.mark.parametrize("order", [*ORDERS, "grid"])
@pytest.mark.parametrize("xcds", [1, 2, 4])
def test_requests_and_compulsory_misses_are_those_of_the_machine_code(traces, order, xcds):
    emulated, modelled = both(traces, order, xcds, ways=100_000, sets=1)
    assert emulated.requests.tolist() == modelled.requests.sum(axis=0).tolist()
    assert emulated.misses.tolist() == modelled.misses.sum(axis=0).tolist()
    assert modelled.hit_rate == pytest.approx(emulated.hit_rate)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("lines", [64, 128, 256])
def test_one_workgroup_per_cache_misses_exactly_as_the_machine_code_does(traces, order, lines):
    """Four programs on four XCDs: only the order of the items and of their tiles is left to decide."""
    emulated, modelled = both(traces, order, 4, ways=lines, sets=1)
    assert emulated.misses.tolist() == modelled.misses.sum(axis=0).tolist()
    assert modelled.total_misses > both(traces, order, 4, ways=100_000, sets=1)[1].total_misses


def test_with_sets_the_hit_rates_agree_within_one_point(traces):
    """The tensors lie elsewhere in the emulator's memory, so that other lines share a set."""
    for order in ORDERS:
        emulated, modelled = both(traces, order, 4, ways=8, sets=16)
        assert modelled.hit_rate == pytest.approx(emulated.hit_rate, abs=0.01)


@pytest.mark.parametrize("kind", STORES_PER_LINE)
def test_stores_per_line_are_those_of_the_machine_code(kind):
    """Two programs with one item each."""
    problem = HEADLINE.with_changes(num_query_heads=2, num_kv_heads=1, seqlen_q=256, seqlen_kv=256)
    spec = SPECS[kind].with_changes(num_persistent=2, persist_decode="qb_major")
    result = run_dense(
        problem, make_dense_inputs(problem), spec=spec, backend="emulator", emulator=EmulatorOptions(trace=True)
    )
    trace = result.emulation[0].trace
    pairs = np.stack([trace.wave // spec.num_warps, trace.line.astype(np.int64)], axis=1)
    _, stores = np.unique(pairs[trace.write], axis=0, return_counts=True)
    assert set(stores.tolist()) == {STORES_PER_LINE[kind]} == {L2Assumptions().for_spec(spec).o_requests}
    _, loads = np.unique(pairs[~trace.write], axis=0, return_counts=True)
    assert (loads.max() == 1) == (kind is DenseSpec)  # the Gluon kernel reads Q in pieces, and relies on L1


@pytest.fixture(scope="module")
def headline():
    return {order: model_l2(HEADLINE, SPECS[Gfx950DenseSpec], MI355X, order) for order in ORDERS}


@pytest.mark.parametrize(("kind", "points"), [(Gfx950DenseSpec, 2.0), (DenseSpec, 6.0)])
def test_the_published_hit_rates_come_out(kind, points):
    """MI355X, S 8192, 128/8 heads, 256 programs. The published kernel's schedule is the Gluon kernel's."""
    published = {
        order: float(row.value)
        for order in ORDERS
        for row in load_published("persist_decode")
        if row.metric == "L2 hit rate" and row.config.startswith(order)
    }
    assert published == {"qb_major": 57.0, "hkv_major": 93.0}
    results = {order: model_l2(HEADLINE, SPECS[kind], MI355X, order) for order in ORDERS}
    assert {order: 100 * result.hit_rate for order, result in results.items()} == pytest.approx(published, abs=points)
    (ratio,) = (float(row.value) for row in load_published("persist_decode") if row.metric == "misses")
    assert results["qb_major"].total_misses / results["hkv_major"].total_misses == pytest.approx(ratio, rel=1 / 3)


def test_a_sample_of_the_sets_speaks_for_all(headline):
    problem, spec = HEADLINE.with_changes(num_query_heads=16, num_kv_heads=1), SPECS[DenseSpec]
    geometry = l2_geometry(MI355X, bytes_per_xcd=256 * 16 * 128)
    sampled, whole = (
        model_l2(problem, spec, MI355X, "hkv_major", geometry=geometry, assumptions=L2Assumptions(sampled_sets=count))
        for count in (32, 256)
    )
    assert whole.hit_rate_error == 0.0 < sampled.hit_rate_error
    assert sampled.hit_rate == pytest.approx(whole.hit_rate, abs=5 * sampled.hit_rate_error)
    query_lines, key_lines = 16 * 8192 * 2, 16 * sum(range(1, 33)) * 256 * 2
    assert whole.requests.sum(axis=1).tolist() == [query_lines, key_lines, key_lines, 4 * query_lines]
    assert headline["qb_major"].hit_rate_error < 0.01
    # 32 strides of 256 programs: 16 pairs of query blocks, in each as many keys as the whole triangle has on average.
    assert headline["hkv_major"].longest_over_mean == 1.0 < headline["qb_major"].longest_over_mean


def test_results_by_xcd_and_operand(headline):
    result = headline["hkv_major"]
    assert result.requests.shape == result.misses.shape == (4, 8)
    assert (np.abs(result.hit_rate_by_xcd - result.hit_rate) < 0.02).all()
    assert result.hit_rate_of("q") == 0.0  # a query block is read once
    assert result.hit_rate_of("o") == 1 - 1 / 8
    assert result.hit_rate_of("k", "v") > result.hit_rate
    assert result.bytes_beyond_l2 == result.total_misses * 128


def test_a_paired_order_brings_its_number_of_programs():
    spec = SPECS[DenseSpec]
    quick = L2Assumptions(sampled_sets=4)
    pair, phases = (model_l2(HEADLINE, spec, MI355X, order, assumptions=quick) for order in PAIRED)
    assert (pair.num_persistent, phases.num_persistent) == (256, 2048)
    assert pair.requests.sum(axis=1).tolist() == phases.requests.sum(axis=1).tolist()
    with pytest.raises(OrderError, match="a group that 2 divides, got 32 blocks and a group of 3"):
        model_l2(HEADLINE.with_changes(num_query_heads=24), spec, MI355X, "gqa_pair")


def test_programs_wait_for_a_slot_and_phases_for_the_slowest():
    tiles = np.array([1, 2, 3, 4, 5, 6])
    plan = schedule(tiles, "grid", 0, 2, 1, L2Assumptions())
    assert plan.xcd.tolist() == [0, 1, 0, 1, 0, 1]
    assert plan.start.tolist() == [0, 0, 1, 2, 4, 6]
    free = schedule(tiles, "qb_major", 2, 1, 2, L2Assumptions())
    assert free.program.tolist() == [0, 1, 0, 1, 0, 1]
    assert free.start.tolist() == [0, 0, 1, 2, 4, 6]
    phases = schedule(tiles, "qb_major", 2, 1, 2, L2Assumptions(pace="phase"))
    assert phases.start.tolist() == [0, 0, 2, 2, 6, 6]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: L2Assumptions(pace="bound"), "pace must be 'free' or 'phase', got 'bound'"),
        (lambda: L2Assumptions(drift=1.5), "drift must be"),
        (lambda: L2Assumptions(kv_requests=0), "kv_requests must be an integer >= 1, got 0"),
        (
            lambda: model_l2(SMALL, small_spec("grid"), MI355X, "hq_major"),
            "order must be one of grid, qb_major, hkv_maj",
        ),
        (
            lambda: model_l2(SMALL, small_spec("grid"), MI355X, "qb_major", num_persistent=0),
            "num_persistent must be >= 1",
        ),
        (
            lambda: model_l2(SMALL.with_changes(seqlen_q=0), small_spec("grid"), MI355X, "grid"),
            "asks nothing of the L2",
        ),
    ],
)
def test_what_cannot_be_modelled_says_so(call, message):
    with pytest.raises(ModelError, match=message):
        call()


def test_a_trace_needs_its_own_line_size(traces):
    wide = CacheGeometry(xcds=1, bytes_per_xcd=1 << 20, ways=16, line_bytes=256)
    with pytest.raises(ModelError, match="lines of 128 bytes, the cache has 256"):
        replay_trace(traces["grid"], 2, wide)
