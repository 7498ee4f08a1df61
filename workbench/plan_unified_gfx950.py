"""Launch plan of the unified Gluon kernel, from tensors (meta tensors will do: nothing is read)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.launch import KernelLaunch
from workbench.plan_unified import UnifiedCall, check_grid, launch_args, num_query_blocks
from workbench.spec import require

if TYPE_CHECKING:
    from workbench.spec_gfx950_unified import Gfx950Unified2DSpec


def _constants(call: UnifiedCall, spec: Gfx950Unified2DSpec, i64: bool) -> dict[str, Any]:
    block_size = call.k.shape[1]
    return {
        "NUM_WARPS": spec.num_warps,
        "TILE": spec.tile_size,
        "GROUP": call.group_size,
        "HEAD_SIZE": call.head_size,
        "BLOCK_SIZE": block_size,
        "WINDOW": call.sliding_window or 0,
        "SOFTCAP": call.softcap > 0,
        "I64": i64,
        "SCALAR_STATE": spec.transposed_scalar_state,
        "MASK_ONCE": spec.transposed_mask_once,
        "MASK_LIMIT": spec.transposed_mask_limit,
        "MASK_SPLIT": spec.mask_split,
        "P_WIDTH": 4 if spec.transposed_half_local_pv else 8,
        "Q_REGISTERS": spec.q_in_registers,
        "FAST_PAGED": spec.fast_paged_kv_desc,
        "K_BUFFERS": 1 if spec.k_single_buffer else 2,
        "V_BUFFERS": 2 if spec.v_double_buffer else 1,
        "V_FIRST": spec.current_v_first,
        "PREFETCH": spec.prefetch,
        "PARTS": 2 if spec.cluster else 1,
        "SWIZZLE": spec.lds_swizzle,
        "WIDE": spec.wide_lds_dma,
        "LAZY": spec.lazy_rescale,
        "EXP2_FAST": spec.exp2_fast,
        "SETPRIO": spec.setprio,
        "NATIVE_FP8": spec.fp8_native_qk,
        "STAGED": call.v.dtype != call.out.dtype,
        "ALL_DECODE": call.all_decode,
    }


def plan_2d_gfx950(call: UnifiedCall, spec: Gfx950Unified2DSpec, *, i64: bool) -> list[KernelLaunch]:
    """One launch; grid (KV heads, query blocks). UnsupportedError past the extent of the grid's second axis."""
    require(call.block_table.shape[1] > 0, "the gfx950 unified kernel needs a block table of one column or more")
    blocks = num_query_blocks(call, spec.block_m)
    check_grid(blocks)
    return [
        KernelLaunch(
            module="gfx950.unified_2d",
            kernel="unified_attention_2d",
            grid=(call.num_kv_heads, blocks, 1),
            args=launch_args(call),
            constexprs=_constants(call, spec, i64),
            spec=spec,
        )
    ]
