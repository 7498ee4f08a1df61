"""Launch plans of the unified paged kernels, from tensors (meta tensors will do: nothing is read)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.arrivals import arrival_counters
from workbench.errors import UnsupportedError
from workbench.launch import MAX_GRID_YZ, KernelLaunch
from workbench.spec import Unified2DSpec, Unified3DSpec, UnifiedSpec, ceil_power_of_two, head_pad

if TYPE_CHECKING:
    import torch

REDUCE_VALUES_PER_LANE = 32
"""Values of the partial outputs that a lane of the fused reduction has under way at a time."""
SMALLEST_WAVE = 32


@dataclass(frozen=True)
class UnifiedCall:
    """The checked arguments of one unified attention call. Shapes as in workbench.attention.unified_attention."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out: torch.Tensor
    cu_seqlens_q: torch.Tensor
    seqused_k: torch.Tensor
    block_table: torch.Tensor
    max_query_len: int
    max_kv_len: int
    softmax_scale: float
    softcap: float
    sliding_window: int | None
    compute_dtype: str
    alibi_slopes: torch.Tensor | None = None
    qq_bias: torch.Tensor | None = None
    sinks: torch.Tensor | None = None
    q_scale: torch.Tensor | None = None
    k_scale: torch.Tensor | None = None
    v_scale: torch.Tensor | None = None

    @property
    def num_seqs(self) -> int:
        return self.seqused_k.shape[0]

    @property
    def num_query_heads(self) -> int:
        return self.q.shape[1]

    @property
    def num_kv_heads(self) -> int:
        return self.k.shape[2]

    @property
    def group_size(self) -> int:
        return self.num_query_heads // self.num_kv_heads

    @property
    def head_size(self) -> int:
        return self.q.shape[2]

    @property
    def all_decode(self) -> bool:
        return self.max_query_len <= 1


def num_query_blocks(call: UnifiedCall, block_m: int) -> int:
    """Upper bound on the query blocks, from shapes alone: each sequence adds at most one partial block."""
    if call.all_decode:
        return call.num_seqs
    return call.q.shape[0] // (block_m // call.group_size) + call.num_seqs


def _tensor_args(call: UnifiedCall) -> dict[str, Any]:
    return {
        "p_q": call.q,
        "p_k": call.k,
        "p_v": call.v,
        "p_block_table": call.block_table,
        "p_kv_lens": call.seqused_k,
        "p_cu_seqlens_q": call.cu_seqlens_q,
        "p_alibi_slopes": call.alibi_slopes,
        "p_qq_bias": call.qq_bias,
    }


def _stride_args(call: UnifiedCall) -> dict[str, int]:
    return {
        "stride_q_token": call.q.stride(0),
        "stride_q_head": call.q.stride(1),
        "stride_k_block": call.k.stride(0),
        "stride_k_token": call.k.stride(1),
        "stride_k_head": call.k.stride(2),
        "stride_v_block": call.v.stride(0),
        "stride_v_token": call.v.stride(1),
        "stride_v_head": call.v.stride(2),
        "stride_table": call.block_table.stride(0),
        "stride_qq": call.qq_bias.stride(0) if call.qq_bias is not None else 0,
        "qq_size": call.qq_bias.shape[1] if call.qq_bias is not None else 0,
    }


def _constants(call: UnifiedCall, spec: UnifiedSpec, i64: bool) -> dict[str, Any]:
    block_size = call.k.shape[1]
    return {
        "BLOCK_M": spec.block_m,
        "TILE": spec.tile_size,
        "GROUP": call.group_size,
        "HEAD_SIZE": call.head_size,
        "HEAD_PAD": head_pad(call.head_size),
        "BLOCK_SIZE": block_size,
        "WINDOW": call.sliding_window or 0,
        "SOFTCAP": call.softcap > 0,
        "I64": i64,
        "TRANSPOSED": spec.transposed_qk,
        "MASK_ONCE": spec.mask_once,
        "MASK_LIMIT": spec.mask_limit,
        "MASK_SPLIT": spec.mask_split,
        "FAST_PAGED": spec.fast_paged_kv and spec.tile_size % block_size == 0,
        "LAZY": spec.lazy_rescale,
        "NATIVE_FP8": spec.fp8_native_qk,
        "COMPUTE": "fp16" if spec.fp8_in_fp16 else call.compute_dtype,
        "PAGES_AHEAD": spec.pages_ahead and 0 in (spec.tile_size % block_size, block_size % spec.tile_size),
        "FP8_IN_FP16": spec.fp8_in_fp16,
        "LATE_SUM": spec.late_sum,
        "ALL_DECODE": call.all_decode,
    }


def _early_constants(spec: UnifiedSpec) -> dict[str, dict[str, Any]]:
    """Constants of a kernel that waits on the device for the one before it."""
    return {"nvidia": {"EARLY_LAUNCH": True}} if spec.early_launch else {}


def _early_options(spec: UnifiedSpec) -> dict[str, dict[str, Any]]:
    """Triton's option that lets such a kernel start while the one before it ends."""
    return {"nvidia": {"launch_pdl": True}} if spec.early_launch else {}


def check_grid(blocks: int) -> None:
    """UnsupportedError past the extent of the 2D grid's second axis."""
    if blocks > MAX_GRID_YZ:
        raise UnsupportedError(
            f"{blocks} query blocks exceed the {MAX_GRID_YZ} that the 2D grid holds; use a larger block_m, "
            "the 3D lane, or several calls"
        )


def launch_args(call: UnifiedCall) -> dict[str, Any]:
    """Run-time arguments of a 2D kernel, in its order."""
    args = {"p_out": call.out, **_tensor_args(call), "p_sinks": call.sinks}
    args |= {"p_q_scale": call.q_scale, "p_k_scale": call.k_scale, "p_v_scale": call.v_scale}
    args |= {"softmax_scale": call.softmax_scale, "softcap": call.softcap, "num_seqs": call.num_seqs}
    return args | {
        "stride_out_token": call.out.stride(0), "stride_out_head": call.out.stride(1), **_stride_args(call),
    }  # fmt: skip


def plan_2d(call: UnifiedCall, spec: Unified2DSpec, *, i64: bool) -> list[KernelLaunch]:
    """One launch; grid (KV heads, query blocks). UnsupportedError past the extent of the grid's second axis."""
    blocks = num_query_blocks(call, spec.block_m)
    check_grid(blocks)
    return [
        KernelLaunch(
            module="unified_2d",
            kernel="unified_attention_2d",
            grid=(call.num_kv_heads, blocks, 1),
            args=launch_args(call),
            constexprs=_constants(call, spec, i64),
            spec=spec,
            vendor_constexprs=_early_constants(spec),
            vendor_options=_early_options(spec),
        )
    ]


def plan_3d(call: UnifiedCall, spec: Unified3DSpec, *, i64: bool) -> list[KernelLaunch]:
    """The segments, grid (query blocks, KV heads, segments), and their reduction, grid (tokens, heads).

    One launch where the spec fuses the two.
    """
    tokens, heads, pad = call.q.shape[0], call.num_query_heads, head_pad(call.head_size)
    segm_out = call.q.new_empty((tokens, heads, spec.num_segments, pad), dtype=_float32())
    segm_max = call.q.new_empty((tokens, heads, spec.num_segments), dtype=_float32())
    segm_sum = call.q.new_empty((tokens, heads, spec.num_segments), dtype=_float32())
    workspace = {"p_segm_out": segm_out, "p_segm_max": segm_max, "p_segm_sum": segm_sum}
    output: dict[str, Any] = {"p_out": call.out, "p_sinks": call.sinks, "p_v_scale": call.v_scale}
    output |= {"stride_out_token": call.out.stride(0), "stride_out_head": call.out.stride(1)}

    blocks = num_query_blocks(call, spec.block_m)
    args = {**workspace, **_tensor_args(call), "p_q_scale": call.q_scale, "p_k_scale": call.k_scale}
    args |= {"softmax_scale": call.softmax_scale, "softcap": call.softcap, "num_seqs": call.num_seqs}
    args |= {"num_query_heads": heads, **_stride_args(call)}
    constexprs = _constants(call, spec, i64) | {"NUM_SEGMENTS": spec.num_segments}
    by_vendor = _early_constants(spec)
    if spec.fused_reduce:
        args |= {"p_arrivals": arrival_counters(call.q, blocks * call.num_kv_heads), **output}
        constexprs |= _reduce_constants(call, spec)
        by_vendor = by_vendor | {"amd": {"WAIT_FOR_STORES": True}}
    else:
        args |= {"p_arrivals": None, **dict.fromkeys(output)}
    segments = KernelLaunch(
        module="unified_3d",
        kernel="unified_attention_3d",
        grid=(blocks, call.num_kv_heads, spec.num_segments),
        args=args,
        constexprs=constexprs,
        spec=spec,
        vendor_constexprs=by_vendor,
        vendor_options=_early_options(spec),
    )
    if spec.fused_reduce:
        return [segments]
    reduce_args = {**output, **workspace, "p_cu_seqlens_q": call.cu_seqlens_q}
    reduce_args |= {"num_seqs": call.num_seqs, "num_query_heads": heads}
    reduction = KernelLaunch(
        module="unified_3d",
        kernel="reduce_segments",
        grid=(tokens, heads, 1),
        args=reduce_args,
        constexprs={"HEAD_SIZE": call.head_size, "HEAD_PAD": pad, "NUM_SEGMENTS": spec.num_segments},
        spec=spec,
        num_warps=spec.reduce_num_warps,
        vendor_constexprs=_early_constants(spec),
        vendor_options=_early_options(spec),
    )
    return [segments, reduction]


def _reduce_constants(call: UnifiedCall, spec: Unified3DSpec) -> dict[str, int]:
    """Extents of a step of the fused reduction: rows that can hold a query head, and segments that fit the lanes."""
    rows = min(spec.block_m, ceil_power_of_two(call.group_size)) if call.all_decode else spec.block_m
    values = REDUCE_VALUES_PER_LANE * SMALLEST_WAVE * spec.num_warps
    step = values // (rows * head_pad(call.head_size))
    return {"REDUCE_ROWS": rows, "REDUCE_STEP": max(1, min(step, spec.num_segments))}


def _float32() -> torch.dtype:
    import torch

    return torch.float32
