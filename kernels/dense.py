"""Contiguous attention for prefill: one work item is BLOCK_M query rows of one query head of one batch member.

A program owns one work item (default grid) or strides over many (persistent grid); the work on an item is the same.
See dense.md.
"""

from typing import NamedTuple

import triton
import triton.language as tl

from .primitives import (
    LOG2_E,
    accumulate,
    add_sink,
    initial_state,
    normalise,
    online_softmax,
    per_key,
    per_row,
    scores,
)


class Operand(NamedTuple):
    """A tensor [outer, token, head, channel]: its pointer and strides in elements; the channel has stride 1.

    The outer axis is the batch. A packed tensor has none: its tokens stand for it, with the same stride.
    """

    p: tl.tensor
    stride_outer: tl.tensor
    stride_token: tl.tensor
    stride_head: tl.tensor


class Config(NamedTuple):
    """Compile-time extents, mask and levers. WINDOW counts the keys that a row sees; 0 means all."""

    BLOCK_M: tl.constexpr
    BLOCK_N: tl.constexpr
    GROUP: tl.constexpr
    HEAD_SIZE: tl.constexpr
    HEAD_PAD: tl.constexpr
    CAUSAL: tl.constexpr
    TOP_LEFT: tl.constexpr
    WINDOW: tl.constexpr
    TRANSPOSED: tl.constexpr
    MASK_SPLIT: tl.constexpr
    LAZY: tl.constexpr


class Member(NamedTuple):
    """One member of the batch: where its queries and its keys start on the outer axis, and their numbers."""

    i_outer_q: tl.tensor
    i_outer_k: tl.tensor
    seqlen_q: tl.tensor
    seqlen_kv: tl.tensor


class Block(NamedTuple):
    """Query rows i_row..i_row + BLOCK_M - 1; row r sees the keys o_first[r]..o_last[r].

    Some row sees the keys key_lo..key_hi - 1, every row sees full_lo..full_hi - 1. Rows before the first key, or a
    window behind the last one, leave key_hi at or below key_lo.
    """

    i_row: tl.tensor
    m_row: tl.tensor
    o_first: tl.tensor
    o_last: tl.tensor
    key_lo: tl.tensor
    key_hi: tl.tensor
    full_lo: tl.tensor
    full_hi: tl.tensor


@triton.jit
def decode_item(i_item, num_q_blocks, num_heads, batch, GROUP: tl.constexpr, ORDER: tl.constexpr):
    """(query block, query head, batch member) of a work item; each triple has one item (specification §8.2).

    The paired orders are for exactly as many programs as they name: neighbouring programs share one KV head, and each
    meets a low and the matching high query block, whose causal costs add up to the same.
    """
    i_batch = i_item % batch
    if ORDER == "qb_major":
        # i_item = (i_qblock * num_heads + i_head) * batch + i_batch
        i_head = i_item // batch % num_heads
        i_qblock = i_item // (batch * num_heads)
    elif ORDER == "gqa_pair" or ORDER == "gqa_pair_2phase":
        # Programs that share a KV head and a pair of query blocks, and the query heads that each of them serves.
        SHARERS: tl.constexpr = 2 if ORDER == "gqa_pair" else GROUP
        SERVED: tl.constexpr = GROUP // SHARERS
        num_kv_heads = num_heads // GROUP
        num_programs = num_q_blocks // 2 * SHARERS * num_kv_heads * batch
        i_program = i_item % num_programs
        i_step = i_item // num_programs
        i_batch = i_program // SHARERS % batch
        i_head_kv = i_program // (SHARERS * batch) % num_kv_heads
        i_pair = i_program // (SHARERS * batch * num_kv_heads)
        i_head = i_head_kv * GROUP + i_program % SHARERS * SERVED + i_step % SERVED
        i_qblock = tl.where(i_step < SERVED, i_pair, num_q_blocks - 1 - i_pair)
    else:
        # i_item = ((i_head_kv * num_q_blocks + i_slot) * GROUP + i_member) * batch + i_batch
        i_head = i_item // (batch * GROUP * num_q_blocks) * GROUP + i_item // batch % GROUP
        i_slot = i_item // (batch * GROUP) % num_q_blocks
        half = num_q_blocks // 2
        # Slots i and half + i hold the blocks i and num_q_blocks - 1 - i, whose causal costs add up to the same.
        i_qblock = tl.where(i_slot < half, i_slot, num_q_blocks - 1 - (i_slot - half))
    return i_qblock, i_head, i_batch


@triton.jit
def locate_member(p_cu_seqlens_q, p_cu_seqlens_k, seqlen_q, seqlen_kv, i_batch):
    """A member of a rectangular batch, or of a packed one where the running lengths are given."""
    if p_cu_seqlens_q is not None:
        i_outer_q = tl.load(p_cu_seqlens_q + i_batch)
        i_outer_k = tl.load(p_cu_seqlens_k + i_batch)
        seqlen_q = tl.load(p_cu_seqlens_q + i_batch + 1) - i_outer_q
        seqlen_kv = tl.load(p_cu_seqlens_k + i_batch + 1) - i_outer_k
        return Member(i_outer_q, i_outer_k, seqlen_q, seqlen_kv)
    else:
        return Member(i_batch, i_batch, seqlen_q, seqlen_kv)


@triton.jit
def locate_block(member, i_qblock, cfg):
    """The query block of a member and the keys it needs."""
    i_row = i_qblock * cfg.BLOCK_M
    o_row = i_row + tl.arange(0, cfg.BLOCK_M)
    o_first = tl.zeros((cfg.BLOCK_M,), tl.int32)
    o_last = tl.full((cfg.BLOCK_M,), member.seqlen_kv - 1, tl.int32)
    key_lo = 0
    full_lo = 0
    key_hi = member.seqlen_kv
    full_hi = member.seqlen_kv
    if cfg.CAUSAL:
        offset = 0
        if not cfg.TOP_LEFT:
            offset = member.seqlen_kv - member.seqlen_q
        pos_lo = i_row + offset
        pos_hi = tl.minimum(i_row + cfg.BLOCK_M, member.seqlen_q) - 1 + offset
        # One limit per row for both the diagonal and the end of the keys.
        o_last = tl.minimum(o_row + offset, o_last)
        full_hi = tl.minimum(pos_lo + 1, key_hi)
        key_hi = tl.minimum(pos_hi + 1, key_hi)
        if cfg.WINDOW > 0:
            o_first = o_row + offset + 1 - cfg.WINDOW
            full_lo = tl.maximum(pos_hi + 1 - cfg.WINDOW, 0)
            key_lo = tl.maximum(pos_lo + 1 - cfg.WINDOW, 0)
    return Block(i_row, o_row < member.seqlen_q, o_first, o_last, key_lo, key_hi, full_lo, full_hi)


@triton.jit
def head_pointer(x, i_outer, i_token, i_head):
    """Address of one token of one head. In 64 bits: batch, head and token offsets outgrow 32 bits."""
    p_outer = x.p + tl.cast(i_outer, tl.int64) * x.stride_outer
    return p_outer + tl.cast(i_token, tl.int64) * x.stride_token + tl.cast(i_head, tl.int64) * x.stride_head


@triton.jit
def load_query(p_row, block, stride_token, cfg):
    """[M, D], or [D, M] when transposed; padded rows and channels are zero."""
    o_d = tl.arange(0, cfg.HEAD_PAD)
    o_m = tl.arange(0, cfg.BLOCK_M) * stride_token
    m_q = per_row(block.m_row, cfg.TRANSPOSED) & per_key(o_d < cfg.HEAD_SIZE, cfg.TRANSPOSED)
    return tl.load(p_row + (per_row(o_m, cfg.TRANSPOSED) + per_key(o_d, cfg.TRANSPOSED)), mask=m_q, other=0.0)


@triton.jit
def load_tile(p_head, i_key, m_key, stride_token, cfg, MASKED: tl.constexpr):
    """The K or V tile [N, D] that starts at key i_key; masked keys and padded channels are zero."""
    o_d = tl.arange(0, cfg.HEAD_PAD)
    o_n = tl.arange(0, cfg.BLOCK_N) * stride_token
    p_tile = p_head + tl.cast(i_key, tl.int64) * stride_token + (o_n[:, None] + o_d[None, :])
    if cfg.HEAD_PAD != cfg.HEAD_SIZE:
        m_tile = (o_d < cfg.HEAD_SIZE)[None, :]
        if MASKED:
            m_tile = m_tile & m_key[:, None]
        return tl.load(p_tile, mask=m_tile, other=0.0)
    elif MASKED:
        return tl.load(p_tile, mask=m_key[:, None], other=0.0)
    else:
        return tl.load(p_tile)


@triton.jit
def mask_scores(b_s, o_key, block, cfg):
    """Causal limit, end of the keys and sliding window; masked scores become -inf."""
    b_key = per_key(o_key, cfg.TRANSPOSED)
    m_visible = b_key <= per_row(block.o_last, cfg.TRANSPOSED)
    if cfg.WINDOW > 0:
        m_visible &= b_key >= per_row(block.o_first, cfg.TRANSPOSED)
    return tl.where(m_visible, b_s, float("-inf"))


@triton.jit
def attend(b_acc, b_m, b_l, tile_lo, tile_hi, b_q, p_k, p_v, k, v, scale_log2, block, cfg, MASKED: tl.constexpr):
    """The recurrence over the tiles tile_lo..tile_hi - 1 of one KV head."""
    for i_tile in range(tile_lo, tile_hi):
        i_key = i_tile * cfg.BLOCK_N
        o_key = i_key + tl.arange(0, cfg.BLOCK_N)
        m_key = (o_key >= block.key_lo) & (o_key < block.key_hi)
        # [N, D]
        b_k = load_tile(p_k, i_key, m_key, k.stride_token, cfg, MASKED)
        b_v = load_tile(p_v, i_key, m_key, v.stride_token, cfg, MASKED)
        # [M, D] x [D, N] -> [M, N], or transposed
        b_s = scores(b_q, b_k, cfg.TRANSPOSED)
        if MASKED:
            b_s = mask_scores(b_s, o_key, block, cfg)
        b_p, b_acc, b_m, b_l = online_softmax(b_s, scale_log2, b_acc, b_m, b_l, cfg.TRANSPOSED, cfg.LAZY)
        # [M, N] x [N, D] -> [M, D], or transposed
        b_acc = accumulate(b_p, b_v, b_acc, cfg.TRANSPOSED)
    return b_acc, b_m, b_l


@triton.jit
def attend_keys(b_q, p_k, p_v, k, v, scale_log2, block, cfg):
    """State after all keys of the block: no tile outside key_lo..key_hi is visited, and none is masked in vain."""
    b_acc, b_m, b_l = initial_state(cfg.BLOCK_M, cfg.HEAD_PAD, cfg.TRANSPOSED)
    tile_lo = block.key_lo // cfg.BLOCK_N
    tile_hi = tl.where(block.key_lo < block.key_hi, tl.cdiv(block.key_hi, cfg.BLOCK_N), tile_lo)
    if cfg.MASK_SPLIT:
        body_lo = tile_lo
        if cfg.WINDOW > 0:
            body_lo = tl.minimum(tl.cdiv(block.full_lo, cfg.BLOCK_N), tile_hi)
            b_acc, b_m, b_l = attend(
                b_acc, b_m, b_l, tile_lo, body_lo, b_q, p_k, p_v, k, v, scale_log2, block, cfg, MASKED=True
            )
        body_hi = tl.maximum(block.full_hi // cfg.BLOCK_N, body_lo)
        b_acc, b_m, b_l = attend(
            b_acc, b_m, b_l, body_lo, body_hi, b_q, p_k, p_v, k, v, scale_log2, block, cfg, MASKED=False
        )
        b_acc, b_m, b_l = attend(
            b_acc, b_m, b_l, body_hi, tile_hi, b_q, p_k, p_v, k, v, scale_log2, block, cfg, MASKED=True
        )
    else:
        b_acc, b_m, b_l = attend(
            b_acc, b_m, b_l, tile_lo, tile_hi, b_q, p_k, p_v, k, v, scale_log2, block, cfg, MASKED=True
        )
    return b_acc, b_m, b_l


@triton.jit
def attend_item(q, k, v, out, p_sinks, softmax_scale, member, i_qblock, i_head, cfg):
    """One work item, from the query rows to the output rows."""
    block = locate_block(member, i_qblock, cfg)
    b_q = load_query(head_pointer(q, member.i_outer_q, block.i_row, i_head), block, q.stride_token, cfg)
    p_k = head_pointer(k, member.i_outer_k, 0, i_head // cfg.GROUP)
    p_v = head_pointer(v, member.i_outer_k, 0, i_head // cfg.GROUP)
    b_acc, b_m, b_l = attend_keys(b_q, p_k, p_v, k, v, softmax_scale * LOG2_E, block, cfg)
    if p_sinks is not None:
        b_acc, b_m, b_l = add_sink(b_acc, b_m, b_l, tl.load(p_sinks + i_head), cfg.TRANSPOSED)
    b_o = normalise(b_acc, b_l, cfg.TRANSPOSED)
    o_d = tl.arange(0, cfg.HEAD_PAD)
    o_m = tl.arange(0, cfg.BLOCK_M) * out.stride_token
    p_out = head_pointer(out, member.i_outer_q, block.i_row, i_head) + (o_m[:, None] + o_d[None, :])
    m_out = block.m_row[:, None] & (o_d < cfg.HEAD_SIZE)[None, :]
    # [M, D]
    tl.store(p_out, b_o.to(out.p.dtype.element_ty), mask=m_out)


@triton.jit
def dense_attention(
    p_out,
    p_q,
    p_k,
    p_v,
    p_sinks,
    p_cu_seqlens_q,
    p_cu_seqlens_k,
    softmax_scale,
    seqlen_q,
    seqlen_kv,
    num_q_blocks,
    num_heads,
    batch,
    stride_out_outer,
    stride_out_token,
    stride_out_head,
    stride_q_outer,
    stride_q_token,
    stride_q_head,
    stride_k_outer,
    stride_k_token,
    stride_k_head,
    stride_v_outer,
    stride_v_token,
    stride_v_head,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PAD: tl.constexpr,
    CAUSAL: tl.constexpr,
    TOP_LEFT: tl.constexpr,
    WINDOW: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    MASK_SPLIT: tl.constexpr,
    LAZY: tl.constexpr,
    ORDER: tl.constexpr,
):
    """Default grid (query blocks, query heads, batch), ORDER "grid"; or any 1-D grid with an ORDER of decode_item.

    Tensors as in workbench.attention.dense_attention.
    """
    q = Operand(p_q, stride_q_outer, stride_q_token, stride_q_head)
    k = Operand(p_k, stride_k_outer, stride_k_token, stride_k_head)
    v = Operand(p_v, stride_v_outer, stride_v_token, stride_v_head)
    out = Operand(p_out, stride_out_outer, stride_out_token, stride_out_head)
    cfg: tl.constexpr = Config(
        BLOCK_M, BLOCK_N, GROUP, HEAD_SIZE, HEAD_PAD, CAUSAL, TOP_LEFT, WINDOW, TRANSPOSED, MASK_SPLIT, LAZY,
    )  # fmt: skip
    if ORDER == "grid":
        i_qblock = tl.program_id(0)
        member = locate_member(p_cu_seqlens_q, p_cu_seqlens_k, seqlen_q, seqlen_kv, tl.program_id(2))
        # The grid is cut for the longest member of a packed batch.
        if i_qblock * BLOCK_M < member.seqlen_q:
            attend_item(q, k, v, out, p_sinks, softmax_scale, member, i_qblock, tl.program_id(1), cfg)
    else:
        for i_item in range(tl.program_id(0), num_q_blocks * num_heads * batch, tl.num_programs(0)):
            i_qblock, i_head, i_batch = decode_item(i_item, num_q_blocks, num_heads, batch, GROUP, ORDER)
            member = locate_member(p_cu_seqlens_q, p_cu_seqlens_k, seqlen_q, seqlen_kv, i_batch)
            attend_item(q, k, v, out, p_sinks, softmax_scale, member, i_qblock, i_head, cfg)
