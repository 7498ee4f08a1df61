"""The attention kernels, compiled for gfx950 by every Triton version at hand, executed instruction by instruction."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from tests import edge_cases
from workbench.attention import run_dense, run_unified
from workbench.compiler import triton_versions
from workbench.dtypes import torch_dtype
from workbench.errors import EmulationError
from workbench.gfx950.emulator import plan
from workbench.inputs import make_dense_inputs, make_unified_inputs
from workbench.poison import fill_nan, poisoned_output
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.reference import dense_eager, dense_reference, unified_eager, unified_reference
from workbench.spec import DenseSpec, Unified2DSpec, Unified3DSpec
from workbench.tolerance import compare

SMALL: dict[str, Any] = {"block_m": 16, "tile_size": 32, "num_warps": 2}
SPECS = {"2d": Unified2DSpec(**SMALL), "3d": Unified3DSpec(**SMALL, num_segments=4)}
PROBLEM: dict[str, Any] = {
    "seq_lens": ((1, 40), (6, 33), (11, 11), (0, 5), (1, 100)), "num_query_heads": 4, "num_kv_heads": 2,
    "head_size": 64, "block_size": 16,
}  # fmt: skip
EVERYTHING: dict[str, Any] = {
    "sliding_window": 17, "softcap": 5.0, "use_alibi": True, "use_qq_bias": True, "use_sinks": True,
}  # fmt: skip
FEATURES: dict[str, dict[str, Any]] = {
    "plain bf16": {},
    "plain fp16, d128": {"dtype": "fp16", "head_size": 128},
    "fp32": {"dtype": "fp32"},
    "all biases, window": EVERYTHING,
    "biases": EVERYTHING | {"sliding_window": None},
    "fp8 cache": {"kv_dtype": "fp8_e4m3"},
    "fp8 cache and query, softcap": {"q_dtype": "fp8_e4m3", "kv_dtype": "fp8_e4m3", "softcap": 3.0},
    "group of 5": {"num_query_heads": 5, "num_kv_heads": 1},
    "group of 7, decode": {"num_query_heads": 14, "seq_lens": ((1, 40), (1, 100))},
}
LEVERS: dict[str, dict[str, Any]] = {
    "i64": {"i64_addressing": True},
    "transposed 32 x 32": {"transposed_qk": True, "block_m": 32, "matrix_instr_nonkdim": 32},
    "lazy": {"lazy_rescale": True},
    "global loads": {"buffer_ops": False},
    "one mask": {"mask_once": True, "mask_split": False},
    "denormals kept": {"flush_denormals": False},
}


@pytest.fixture(params=triton_versions())
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Makes backend="emulator" compile with one Triton version."""
    chosen = str(request.param)
    monkeypatch.setattr(plan, "emulate_plan", partial(plan.emulate_plan, triton_version=chosen))
    return chosen


def _check_unified(fields: dict[str, Any], spec: Unified2DSpec | Unified3DSpec) -> None:
    problem = UnifiedAttentionProblem(**(PROBLEM | {"dtype": "bf16"} | fields))
    inputs = make_unified_inputs(problem, seed=0)
    before = inputs.clone()
    out = poisoned_output(problem, "cpu")
    result = run_unified(problem, inputs, spec=spec, backend="emulator", out=out)
    comparison = compare(out, unified_reference(problem, inputs), unified_eager(problem, inputs), problem.dtype)
    assert comparison.ok, comparison.describe()
    assert inputs.changed_since(before) == ()
    assert result.backend == "emulator"


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("lane", SPECS)
@pytest.mark.parametrize("feature", FEATURES)
def test_unified_features(feature: str, lane: str) -> None:
    _check_unified(FEATURES[feature], SPECS[lane])


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("lever", LEVERS)
def test_unified_levers(lever: str) -> None:
    _check_unified({}, SPECS["2d"].with_changes(**LEVERS[lever]))


ASYNC: dict[str, Any] = {"async_copy": True, "num_stages": 3, "block_m": 64}


@pytest.mark.parametrize("version", ["3.9.0"], indirect=True)
def test_async_copy(version: str) -> None:
    _check_unified({}, SPECS["2d"].with_changes(**ASYNC))
    assert version == "3.9.0"


@pytest.mark.skipif("3.6.0" not in triton_versions(), reason="Triton 3.6.0 is not at hand")
@pytest.mark.parametrize("version", ["3.6.0"], indirect=True)
def test_async_copy_of_triton_3_6_races(version: str) -> None:
    """Between the last tile of the unmasked loop and the first load of the masked one, Triton 3.6.0 puts no barrier."""
    with pytest.raises(EmulationError, match=r"lds-race: .* buffer_load_dwordx4 .* lds: .* write by wave 0 races"):
        _check_unified({}, SPECS["2d"].with_changes(**ASYNC))
    assert version == "3.6.0"


@pytest.mark.usefixtures("version")
def test_native_fp8_product() -> None:
    _check_unified({"q_dtype": "fp8_e4m3", "kv_dtype": "fp8_e4m3"}, SPECS["2d"].with_changes(fp8_native_qk=True))


DENSE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "default grid": ({}, {"grid": "default"}),
    "persistent, query blocks first": ({}, {"num_persistent": 3, "persist_decode": "qb_major"}),
    "persistent, KV heads first": ({"num_query_heads": 8}, {"num_persistent": 3, "persist_decode": "hkv_major"}),
    "ragged": ({"seqlen_q": 70, "seqlen_kv": 101}, {"num_persistent": 3, "persist_decode": "qb_major"}),
    "full, group of 3": ({"causal": False, "num_query_heads": 6}, {"grid": "default"}),
    "window and sinks": ({"sliding_window": 20, "use_sinks": True}, {"grid": "default"}),
    "fp16, d128": ({"head_size": 128, "dtype": "fp16"}, {"grid": "default"}),
}


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("case", DENSE)
def test_dense(case: str) -> None:
    fields, levers = DENSE[case]
    common = {"batch": 1, "num_query_heads": 4, "num_kv_heads": 2, "seqlen_q": 80, "seqlen_kv": 80, "head_size": 64}
    problem = DenseAttentionProblem(**(common | {"dtype": "bf16"} | fields))
    inputs = make_dense_inputs(problem, seed=0)
    out = torch.empty(inputs.q.shape, dtype=torch_dtype(problem.dtype))
    fill_nan(out)
    run_dense(problem, inputs, spec=DenseSpec(block_m=64, block_n=32, **levers), backend="emulator", out=out)
    comparison = compare(out, dense_reference(problem, inputs), dense_eager(problem, inputs), problem.dtype)
    assert comparison.ok, comparison.describe()


@pytest.mark.parametrize("lane", SPECS)
@pytest.mark.parametrize("name", edge_cases.UNIFIED_CASES)
def test_edge_cases(name: str, lane: str) -> None:
    case = edge_cases.UNIFIED_CASES[name]("fp16")
    out = poisoned_output(case.problem, "cpu")
    run_unified(case.problem, case.inputs, spec=SPECS[lane], backend="emulator", out=out)
    edge_cases.assert_right(case, out, "fp16")


@pytest.mark.parametrize("name", ["fp8_e4m3 cache, block 131072", "compute dtype cache, block 65536"])
def test_block_beyond_2_gib(name: str) -> None:
    case = edge_cases.HUGE_CASES[name]("bf16")
    out = poisoned_output(case.problem, "cpu")
    run_unified(case.problem, case.inputs, spec=SPECS["2d"], backend="emulator", out=out)
    edge_cases.assert_right(case, out, "bf16")


def test_any_order_of_waves_and_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "emulate_plan", partial(plan.emulate_plan, seed=1))
    _check_unified({}, SPECS["2d"])
