"""Counters for kernels that count arrivals: who owns them, and that every launch leaves them at zero."""

from dataclasses import replace

import pytest
import torch

from workbench import arrivals
from workbench.arrivals import arrival_counters
from workbench.attention import run_unified
from workbench.compiler.plans import plan_without_storage
from workbench.device import load_device
from workbench.errors import SpecError
from workbench.inputs import make_unified_inputs
from workbench.problem import UnifiedAttentionProblem
from workbench.spec import Unified3DSpec

SPEC = Unified3DSpec(block_m=16, tile_size=16, num_segments=8, fused_reduce=True)
DECODE = UnifiedAttentionProblem(((1, 100), (1, 37), (0, 4)), 8, 2, 64, 16, dtype="fp16")


def test_calls_in_graphs_share_no_counter():
    reserve = arrivals._Reserve(torch.zeros(20, dtype=torch.int32))
    first, second = reserve.take(5), reserve.take(9)
    assert (first.numel(), second.numel()) == (5, 9)
    assert second.data_ptr() - first.data_ptr() == 32
    assert reserve.take(1) is None
    assert reserve.taken == 20


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201"])
def test_rdna_is_refused_for_it_counts_stores_apart(arch):
    """`s_waitcnt vmcnt(0)` waits for stores on gfx9 only; gfx10 and later count them apart from loads."""
    rdna = replace(load_device("mi355x"), arch=arch, wave_size=32)
    with pytest.raises(SpecError, match=f"gfx9 GPUs .* this one is {arch}; use fused_reduce=False"):
        run_unified(DECODE, make_unified_inputs(DECODE), spec=SPEC, device=rdna)
    with pytest.raises(SpecError, match="fused_reduce"):
        plan_without_storage(DECODE, SPEC, rdna)
    assert len(plan_without_storage(DECODE, SPEC.with_changes(fused_reduce=False), rdna)) == 2
    assert len(plan_without_storage(DECODE, SPEC, load_device("mi300x"))) == 1


def test_a_counter_for_each_block_and_head_on_the_tensors_device():
    counters = arrival_counters(torch.empty(3, device="meta"), 6)
    assert (counters.dtype, counters.numel(), counters.device.type) == (torch.int32, 6, "meta")


def test_every_launch_leaves_its_counters_at_zero(device, monkeypatch):
    counters = torch.zeros(6, dtype=torch.int32, device=device)
    monkeypatch.setattr("workbench.plan_unified.arrival_counters", lambda like, count: counters[:count])
    inputs = make_unified_inputs(DECODE, device=device)
    outs = [run_unified(DECODE, inputs, spec=SPEC).out.clone() for _ in range(2)]
    assert torch.equal(*outs)
    assert not counters.any()
    # Far from its limit a counter only grows: the launches did count in these.
    counters[0] = 100
    run_unified(DECODE, inputs, spec=SPEC)
    assert counters[0] > 100


@pytest.mark.gpu
def test_a_stream_keeps_its_buffer_and_another_gets_its_own():
    like = torch.empty(1, device="cuda")
    here = arrival_counters(like, 10)
    assert arrival_counters(like, 20).data_ptr() == here.data_ptr()
    with torch.cuda.stream(torch.cuda.Stream()):
        assert arrival_counters(like, 10).data_ptr() != here.data_ptr()


@pytest.mark.gpu
def test_a_graph_replays_beside_eager_calls():
    inputs = make_unified_inputs(DECODE, device="cuda")
    expected = run_unified(DECODE, inputs, spec=SPEC).out.clone()
    out = torch.empty_like(expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            run_unified(DECODE, inputs, spec=SPEC, out=out)
    stream = torch.cuda.Stream()
    for _ in range(20):
        with torch.cuda.stream(stream):
            graph.replay()
        eager = run_unified(DECODE, inputs, spec=SPEC).out
    torch.cuda.synchronize()
    assert torch.equal(out, expected)
    assert torch.equal(eager, expected)
