"""Unified paged attention, 2D: one program owns a query block and walks all of its keys."""

import triton
import triton.language as tl

from .paged import Config, Tensors, attend_range, locate_block, prepare_loop
from .primitives import add_sink, normalise


@triton.jit
def store_output(p_out, b_o, block, stride_token, stride_head, cfg):
    """Write the valid rows of [M, D] in the output's dtype."""
    o_d = tl.arange(0, cfg.HEAD_PAD)
    p_base = p_out + block.i_token.to(tl.int64) * stride_token
    p_row = p_base + block.o_pos * stride_token + block.o_head * stride_head
    m_out = block.m_row[:, None] & (o_d < cfg.HEAD_SIZE)[None, :]
    tl.store(p_row[:, None] + o_d[None, :], b_o.to(p_out.dtype.element_ty), mask=m_out)


@triton.jit
def unified_attention_2d(
    p_out,
    p_q,
    p_k,
    p_v,
    p_block_table,
    p_kv_lens,
    p_cu_seqlens_q,
    p_alibi_slopes,
    p_qq_bias,
    p_sinks,
    p_q_scale,
    p_k_scale,
    p_v_scale,
    softmax_scale,
    softcap,
    num_seqs,
    stride_out_token,
    stride_out_head,
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
    EARLY_LAUNCH: tl.constexpr = False,
):
    """Grid (KV heads, query blocks). Tensors as in workbench.attention.unified_attention.

    EARLY_LAUNCH: started beside the kernel before, whose writes are there once it has ended.
    """
    if EARLY_LAUNCH:
        tl.extra.cuda.gdc_wait()
    t = Tensors(
        p_q, p_k, p_v, p_block_table, p_kv_lens, p_cu_seqlens_q, p_alibi_slopes, p_qq_bias, p_q_scale, p_k_scale,
        stride_q_token, stride_q_head, stride_k_block, stride_k_token, stride_k_head,
        stride_v_block, stride_v_token, stride_v_head, stride_table, stride_qq, qq_size,
    )  # fmt: skip
    cfg: tl.constexpr = Config(
        BLOCK_M, TILE, GROUP, HEAD_SIZE, HEAD_PAD, BLOCK_SIZE, WINDOW, SOFTCAP, I64, TRANSPOSED,
        MASK_ONCE, MASK_LIMIT, MASK_SPLIT, FAST_PAGED, LAZY, NATIVE_FP8, COMPUTE, PAGES_AHEAD, FP8_IN_FP16, LATE_SUM,
    )  # fmt: skip
    rows_left, block = locate_block(t, num_seqs, tl.program_id(1), tl.program_id(0), cfg, ALL_DECODE)
    if rows_left <= 0:
        return
    loop = prepare_loop(t, block, softmax_scale, softcap, cfg)
    b_acc, b_m, b_l = attend_range(block.key_lo // TILE, tl.cdiv(block.key_hi, TILE), t, block, loop, cfg)
    if p_sinks is not None:
        b_sink = tl.load(p_sinks + block.o_head, mask=block.m_row, other=0.0)
        b_acc, b_m, b_l = add_sink(b_acc, b_m, b_l, b_sink, TRANSPOSED)
    if p_v_scale is not None:
        b_acc *= tl.load(p_v_scale)
    store_output(p_out, normalise(b_acc, b_l, TRANSPOSED), block, stride_out_token, stride_out_head, cfg)
