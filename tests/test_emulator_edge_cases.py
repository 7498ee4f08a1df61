"""Inputs on which attention kernels elsewhere went wrong, through the gfx950 code of every Triton version at hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.edge_cases import (
    DENSE_CASES,
    HUGE_CASES,
    MANY_SEQUENCES,
    UNIFIED_CASES,
    VARLEN_CASES,
    EdgeCase,
    assert_right,
    table_too_narrow,
    window_empties_segments,
)
from tests.emulated import AHEAD_OF_THE_BRANCH, GRID, PERSISTENT, SPECS, in_turn, run, run_packed, watched
from workbench.attention import run_unified
from workbench.errors import TensorError
from workbench.gfx950.emulator import EmulatorOptions
from workbench.inputs import DenseInputs, make_dense_inputs, make_unified_inputs
from workbench.poison import fill_nan
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.reference import dense_eager, dense_reference, unified_eager, unified_reference
from workbench.spec import Unified2DSpec, Unified3DSpec
from workbench.tolerance import compare

# Cases of either kind share their machine code where they can.
DECODE = [name for name in UNIFIED_CASES if UNIFIED_CASES[name]("fp16").problem.max_query_len == 1]
PREFILL = [name for name in UNIFIED_CASES if name not in DECODE]
NAN_OUTSIDE = [name for name in UNIFIED_CASES if "before the window" in name or "slots" in name]
INSTALLED = EmulatorOptions()


def _check(case: EdgeCase, spec: Unified2DSpec | Unified3DSpec, options: EmulatorOptions, dtype: str) -> None:
    assert_right(case, run(case.problem, case.inputs, spec, options).out, dtype)


@pytest.mark.parametrize(("lane", "version"), in_turn(SPECS))
@pytest.mark.parametrize("name", DECODE)
def test_decode(name: str, lane: str, version: str) -> None:
    """Every case meets both lanes and both Tritons; those below crosswise."""
    _check(UNIFIED_CASES[name]("fp16"), SPECS[lane], EmulatorOptions(triton_version=version), "fp16")


@pytest.mark.parametrize(("lane", "version"), in_turn(reversed(SPECS)))
@pytest.mark.parametrize("name", PREFILL)
def test_prefill(name: str, lane: str, version: str) -> None:
    _check(UNIFIED_CASES[name]("fp16"), SPECS[lane], EmulatorOptions(triton_version=version), "fp16")


OTHERS = [*NAN_OUTSIDE, "softcap saturates", "equal scores of 64"]


@pytest.mark.parametrize(("name", "dtype"), list(zip(OTHERS, ["bf16", "fp32"] * 5, strict=True)))
def test_other_dtypes(name: str, dtype: str) -> None:
    _check(UNIFIED_CASES[name](dtype), SPECS["2d"], INSTALLED, dtype)


@pytest.mark.parametrize("levers", [{"transposed_qk": True}, {"mask_split": False}, {"fast_paged_kv": False}], ids=str)
@pytest.mark.parametrize("name", [name for name in NAN_OUTSIDE if name.endswith(("window, q=1", "q=17"))])
def test_nan_in_memory_that_no_key_owns_stays_out_under_every_lever(name: str, levers: dict[str, bool]) -> None:
    _check(UNIFIED_CASES[name]("bf16"), SPECS["2d"].with_changes(**levers), INSTALLED, "bf16")


@pytest.mark.parametrize(("num_segments", "version"), in_turn([1, 2, 8, 32]))
def test_the_result_does_not_depend_on_empty_segments(num_segments: int, version: str) -> None:
    options = EmulatorOptions(triton_version=version)
    spec = SPECS["3d"].with_changes(num_segments=num_segments)
    _check(window_empties_segments("fp32"), spec, options, "fp32")


@pytest.mark.parametrize(("lane", "version"), in_turn(SPECS))
def test_a_thousand_sequences_half_of_them_empty(lane: str, version: str) -> None:
    _check(MANY_SEQUENCES("fp32"), SPECS[lane], EmulatorOptions(triton_version=version), "fp32")


@pytest.mark.parametrize("lane", SPECS)
@pytest.mark.parametrize(("name", "version"), in_turn(HUGE_CASES))
def test_blocks_beyond_2_gib(name: str, lane: str, version: str) -> None:
    case, options = HUGE_CASES[name]("bf16"), EmulatorOptions(triton_version=version)
    assert case.problem.needs_i64_addressing
    assert_right(case, run(case.problem, case.inputs, SPECS[lane], options, AHEAD_OF_THE_BRANCH).out, "bf16")


def test_a_table_too_narrow_is_refused_before_launch() -> None:
    case = table_too_narrow("fp32")
    with pytest.raises(TensorError, match="sequence 0 has 40 keys, but its block-table row of width 2 holds 32"):
        run_unified(case.problem, case.inputs, backend="emulator")


@pytest.mark.parametrize("lane", SPECS)
def test_a_batch_of_empty_sequences_alone(lane: str) -> None:
    """No query: nothing is launched. No key either: the cache still has a block, which is not read."""
    problem = UnifiedAttentionProblem(((0, 0), (0, 40)), num_query_heads=2, num_kv_heads=1, head_size=64, block_size=16)
    result = run(problem, make_unified_inputs(problem), SPECS[lane], INSTALLED)
    assert result.out.shape == (0, 2, 64)
    assert result.emulation == ()


@pytest.mark.parametrize(("lane", "version"), in_turn(SPECS))
def test_views_of_wider_tensors(lane: str, version: str) -> None:
    """q and the output leave gaps between heads, the cache interleaves K and V; what is between is NaN and stays."""
    options = EmulatorOptions(triton_version=version)
    problem = UnifiedAttentionProblem(
        ((1, 40), (6, 33)), num_query_heads=4, num_kv_heads=2, head_size=64, block_size=16, use_alibi=True
    )
    inputs = make_unified_inputs(problem)
    q = fill_nan(inputs.q.new_empty(*inputs.q.shape[:2], 96))[..., :64].copy_(inputs.q)
    both = torch.stack([inputs.k_cache, inputs.v_cache], dim=1)
    views = replace(inputs, q=q, k_cache=both[:, 0], v_cache=both[:, 1])
    wide = fill_nan(torch.empty(7, 4, 96, dtype=torch.bfloat16))
    with watched():
        run_unified(problem, views, spec=SPECS[lane], backend="emulator", out=wide[..., :64], emulator=options)
    comparison = compare(wide[..., :64], unified_reference(problem, inputs), unified_eager(problem, inputs), "bf16")
    assert comparison.ok, comparison.describe()
    assert wide[..., 64:].isnan().all()


SPECS_DENSE = {"grid": GRID, "persistent": PERSISTENT, "one masked loop": GRID.with_changes(mask_split=False)}


@pytest.mark.parametrize("spec", SPECS_DENSE)
@pytest.mark.parametrize(("name", "version"), in_turn(DENSE_CASES))
def test_dense(name: str, version: str, spec: str) -> None:
    case, options = DENSE_CASES[name]("fp16"), EmulatorOptions(triton_version=version)
    assert_right(case, run(case.problem, case.inputs, SPECS_DENSE[spec], options).out, "fp16")


@pytest.mark.parametrize(("dtype", "version"), in_turn(["fp16", "fp32"]))
@pytest.mark.parametrize("name", VARLEN_CASES)
def test_dense_varlen(name: str, dtype: str, version: str) -> None:
    _check_varlen(name, dtype, EmulatorOptions(triton_version=version))


def _check_varlen(name: str, dtype: str, options: EmulatorOptions) -> None:
    case = VARLEN_CASES[name](dtype)
    packing = {"cu_seqlens_q": case.cu_seqlens_q, "cu_seqlens_k": case.cu_seqlens_k}
    longest = int(case.cu_seqlens_q.diff().max())
    operands = (case.q, case.k, case.v)
    out = run_packed(operands, options, softmax_scale=1.0, causal=False, max_seqlen_q=longest, **packing)
    assert_right(case, out, dtype)


def _dense(seqlen_q: int, seqlen_kv: int, **changes: object) -> DenseAttentionProblem:
    fields = {"batch": 1, "num_query_heads": 2, "num_kv_heads": 1, "head_size": 64, "dtype": "bf16"}
    return DenseAttentionProblem(seqlen_q=seqlen_q, seqlen_kv=seqlen_kv, **(fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("sinks", [False, True])
def test_dense_without_keys_gives_zero(sinks: bool) -> None:
    problem = _dense(5, 0, causal=False, use_sinks=sinks)
    out = run(problem, make_dense_inputs(problem), GRID, INSTALLED).out
    assert torch.equal(out, torch.zeros_like(out))


def test_dense_without_queries_launches_nothing() -> None:
    problem = _dense(0, 5)
    assert run(problem, make_dense_inputs(problem), GRID, INSTALLED).emulation == ()


@pytest.mark.parametrize(("spec", "version"), in_turn(["grid", "persistent"]))
def test_what_lies_beyond_a_dense_member_is_not_read(spec: str, version: str) -> None:
    """Views into larger NaN-filled tensors: after the last key, between tokens, between heads and past the channels."""
    options = EmulatorOptions(triton_version=version)
    problem = _dense(40, 50, batch=2, num_query_heads=4, num_kv_heads=2, head_size=80)
    plain = make_dense_inputs(problem)

    def embedded(tensor: torch.Tensor) -> torch.Tensor:
        batch, tokens, heads, channels = tensor.shape
        larger = fill_nan(tensor.new_empty(batch, tokens + 40, heads + 1, channels + 16))
        return larger[:, :tokens, :heads, :channels].copy_(tensor)

    views = DenseInputs(q=embedded(plain.q), k=embedded(plain.k), v=embedded(plain.v))
    out = run(problem, views, SPECS_DENSE[spec], options).out
    comparison = compare(out, dense_reference(problem, plain), dense_eager(problem, plain), "bf16")
    assert comparison.ok, comparison.describe()


@pytest.mark.parametrize("head_size", [16, 24, 256])
def test_dense_head_sizes(head_size: int) -> None:
    problem = _dense(40, 40, head_size=head_size)
    inputs = make_dense_inputs(problem)
    out = run(problem, inputs, GRID, INSTALLED).out
    comparison = compare(out, dense_reference(problem, inputs), dense_eager(problem, inputs), "bf16")
    assert comparison.ok, comparison.describe()


CHANCE = (
    "freed blocks before the window, q=3",
    "unwritten slots, V inf, K nan, q=17",
    "queries of length zero",
    "group of 7",
    "fp8 cache and query, softcap",
)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("lane", SPECS)
@pytest.mark.parametrize("name", CHANCE)
def test_any_order_of_waves_and_loads(name: str, lane: str, seed: int) -> None:
    """With the Triton that compiled it above."""
    version = dict(in_turn(SPECS if name in DECODE else reversed(SPECS)))[lane]
    _check(UNIFIED_CASES[name]("fp16"), SPECS[lane], EmulatorOptions(triton_version=version, seed=seed), "fp16")


@pytest.mark.parametrize("name", VARLEN_CASES)
def test_any_order_of_dense_members(name: str) -> None:
    for seed in (1, 2, 3):
        _check_varlen(name, "fp16", EmulatorOptions(seed=seed))
