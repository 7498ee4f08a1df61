"""The reduction inside the segment kernel: the last segment of a query block to finish merges all of them."""

import triton
import triton.language as tl

from .primitives import LOG2_E, LOWEST


@triton.jit
def arrives_last(p_counter, expected, WAIT_FOR_STORES: tl.constexpr):
    """Whether this program is the last of `expected` to call this; everything the others stored before is then visible.

    The counter starts at 0, and the last program puts it back there for the next launch.
    """
    # One lane's atomic publishes what all have stored before the barrier.
    if WAIT_FOR_STORES:
        # AMD: a barrier lets a wave pass whose stores are still on their way.
        tl.inline_asm_elementwise(
            "s_waitcnt vmcnt(0)\nv_mov_b32 $0, $1", "=v,v,~{memory}", [expected], tl.int32, is_pure=False, pack=1
        )
    tl.debug_barrier()
    is_last = tl.atomic_add(p_counter, 1, sem="acq_rel", scope="gpu") == expected - 1
    if is_last:
        tl.store(p_counter, 0)
    return is_last


@triton.jit
def rows_to_reduce(block, cfg, ROWS: tl.constexpr):
    """(token, query head, validity) [ROWS] of the block's rows; ROWS < BLOCK_M leaves out rows that no token has."""
    if ROWS < cfg.BLOCK_M:
        # One position: the rows behind its query heads are idle.
        o_r = tl.arange(0, ROWS)
        return block.i_token + o_r * 0, block.i_head_kv * cfg.GROUP + o_r, o_r < cfg.GROUP
    else:
        return block.i_token + block.o_pos, block.o_head, block.m_row


@triton.jit
def reduce_block(
    p_out,
    p_segm_out,
    p_segm_max,
    p_segm_sum,
    p_sinks,
    p_v_scale,
    block,
    num_segments,
    num_query_heads,
    stride_out_token,
    stride_out_head,
    cfg,
    NUM_SEGMENTS: tl.constexpr,
    ROWS: tl.constexpr,
    STEP: tl.constexpr,
):
    """Merge the first num_segments <= NUM_SEGMENTS segments of a block, STEP at a time, and write its output.

    The sums of reduce_segments, for ROWS rows at once. Loads pass by the L1 cache, which other programs' stores
    do not reach.
    """
    i_token, o_head, m_row = rows_to_reduce(block, cfg, ROWS)
    i_row = i_token.to(tl.int64) * num_query_heads + o_head
    # [R, S]
    o_s = tl.arange(0, NUM_SEGMENTS)
    p_stat = i_row[:, None] * NUM_SEGMENTS + o_s[None, :]
    m_stat = m_row[:, None] & (o_s < num_segments)[None, :]
    b_m = tl.load(p_segm_max + p_stat, mask=m_stat, other=LOWEST, cache_modifier=".cg")
    b_l = tl.load(p_segm_sum + p_stat, mask=m_stat, other=0.0, cache_modifier=".cg")
    # [R]
    b_max = tl.max(b_m, 1)
    if p_sinks is not None:
        b_sink_log2 = tl.load(p_sinks + o_head, mask=m_row, other=0.0).to(tl.float32) * LOG2_E
        b_max = tl.maximum(b_max, b_sink_log2)
    b_denominator = tl.sum(b_l * tl.exp2(b_m - b_max[:, None]), 1)
    if p_sinks is not None:
        b_denominator += tl.exp2(b_sink_log2 - b_max)
    # A row that saw no key sums nothing, whatever its weights are.
    b_scale = 1.0 / tl.where(b_denominator > 0.0, b_denominator, 1.0)
    if p_v_scale is not None:
        b_scale *= tl.load(p_v_scale)

    o_d = tl.arange(0, cfg.HEAD_PAD)
    b_o = tl.zeros((ROWS, cfg.HEAD_PAD), tl.float32)
    for segm_lo in range(0, num_segments, STEP):
        o_c = segm_lo + tl.arange(0, STEP)
        p_c = i_row[:, None] * NUM_SEGMENTS + o_c[None, :]
        m_c = m_row[:, None] & (o_c < num_segments)[None, :]
        b_w = tl.load(p_segm_max + p_c, mask=m_c, other=LOWEST, cache_modifier=".cg")
        b_w = tl.exp2(b_w - b_max[:, None]) * b_scale[:, None]
        # [R, C, D]: Triton hands lanes to the axes in this order, so that the sum stays within a lane.
        p_o = p_segm_out + p_c[:, :, None] * cfg.HEAD_PAD + o_d[None, None, :]
        b_part = tl.load(p_o, mask=m_c[:, :, None], other=0.0, cache_modifier=".cg")
        b_o += tl.sum(b_part * b_w[:, :, None], 1)
    p_row = p_out + i_token.to(tl.int64) * stride_out_token + o_head * stride_out_head
    m_out = m_row[:, None] & (o_d < cfg.HEAD_SIZE)[None, :]
    tl.store(p_row[:, None] + o_d[None, :], b_o.to(p_out.dtype.element_ty), mask=m_out)
