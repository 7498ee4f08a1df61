"""Unified paged attention on gfx950, 2D: S^T = K Q^T and O^T = V^T P^T on 32x32 MFMA. See unified_2d.md.

A program owns a query block, 32 rows to a wave, and walks all of its keys; K and V stream through LDS page by page.
"""

from typing import NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from ..primitives import LOG2_E, LOWEST, RESCALE_THRESHOLD_LOG2
from .layouts import mfma_layout, operand
from .paged import (
    CHUNK_OF_VALUES,
    Block,
    Config,
    Stream,
    Table,
    as_scalars,
    bytes_of,
    chunk_of_keys,
    copy_tile,
    fetch_tile,
    keys_of_copy,
    lds_layout,
    load_pages,
    locate_block,
    make_table,
    reinterpreted,
    store_tile,
)
from .steps import barrier, exp2, rescale, set_priority


class Bias(NamedTuple):
    """What scores get beside the products. Absent data stands as a number: Triton 3.6 returns no None in a tuple."""

    scale_log2: gl.tensor
    softcap: gl.tensor
    b_slope_log2: gl.tensor
    p_qq: gl.tensor
    o_qq_row: gl.tensor
    qq_size: gl.tensor


class Loop(NamedTuple):
    """What stays the same over the KV loop. query: Q^T in registers, or its LDS."""

    query: gl.tensor
    k: Stream
    v: Stream
    table: Table
    block: Block
    bias: Bias
    o_limit: gl.tensor


@gluon.jit
def row_positions(LAYOUT: gl.constexpr, block, cfg):
    """Of each row: position in the block, query head, and whether the row exists. LAYOUT is that of the rows."""
    o_m = gl.arange(0, cfg.BLOCK_M, LAYOUT)
    o_pos = o_m // cfg.GROUP
    m_row = (o_pos < block.num_positions) & (o_m < cfg.BLOCK_Q * cfg.GROUP)
    return o_pos, block.i_head_kv * cfg.GROUP + o_m % cfg.GROUP, m_row


@gluon.jit
def load_query(p_q, stride_token, stride_head, lds_q, dtype: gl.constexpr, block, cfg):
    """Q^T [HEAD_SIZE, BLOCK_M], operand 1 of the QK product: in registers, or through LDS, which is then returned."""
    LAYOUT: gl.constexpr = operand(1, cfg.MFMA, chunk_of_keys(dtype))
    o_d = gl.arange(0, cfg.HEAD_SIZE, gl.SliceLayout(1, LAYOUT))
    o_pos, o_head, m_row = row_positions(gl.SliceLayout(0, LAYOUT), block, cfg)
    p_first = p_q + block.i_token.to(gl.int64) * stride_token
    offsets = (o_pos * stride_token + o_head * stride_head)[None, :] + o_d[:, None]
    b_q = gl.amd.cdna4.buffer_load(p_first, offsets, mask=m_row[None, :]).to(dtype)
    if cfg.Q_REGISTERS:
        return b_q
    else:
        lds_q.permute([1, 0]).store(b_q)
        return lds_q


@gluon.jit
def read_query(query, dtype: gl.constexpr, cfg):
    """Q^T for one QK product."""
    if cfg.Q_REGISTERS:
        return query
    else:
        LAYOUT: gl.constexpr = operand(1, cfg.MFMA, chunk_of_keys(dtype))
        return gl.amd.cdna4.async_copy.load_shared_relaxed(query.permute([1, 0]), LAYOUT)


@gluon.jit
def prepare_bias(
    p_alibi_slopes, p_qq_bias, p_q_scale, p_k_scale, stride_qq, qq_size, softmax_scale, softcap, block, cfg
):
    """Scales, softcap and biases, in the log2 domain. The scales are folded here, once."""
    scale_log2 = softmax_scale * LOG2_E
    if p_q_scale is not None:
        scale_log2 *= gl.load(p_q_scale)
    if p_k_scale is not None:
        scale_log2 *= gl.load(p_k_scale)
    o_pos, o_head, m_row = row_positions(gl.SliceLayout(0, cfg.MFMA), block, cfg)
    b_slope_log2 = 0.0
    if p_alibi_slopes is not None:
        b_slope_log2 = gl.load(p_alibi_slopes + o_head, mask=m_row, other=0.0) * LOG2_E
    p_qq = 0
    o_qq_row = 0
    if p_qq_bias is not None:
        p_qq = p_qq_bias + block.i_pos.to(gl.int64) * stride_qq
        # A row that does not exist reads the first one.
        o_qq_row = gl.where(m_row, o_pos, 0) * stride_qq
    return Bias(scale_log2, softcap, b_slope_log2, p_qq, o_qq_row, qq_size)


@gluon.jit
def add_biases(b_s, o_key, loop, cfg, ALIBI: gl.constexpr, QQ_BIAS: gl.constexpr):
    """Steps 1 to 4 of the specification's order: scale, softcap, ALiBi, QQ-bias."""
    bias = loop.bias
    b_s = b_s * bias.scale_log2
    if cfg.SOFTCAP:
        # c tanh(s / c) with tanh(x) = 1 - 2 / (1 + e^(2x)); saturates without overflow. Near 0 it is off by c * 2^-23,
        # which is far below what rounding P to 16 bits costs.
        cap_log2 = bias.softcap * LOG2_E
        b_s = cap_log2 * (1.0 - 2.0 / (1.0 + gl.exp2(b_s * (2.0 / bias.softcap))))
    o_rel = o_key - loop.block.context_len
    if ALIBI:
        b_s += bias.b_slope_log2[None, :] * o_rel.to(gl.float32)[:, None]
    if QQ_BIAS:
        m_qq = ((o_rel >= 0) & (o_rel < bias.qq_size))[:, None]
        offsets = bias.o_qq_row[None, :] + o_rel[:, None]
        b_s += gl.amd.cdna4.buffer_load(bias.p_qq, offsets, mask=m_qq) * LOG2_E
    return b_s


@gluon.jit
def mask_scores(b_s, o_n, i_first, loop, cfg):
    """Steps 5 and 6: causal limit and sliding window; masked scores become -inf.

    A row's limit is before the end of its sequence, which MASK_ONCE leaves to it.
    """
    # Of every eight keys a lane holds 0..3 or 4..7: with that and the tile's place in the limit, keys are constants.
    o_lane = o_n & 4
    b_near = (o_n - o_lane)[:, None]
    b_limit = loop.o_limit[None, :] - (i_first + o_lane)[:, None]
    if cfg.WINDOW > 0:
        # Behind the limit the distance wraps to more than any window.
        return gl.where((b_limit - b_near).to(gl.uint32, bitcast=True) < cfg.WINDOW, b_s, float("-inf"))
    b_end = (loop.block.kv_len - i_first - o_lane)[:, None]
    if not cfg.MASK_LIMIT:
        b_near = (i_first + o_n)[:, None]
        b_limit = loop.o_limit[None, :]
        b_end = loop.block.kv_len
    if not cfg.MASK_ONCE:
        b_s = gl.where(b_near < b_end, b_s, float("-inf"))
    return gl.where(b_near <= b_limit, b_s, float("-inf"))


@gluon.jit
def score_part(i_tile, i_part, loop, cfg, ALIBI: gl.constexpr, QQ_BIAS: gl.constexpr, MASKED: gl.constexpr):
    """S^T [TILE / PARTS, BLOCK_M] of a part of the tile, before the scale unless there are biases."""
    COUNT: gl.constexpr = cfg.TILE // cfg.PARTS
    dtype: gl.constexpr = loop.k.read.dtype
    lds = loop.k.read.index(i_tile % cfg.K_BUFFERS * cfg.PARTS + i_part)
    b_k = gl.amd.cdna4.async_copy.load_shared_relaxed(lds, operand(0, cfg.MFMA, chunk_of_keys(dtype)))
    b_q = read_query(loop.query, dtype, cfg)
    b_s = gl.amd.cdna4.mfma(b_k, b_q, gl.zeros([COUNT, cfg.BLOCK_M], gl.float32, cfg.MFMA))
    i_first = i_tile * cfg.TILE + i_part * COUNT
    o_n = gl.arange(0, COUNT, gl.SliceLayout(1, cfg.MFMA))
    if cfg.SOFTCAP or ALIBI or QQ_BIAS:
        b_s = add_biases(b_s, i_first + o_n, loop, cfg, ALIBI, QQ_BIAS)
    if MASKED:
        b_s = mask_scores(b_s, o_n, i_first, loop, cfg)
    return b_s


@gluon.jit
def read_values(i_tile, i_part, loop, cfg):
    """V^T [HEAD_SIZE, TILE / PARTS] of a part of the tile, as operand 0 of the PV product."""
    lds = loop.v.read.index(i_tile % cfg.V_BUFFERS * cfg.PARTS + i_part).permute([1, 0])
    return gl.amd.cdna4.async_copy.load_shared_relaxed(lds, operand(0, cfg.MFMA, cfg.P_WIDTH))


@gluon.jit
def probabilities(b_s, b_m, b_l, scale_log2, dtype: gl.constexpr, cfg):
    """P^T in the layout of the PV product, and the denominator with it."""
    b_p = exp2(b_s * scale_log2 - b_m[None, :], cfg.EXP2_FAST)
    return gl.convert_layout(b_p.to(dtype), operand(1, cfg.MFMA, cfg.P_WIDTH)), b_l + gl.sum(b_p, 0)


@gluon.jit
def start_keys(b_pages, i_tile, loop, cfg):
    """Start a K tile; returns what is on its way to registers."""
    if cfg.STAGED and not cfg.NATIVE_FP8:
        return fetch_tile(loop.k, loop.table, b_pages, i_tile, loop.block, cfg)
    else:
        VEC: gl.constexpr = chunk_of_keys(loop.k.read.dtype)
        copy_tile(loop.k, loop.table, b_pages, i_tile, i_tile % cfg.K_BUFFERS, loop.block, VEC, cfg)
        return ()


@gluon.jit
def start_values(b_pages, i_tile, loop, cfg):
    """Start a V tile; returns what is on its way to registers."""
    if cfg.STAGED:
        return fetch_tile(loop.v, loop.table, b_pages, i_tile, loop.block, cfg)
    else:
        copy_tile(loop.v, loop.table, b_pages, i_tile, i_tile % cfg.V_BUFFERS, loop.block, CHUNK_OF_VALUES, cfg)
        return ()


@gluon.constexpr_function
def younger_than_keys(k_buffers, v_buffers, v_first, prefetch):
    """Copies under way after that of K when it is waited for."""
    return 1 if prefetch and k_buffers == v_buffers == 2 and not v_first else 0


@gluon.constexpr_function
def younger_than_values(k_buffers, v_buffers, v_first, prefetch):
    """Copies under way after that of V when it is waited for."""
    if k_buffers == 1 or not prefetch:
        return 0
    if v_buffers == 1:
        return 1 if v_first else 0
    return 2


@gluon.jit
def await_keys(fetched, i_tile, loop, cfg):
    """K of this tile in LDS, for all waves; from here on no wave reads V of the tile before."""
    if cfg.STAGED and not cfg.NATIVE_FP8:
        store_tile(loop.k, fetched, i_tile % cfg.K_BUFFERS, cfg)
        barrier()
    else:
        V_BUFFERS: gl.constexpr = 1 if cfg.STAGED else cfg.V_BUFFERS
        YOUNGER: gl.constexpr = younger_than_keys(cfg.K_BUFFERS, V_BUFFERS, cfg.V_FIRST, cfg.PREFETCH)
        gl.amd.cdna4.async_copy.wait_group(YOUNGER)


@gluon.jit
def await_values(fetched, i_tile, loop, cfg):
    """V of this tile in LDS, for all waves; from here on no wave reads K of this tile."""
    if cfg.STAGED:
        store_tile(loop.v, fetched, i_tile % cfg.V_BUFFERS, cfg)
        barrier()
    elif cfg.V_BUFFERS == 1 or (cfg.K_BUFFERS == 2 and not cfg.V_FIRST):
        YOUNGER: gl.constexpr = younger_than_values(cfg.K_BUFFERS, cfg.V_BUFFERS, cfg.V_FIRST, cfg.PREFETCH)
        gl.amd.cdna4.async_copy.wait_group(YOUNGER)
    elif cfg.K_BUFFERS == 1:
        # V has come with K; the wait is for the readers of K.
        barrier()


@gluon.constexpr_function
def state_layout(scalar_state, mfma, num_warps):
    """Where a row's maximum and denominator lie between tiles: with its scores, or two rows to a lane."""
    return gl.SliceLayout(0, mfma) if scalar_state else gl.BlockedLayout([2], [64], [num_warps], [0])


@gluon.jit
def start_next(b_pages, b_pages_next, i_tile, loop, cfg):
    """After the K barrier: the copies whose buffers are free. Returns what is on its way to registers."""
    KEYS_NOW: gl.constexpr = cfg.K_BUFFERS == 2 or (cfg.STAGED and not cfg.NATIVE_FP8)
    fetched_k = ()
    if KEYS_NOW and not cfg.V_FIRST:
        fetched_k = start_keys(b_pages_next, i_tile + 1, loop, cfg)
    if cfg.V_BUFFERS == 2 and not cfg.STAGED:
        fetched_v = start_values(b_pages_next, i_tile + 1, loop, cfg)
    else:
        fetched_v = start_values(b_pages, i_tile, loop, cfg)
    if KEYS_NOW and cfg.V_FIRST:
        fetched_k = start_keys(b_pages_next, i_tile + 1, loop, cfg)
    return fetched_k, fetched_v


@gluon.jit
def attend_tile(
    b_acc, b_m, b_l, b_pages, b_pages_next, fetched_k, i_tile, loop, cfg, ALIBI: gl.constexpr, QQ_BIAS: gl.constexpr,
    MASKED: gl.constexpr,
):  # fmt: skip
    """One step of the recurrence, while V of this tile and K of the next one travel."""
    dtype: gl.constexpr = loop.v.read.dtype
    b_m = gl.convert_layout(b_m, gl.SliceLayout(0, cfg.MFMA))
    b_l = gl.convert_layout(b_l, gl.SliceLayout(0, cfg.MFMA))
    await_keys(fetched_k, i_tile, loop, cfg)
    # Ahead of the copies: loads return in order, and a wait for this one must not wait for them.
    b_pages_after = load_pages(loop.table, i_tile + 2, cfg)
    b_pages_next = as_scalars(b_pages_next, cfg)
    fetched_k, fetched_v = start_next(b_pages, b_pages_next, i_tile, loop, cfg)
    scale_log2 = loop.bias.scale_log2
    if cfg.SOFTCAP or ALIBI or QQ_BIAS:
        scale_log2 = 1.0
    b_s = score_part(i_tile, 0, loop, cfg, ALIBI, QQ_BIAS, MASKED)
    b_m_new = gl.maximum(b_m, gl.max(b_s, 0) * scale_log2)
    if cfg.PARTS == 2:
        b_s_rest = score_part(i_tile, 1, loop, cfg, ALIBI, QQ_BIAS, MASKED)
        b_m_new = gl.maximum(b_m_new, gl.max(b_s_rest, 0) * scale_log2)
    if cfg.LAZY:
        b_m_new = gl.where(b_m_new - b_m > RESCALE_THRESHOLD_LOG2, b_m_new, b_m)
    b_alpha = gl.exp2(b_m - b_m_new)
    b_m = b_m_new
    b_p, b_l = probabilities(b_s, b_m, b_l * b_alpha, scale_log2, dtype, cfg)
    await_values(fetched_v, i_tile, loop, cfg)
    # Behind the wait: Triton 3.6 counts no copies across the rescale's branch, and would wait for all of them.
    b_acc = rescale(b_acc, b_alpha, cfg.LAZY)
    if cfg.K_BUFFERS == 1 and (cfg.NATIVE_FP8 or not cfg.STAGED):
        start_keys(b_pages_next, i_tile + 1, loop, cfg)
    if cfg.SETPRIO:
        # Held by one register: V is read behind it, and P need not be ready as a whole.
        b_m = set_priority(b_m, 1, 1, 1)
    b_v = read_values(i_tile, 0, loop, cfg)
    b_acc = gl.amd.cdna4.mfma(b_v, b_p, b_acc)
    if cfg.PARTS == 2:
        b_p, b_l = probabilities(b_s_rest, b_m, b_l, scale_log2, dtype, cfg)
        b_acc = gl.amd.cdna4.mfma(read_values(i_tile, 1, loop, cfg), b_p, b_acc)
    if cfg.SETPRIO:
        b_l = set_priority(b_l, 0, 1, 1)
    b_m = gl.convert_layout(b_m, cfg.STATE)
    b_l = gl.convert_layout(b_l, cfg.STATE)
    return b_acc, b_m, b_l, b_pages_next, b_pages_after, fetched_k


@gluon.jit
def attend_tiles(
    b_acc, b_m, b_l, b_pages, b_pages_next, fetched_k, tile_lo, tile_hi, loop, cfg, ALIBI: gl.constexpr,
    QQ_BIAS: gl.constexpr, MASKED: gl.constexpr,
):  # fmt: skip
    """The recurrence over the tiles tile_lo..tile_hi - 1."""
    for i_tile in range(tile_lo, tile_hi):
        b_acc, b_m, b_l, b_pages, b_pages_next, fetched_k = attend_tile(
            b_acc, b_m, b_l, b_pages, b_pages_next, fetched_k, i_tile, loop, cfg, ALIBI, QQ_BIAS, MASKED
        )
    return b_acc, b_m, b_l, b_pages, b_pages_next, fetched_k


@gluon.jit
def attend_block(loop, cfg, ALIBI: gl.constexpr, QQ_BIAS: gl.constexpr):
    """State after all keys of the block; with MASK_SPLIT no mask where every row sees the whole tile."""
    block = loop.block
    tile_lo = block.key_lo // cfg.TILE
    tile_hi = gl.cdiv(block.key_hi, cfg.TILE)
    b_acc = gl.zeros([cfg.HEAD_SIZE, cfg.BLOCK_M], gl.float32, cfg.MFMA)
    b_m = gl.full([cfg.BLOCK_M], LOWEST, gl.float32, cfg.STATE)
    b_l = gl.zeros([cfg.BLOCK_M], gl.float32, cfg.STATE)
    b_pages = as_scalars(load_pages(loop.table, tile_lo, cfg), cfg)
    b_pages_next = load_pages(loop.table, tile_lo + 1, cfg)
    if cfg.V_BUFFERS == 2 and not cfg.STAGED and cfg.V_FIRST:
        start_values(b_pages, tile_lo, loop, cfg)
    fetched_k = start_keys(b_pages, tile_lo, loop, cfg)
    if cfg.V_BUFFERS == 2 and not cfg.STAGED and not cfg.V_FIRST:
        start_values(b_pages, tile_lo, loop, cfg)
    if cfg.MASK_SPLIT:
        full_hi = gl.maximum(gl.minimum(block.full_hi // cfg.TILE, tile_hi), tile_lo)
        full_lo = tile_lo
        if cfg.WINDOW > 0:
            full_lo = gl.minimum(gl.maximum(gl.cdiv(block.full_lo, cfg.TILE), tile_lo), tile_hi)
            full_hi = gl.maximum(full_hi, full_lo)
            b_acc, b_m, b_l, b_pages, b_pages_next, fetched_k = attend_tiles(
                b_acc, b_m, b_l, b_pages, b_pages_next, fetched_k, tile_lo, full_lo, loop, cfg, ALIBI, QQ_BIAS, True
            )
        b_acc, b_m, b_l, b_pages, b_pages_next, fetched_k = attend_tiles(
            b_acc, b_m, b_l, b_pages, b_pages_next, fetched_k, full_lo, full_hi, loop, cfg, ALIBI, QQ_BIAS, False
        )
        tile_lo = full_hi
    b_acc, b_m, b_l, b_pages, b_pages_next, fetched_k = attend_tiles(
        b_acc, b_m, b_l, b_pages, b_pages_next, fetched_k, tile_lo, tile_hi, loop, cfg, ALIBI, QQ_BIAS, True
    )
    b_m = gl.convert_layout(b_m, gl.SliceLayout(0, cfg.MFMA))
    return b_acc, b_m, gl.convert_layout(b_l, gl.SliceLayout(0, cfg.MFMA))


@gluon.jit
def store_rows(p_out, stride_token, stride_head, b_o, block, cfg):
    """O^T [HEAD_SIZE, BLOCK_M] as it lies, 4 channels of a row at a time."""
    o_d = gl.arange(0, cfg.HEAD_SIZE, gl.SliceLayout(1, cfg.MFMA))
    o_pos, o_head, m_row = row_positions(gl.SliceLayout(0, cfg.MFMA), block, cfg)
    p_first = p_out + block.i_token.to(gl.int64) * stride_token
    offsets = (o_pos * stride_token + o_head * stride_head)[None, :] + o_d[:, None]
    gl.amd.cdna4.buffer_store(b_o.to(p_out.dtype.element_ty), p_first, offsets, mask=m_row[None, :])


@gluon.jit
def make_stream(p, stride_block, stride_token, stride_head, dtype: gl.constexpr, VEC: gl.constexpr,
                BUFFERS: gl.constexpr, i_head_kv, cfg):  # fmt: skip
    """K or V of one head, with LDS for `BUFFERS` tiles."""
    COUNT: gl.constexpr = cfg.TILE // cfg.PARTS
    READ: gl.constexpr = lds_layout(cfg.HEAD_SIZE, bytes_of(dtype), VEC, cfg.SWIZZLE)
    read = gl.allocate_shared_memory(dtype, [BUFFERS * cfg.PARTS, COUNT, cfg.HEAD_SIZE], READ)
    # What registers store is swizzled by its layout, what the DMA copies by the addresses it reads.
    STAGED: gl.constexpr = dtype != p.dtype.element_ty
    COPIED: gl.constexpr = READ if STAGED else gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    copied = reinterpreted(read, [BUFFERS * cfg.COPIES, cfg.COPY_KEYS, cfg.HEAD_SIZE], COPIED)
    return Stream(copied, read, p + i_head_kv.to(gl.int64) * stride_head, stride_block, stride_token)


@gluon.jit
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
    NUM_WARPS: gl.constexpr,
    TILE: gl.constexpr,
    GROUP: gl.constexpr,
    HEAD_SIZE: gl.constexpr,
    BLOCK_SIZE: gl.constexpr,
    WINDOW: gl.constexpr,
    SOFTCAP: gl.constexpr,
    I64: gl.constexpr,
    SCALAR_STATE: gl.constexpr,
    MASK_ONCE: gl.constexpr,
    MASK_LIMIT: gl.constexpr,
    MASK_SPLIT: gl.constexpr,
    P_WIDTH: gl.constexpr,
    Q_REGISTERS: gl.constexpr,
    FAST_PAGED: gl.constexpr,
    K_BUFFERS: gl.constexpr,
    V_BUFFERS: gl.constexpr,
    V_FIRST: gl.constexpr,
    PREFETCH: gl.constexpr,
    PARTS: gl.constexpr,
    SWIZZLE: gl.constexpr,
    WIDE: gl.constexpr,
    LAZY: gl.constexpr,
    EXP2_FAST: gl.constexpr,
    SETPRIO: gl.constexpr,
    NATIVE_FP8: gl.constexpr,
    STAGED: gl.constexpr,
    ALL_DECODE: gl.constexpr,
):
    """Grid (KV heads, query blocks). Tensors as in workbench.attention.unified_attention."""
    MFMA: gl.constexpr = mfma_layout(NUM_WARPS)
    COPY_KEYS: gl.constexpr = keys_of_copy(TILE, BLOCK_SIZE, FAST_PAGED)
    cfg: gl.constexpr = Config(
        NUM_WARPS, TILE, GROUP, HEAD_SIZE, BLOCK_SIZE, WINDOW, SOFTCAP, I64, SCALAR_STATE, MASK_ONCE, MASK_LIMIT,
        MASK_SPLIT, P_WIDTH, Q_REGISTERS, FAST_PAGED, K_BUFFERS, V_BUFFERS, V_FIRST, PREFETCH, PARTS, SWIZZLE, WIDE,
        LAZY, EXP2_FAST, SETPRIO, NATIVE_FP8, STAGED, ALL_DECODE, 32 * NUM_WARPS, 32 * NUM_WARPS // GROUP, COPY_KEYS,
        TILE // COPY_KEYS, MFMA, state_layout(SCALAR_STATE, MFMA, NUM_WARPS),
    )  # fmt: skip
    i_head_kv = gl.program_id(0)
    block = locate_block(p_cu_seqlens_q, p_kv_lens, num_seqs, gl.program_id(1), i_head_kv, cfg)
    if block.num_positions <= 0:
        return
    compute: gl.constexpr = p_out.dtype.element_ty
    qk_dtype: gl.constexpr = p_k.dtype.element_ty if NATIVE_FP8 else compute
    k = make_stream(
        p_k, stride_k_block, stride_k_token, stride_k_head, qk_dtype, chunk_of_keys(qk_dtype), K_BUFFERS, i_head_kv, cfg
    )
    v = make_stream(
        p_v, stride_v_block, stride_v_token, stride_v_head, compute, CHUNK_OF_VALUES, V_BUFFERS, i_head_kv, cfg
    )
    lds_q = 0
    if not Q_REGISTERS:
        Q_LDS: gl.constexpr = lds_layout(HEAD_SIZE, bytes_of(qk_dtype), chunk_of_keys(qk_dtype), SWIZZLE)
        lds_q = gl.allocate_shared_memory(qk_dtype, [cfg.BLOCK_M, HEAD_SIZE], Q_LDS)
    query = load_query(p_q, stride_q_token, stride_q_head, lds_q, qk_dtype, block, cfg)
    bias = prepare_bias(
        p_alibi_slopes, p_qq_bias, p_q_scale, p_k_scale, stride_qq, qq_size, softmax_scale, softcap, block, cfg
    )
    o_pos, o_head, m_row = row_positions(gl.SliceLayout(0, cfg.MFMA), block, cfg)
    table = make_table(p_block_table, stride_table, block, cfg)
    loop = Loop(query, k, v, table, block, bias, block.first_limit + o_pos)
    b_acc, b_m, b_l = attend_block(loop, cfg, p_alibi_slopes is not None, p_qq_bias is not None)
    if p_sinks is not None:
        b_l += gl.exp2(gl.load(p_sinks + o_head, mask=m_row, other=0.0).to(gl.float32) * LOG2_E - b_m)
    # The output of a row without keys is zero already, whatever it is divided by.
    b_o = b_acc * (1.0 / gl.where(b_l > 0.0, b_l, 1.0))[None, :]
    if p_v_scale is not None:
        b_o *= gl.load(p_v_scale)
    store_rows(p_out, stride_out_token, stride_out_head, b_o, block, cfg)
