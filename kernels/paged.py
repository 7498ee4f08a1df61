"""Paged, varlen attention on one query block: what the 2D and the 3D kernel share.

A query block is BLOCK_M rows of one (sequence, KV head): row r is query position r // GROUP of the block and
query head r % GROUP of the group, so one QK product serves the whole GQA group. See unified.md.
"""

from typing import NamedTuple

import triton
import triton.language as tl

from .pages import load_tile, pages_of_tile, slots_of_tile, spread_pages, tile_blocks
from .primitives import (
    LOG2_E,
    accumulate,
    initial_state,
    online_softmax,
    per_key,
    per_row,
    scores,
    softcap_log2,
    to_compute,
    to_fp16_rows,
)

# A query tile below this many rows stands along the short axis of NVIDIA's matrix instruction, so V is needed as
# [D, N]; loaded that way, it stays in the software pipeline.
FULL_BLOCK_M = tl.constexpr(16)


class Tensors(NamedTuple):
    """Pointers and strides (in elements) of everything a query block reads. The head channel has stride 1."""

    p_q: tl.tensor
    p_k: tl.tensor
    p_v: tl.tensor
    p_block_table: tl.tensor
    p_kv_lens: tl.tensor
    p_cu_seqlens_q: tl.tensor
    p_alibi_slopes: tl.tensor
    p_qq_bias: tl.tensor
    p_q_scale: tl.tensor
    p_k_scale: tl.tensor
    stride_q_token: tl.tensor
    stride_q_head: tl.tensor
    stride_k_block: tl.tensor
    stride_k_token: tl.tensor
    stride_k_head: tl.tensor
    stride_v_block: tl.tensor
    stride_v_token: tl.tensor
    stride_v_head: tl.tensor
    stride_table: tl.tensor
    stride_qq: tl.tensor
    qq_size: tl.tensor


class Config(NamedTuple):
    """Compile-time extents and levers."""

    BLOCK_M: tl.constexpr
    TILE: tl.constexpr
    GROUP: tl.constexpr
    HEAD_SIZE: tl.constexpr
    HEAD_PAD: tl.constexpr
    BLOCK_SIZE: tl.constexpr
    WINDOW: tl.constexpr
    SOFTCAP: tl.constexpr
    I64: tl.constexpr
    TRANSPOSED: tl.constexpr
    MASK_ONCE: tl.constexpr
    MASK_LIMIT: tl.constexpr
    MASK_SPLIT: tl.constexpr
    FAST_PAGED: tl.constexpr
    LAZY: tl.constexpr
    NATIVE_FP8: tl.constexpr
    COMPUTE: tl.constexpr
    PAGES_AHEAD: tl.constexpr
    FP8_IN_FP16: tl.constexpr
    LATE_SUM: tl.constexpr


class Block(NamedTuple):
    """A query block: its rows [BLOCK_M], its sequence, and the range of keys that some row sees."""

    o_pos: tl.tensor
    o_head: tl.tensor
    m_row: tl.tensor
    i_token: tl.tensor
    i_head_kv: tl.tensor
    i_seq: tl.tensor
    kv_len: tl.tensor
    context_len: tl.tensor
    key_lo: tl.tensor
    key_hi: tl.tensor
    full_lo: tl.tensor
    full_hi: tl.tensor


class Loop(NamedTuple):
    """What stays the same over the KV loop: per-row bias data and the base pointers of this head's cache."""

    b_q: tl.tensor
    scale_log2: tl.tensor
    softcap: tl.tensor
    b_slope_log2: tl.tensor
    p_qq_row: tl.tensor
    p_k: tl.tensor
    p_v: tl.tensor
    p_table_row: tl.tensor


@triton.jit
def find_sequence(p_cu_seqlens_q, num_seqs, i_qblock, BLOCK_Q: tl.constexpr):
    """The last sequence i whose first query block, cu_seqlens_q[i] // BLOCK_Q + i, is at or before i_qblock.

    Never reads past cu_seqlens_q[num_seqs - 1]; surplus blocks land behind the end of the last sequence.
    """
    lo = 0
    hi = num_seqs
    while lo < hi:
        mid = (lo + hi) // 2
        if tl.load(p_cu_seqlens_q + mid) // BLOCK_Q + mid <= i_qblock:
            lo = mid + 1
        else:
            hi = mid
    return lo - 1


@triton.jit
def locate_block(t, num_seqs, i_qblock, i_head_kv, cfg, ALL_DECODE: tl.constexpr):
    """(query length left from the block's first position on, Block). A length <= 0 means nothing to do."""
    BLOCK_Q: tl.constexpr = cfg.BLOCK_M // cfg.GROUP
    if ALL_DECODE:
        # Queries of at most one token: a block is a sequence, and nothing has to be searched.
        i_seq = i_qblock
    else:
        i_seq = find_sequence(t.p_cu_seqlens_q, num_seqs, i_qblock, BLOCK_Q)
    i_start = tl.load(t.p_cu_seqlens_q + i_seq)
    query_len = tl.load(t.p_cu_seqlens_q + i_seq + 1) - i_start
    pos_lo = 0
    if not ALL_DECODE:
        pos_lo = (i_qblock - (i_start // BLOCK_Q + i_seq)) * BLOCK_Q
    kv_len = tl.load(t.p_kv_lens + i_seq)
    context_len = kv_len - query_len
    pos_hi = tl.minimum(pos_lo + BLOCK_Q, query_len) - 1

    o_m = tl.arange(0, cfg.BLOCK_M)
    o_pos = pos_lo + o_m // cfg.GROUP
    m_row = (o_pos < query_len) & (o_m < BLOCK_Q * cfg.GROUP)
    # Every row sees the keys full_lo..full_hi - 1; some row sees key_lo..key_hi - 1.
    key_hi = tl.maximum(context_len + pos_hi + 1, 0)
    full_hi = tl.maximum(context_len + pos_lo + 1, 0)
    key_lo = 0
    full_lo = 0
    if cfg.WINDOW > 0:
        key_lo = tl.maximum(context_len + pos_lo + 1 - cfg.WINDOW, 0)
        full_lo = tl.maximum(context_len + pos_hi + 1 - cfg.WINDOW, 0)
    block = Block(
        o_pos=o_pos,
        o_head=i_head_kv * cfg.GROUP + o_m % cfg.GROUP,
        m_row=m_row,
        i_token=i_start,
        i_head_kv=i_head_kv,
        i_seq=i_seq,
        kv_len=kv_len,
        context_len=context_len,
        key_lo=key_lo,
        key_hi=key_hi,
        full_lo=full_lo,
        full_hi=full_hi,
    )
    return query_len - pos_lo, block


@triton.jit
def load_query(t, block, cfg):
    """[M, D], or [D, M] when transposed, as stored; padded rows and channels are zero."""
    o_d = tl.arange(0, cfg.HEAD_PAD)
    p_base = t.p_q + block.i_token.to(tl.int64) * t.stride_q_token
    p_row = p_base + block.o_pos * t.stride_q_token + block.o_head * t.stride_q_head
    m_q = per_row(block.m_row, cfg.TRANSPOSED) & per_key(o_d < cfg.HEAD_SIZE, cfg.TRANSPOSED)
    return tl.load(per_row(p_row, cfg.TRANSPOSED) + per_key(o_d, cfg.TRANSPOSED), mask=m_q, other=0.0)


@triton.jit
def prepare_loop(t, block, softmax_scale, softcap, cfg):
    """Everything that the KV loop reads but does not change. The scale is folded here, once."""
    scale_log2 = softmax_scale * LOG2_E
    if t.p_q_scale is not None:
        scale_log2 *= tl.load(t.p_q_scale)
    if t.p_k_scale is not None:
        scale_log2 *= tl.load(t.p_k_scale)
    # Absent data stands as a number: Triton 3.6 cannot hold None in a returned tuple.
    b_slope_log2 = 0.0
    if t.p_alibi_slopes is not None:
        b_slope = tl.load(t.p_alibi_slopes + block.o_head, mask=block.m_row, other=0.0)
        b_slope_log2 = b_slope * LOG2_E
    p_qq_row = 0
    if t.p_qq_bias is not None:
        p_qq_row = t.p_qq_bias + block.o_pos * t.stride_qq
    i_head = block.i_head_kv.to(tl.int64)
    b_q = load_query(t, block, cfg)
    if cfg.FP8_IN_FP16:
        b_q, b_undo = to_fp16_rows(b_q, CHANNEL_AXIS=0 if cfg.TRANSPOSED else 1)
        scale_log2 = scale_log2 * b_undo
    elif not cfg.NATIVE_FP8:
        b_q = to_compute(b_q, cfg.COMPUTE)
    return Loop(
        b_q=b_q,
        scale_log2=scale_log2,
        softcap=softcap,
        b_slope_log2=b_slope_log2,
        p_qq_row=p_qq_row,
        p_k=t.p_k + i_head * t.stride_k_head,
        p_v=t.p_v + i_head * t.stride_v_head,
        p_table_row=t.p_block_table + block.i_seq.to(tl.int64) * t.stride_table,
    )


@triton.jit
def add_biases(b_s, o_n, t, block, loop, cfg):
    """Steps 1 to 4 of the specification's order: scale, softcap, ALiBi, QQ-bias; all in the log2 domain."""
    b_s = b_s * (per_row(loop.scale_log2, cfg.TRANSPOSED) if cfg.FP8_IN_FP16 else loop.scale_log2)
    if cfg.SOFTCAP:
        b_s = softcap_log2(b_s, loop.softcap, cfg.COMPUTE)
    o_rel = o_n - block.context_len
    if t.p_alibi_slopes is not None:
        b_s += per_row(loop.b_slope_log2, cfg.TRANSPOSED) * per_key(o_rel.to(tl.float32), cfg.TRANSPOSED)
    if t.p_qq_bias is not None:
        m_qq = per_key((o_rel >= 0) & (o_rel < t.qq_size), cfg.TRANSPOSED) & per_row(block.m_row, cfg.TRANSPOSED)
        p_qq = per_row(loop.p_qq_row, cfg.TRANSPOSED) + per_key(o_rel, cfg.TRANSPOSED)
        b_s += tl.load(p_qq, mask=m_qq, other=0.0) * LOG2_E
    return b_s


@triton.jit
def mask_scores(b_s, o_n, block, cfg):
    """Steps 5 and 6: causal limit and sliding window; masked scores become -inf."""
    b_key = per_key(o_n, cfg.TRANSPOSED)
    b_limit = per_row(block.context_len + block.o_pos, cfg.TRANSPOSED)
    if cfg.MASK_LIMIT:
        b_s = tl.where(b_key <= b_limit, b_s, float("-inf"))
    elif cfg.MASK_ONCE:
        b_s = tl.where((b_key <= b_limit) & (b_key < block.kv_len), b_s, float("-inf"))
    else:
        b_s = tl.where(b_key < block.kv_len, b_s, float("-inf"))
        b_s = tl.where(b_key <= b_limit, b_s, float("-inf"))
    if cfg.WINDOW > 0:
        b_s = tl.where(b_limit - b_key < cfg.WINDOW, b_s, float("-inf"))
    return b_s


@triton.jit
def attend(b_page, b_acc, b_m, b_l, tile_lo, tile_hi, t, block, loop, cfg, MASKED: tl.constexpr):
    """The recurrence over the tiles tile_lo..tile_hi - 1. b_page: with PAGES_AHEAD the entries of tile_lo, else 0."""
    PLAIN: tl.constexpr = not cfg.SOFTCAP and t.p_alibi_slopes is None and t.p_qq_bias is None
    V_TRANSPOSED: tl.constexpr = cfg.BLOCK_M < FULL_BLOCK_M
    # Probabilities up to 2^8 leave fp16 its subnormal numbers for what does not count, and room above for lazy
    # rescaling and for anchors that rounding moves.
    HEADROOM: tl.constexpr = (4 if cfg.LAZY else 8) if cfg.FP8_IN_FP16 else 0
    for i_tile in range(tile_lo, tile_hi):
        o_n = i_tile * cfg.TILE + tl.arange(0, cfg.TILE)
        m_key = (o_n >= block.key_lo) & (o_n < block.key_hi)
        if cfg.PAGES_AHEAD:
            i_block = spread_pages(b_page, cfg)
            b_page = pages_of_tile(loop.p_table_row, i_tile + 1, block.key_hi, cfg)
        else:
            i_block = tile_blocks(loop.p_table_row, i_tile, block.key_hi, cfg, MASKED)
        o_slot = slots_of_tile(i_tile, o_n, cfg)
        # [N, D]; V is [D, N] where V_TRANSPOSED
        b_k = load_tile(loop.p_k, i_block, o_slot, m_key, t.stride_k_block, t.stride_k_token, cfg, MASKED)
        b_v = load_tile(loop.p_v, i_block, o_slot, m_key, t.stride_v_block, t.stride_v_token, cfg, MASKED, V_TRANSPOSED)
        if not cfg.NATIVE_FP8:
            b_k = to_compute(b_k, cfg.COMPUTE)
        b_s = scores(loop.b_q, b_k, cfg.TRANSPOSED)
        scale_log2 = loop.scale_log2
        if not PLAIN:
            b_s = add_biases(b_s, o_n, t, block, loop, cfg)
            scale_log2 = 1.0
        if MASKED:
            b_s = mask_scores(b_s, o_n, block, cfg)
        b_p, b_acc, b_m, b_l = online_softmax(
            b_s,
            scale_log2,
            b_acc,
            b_m,
            b_l,
            cfg.TRANSPOSED,
            cfg.LAZY,
            cfg.FP8_IN_FP16 and PLAIN,
            HEADROOM,
            cfg.LATE_SUM,
        )
        b_acc = accumulate(b_p, to_compute(b_v, cfg.COMPUTE), b_acc, cfg.TRANSPOSED, V_TRANSPOSED)
    return b_page, b_acc, b_m, b_l


@triton.jit
def attend_range(tile_lo, tile_hi, t, block, loop, cfg):
    """State after the tiles tile_lo..tile_hi - 1, mask-free where every row sees the whole tile."""
    b_acc, b_m, b_l = initial_state(cfg.BLOCK_M, cfg.HEAD_PAD, cfg.TRANSPOSED)
    if cfg.LATE_SUM:
        b_l = tl.zeros((cfg.TILE, cfg.BLOCK_M) if cfg.TRANSPOSED else (cfg.BLOCK_M, cfg.TILE), tl.float32)
    b_page = 0
    if cfg.PAGES_AHEAD:
        b_page = pages_of_tile(loop.p_table_row, tile_lo, block.key_hi, cfg)
    if cfg.MASK_SPLIT:
        full_hi = tl.maximum(tl.minimum(block.full_hi // cfg.TILE, tile_hi), tile_lo)
        full_lo = tile_lo
        if cfg.WINDOW > 0:
            full_lo = tl.minimum(tl.maximum(tl.cdiv(block.full_lo, cfg.TILE), tile_lo), tile_hi)
            full_hi = tl.maximum(full_hi, full_lo)
            b_page, b_acc, b_m, b_l = attend(b_page, b_acc, b_m, b_l, tile_lo, full_lo, t, block, loop, cfg, True)
        b_page, b_acc, b_m, b_l = attend(b_page, b_acc, b_m, b_l, full_lo, full_hi, t, block, loop, cfg, False)
        b_page, b_acc, b_m, b_l = attend(b_page, b_acc, b_m, b_l, full_hi, tile_hi, t, block, loop, cfg, True)
    else:
        b_page, b_acc, b_m, b_l = attend(b_page, b_acc, b_m, b_l, tile_lo, tile_hi, t, block, loop, cfg, True)
    if cfg.LATE_SUM:
        b_l = tl.sum(b_l, 0 if cfg.TRANSPOSED else 1)
    return b_acc, b_m, b_l
