"""Unified paged attention, 3D split-KV: segments of a query block's keys side by side, then an exact merge."""

import triton
import triton.language as tl

from .fused_reduce import arrives_last, reduce_block
from .paged import Config, Tensors, attend_range, locate_block, prepare_loop
from .primitives import LOG2_E, LOWEST


@triton.jit
def unified_attention_3d(
    p_segm_out,
    p_segm_max,
    p_segm_sum,
    p_q,
    p_k,
    p_v,
    p_block_table,
    p_kv_lens,
    p_cu_seqlens_q,
    p_alibi_slopes,
    p_qq_bias,
    p_q_scale,
    p_k_scale,
    softmax_scale,
    softcap,
    num_seqs,
    num_query_heads,
    stride_q_token,
    stride_q_head,
    stride_k_block,
    stride_k_token,
    stride_k_head,
    stride_v_block,
    stride_v_token,
    stride_v_head,
    stride_table,
    stride_qq,
    qq_size,
    p_arrivals,
    p_out,
    p_sinks,
    p_v_scale,
    stride_out_token,
    stride_out_head,
    BLOCK_M: tl.constexpr,
    TILE: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PAD: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFTCAP: tl.constexpr,
    I64: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    MASK_ONCE: tl.constexpr,
    MASK_LIMIT: tl.constexpr,
    MASK_SPLIT: tl.constexpr,
    FAST_PAGED: tl.constexpr,
    LAZY: tl.constexpr,
    NATIVE_FP8: tl.constexpr,
    COMPUTE: tl.constexpr,
    PAGES_AHEAD: tl.constexpr,
    FP8_IN_FP16: tl.constexpr,
    LATE_SUM: tl.constexpr,
    ALL_DECODE: tl.constexpr,
    NUM_SEGMENTS: tl.constexpr,
    REDUCE_ROWS: tl.constexpr = 0,
    REDUCE_STEP: tl.constexpr = 0,
    WAIT_FOR_STORES: tl.constexpr = False,
    EARLY_LAUNCH: tl.constexpr = False,
):
    """Grid (query blocks, KV heads, segments). Workspaces, float32 and contiguous:

    p_segm_out [tokens, query heads, NUM_SEGMENTS, HEAD_PAD]; p_segm_max and p_segm_sum [tokens, query heads,
    NUM_SEGMENTS]. A segment without keys writes sum 0 and leaves its part of p_segm_out alone.

    p_arrivals [query blocks, KV heads], int32 zeros, fuses the reduction: the last segment of a block to finish writes
    the output, and segments without keys write nothing at all. Without it everything from p_out on is None.
    EARLY_LAUNCH: started beside the kernel before, and lets the reduction start likewise.
    """
    if EARLY_LAUNCH:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()
    t = Tensors(
        p_q, p_k, p_v, p_block_table, p_kv_lens, p_cu_seqlens_q, p_alibi_slopes, p_qq_bias, p_q_scale, p_k_scale,
        stride_q_token, stride_q_head, stride_k_block, stride_k_token, stride_k_head,
        stride_v_block, stride_v_token, stride_v_head, stride_table, stride_qq, qq_size,
    )  # fmt: skip
    cfg: tl.constexpr = Config(
        BLOCK_M, TILE, GROUP, HEAD_SIZE, HEAD_PAD, BLOCK_SIZE, WINDOW, SOFTCAP, I64, TRANSPOSED,
        MASK_ONCE, MASK_LIMIT, MASK_SPLIT, FAST_PAGED, LAZY, NATIVE_FP8, COMPUTE, PAGES_AHEAD, FP8_IN_FP16, LATE_SUM,
    )  # fmt: skip
    rows_left, block = locate_block(t, num_seqs, tl.program_id(0), tl.program_id(1), cfg, ALL_DECODE)
    if rows_left <= 0:
        return
    i_segment = tl.program_id(2)
    # Only the visible tiles are shared out, so that a window costs no empty segments.
    tile_lo = block.key_lo // TILE
    tile_hi = tl.cdiv(block.key_hi, TILE)
    tiles_per_segment = tl.cdiv(tile_hi - tile_lo, NUM_SEGMENTS)
    if p_arrivals is not None:
        # A block that sees no key has its output to write all the same: by segment 0.
        tiles_per_segment = tl.maximum(tiles_per_segment, 1)
        num_segments = tl.maximum(tl.cdiv(tile_hi - tile_lo, tiles_per_segment), 1)
        if i_segment >= num_segments:
            return
    segm_lo = tile_lo + i_segment * tiles_per_segment
    segm_hi = tl.minimum(segm_lo + tiles_per_segment, tile_hi)

    i_row = (block.i_token + block.o_pos).to(tl.int64) * num_query_heads + block.o_head
    p_stat = i_row * NUM_SEGMENTS + i_segment
    if p_arrivals is None and segm_lo >= segm_hi:
        tl.store(p_segm_max + p_stat, tl.full((BLOCK_M,), LOWEST, tl.float32), mask=block.m_row)
        tl.store(p_segm_sum + p_stat, tl.zeros((BLOCK_M,), tl.float32), mask=block.m_row)
        return
    loop = prepare_loop(t, block, softmax_scale, softcap, cfg)
    b_acc, b_m, b_l = attend_range(segm_lo, segm_hi, t, block, loop, cfg)
    tl.store(p_segm_max + p_stat, b_m, mask=block.m_row)
    tl.store(p_segm_sum + p_stat, b_l, mask=block.m_row)
    # [M, D]
    b_o = tl.trans(b_acc) if TRANSPOSED else b_acc
    o_d = tl.arange(0, HEAD_PAD)
    tl.store(p_segm_out + p_stat[:, None] * HEAD_PAD + o_d[None, :], b_o, mask=block.m_row[:, None])
    if p_arrivals is not None:
        i_block = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
        if arrives_last(p_arrivals + i_block, num_segments, WAIT_FOR_STORES):
            reduce_block(
                p_out, p_segm_out, p_segm_max, p_segm_sum, p_sinks, p_v_scale, block, num_segments, num_query_heads,
                stride_out_token, stride_out_head, cfg, NUM_SEGMENTS, REDUCE_ROWS, REDUCE_STEP,
            )  # fmt: skip


@triton.jit
def reduce_segments(
    p_out,
    p_segm_out,
    p_segm_max,
    p_segm_sum,
    p_cu_seqlens_q,
    p_sinks,
    p_v_scale,
    num_seqs,
    num_query_heads,
    stride_out_token,
    stride_out_head,
    HEAD_SIZE: tl.constexpr,
    HEAD_PAD: tl.constexpr,
    NUM_SEGMENTS: tl.constexpr,
    EARLY_LAUNCH: tl.constexpr = False,
):
    """Grid (tokens, query heads): re-base every segment to the common maximum, add, normalise, cast."""
    i_token = tl.program_id(0).to(tl.int64)
    i_head = tl.program_id(1)
    if i_token >= tl.load(p_cu_seqlens_q + num_seqs):
        return
    if EARLY_LAUNCH:
        # What the segments write is there once they all have ended.
        tl.extra.cuda.gdc_wait()
    o_s = tl.arange(0, NUM_SEGMENTS)
    o_d = tl.arange(0, HEAD_PAD)
    p_stat = (i_token * num_query_heads + i_head) * NUM_SEGMENTS + o_s
    # [S]
    b_m = tl.load(p_segm_max + p_stat)
    b_l = tl.load(p_segm_sum + p_stat)
    m_max = tl.max(b_m, 0)
    if p_sinks is not None:
        sink_log2 = tl.load(p_sinks + i_head).to(tl.float32) * LOG2_E
        m_max = tl.maximum(m_max, sink_log2)
    b_w = tl.exp2(b_m - m_max)
    denominator = tl.sum(b_l * b_w, 0)
    if p_sinks is not None:
        denominator += tl.exp2(sink_log2 - m_max)
    # [S, D]; the workspace of a segment without keys was never written. A sum that is NaN is no empty segment.
    b_o = tl.load(p_segm_out + p_stat[:, None] * HEAD_PAD + o_d[None, :], mask=(b_l != 0.0)[:, None], other=0.0)
    # [D]
    b_o = tl.sum(b_o * b_w[:, None], 0)
    b_o *= 1.0 / tl.where(denominator > 0.0, denominator, 1.0)
    if p_v_scale is not None:
        b_o *= tl.load(p_v_scale)
    p_row = p_out + i_token * stride_out_token + i_head * stride_out_head
    tl.store(p_row + o_d, b_o.to(p_out.dtype.element_ty), mask=o_d < HEAD_SIZE)
