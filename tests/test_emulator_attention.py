"""The attention kernels, compiled for gfx950 by every Triton version at hand, executed instruction by instruction."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
import torch

from tests.emulated import AHEAD_OF_THE_BRANCH, GRID, PERSISTENT, SMALL, SPECS, VERSIONS, in_turn, run, run_packed
from workbench.attention import run_unified
from workbench.compiler import triton_versions
from workbench.errors import BackendUnavailable, EmulationError, TritonVersionError
from workbench.gfx950.emulator import EmulatorOptions
from workbench.inputs import make_dense_inputs, make_unified_inputs
from workbench.poison import poisoned_output
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.reference import (
    dense_eager,
    dense_reference,
    dense_reference_varlen,
    unified_eager,
    unified_reference,
)
from workbench.spec import DenseSpec, Unified2DSpec, Unified3DSpec
from workbench.tolerance import compare

PROBLEM: dict[str, Any] = {
    "seq_lens": ((1, 40), (6, 33), (11, 11), (0, 5), (1, 100)), "num_query_heads": 4, "num_kv_heads": 2,
    "head_size": 64, "block_size": 16, "dtype": "bf16",
}  # fmt: skip
FP8: dict[str, Any] = {"q_dtype": "fp8_e4m3", "kv_dtype": "fp8_e4m3"}
EVERYTHING: dict[str, Any] = {
    "sliding_window": 17, "softcap": 5.0, "use_alibi": True, "use_qq_bias": True, "use_sinks": True,
}  # fmt: skip
FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "fp32, softcap": {"dtype": "fp32", "softcap": 50.0},
    "window": {"sliding_window": 17},
    "softcap": {"softcap": 5.0},
    "ALiBi": {"use_alibi": True},
    "QQ bias": {"use_qq_bias": True},
    "sinks": {"use_sinks": True},
    "all biases, window": EVERYTHING,
    "biases": EVERYTHING | {"sliding_window": None},
    "fp8 cache": {"kv_dtype": "fp8_e4m3"},
    "fp8 cache and query": FP8,
    "fp8 cache and query, all biases": FP8 | EVERYTHING,
    "group of 5": {"num_query_heads": 5, "num_kv_heads": 1},
    "group of 7, decode": {"num_query_heads": 14, "seq_lens": ((1, 40), (1, 100))},
}
SHAPES: dict[str, dict[str, Any]] = {
    "fp16, d128": {"dtype": "fp16", "head_size": 128},
    "window of one": {"sliding_window": 1},
    "blocks of 32": {"block_size": 32},
    "blocks of 64, d80": {"block_size": 64, "head_size": 80},
    "d16": {"head_size": 16},
    # Loads of single elements, more of them than the counter of outstanding ones can hold.
    "fp16, d72": {"head_size": 72, "dtype": "fp16"},
}
LEVERS: dict[str, dict[str, Any]] = {
    "i64": {"i64_addressing": True},
    "transposed 32 x 32": {"transposed_qk": True, "block_m": 32, "matrix_instr_nonkdim": 32},
    "lazy": {"lazy_rescale": True},
    "one mask": {"mask_once": True, "mask_split": False},
    "one limit": {"mask_limit": True},
    "denormals kept": {"flush_denormals": False},
    "pages ahead, late sum": {"pages_ahead": True, "late_sum": True},
}


def emulated_by(version: str) -> EmulatorOptions:
    """Compiled by that Triton; every load arrives as late as its wait allows."""
    return EmulatorOptions(triton_version=version)


@pytest.fixture(params=VERSIONS)
def options(request: pytest.FixtureRequest) -> EmulatorOptions:
    """Compiled by each Triton version; every load arrives as late as its wait allows."""
    return EmulatorOptions(triton_version=request.param)


def _check_unified(
    fields: dict[str, Any],
    spec: Unified2DSpec | Unified3DSpec | None,
    options: EmulatorOptions,
    allowed: Collection[str] = (),
) -> torch.Tensor:
    problem = UnifiedAttentionProblem(**(PROBLEM | fields))
    inputs = make_unified_inputs(problem, seed=0)
    out = run(problem, inputs, spec, options, allowed).out
    comparison = compare(out, unified_reference(problem, inputs), unified_eager(problem, inputs), problem.dtype)
    assert comparison.ok, comparison.describe()
    return out


@pytest.mark.parametrize(("lane", "version"), in_turn(SPECS))
@pytest.mark.parametrize("feature", list(FEATURES)[::2])
def test_unified_features(feature: str, lane: str, version: str) -> None:
    """Every feature meets both lanes and both Tritons; the other half of them crosswise."""
    _check_unified(FEATURES[feature], SPECS[lane], emulated_by(version))


@pytest.mark.parametrize(("lane", "version"), in_turn(reversed(SPECS)))
@pytest.mark.parametrize("feature", list(FEATURES)[1::2])
def test_unified_features_crosswise(feature: str, lane: str, version: str) -> None:
    _check_unified(FEATURES[feature], SPECS[lane], emulated_by(version))


@pytest.mark.parametrize(("shape", "version"), in_turn(SHAPES))
def test_unified_shapes(shape: str, version: str) -> None:
    """Shapes that every lane and Triton treats alike: both lanes and both Tritons over all of them."""
    lane = list(SPECS)[list(SHAPES).index(shape) // 2 % 2]
    _check_unified(SHAPES[shape], SPECS[lane], emulated_by(version))


@pytest.mark.parametrize("lever", LEVERS)
@pytest.mark.parametrize(("lane", "version"), in_turn(SPECS))
def test_unified_levers(lever: str, lane: str, version: str) -> None:
    """Every lever meets both lanes, and both Tritons."""
    _check_unified({}, SPECS[lane].with_changes(**LEVERS[lever]), emulated_by(version))


def test_global_loads(options: EmulatorOptions) -> None:
    _check_unified({}, SPECS["2d"].with_changes(buffer_ops=False), options, AHEAD_OF_THE_BRANCH)


def test_the_fused_reduction_in_any_order(options: EmulatorOptions) -> None:
    fused = Unified3DSpec(**SMALL, num_segments=4, fused_reduce=True)
    expected = _check_unified({"use_sinks": True}, fused, options)
    seeded = EmulatorOptions(triton_version=options.triton_version, seed=1)
    assert torch.equal(_check_unified({"use_sinks": True}, fused, seeded), expected)


@pytest.mark.parametrize(("fields", "version"), in_turn([{}, EVERYTHING]), ids=["plain", "all biases, window"])
def test_the_dispatched_spec(fields: dict[str, Any], version: str) -> None:
    _check_unified(fields, None, emulated_by(version))


def test_native_fp8_product(options: EmulatorOptions) -> None:
    _check_unified(FP8, SPECS["2d"].with_changes(fp8_native_qk=True), options)


def test_fp8_in_fp16(options: EmulatorOptions) -> None:
    _check_unified({"kv_dtype": "fp8_e4m3"}, SPECS["2d"].with_changes(fp8_in_fp16=True, pages_ahead=True), options)


ASYNC: dict[str, Any] = {"async_copy": True, "num_stages": 3, "block_m": 64}


@pytest.mark.parametrize("seed", [None, 1])
def test_async_copy(seed: int | None) -> None:
    options = EmulatorOptions(triton_version="3.9.0", seed=seed)
    _check_unified({}, SPECS["2d"].with_changes(**ASYNC), options, AHEAD_OF_THE_BRANCH)


@pytest.mark.skipif("3.6.0" not in triton_versions(), reason="Triton 3.6.0 is not at hand")
def test_async_copy_of_triton_3_6_races() -> None:
    """Between the last tile of the unmasked loop and the first load of the masked one, Triton 3.6.0 puts no barrier."""
    with pytest.raises(EmulationError, match=r"lds-race: .* buffer_load_dwordx4 .* lds: .* write by wave 0 races"):
        _check_unified({}, SPECS["2d"].with_changes(**ASYNC), EmulatorOptions(triton_version="3.6.0"))


QB, HKV = ({"persist_decode": order} for order in ("qb_major", "hkv_major"))
DENSE: dict[str, tuple[dict[str, Any], DenseSpec]] = {
    "default grid": ({}, GRID),
    "persistent, query blocks first": ({"batch": 2}, PERSISTENT.with_changes(**QB)),
    "persistent, KV heads first": ({"batch": 2, "num_query_heads": 8}, PERSISTENT.with_changes(**HKV)),
    "ragged": ({"seqlen_q": 70, "seqlen_kv": 101}, PERSISTENT),
    "more queries than keys": ({"seqlen_q": 101, "seqlen_kv": 70}, GRID),
    "top left": ({"seqlen_q": 70, "seqlen_kv": 101, "alignment": "top_left"}, GRID),
    "full, group of 3": ({"causal": False, "num_query_heads": 6}, GRID),
    "group of 5": ({"num_query_heads": 5, "num_kv_heads": 1}, GRID),
    "window and sinks": ({"sliding_window": 20, "use_sinks": True}, GRID),
    "window": ({"sliding_window": 20}, PERSISTENT),
    "group of 7": ({"num_query_heads": 14}, PERSISTENT),
    "sinks": ({"use_sinks": True}, GRID),
    "fp16, d128": ({"head_size": 128, "dtype": "fp16"}, GRID),
    "fp32, d80": ({"head_size": 80, "dtype": "fp32"}, GRID),
    "transposed, one masked loop": ({}, GRID.with_changes(transposed_qk=True, mask_split=False)),
    "rescale every tile": ({}, GRID.with_changes(lazy_rescale=False)),
}


def _check_dense(fields: dict[str, Any], spec: DenseSpec | None, options: EmulatorOptions) -> torch.Tensor:
    common = {"batch": 1, "num_query_heads": 4, "num_kv_heads": 2, "seqlen_q": 80, "seqlen_kv": 80, "head_size": 64}
    problem = DenseAttentionProblem(**(common | {"dtype": "bf16"} | fields))
    inputs = make_dense_inputs(problem, seed=0)
    out = run(problem, inputs, spec, options).out
    comparison = compare(out, dense_reference(problem, inputs), dense_eager(problem, inputs), problem.dtype)
    assert comparison.ok, comparison.describe()
    return out


@pytest.mark.parametrize(("case", "version"), in_turn(DENSE))
def test_dense(case: str, version: str) -> None:
    _check_dense(*DENSE[case], emulated_by(version))


def test_the_dispatched_dense_spec(options: EmulatorOptions) -> None:
    _check_dense({}, None, options)


PACKED: dict[str, dict[str, Any]] = {
    "causal": {},
    "top-left window": {"alignment": "top_left", "sliding_window": 9},
    "full": {"causal": False},
}


def _check_packed(mask: dict[str, Any], options: EmulatorOptions) -> torch.Tensor:
    """Members of ragged lengths, one without queries; NaN after the last token."""
    query_lens, kv_lens = [40, 0, 1, 33], [40, 5, 70, 20]
    generator = torch.Generator().manual_seed(0)

    def operand(lens: list[int], heads: int) -> torch.Tensor:
        held = torch.randn(sum(lens) + 1, heads, 64, generator=generator).half()
        held[-1] = torch.nan
        return held[:-1]

    def running(lens: list[int]) -> torch.Tensor:
        return torch.tensor([0, *lens]).cumsum(0).int()

    operands = operand(query_lens, 4), operand(kv_lens, 2), operand(kv_lens, 2)
    lengths = running(query_lens), running(kv_lens)
    packing = {"cu_seqlens_q": lengths[0], "cu_seqlens_k": lengths[1], "max_seqlen_q": max(query_lens)}
    out = run_packed(operands, options, **packing, **mask)
    float32 = dense_reference_varlen(*operands, *lengths, **mask, dtype=torch.float32)
    comparison = compare(out, dense_reference_varlen(*operands, *lengths, **mask), float32.half(), "fp16")
    assert comparison.ok, comparison.describe()
    return out


@pytest.mark.parametrize("mask", PACKED)
def test_dense_varlen(mask: str, options: EmulatorOptions) -> None:
    _check_packed(PACKED[mask], options)


# In an order in which each case has the Triton version that the tests above compiled it with.
ANY_ORDER: dict[str, tuple[Any, ...]] = {
    **{f"{lane}, all biases, window": (_check_unified, EVERYTHING, SPECS[lane]) for lane in reversed(SPECS)},
    **{f"{lane}, fp8": (_check_unified, FP8, SPECS[lane]) for lane in SPECS},
    "2d, group of 5": (_check_unified, FEATURES["group of 5"], SPECS["2d"]),
    "dense, query blocks first": (_check_dense, *DENSE["persistent, query blocks first"]),
    "dense, window and sinks": (_check_dense, *DENSE["window and sinks"]),
    "packed": (_check_packed, PACKED["causal"]),
    "dense, KV heads first": (_check_dense, *DENSE["persistent, KV heads first"]),
}


@pytest.mark.parametrize(("case", "version"), in_turn(ANY_ORDER))
def test_any_order_of_waves_and_loads(case: str, version: str) -> None:
    """Whatever order the waves take, and whenever between request and wait a load arrives: the same bits."""
    check, *arguments = ANY_ORDER[case]
    expected = check(*arguments, emulated_by(version))
    for seed in (1, 2):
        seeded = EmulatorOptions(triton_version=version, seed=seed)
        assert torch.equal(check(*arguments, seeded), expected)


def test_options_that_do_not_fit_are_refused_before_anything_runs() -> None:
    problem = UnifiedAttentionProblem(**PROBLEM)
    inputs, out = make_unified_inputs(problem), poisoned_output(problem)
    with pytest.raises(BackendUnavailable, match="go with backend='emulator', got backend='interpreter'"):
        run_unified(problem, inputs, backend="interpreter", out=out, emulator=EmulatorOptions())
    with pytest.raises(TritonVersionError, match=r"Triton 1\.0\.0 is not available"):
        run_unified(problem, inputs, backend="emulator", out=out, emulator=EmulatorOptions(triton_version="1.0.0"))
    with pytest.raises(EmulationError, match="seed must be None or an integer >= 0, got -1"):
        EmulatorOptions(seed=-1)
    assert out.isnan().all()
