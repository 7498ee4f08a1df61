"""The Gluon dense kernel for Hopper: it compiles without spills, its limits are named; on a Hopper GPU it is right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from workbench.attention import dense_attention, run_dense
from workbench.attention.gluon_limits import tensor_map_obstacle
from workbench.compiler import CompiledKernel, compile_many, triton_versions
from workbench.compiler.plans import dense_call
from workbench.compiler.variants import build_requests
from workbench.device import load_device
from workbench.dispatch import select_dense_spec
from workbench.errors import SpecError
from workbench.inputs import make_dense_inputs
from workbench.poison import poisoned_output
from workbench.problem import DenseAttentionProblem
from workbench.reference import dense_eager, dense_reference
from workbench.spec import DenseSpec
from workbench.spec_sm90 import Sm90DenseSpec
from workbench.tolerance import compare

H200 = load_device("h200")
BASE: dict[str, Any] = {
    "batch": 1, "num_query_heads": 2, "num_kv_heads": 1, "seqlen_q": 256, "seqlen_kv": 256, "head_size": 128,
}  # fmt: skip
SHAPES: dict[str, dict[str, Any]] = {
    "ragged, group of 5": {"seqlen_q": 200, "seqlen_kv": 200, "num_query_heads": 5},
    "many tiles": {"seqlen_q": 1100, "seqlen_kv": 1100, "num_query_heads": 8, "num_kv_heads": 2, "batch": 2},
    "not causal, ragged, sinks, fp16": {"seqlen_q": 130, "seqlen_kv": 100, "causal": False, "use_sinks": True}
    | {"dtype": "fp16"},
    "d64, group of 7, more keys": {"seqlen_q": 130, "seqlen_kv": 300, "head_size": 64, "num_query_heads": 7},
    "d64, MHA, batch": {"batch": 2, "num_kv_heads": 2, "head_size": 64, "seqlen_q": 128, "seqlen_kv": 128},
    "rows before the first key": {"seqlen_q": 400, "seqlen_kv": 70},
    "top left": {"seqlen_q": 130, "seqlen_kv": 260, "alignment": "top_left", "use_sinks": True},
}
LEVERS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "default grid": {"grid": "default"},
    "qb_major": {"persist_decode": "qb_major", "num_persistent": 3},
    "hkv_major": {"persist_decode": "hkv_major", "num_persistent": 4},
    "tiles of 64, four buffers": {"block_n": 64, "num_buffers": 4},
    "no overlap": {"overlap": False},
    "one masked loop": {"mask_split": False},
}


def _is_hopper() -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9


on_hopper = pytest.mark.skipif(not _is_hopper(), reason="PyTorch sees no Hopper GPU")


def _check(fields: dict[str, Any], spec: Sm90DenseSpec) -> None:
    problem = DenseAttentionProblem(**(BASE | fields))
    inputs = make_dense_inputs(problem, seed=0, device="cuda")
    out = poisoned_output(problem, "cuda")
    run_dense(problem, inputs, spec=spec, out=out)
    comparison = compare(out, dense_reference(problem, inputs), dense_eager(problem, inputs), problem.dtype)
    assert comparison.ok, comparison.describe()


@on_hopper
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str) -> None:
    _check(SHAPES[shape], Sm90DenseSpec())


@on_hopper
@pytest.mark.parametrize("lever", LEVERS)
def test_levers(lever: str) -> None:
    _check(SHAPES["many tiles"], Sm90DenseSpec(**LEVERS[lever]))


@on_hopper
def test_strides_without_a_tensor_map_fall_back() -> None:
    q, k, v = (torch.randn(1, 256, 2, 130, dtype=torch.bfloat16, device="cuda")[..., :128] for _ in range(3))
    out = dense_attention(q, k, v)
    torch.testing.assert_close(out, dense_attention(q.contiguous(), k.contiguous(), v.contiguous()), atol=0.02, rtol=0)


@pytest.mark.parametrize("version", triton_versions())
@pytest.mark.parametrize("head_size", [64, 128])
def test_compiles_within_the_registers_of_its_warps(head_size: int, version: str) -> None:
    """12 warps share 65536 registers, 168 each at the start; a spill would take stack."""
    problem = DenseAttentionProblem(**(BASE | {"head_size": head_size}))
    (kernel,) = compile_many(build_requests(problem, Sm90DenseSpec(), target="sm_90", triton_version=version))
    assert isinstance(kernel, CompiledKernel), kernel
    assert kernel.registers is not None
    assert (kernel.registers.vgprs, kernel.registers.scratch_bytes) == (168, 0)
    assert kernel.lds_bytes <= Sm90DenseSpec().shared_bytes(head_size)
    assert "wgmma.mma_async" in kernel.assembly
    assert "cp.async.bulk.tensor" in kernel.assembly


def test_dispatch_takes_it_where_it_serves() -> None:
    problem = DenseAttentionProblem(**(BASE | {"num_query_heads": 8}))
    assert select_dense_spec(problem, H200).spec == Sm90DenseSpec(persist_decode="qb_major")
    for changes in ({"head_size": 96}, {"sliding_window": 64}, {"dtype": "fp32"}, {"seqlen_q": 64}, {"seqlen_kv": 0}):
        assert isinstance(select_dense_spec(problem.with_changes(**changes), H200).spec, DenseSpec), changes
    assert isinstance(select_dense_spec(problem, load_device("b200")).spec, DenseSpec)
    assert isinstance(select_dense_spec(problem, H200, portable=True).spec, DenseSpec)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"block_m": 64}, "block_m must be 128"),
        ({"block_n": 32}, "block_n must be 64 or 128"),
        ({"num_buffers": 1}, "num_buffers must be 2..8"),
        ({"lazy_rescale": True}, "no lazy_rescale"),
        ({"waves_per_eu": 2}, "waves_per_eu is for AMD"),
    ],
)
def test_a_spec_outside_its_limits_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        Sm90DenseSpec(**fields)


def test_other_devices_and_too_much_shared_memory_are_refused() -> None:
    with pytest.raises(SpecError, match="for sm_90, not for gfx950"):
        Sm90DenseSpec().check_device(load_device("mi355x"))
    with pytest.raises(SpecError, match="of shared memory"):
        Sm90DenseSpec(num_buffers=4).check(DenseAttentionProblem(**BASE))


def test_a_stride_of_no_multiple_of_16_bytes_has_no_tensor_map() -> None:
    call = dense_call(DenseAttentionProblem(**BASE))
    assert tensor_map_obstacle(call) is None
    odd = torch.empty(1, 256, 1, 130, dtype=torch.bfloat16, device="meta")[..., :128]
    assert "k and its strides" in str(tensor_map_obstacle(replace(call, k=odd)))
