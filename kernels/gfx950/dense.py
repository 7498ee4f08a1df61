"""Contiguous attention for prefill on gfx950: S^T = K Q^T and O^T = V^T P^T on 32x32x16 MFMA. See dense.md.

A program owns one work item, 32 query rows to a wave; Q stays in registers, K and V stream through LDS.
"""

from typing import NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from ..dense import decode_item
from ..primitives import LOG2_E, LOWEST
from .layouts import lds_written, mfma_layout, operand
from .steps import barrier, by_key, copy_keys, exp2, rebase, rescale, set_priority, set_priority_after_both


class Operand(NamedTuple):
    """A tensor [batch, token, head, channel]: its pointer and strides in elements; the channel has stride 1."""

    p: gl.tensor
    stride_outer: gl.tensor
    stride_token: gl.tensor
    stride_head: gl.tensor


class Config(NamedTuple):
    """Compile-time extents, layouts and levers.

    A tile of BLOCK_N keys is copied at once, multiplied in parts of PART_N, and folded in STEP_PARTS parts at a time.
    """

    BLOCK_M: gl.constexpr
    BLOCK_N: gl.constexpr
    GROUP: gl.constexpr
    HEAD_SIZE: gl.constexpr
    CAUSAL: gl.constexpr
    TOP_LEFT: gl.constexpr
    RAGGED: gl.constexpr
    MASK_SPLIT: gl.constexpr
    LAZY: gl.constexpr
    K_PAD: gl.constexpr
    V_PAD: gl.constexpr
    WIDE: gl.constexpr
    NUM_BUFFERS: gl.constexpr
    PREFETCH: gl.constexpr
    PART_N: gl.constexpr
    STEP_PARTS: gl.constexpr
    CLUSTER: gl.constexpr
    EXP2_FAST: gl.constexpr
    SETPRIO: gl.constexpr
    P_WIDTH: gl.constexpr
    NUM_WARPS: gl.constexpr
    MFMA: gl.constexpr


class Stream(NamedTuple):
    """K or V of one head: its LDS buffers, its first key, the stride between keys.

    lds: K [NUM_BUFFERS, BLOCK_N, HEAD_SIZE], V [NUM_BUFFERS * BLOCK_N / PART_N, PART_N, HEAD_SIZE].
    """

    lds: gl.shared_memory_descriptor
    p: gl.tensor
    stride_token: gl.tensor


class Block(NamedTuple):
    """Query rows i_row..i_row + BLOCK_M - 1; row r sees the keys 0..o_last[r].

    The tiles 0..tile_hi - 1 hold a key that some row sees, the first body_hi of them only such keys for every row.
    """

    i_row: gl.tensor
    o_last: gl.tensor
    body_hi: gl.tensor
    tile_hi: gl.tensor


@gluon.jit
def locate_block(i_qblock, seqlen_q, seqlen_kv, cfg):
    """The query block and the tiles it needs."""
    i_row = i_qblock * cfg.BLOCK_M
    o_row = i_row + gl.arange(0, cfg.BLOCK_M, gl.SliceLayout(0, cfg.MFMA))
    o_last = gl.full([cfg.BLOCK_M], seqlen_kv - 1, gl.int32, gl.SliceLayout(0, cfg.MFMA))
    full_hi = seqlen_kv
    key_hi = seqlen_kv
    if cfg.CAUSAL:
        offset = 0
        if not cfg.TOP_LEFT:
            offset = seqlen_kv - seqlen_q
        o_last = gl.minimum(o_row + offset, o_last)
        full_hi = gl.minimum(i_row + 1 + offset, seqlen_kv)
        key_hi = gl.minimum(gl.minimum(i_row + cfg.BLOCK_M, seqlen_q) + offset, seqlen_kv)
    tile_hi = gl.maximum(gl.cdiv(key_hi, cfg.BLOCK_N), 0)
    body_hi = gl.minimum(gl.maximum(full_hi, 0) // cfg.BLOCK_N, tile_hi)
    return Block(i_row, o_last, body_hi, tile_hi)


@gluon.jit
def head_pointer(x, i_batch, i_token, i_head):
    """Address of one token of one head. In 64 bits: batch, head and token offsets outgrow 32 bits."""
    p_batch = x.p + i_batch.to(gl.int64) * x.stride_outer
    return p_batch + i_token.to(gl.int64) * x.stride_token + i_head.to(gl.int64) * x.stride_head


@gluon.jit
def load_query(p_row, stride_token, num_rows, cfg):
    """Q^T [HEAD_SIZE, BLOCK_M] straight into the registers of the QK product; rows past num_rows are zero."""
    LAYOUT: gl.constexpr = operand(1, cfg.MFMA, 8)
    o_d = gl.arange(0, cfg.HEAD_SIZE, gl.SliceLayout(1, LAYOUT))
    o_m = gl.arange(0, cfg.BLOCK_M, gl.SliceLayout(0, LAYOUT))
    offsets = o_m[None, :] * stride_token + o_d[:, None]
    if cfg.RAGGED:
        return gl.amd.cdna4.buffer_load(p_row, offsets, mask=(o_m < num_rows)[None, :], other=0.0)
    else:
        return gl.amd.cdna4.buffer_load(p_row, offsets)


@gluon.jit
def start_copy(x, i_tile, last_tile, seqlen_kv, PARTS: gl.constexpr, PAD: gl.constexpr, cfg):
    """Start copying a tile to its buffer; past the last tile that one again, so that every step copies the same."""
    COUNT: gl.constexpr = cfg.BLOCK_N // PARTS
    i_key = gl.minimum(i_tile, last_tile) * cfg.BLOCK_N
    for i_part in gl.static_range(PARTS):
        i_first = i_key + i_part * COUNT
        p_first = x.p + i_first.to(gl.int64) * x.stride_token
        lds = x.lds.index(i_tile % cfg.NUM_BUFFERS * PARTS + i_part)
        copy_keys(lds, p_first, x.stride_token, seqlen_kv - i_first, COUNT, PAD, cfg)
    gl.amd.cdna4.async_copy.commit_group()


@gluon.jit
def wait_for_oldest(cfg):
    """Wait until the oldest tile under way has arrived in LDS, for all waves."""
    # Copies under way after it: two for each tile that is prefetched, less the one just waited for.
    gl.amd.cdna4.async_copy.wait_group(2 * cfg.NUM_BUFFERS - 3 if cfg.PREFETCH else 0)


@gluon.jit
def read_keys(x, i_tile, i_part, cfg):
    """K [PART_N, HEAD_SIZE] of a part of the tile, as operand 0 of the QK product."""
    lds = by_key(x.lds.index(i_tile % cfg.NUM_BUFFERS), cfg.BLOCK_N, cfg.K_PAD, cfg)
    lds = lds.slice(i_part * cfg.PART_N, cfg.PART_N, 0)
    return gl.amd.cdna4.async_copy.load_shared_relaxed(lds, operand(0, cfg.MFMA, 8))


@gluon.jit
def read_values(x, i_tile, i_part, cfg):
    """V^T [HEAD_SIZE, PART_N] of a part of the tile, as operand 0 of the PV product.

    A part has a buffer of its own: Triton 3.6 has no transposing LDS read of a slice.
    """
    PARTS: gl.constexpr = cfg.BLOCK_N // cfg.PART_N
    lds = x.lds.index(i_tile % cfg.NUM_BUFFERS * PARTS + i_part)
    lds = by_key(lds, cfg.PART_N, cfg.V_PAD, cfg).permute([1, 0])
    return gl.amd.cdna4.async_copy.load_shared_relaxed(lds, operand(0, cfg.MFMA, cfg.P_WIDTH))


@gluon.jit
def masked_scores(k, b_q, i_tile, i_part, block, cfg, MASKED: gl.constexpr):
    """S^T [PART_N, BLOCK_M] of a part of the tile; keys that a row does not see are -inf."""
    b_k = read_keys(k, i_tile, i_part, cfg)
    b_s = gl.amd.cdna4.mfma(b_k, b_q, gl.zeros([cfg.PART_N, cfg.BLOCK_M], gl.float32, cfg.MFMA))
    if MASKED:
        o_key = gl.arange(0, cfg.PART_N, gl.SliceLayout(1, cfg.MFMA)) + (i_tile * cfg.BLOCK_N + i_part * cfg.PART_N)
        b_s = gl.where(o_key[:, None] <= block.o_last[None, :], b_s, float("-inf"))
    return b_s


@gluon.jit
def probabilities(b_s, b_m, b_l, scale_log2, dtype: gl.constexpr, cfg):
    """P^T in the layout of the PV product, and the denominator with it."""
    b_p = exp2(b_s * scale_log2 - b_m[None, :], cfg.EXP2_FAST)
    return gl.convert_layout(b_p.to(dtype), operand(1, cfg.MFMA, cfg.P_WIDTH)), b_l + gl.sum(b_p, 0)


@gluon.jit
def attend_tile(b_acc, b_m, b_l, i_tile, last_tile, b_q, k, v, scale_log2, seqlen_kv, block, cfg, MASKED: gl.constexpr):
    """The recurrence over one tile, while the next ones travel: the current V first, the next K second."""
    PARTS: gl.constexpr = cfg.BLOCK_N // cfg.PART_N
    dtype: gl.constexpr = v.p.dtype.element_ty
    start_copy(v, i_tile + cfg.NUM_BUFFERS - 2, last_tile, seqlen_kv, PARTS, cfg.V_PAD, cfg)
    wait_for_oldest(cfg)
    for i_part in gl.static_range(0, PARTS, cfg.STEP_PARTS):
        b_s = masked_scores(k, b_q, i_tile, i_part, block, cfg, MASKED)
        b_m_new = gl.maximum(b_m, gl.max(b_s, 0) * scale_log2)
        if cfg.STEP_PARTS == 2:
            b_s_rest = masked_scores(k, b_q, i_tile, i_part + 1, block, cfg, MASKED)
            b_m_new = gl.maximum(b_m_new, gl.max(b_s_rest, 0) * scale_log2)
        if i_part == 0:
            start_copy(k, i_tile + cfg.NUM_BUFFERS - 1, last_tile, seqlen_kv, 1, cfg.K_PAD, cfg)
        b_alpha, b_m, b_l = rebase(b_m, b_l, b_m_new, cfg.LAZY)
        b_p, b_l = probabilities(b_s, b_m, b_l, scale_log2, dtype, cfg)
        if i_part == 0:
            wait_for_oldest(cfg)
        # Behind the wait: Triton 3.6 counts no copies across the rescale's branch, and would wait for all of them.
        b_acc = rescale(b_acc, b_alpha, cfg.LAZY)
        b_v = read_values(v, i_tile, i_part, cfg)
        if cfg.STEP_PARTS == 2 and not cfg.CLUSTER:
            b_p_rest, b_l = probabilities(b_s_rest, b_m, b_l, scale_log2, dtype, cfg)
            b_p, b_p_rest = set_priority_after_both(
                b_p, b_p_rest, 1 if cfg.SETPRIO else -1, cfg.PART_N // 4, cfg.PART_N // 2
            )
        elif cfg.SETPRIO:
            b_p = set_priority(b_p, 1, cfg.PART_N // 4, cfg.PART_N // 2)
        b_acc = gl.amd.cdna4.mfma(b_v, b_p, b_acc)
        if cfg.STEP_PARTS == 2:
            if cfg.CLUSTER:
                b_p_rest, b_l = probabilities(b_s_rest, b_m, b_l, scale_log2, dtype, cfg)
            b_acc = gl.amd.cdna4.mfma(read_values(v, i_tile, i_part + 1, cfg), b_p_rest, b_acc)
        if cfg.SETPRIO:
            b_l = set_priority(b_l, 0, 1, 1)
    return b_acc, b_m, b_l


@gluon.jit
def attend_tiles(
    b_acc, b_m, b_l, tile_lo, tile_hi, last_tile, b_q, k, v, scale_log2, seqlen_kv, block, cfg, MASKED: gl.constexpr
):
    """The recurrence over the tiles tile_lo..tile_hi - 1."""
    for i_tile in range(tile_lo, tile_hi):
        b_acc, b_m, b_l = attend_tile(
            b_acc, b_m, b_l, i_tile, last_tile, b_q, k, v, scale_log2, seqlen_kv, block, cfg, MASKED
        )
    return b_acc, b_m, b_l


@gluon.jit
def attend_keys(b_q, k, v, scale_log2, seqlen_kv, block, cfg):
    """State after all keys of the block."""
    b_acc = gl.zeros([cfg.HEAD_SIZE, cfg.BLOCK_M], gl.float32, cfg.MFMA)
    b_m = gl.full([cfg.BLOCK_M], LOWEST, gl.float32, gl.SliceLayout(0, cfg.MFMA))
    b_l = gl.zeros([cfg.BLOCK_M], gl.float32, gl.SliceLayout(0, cfg.MFMA))
    last_tile = gl.maximum(block.tile_hi - 1, 0)
    # The buffers may still be read by waves that finish the item before.
    barrier()
    for i_tile in gl.static_range(cfg.NUM_BUFFERS - 1):
        if i_tile > 0:
            start_copy(v, gl.to_tensor(i_tile - 1), last_tile, seqlen_kv, cfg.BLOCK_N // cfg.PART_N, cfg.V_PAD, cfg)
        start_copy(k, gl.to_tensor(i_tile), last_tile, seqlen_kv, 1, cfg.K_PAD, cfg)
    body_hi = block.body_hi if cfg.MASK_SPLIT else 0
    if cfg.MASK_SPLIT:
        b_acc, b_m, b_l = attend_tiles(
            b_acc, b_m, b_l, 0, body_hi, last_tile, b_q, k, v, scale_log2, seqlen_kv, block, cfg, MASKED=False
        )
    if cfg.CAUSAL or cfg.RAGGED or not cfg.MASK_SPLIT:
        b_acc, b_m, b_l = attend_tiles(
            b_acc, b_m, b_l, body_hi, block.tile_hi, last_tile, b_q, k, v, scale_log2, seqlen_kv, block, cfg,
            MASKED=True,
        )  # fmt: skip
    return b_acc, b_m, b_l


@gluon.jit
def store_rows(p_row, stride_token, b_o, num_rows, cfg):
    """O^T [HEAD_SIZE, BLOCK_M] as it lies, 4 channels of a row at a time; rows past num_rows are dropped."""
    o_d = gl.arange(0, cfg.HEAD_SIZE, gl.SliceLayout(1, cfg.MFMA))
    o_m = gl.arange(0, cfg.BLOCK_M, gl.SliceLayout(0, cfg.MFMA))
    offsets = o_m[None, :] * stride_token + o_d[:, None]
    b_o = b_o.to(p_row.dtype.element_ty)
    if cfg.RAGGED:
        gl.amd.cdna4.buffer_store(b_o, p_row, offsets, mask=(o_m < num_rows)[None, :])
    else:
        gl.amd.cdna4.buffer_store(b_o, p_row, offsets)


@gluon.jit
def attend_item(
    q, k, v, out, p_sinks, lds_k, lds_v, softmax_scale, seqlen_q, seqlen_kv, i_qblock, i_head, i_batch, cfg
):
    """One work item, from the query rows to the output rows."""
    block = locate_block(i_qblock, seqlen_q, seqlen_kv, cfg)
    i_kv_head = i_head // cfg.GROUP
    num_rows = seqlen_q - block.i_row
    b_q = load_query(head_pointer(q, i_batch, block.i_row, i_head), q.stride_token, num_rows, cfg)
    zero = gl.to_tensor(0)
    k_stream = Stream(lds_k, head_pointer(k, i_batch, zero, i_kv_head), k.stride_token)
    v_stream = Stream(lds_v, head_pointer(v, i_batch, zero, i_kv_head), v.stride_token)
    b_acc, b_m, b_l = attend_keys(b_q, k_stream, v_stream, softmax_scale * LOG2_E, seqlen_kv, block, cfg)
    if p_sinks is not None:
        b_l += gl.exp2(gl.load(p_sinks + i_head).to(gl.float32) * LOG2_E - b_m)
    # The output of a row without keys is zero already, whatever it is divided by.
    b_o = b_acc * (1.0 / gl.where(b_l > 0.0, b_l, 1.0))[None, :]
    store_rows(head_pointer(out, i_batch, block.i_row, i_head), out.stride_token, b_o, num_rows, cfg)


@gluon.jit
def dense_attention(
    p_out,
    p_q,
    p_k,
    p_v,
    p_sinks,
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
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    GROUP: gl.constexpr,
    HEAD_SIZE: gl.constexpr,
    CAUSAL: gl.constexpr,
    TOP_LEFT: gl.constexpr,
    RAGGED: gl.constexpr,
    MASK_SPLIT: gl.constexpr,
    LAZY: gl.constexpr,
    K_PAD: gl.constexpr,
    V_PAD: gl.constexpr,
    WIDE: gl.constexpr,
    NUM_BUFFERS: gl.constexpr,
    PREFETCH: gl.constexpr,
    PART_N: gl.constexpr,
    STEP_PARTS: gl.constexpr,
    CLUSTER: gl.constexpr,
    EXP2_FAST: gl.constexpr,
    SETPRIO: gl.constexpr,
    P_WIDTH: gl.constexpr,
    ORDER: gl.constexpr,
):
    """Grid and ORDER as in workbench.kernels.dense; tensors as in workbench.attention.dense_attention."""
    NUM_WARPS: gl.constexpr = BLOCK_M // 32
    cfg: gl.constexpr = Config(
        BLOCK_M, BLOCK_N, GROUP, HEAD_SIZE, CAUSAL, TOP_LEFT, RAGGED, MASK_SPLIT, LAZY, K_PAD, V_PAD, WIDE,
        NUM_BUFFERS, PREFETCH, PART_N, STEP_PARTS, CLUSTER, EXP2_FAST, SETPRIO, P_WIDTH, NUM_WARPS,
        mfma_layout(NUM_WARPS),
    )  # fmt: skip
    q = Operand(p_q, stride_q_outer, stride_q_token, stride_q_head)
    k = Operand(p_k, stride_k_outer, stride_k_token, stride_k_head)
    v = Operand(p_v, stride_v_outer, stride_v_token, stride_v_head)
    out = Operand(p_out, stride_out_outer, stride_out_token, stride_out_head)
    dtype: gl.constexpr = p_k.dtype.element_ty
    lds_k = gl.allocate_shared_memory(
        dtype, [NUM_BUFFERS, BLOCK_N, HEAD_SIZE], lds_written(BLOCK_N, HEAD_SIZE, K_PAD, WIDE)
    )
    lds_v = gl.allocate_shared_memory(
        dtype, [NUM_BUFFERS * BLOCK_N // PART_N, PART_N, HEAD_SIZE], lds_written(PART_N, HEAD_SIZE, V_PAD, WIDE)
    )
    if ORDER == "grid":
        attend_item(
            q, k, v, out, p_sinks, lds_k, lds_v, softmax_scale, seqlen_q, seqlen_kv,
            gl.program_id(0), gl.program_id(1), gl.program_id(2), cfg,
        )  # fmt: skip
    else:
        for i_item in range(gl.program_id(0), num_q_blocks * num_heads * batch, gl.num_programs(0)):
            i_qblock, i_head, i_batch = decode_item(i_item, num_q_blocks, num_heads, batch, GROUP, ORDER)
            attend_item(
                q, k, v, out, p_sinks, lds_k, lds_v, softmax_scale, seqlen_q, seqlen_kv, i_qblock, i_head, i_batch, cfg
            )
