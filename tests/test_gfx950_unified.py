"""The unified Gluon kernel of gfx950: specs, machine code, and features and levers in the emulator."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

from tests import edge_cases, emulated
from workbench.attention import run_unified
from workbench.compiler import CompiledKernel, compile_many, triton_versions
from workbench.compiler.variants import build_requests
from workbench.device import load_device
from workbench.dispatch import select_spec
from workbench.errors import SpecError
from workbench.gfx950.emulator import EmulatorOptions
from workbench.inputs import make_unified_inputs
from workbench.problem import UnifiedAttentionProblem
from workbench.reference import unified_eager, unified_reference
from workbench.spec_gfx950_unified import Gfx950Unified2DSpec
from workbench.tolerance import compare

VERSIONS = tuple(triton_versions())
PROBLEM: dict[str, Any] = {
    "seq_lens": ((6, 133), (0, 5), (3, 40)), "num_query_heads": 4, "num_kv_heads": 1, "head_size": 64,
    "block_size": 32,
}  # fmt: skip
FP8: dict[str, Any] = {"kv_dtype": "fp8_e4m3"}
NATIVE: dict[str, Any] = FP8 | {"q_dtype": "fp8_e4m3"}
BIASES: dict[str, Any] = {"softcap": 5.0, "use_alibi": True, "use_qq_bias": True, "use_sinks": True}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "single K, group of 5, two KV heads": ({"num_query_heads": 10, "num_kv_heads": 2}, {"k_single_buffer": True}),
    "double V": ({}, {"v_double_buffer": True}),
    "single K, double V": ({"dtype": "fp16"}, {"k_single_buffer": True, "v_double_buffer": True}),
    "K first": ({}, {"current_v_first": False}),
    "K first, double V": ({}, {"current_v_first": False, "v_double_buffer": True}),
    "full waits": ({}, {"prefetch": False, "setprio": False}),
    "offset of each key": ({"block_size": 16}, {"fast_paged_kv_desc": False}),
    "moved P": ({}, {"transposed_half_local_pv": False}),
    "moved state": ({}, {"transposed_scalar_state": False, "num_warps": 2}),
    "Q in LDS": ({}, {"q_in_registers": False}),
    "halves, split masks": ({"dtype": "fp16"}, {"cluster": True, "mask_split": True}),
    "plain LDS": ({}, {"lds_swizzle": False, "wide_lds_dma": False}),
    "one mask": ({}, {"transposed_mask_once": True}),
    "limit, tile of 128": ({}, {"transposed_mask_limit": True, "tile_size": 128, "cluster": True, "num_warps": 2}),
    "part of a page, 64 bits": ({"block_size": 64}, {"tile_size": 32, "i64_addressing": True}),
    "d128, always rescaled": ({"head_size": 128, "dtype": "fp16"}, {"lazy_rescale": False}),
    "pages of 16, four waves": ({"block_size": 16}, {"num_warps": 4}),
    "biases": (BIASES, {}),
    "biases, window": (BIASES | {"sliding_window": 40}, {"mask_split": True}),
    "fp8 cache": (FP8, {"num_warps": 2}),
    "fp8 cache, single K, window": (FP8 | {"sliding_window": 30}, {"k_single_buffer": True, "tile_size": 32}),
    "fp8 cache and query, softcap": (NATIVE | {"softcap": 3.0}, {}),
    "native fp8, single K, d128": (NATIVE | {"head_size": 128}, {"fp8_native_qk": True, "k_single_buffer": True}),
    "decode, group of 7": ({"num_query_heads": 7, "seq_lens": ((1, 40), (1, 100))}, {}),
}  # fmt: skip
SEEDED = ("single K, double V", "K first, double V", "fp8 cache", "native fp8, single K, d128")


def _check(fields: dict[str, Any], levers: dict[str, Any], options: EmulatorOptions) -> None:
    problem = UnifiedAttentionProblem(**(PROBLEM | fields))
    inputs = make_unified_inputs(problem, seed=0)
    result = emulated.run(problem, inputs, Gfx950Unified2DSpec(**({"num_warps": 1} | levers)), options)
    reference, eager = unified_reference(problem, inputs), unified_eager(problem, inputs)
    comparison = compare(result.out, reference, eager, problem.dtype)
    assert comparison.ok, comparison.describe()
    conflicts = result.emulation[0].counters["SQ_LDS_BANK_CONFLICT"]
    assert (conflicts == 0) == (levers.get("lds_swizzle", True) and levers.get("q_in_registers", True))


@pytest.mark.parametrize(("case", "version"), emulated.in_turn(CASES))
def test_emulated(case: str, version: str) -> None:
    _check(*CASES[case], EmulatorOptions(triton_version=version))


@pytest.mark.parametrize(("case", "version"), emulated.in_turn(SEEDED))
def test_emulated_in_another_order_of_waves_and_loads(case: str, version: str) -> None:
    fields, levers = CASES[case]
    _check(fields, levers | {"num_warps": 2}, EmulatorOptions(triton_version=version, seed=7))


SERVING: dict[str, Any] = {
    "seq_lens": ((512, 2048),) * 4, "num_query_heads": 64, "num_kv_heads": 8, "head_size": 64, "block_size": 32,
}  # fmt: skip
SINGLE = SERVING | {"seq_lens": ((4096, 4096),), "head_size": 128}
MI355X = load_device("mi355x")


def _combo(**levers: Any) -> Gfx950Unified2DSpec:
    return Gfx950Unified2DSpec(
        **({"transposed_mask_once": True, "transposed_mask_limit": True, "waves_per_eu": 4} | levers)
    )


@cache
def _compiled(problem: UnifiedAttentionProblem, spec: Gfx950Unified2DSpec, version: str) -> CompiledKernel:
    (kernel,) = compile_many(build_requests(problem, spec, triton_version=version))
    assert isinstance(kernel, CompiledKernel), kernel
    return kernel


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("fields", "vgprs", "lds"),
    [
        (SERVING | {"use_sinks": True}, 128, 24576),
        (SERVING | {"sliding_window": 128}, 168, 24576),
        (SERVING | FP8, 168, 24576),
        (SERVING | FP8 | {"sliding_window": 128}, 128, 12288),
        (SINGLE, 256, 32768),
        (SINGLE | {"head_size": 64}, 168, 49152),
    ],
    ids=["serving", "window", "fp8", "fp8 window", "single d128", "single d64"],
)
def test_budgets_of_the_dispatched_kernels(fields: dict[str, Any], vgprs: int, lds: int, version: str) -> None:
    problem = UnifiedAttentionProblem(**fields)
    spec = select_spec(problem, MI355X, "2d").spec
    assert isinstance(spec, Gfx950Unified2DSpec)
    kernel = _compiled(problem, spec, version)
    assert kernel.registers is not None
    assert kernel.registers.vgprs <= vgprs
    assert (kernel.registers.vgpr_spills, kernel.registers.sgpr_spills) == (0, 0)
    assert kernel.metadata["shared"] == lds
    assert spec.lds_bytes(problem.head_size, problem.dtype, problem.dtype) == lds


@pytest.mark.parametrize("version", VERSIONS)
def test_128_rows_of_d128_leave_room_for_two_waves_a_simd(version: str) -> None:
    kernel = _compiled(UnifiedAttentionProblem(**SINGLE), _combo(waves_per_eu=2, cluster=True), version)
    assert kernel.registers is not None
    assert (kernel.registers.vgprs <= 213, kernel.registers.vgpr_spills) == (True, 0)


CMP, SELECT, DMA = r"\tv_cmp_", r"\tv_cndmask", r"buffer_load_dword\w* .* lds"
PARTIAL = r"s_waitcnt vmcnt\(2\) lgkmcnt\(0\)|vmcnt\(2\)\n\ts_barrier"
"""The wait for V that leaves the next K under way."""
VISIBLE: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "transposed_scalar_state": ({}, {"transposed_scalar_state": False}, r"\tds_write", "more"),
    "transposed_mask_once": ({}, {"transposed_mask_once": False}, CMP, "more"),
    "transposed_mask_limit": ({}, {"transposed_mask_limit": False}, r"\tv_(or|add)\w*_[iu]?[b3]", "more"),
    "transposed_half_local_pv": ({}, {"transposed_half_local_pv": False}, "v_permlane32_swap", "more"),
    "q_in_registers": ({}, {"q_in_registers": False}, "ds_read_b128", "more"),
    "fast_paged_kv_desc": ({}, {"fast_paged_kv_desc": False}, "global_load_dword", "more"),
    "k_single_buffer": ({}, {"k_single_buffer": True}, PARTIAL, "fewer"),
    "v_double_buffer": ({}, {"v_double_buffer": True}, PARTIAL, "fewer"),
    "current_v_first": (
        {},
        {"current_v_first": False},
        PARTIAL,
        "fewer",
    ),
    "prefetch": ({}, {"prefetch": False}, PARTIAL, "fewer"),
    "mask_split": ({}, {"mask_split": True}, r"\tv_mfma", "more"),
    "lazy_rescale": ({}, {"lazy_rescale": False}, "s_cbranch_execz", "fewer"),
    "cluster": ({}, {"cluster": True}, "v_permlane32_swap", "more"),
    "lds_swizzle": ({}, {"lds_swizzle": False}, r"\tv_xor", "fewer"),
    "wide_lds_dma": ({}, {"wide_lds_dma": False}, DMA, "more"),
    "setprio": ({}, {"setprio": False}, "s_setprio", "fewer"),
    "exp2_fast": ({}, {"exp2_fast": False}, SELECT, "more"),
    "i64_addressing": ({}, {"i64_addressing": True}, r"\ts_mul_hi", "more"),
    "fp8 cache": (FP8, {}, r"\tv_cvt\w*fp8", "more"),
    "fp8_native_qk": (NATIVE, {"fp8_native_qk": True}, "v_mfma_f32_32x32x16_fp8_fp8", "more"),
}


@pytest.mark.parametrize(("lever", "version"), emulated.in_turn(VISIBLE))
def test_levers_show_in_the_machine_code(lever: str, version: str) -> None:
    fields, levers, pattern, direction = VISIBLE[lever]
    base = _compiled(UnifiedAttentionProblem(**SERVING), _combo(waves_per_eu=2), version)
    changed = _compiled(UnifiedAttentionProblem(**(SERVING | fields)), _combo(waves_per_eu=2, **levers), version)
    before, after = (len(re.findall(pattern, kernel.assembly)) for kernel in (base, changed))
    assert (after > before) if direction == "more" else (after < before), (before, after)


@pytest.mark.parametrize("version", VERSIONS)
def test_blocks_beyond_2_gib(version: str) -> None:
    case = edge_cases.HUGE_CASES["compute dtype cache, block 131072"]("bf16")
    spec = Gfx950Unified2DSpec(num_warps=1)
    result = emulated.run(case.problem, case.inputs, spec, EmulatorOptions(triton_version=version))
    reference, eager = unified_reference(case.problem, case.inputs), unified_eager(case.problem, case.inputs)
    assert compare(result.out, reference, eager, "bf16").ok


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "untransposed": ({}, {"transposed_qk_32x32": False}, "use Unified2DSpec"),
    "waves": ({}, {"num_warps": 8}, "num_warps must be 1, 2 or 4, got 8"),
    "tile": ({}, {"tile_size": 16}, "tile_size must be 32, 64 or 128, got 16"),
    "half of 32 keys": ({}, {"tile_size": 32, "cluster": True}, "needs tile_size 64 or more"),
    "order without a buffer": ({}, {"current_v_first": False, "k_single_buffer": True}, "needs two K buffers"),
    "64-bit offsets of keys": ({}, {"fast_paged_kv_desc": False, "i64_addressing": True}, "offsets of single keys"),
    "moved state, two V": ({}, {"transposed_scalar_state": False, "v_double_buffer": True}, "races in LDS"),
    "two V, fp8 cache": ({"kv_dtype": "fp8_e4m3"}, {"v_double_buffer": True}, "passes through registers"),
    "head size": ({"head_size": 80}, {}, "head sizes .* got 80; use Unified2DSpec"),
    "block size": ({"block_size": 128}, {}, "block sizes .* got 128; use Unified2DSpec"),
    "fp32": ({"dtype": "fp32"}, {}, "bf16 or fp16, got fp32; use Unified2DSpec"),
    "group": ({"num_query_heads": 40}, {}, "40 query heads per KV head, got 32 rows; use num_warps=2 or more"),
    "mask_once, window": ({"sliding_window": 9}, {"transposed_mask_once": True}, "full attention only"),
    "mask_limit, window": ({"sliding_window": 9}, {"transposed_mask_limit": True}, "full attention only"),
    "native fp8 without fp8": ({}, {"fp8_native_qk": True}, "needs q and the cache in fp8_e4m3, got bf16 and bf16"),
    "narrow bases": ({"num_blocks": 2**20}, {"i64_addressing": False}, "i64_addressing=False would wrap"),
    "narrow offsets": ({"num_blocks": 2**20}, {"fast_paged_kv_desc": False}, "fast_paged_kv_desc=False reaches"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    fields, levers, message = REFUSED[case]
    with pytest.raises(SpecError, match=message):
        Gfx950Unified2DSpec(**({"num_warps": 1} | levers)).check(UnifiedAttentionProblem(**(PROBLEM | fields)))


def test_other_devices_are_refused() -> None:
    problem = UnifiedAttentionProblem(**PROBLEM)
    inputs = make_unified_inputs(problem, seed=0)
    with pytest.raises(SpecError, match="is for gfx950, not for gfx942"):
        run_unified(problem, inputs, spec=Gfx950Unified2DSpec(), backend="interpreter", device=load_device("mi300x"))
    with pytest.raises(SpecError, match="not for the interpreter"):
        run_unified(problem, inputs, spec=Gfx950Unified2DSpec(), backend="interpreter")
    with pytest.raises(SpecError, match="is for gfx950"):
        build_requests(problem, Gfx950Unified2DSpec(), "gfx942")
