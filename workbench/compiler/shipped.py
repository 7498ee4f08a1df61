"""The variants whose machine code is watched: what the heuristics pick for typical problems, each lever both ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.compiler.targets import find_target
from workbench.compiler.variants import build_requests
from workbench.device import load_device
from workbench.dispatch import select_dense_spec, select_spec
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.spec_gfx950_unified import Gfx950Unified2DSpec

if TYPE_CHECKING:
    from workbench.compiler.request import KernelRequest
    from workbench.device import Device
    from workbench.spec import KernelSpec

Problem = UnifiedAttentionProblem | DenseAttentionProblem

# head size -> (query heads, KV heads, block size)
HEADS = {64: (64, 8, 32), 128: (32, 8, 16), 256: (16, 8, 16)}
DECODE = ((1, 4096),) * 64
PREFILL = ((1024, 2048),) * 16
WINDOW = 128
NAMES_3D = ("bf16-decode", "kv_fp8-decode", "bf16-decode-window", "bf16-decode-biases")

Levers = tuple[dict[str, Any], ...]
LEVERS_2D: Levers = (
    {"transposed_qk": True},
    {"mask_once": False},
    {"mask_limit": False},
    {"mask_split": False},
    {"fast_paged_kv": False},
    {"lazy_rescale": True},
    {"i64_addressing": True},
    {"num_stages": 1},
    {"num_warps": 4},
)
LEVERS_2D_PREFILL: Levers = (
    {"transposed_qk": True},
    {"transposed_qk": False},
    {"lazy_rescale": True},
)
LEVERS_3D: Levers = ({"mask_split": False}, {"lazy_rescale": True}, {"fast_paged_kv": False})
LEVERS_AMD: Levers = (
    *({"waves_per_eu": count} for count in (1, 2, 3, 4)),
    {"matrix_instr_nonkdim": 16},
    {"matrix_instr_nonkdim": 32},
    {"schedule_hint": "attention"},
    {"schedule_hint": "memory-bound-attention"},
    {"async_copy": True},
    {"async_copy": False},
    {"block_pingpong": True},
    {"block_pingpong": False},
    {"buffer_ops": False},
    {"flush_denormals": False},
)
LEVERS_DENSE: Levers = (
    {"transposed_qk": True},
    {"mask_split": False},
    {"lazy_rescale": False},
    {"grid": "default"},
    {"persist_decode": "qb_major"},
)
LEVERS_GLUON_2D: Levers = (
    {"transposed_scalar_state": False},
    {"transposed_mask_once": False, "transposed_mask_limit": False},
    {"transposed_half_local_pv": False},
    {"q_in_registers": False},
    {"fast_paged_kv_desc": False},
    {"k_single_buffer": False},
    {"v_double_buffer": True},
    {"k_single_buffer": False, "current_v_first": False},
    {"mask_split": True},
    {"i64_addressing": True},
)
LEVERS_GLUON_DENSE: Levers = (
    {"transposed_pv": False},
    {"lds_k_pad": 0},
    *({"lds_v_pad": pad} for pad in (0, 8, 16)),
    {"exp2_fast": False},
    {"cluster": False},
    {"prefetch": False},
    {"setprio": False},
    {"lazy_rescale": False},
    {"mask_split": False},
    {"wide_lds_dma": False},
    {"block_n": 128},
    {"num_buffers": 3},
    {"grid": "default"},
    {"persist_decode": "qb_major"},
)


@dataclass(frozen=True)
class Variant:
    """A problem and a spec under a name such as `2d/d128-bf16-decode+lazy_rescale=True`."""

    name: str
    problem: Problem
    spec: KernelSpec


def shipped_variants(target: str) -> list[Variant]:
    """Every variant under watch on a target, each name once."""
    found = find_target(target)
    device = load_device(found.device)
    bases = [*_unified(device), *_gluon_unified(device), *_dense(device)]
    variants = {variant.name: variant for variant in bases}
    for base, levers in (
        ("2d/d64-bf16-decode", LEVERS_2D + (LEVERS_AMD if found.is_amd else ())),
        ("2d/d64-bf16-prefill", LEVERS_2D_PREFILL),
        ("3d/d64-bf16-decode", LEVERS_3D),
        ("2d/d64-q_fp8-kv_fp8-decode", ({"fp8_native_qk": True},)),
        ("dense/d64-bf16-causal", LEVERS_DENSE),
        ("gluon-2d/d128-bf16-single", LEVERS_GLUON_2D),
        ("gluon-dense/d128-bf16-causal", LEVERS_GLUON_DENSE),
    ):
        if base not in variants:
            continue
        for lever in levers:
            variant = _with_lever(variants[base], lever)
            if variant.spec != variants[base].spec:
                variants[variant.name] = variant
    return list(variants.values())


def shipped_requests(target: str, triton_version: str) -> dict[str, KernelRequest]:
    """Requests of the shipped variants by name; the 3D lane's second kernel is `<variant>:reduce_segments`.

    No lever here changes the reduction, so only the variants without a lever carry it.
    """
    requests = {}
    for variant in shipped_variants(target):
        first, *rest = build_requests(
            variant.problem, variant.spec, target, triton_version=triton_version, label=variant.name
        )
        requests[variant.name] = first
        if "+" not in variant.name:
            requests |= {f"{variant.name}:{request.kernel.name}": request for request in rest}
    return requests


def _unified(device: Device) -> list[Variant]:
    variants = []
    for head_size, (query_heads, kv_heads, block_size) in HEADS.items():
        base = UnifiedAttentionProblem(DECODE, query_heads, kv_heads, head_size, block_size)
        prefill = base.with_changes(seq_lens=PREFILL)
        problems = {
            "bf16-decode": base,
            "bf16-prefill": prefill,
            "kv_fp8-decode": base.with_changes(kv_dtype="fp8_e4m3"),
        }
        if head_size == 64:
            problems |= _more_of_d64(base, prefill)
        if head_size == 128:
            problems["bf16-decode-window"] = base.with_changes(sliding_window=WINDOW)
        for name, problem in problems.items():
            lanes = ("2d", "3d") if name in NAMES_3D else ("2d",)
            variants += [_unified_variant(f"{lane}/d{head_size}-{name}", problem, device, lane) for lane in lanes]
    return variants


def _more_of_d64(base: UnifiedAttentionProblem, prefill: UnifiedAttentionProblem) -> dict[str, UnifiedAttentionProblem]:
    return {
        "bf16-decode-window": base.with_changes(sliding_window=WINDOW),
        "bf16-prefill-window": prefill.with_changes(sliding_window=WINDOW),
        "fp16-decode": base.with_changes(dtype="fp16", q_dtype="fp16", kv_dtype="fp16"),
        "kv_fp8-prefill": prefill.with_changes(kv_dtype="fp8_e4m3"),
        "q_fp8-kv_fp8-decode": base.with_changes(q_dtype="fp8_e4m3", kv_dtype="fp8_e4m3"),
        "bf16-decode-biases": base.with_changes(
            use_alibi=True, use_qq_bias=True, qq_bias_size=16, use_sinks=True, softcap=30.0
        ),
    }


def _unified_variant(name: str, problem: UnifiedAttentionProblem, device: Device, lane: str) -> Variant:
    return Variant(name, problem, select_spec(problem, device, lane, portable=True, tuned=False).spec)


def _gluon_unified(device: Device) -> list[Variant]:
    """The cohorts that dispatch gives to the Gluon kernel."""
    serving = UnifiedAttentionProblem(PREFILL, 64, 8, 64, 32, use_sinks=True)
    single = ((4096, 4096),)
    problems = {
        "d64-bf16-prefill": serving,
        "d64-bf16-prefill-window": serving.with_changes(sliding_window=WINDOW),
        "d64-kv_fp8-prefill": serving.with_changes(kv_dtype="fp8_e4m3"),
        "d64-kv_fp8-prefill-window": serving.with_changes(kv_dtype="fp8_e4m3", sliding_window=WINDOW),
        "d128-bf16-single": UnifiedAttentionProblem(single, 32, 8, 128, 32),
        "d64-bf16-single": UnifiedAttentionProblem(single, 64, 8, 64, 32),
    }
    variants = [
        Variant(f"gluon-2d/{name}", problem, select_spec(problem, device, "2d", tuned=False).spec)
        for name, problem in problems.items()
    ]
    return [variant for variant in variants if isinstance(variant.spec, Gfx950Unified2DSpec)]


def _dense(device: Device) -> list[Variant]:
    """What dispatch picks, and beside a Gluon kernel the portable one that packed batches get."""
    problems = {}
    for head_size, (query_heads, kv_heads, _) in HEADS.items():
        base = DenseAttentionProblem(4, query_heads, kv_heads, 4096, 4096, head_size)
        problems[f"d{head_size}-bf16-causal"] = base
        if head_size == 128:
            problems["d128-bf16-full"] = base.with_changes(causal=False)
        if head_size == 64:
            problems["d64-bf16-window"] = base.with_changes(sliding_window=WINDOW, use_sinks=True)
    variants = []
    for name, problem in problems.items():
        portable = select_dense_spec(problem, device, portable=True, tuned=False).spec
        chosen = select_dense_spec(problem, device, tuned=False).spec
        variants.append(Variant(f"dense/{name}", problem, portable))
        if chosen != portable:
            variants.append(Variant(f"gluon-dense/{name}", problem, chosen))
            ragged = problem.with_changes(seqlen_q=problem.seqlen_q - 1, seqlen_kv=problem.seqlen_kv - 1)
            variants.append(
                Variant(f"gluon-dense/{name}-ragged", ragged, select_dense_spec(ragged, device, tuned=False).spec)
            )
    return variants


def _with_lever(base: Variant, lever: dict[str, Any]) -> Variant:
    settings = "".join(f"+{name}={value}" for name, value in lever.items())
    return Variant(f"{base.name}{settings}", base.problem, base.spec.with_changes(**lever))
