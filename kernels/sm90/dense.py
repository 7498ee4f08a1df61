"""Contiguous attention for prefill on Hopper: one warp copies, two warpgroups multiply. See dense.md.

A program owns 128 query rows, 64 to a warpgroup. Within a warpgroup the QK product of the next tile and the PV product
of the last one run while the softmax of the tile between them is computed.
"""

from typing import NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from ..dense import decode_item
from ..primitives import LOG2_E, LOWEST

# Rows of one warpgroup's product, and warpgroups of a program.
ROWS = gl.constexpr(64)
WARPGROUPS = gl.constexpr(2)
# A thread of a consumer holds 64 sums, 64 scores and two tiles of P; the producer nearly nothing.
CONSUMER_REGISTERS = gl.constexpr(240)
PRODUCER_REGISTERS = gl.constexpr(24)
# Triton 3.6 has these three under other names.
HAS_REINTERPRET = gl.constexpr(hasattr(gl.shared_memory_descriptor, "reinterpret"))
copy_in = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared
copy_out = tma.async_store if hasattr(tma, "async_store") else tma.async_copy_shared_to_global


class Config(NamedTuple):
    """Compile-time extents, mask and levers."""

    BLOCK_N: gl.constexpr
    GROUP: gl.constexpr
    HEAD_SIZE: gl.constexpr
    CAUSAL: gl.constexpr
    TOP_LEFT: gl.constexpr
    MASK_SPLIT: gl.constexpr
    OVERLAP: gl.constexpr
    NUM_BUFFERS: gl.constexpr
    ORDER: gl.constexpr


class Work(NamedTuple):
    """What all work items share."""

    p_sinks: gl.tensor
    softmax_scale: gl.tensor
    seqlen_q: gl.tensor
    seqlen_kv: gl.tensor
    num_q_blocks: gl.tensor
    num_heads: gl.tensor
    batch: gl.tensor


class Maps(NamedTuple):
    """Tensor maps of [batch, token, head, channel], in blocks of one warpgroup's rows, or of a tile's keys."""

    d_q: tma.tensor_descriptor
    d_k: tma.tensor_descriptor
    d_v: tma.tensor_descriptor
    d_out: tma.tensor_descriptor


class Ring(NamedTuple):
    """Buffers [COUNT, 1, tokens, 1, HEAD_SIZE] in shared memory, each with a barrier for `filled` and for `free`."""

    buffers: gl.shared_memory_descriptor
    ready: gl.shared_memory_descriptor
    free: gl.shared_memory_descriptor


class Block(NamedTuple):
    """Query rows from i_row on; a row r sees the keys up to r + offset.

    The tiles 0..tile_hi - 1 hold a key that some row sees, the first body_hi of them only such keys for every row.
    """

    i_row: gl.tensor
    i_head: gl.tensor
    i_batch: gl.tensor
    offset: gl.tensor
    body_hi: gl.tensor
    tile_hi: gl.tensor


@gluon.jit
def barriers(COUNT: gl.constexpr, ARRIVALS: gl.constexpr):
    """COUNT barriers in shared memory, each completed by ARRIVALS arrivals."""
    all_barriers = gl.allocate_shared_memory(gl.int64, [COUNT, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(COUNT):
        mbarrier.init(all_barriers.index(i), count=ARRIVALS)
    return all_barriers


@gluon.jit
def make_ring(d_x, COUNT: gl.constexpr, READERS: gl.constexpr):
    """A ring of COUNT blocks of a tensor map, each freed by READERS warpgroups."""
    shape: gl.constexpr = [COUNT, d_x.block_shape[0], d_x.block_shape[1], d_x.block_shape[2], d_x.block_shape[3]]
    buffers = gl.allocate_shared_memory(d_x.dtype, shape, d_x.layout)
    return Ring(buffers, barriers(COUNT, 1), barriers(COUNT, READERS))


@gluon.jit
def as_tile(buffer, COUNT: gl.constexpr, WIDTH: gl.constexpr):
    """A buffer [1, COUNT, 1, WIDTH] seen as [COUNT, WIDTH]."""
    LAYOUT: gl.constexpr = gl.NVMMASharedLayout.get_default_for([COUNT, WIDTH], buffer.dtype)
    if HAS_REINTERPRET:
        return buffer.reinterpret(buffer.dtype, [COUNT, WIDTH], LAYOUT)
    else:
        return buffer._reinterpret(buffer.dtype, [COUNT, WIDTH], LAYOUT)


@gluon.jit
def fill(d_x, ring, slot, phase, i_batch, i_token, i_head):
    """Start the copy of one block once its buffer is free; tokens past the end become 0."""
    mbarrier.wait(ring.free.index(slot), phase ^ 1)
    mbarrier.expect(ring.ready.index(slot), d_x.block_type.nbytes)
    copy_in(d_x, [i_batch, i_token, i_head, 0], ring.ready.index(slot), ring.buffers.index(slot))


@gluon.jit
def wait_tile(ring, i_step, cfg):
    """The tile [BLOCK_N, HEAD_SIZE] of step i_step, once it is there."""
    slot = i_step % cfg.NUM_BUFFERS
    mbarrier.wait(ring.ready.index(slot), i_step // cfg.NUM_BUFFERS & 1)
    return as_tile(ring.buffers.index(slot), cfg.BLOCK_N, cfg.HEAD_SIZE)


@gluon.jit
def release(ring, i_step, cfg):
    """This warpgroup has read the tile of step i_step."""
    mbarrier.arrive(ring.free.index(i_step % cfg.NUM_BUFFERS), count=1)


@gluon.jit
def item_range(w, cfg):
    """(first, end, stride) of this program's work items."""
    if cfg.ORDER == "grid":
        i_item = (gl.program_id(2) * w.num_heads + gl.program_id(1)) * w.num_q_blocks + gl.program_id(0)
        return i_item, i_item + 1, 1
    else:
        return gl.program_id(0), w.num_q_blocks * w.num_heads * w.batch, gl.num_programs(0)


@gluon.jit
def locate_block(i_item, w, cfg):
    """The work item's query block, and the tiles that it visits: at least one, so that there is one to wait for."""
    if cfg.ORDER == "grid":
        i_qblock = i_item % w.num_q_blocks
        i_head = i_item // w.num_q_blocks % w.num_heads
        i_batch = i_item // (w.num_q_blocks * w.num_heads)
    else:
        i_qblock, i_head, i_batch = decode_item(i_item, w.num_q_blocks, w.num_heads, w.batch, cfg.GROUP, cfg.ORDER)
    if cfg.CAUSAL:
        # The longest items start first, so that short ones fill the gaps at the end.
        i_qblock = w.num_q_blocks - 1 - i_qblock
    i_row = i_qblock * (ROWS * WARPGROUPS)
    offset = w.seqlen_kv - w.seqlen_q
    full_hi = w.seqlen_kv
    key_hi = w.seqlen_kv
    if cfg.CAUSAL:
        if cfg.TOP_LEFT:
            offset = 0
        full_hi = gl.minimum(i_row + 1 + offset, w.seqlen_kv)
        key_hi = gl.minimum(gl.minimum(i_row + ROWS * WARPGROUPS, w.seqlen_q) + offset, w.seqlen_kv)
    tile_hi = gl.maximum(gl.cdiv(key_hi, cfg.BLOCK_N), 1)
    body_hi = 0
    if cfg.MASK_SPLIT:
        body_hi = gl.minimum(gl.maximum(full_hi, 0) // cfg.BLOCK_N, tile_hi - 1)
    return Block(i_row, i_head, i_batch, offset, body_hi, tile_hi)


@gluon.jit
def produce(maps, q, k, v, w, cfg):
    """The copying warp: Q of both warpgroups, then K and V from the last visible tile down to the first."""
    first, end, stride = item_range(w, cfg)
    i_step = 0
    q_phase = 0
    for i_item in range(first, end, stride):
        block = locate_block(i_item, w, cfg)
        for i_group in gl.static_range(WARPGROUPS):
            fill(maps.d_q, q, i_group, q_phase, block.i_batch, block.i_row + i_group * ROWS, block.i_head)
        q_phase ^= 1
        for i_tile in range(block.tile_hi):
            i_key = (block.tile_hi - 1 - i_tile) * cfg.BLOCK_N
            slot = i_step % cfg.NUM_BUFFERS
            phase = i_step // cfg.NUM_BUFFERS & 1
            fill(maps.d_k, k, slot, phase, block.i_batch, i_key, block.i_head // cfg.GROUP)
            fill(maps.d_v, v, slot, phase, block.i_batch, i_key, block.i_head // cfg.GROUP)
            i_step += 1


@gluon.jit
def softmax_step(b_s, b_m, b_l, o_last, i_key, scale_log2, MASKED: gl.constexpr):
    """(P [ROWS, BLOCK_N], factor of the old state [ROWS], new maximum, new denominator)."""
    if MASKED:
        o_key = i_key + gl.arange(0, b_s.shape[1], gl.SliceLayout(0, b_s.type.layout))
        b_s = gl.where(o_key[None, :] <= o_last[:, None], b_s, float("-inf"))
    b_m_new = gl.maximum(b_m, gl.max(b_s, 1) * scale_log2)
    b_alpha = gl.exp2(b_m - b_m_new)
    b_p = gl.exp2(b_s * scale_log2 - b_m_new[:, None])
    return b_p, b_alpha, b_m_new, b_l * b_alpha + gl.sum(b_p, 1)


@gluon.jit
def start_scores(lds_q, lds_k, S: gl.constexpr, cfg):
    """Start Q K^T -> [ROWS, BLOCK_N]."""
    b_s = gl.zeros([ROWS, cfg.BLOCK_N], gl.float32, S)
    return warpgroup_mma(lds_q, lds_k.permute((1, 0)), b_s, use_acc=False, is_async=True)


@gluon.jit
def walk(b_acc, b_m, b_l, b_p, tile_hi, tile_lo, i_step, lds_q, k, v, o_last, scale_log2, S, cfg, MASKED: gl.constexpr):
    """The recurrence from tile tile_hi - 1 down to tile_lo. b_p: P of the tile before, still without its V."""
    for i_tile in range(tile_hi - tile_lo):
        t_s = start_scores(lds_q, wait_tile(k, i_step, cfg), S, cfg)
        t_acc = warpgroup_mma(b_p, wait_tile(v, i_step - 1, cfg), b_acc, is_async=True)
        # Products finish in order: all but the last one is the QK product alone.
        b_s = warpgroup_mma_wait(1 if cfg.OVERLAP else 0, [t_s])
        release(k, i_step, cfg)
        i_key = (tile_hi - 1 - i_tile) * cfg.BLOCK_N
        b_p_new, b_alpha, b_m, b_l = softmax_step(b_s, b_m, b_l, o_last, i_key, scale_log2, MASKED)
        b_acc = warpgroup_mma_wait(0, [t_acc])
        release(v, i_step - 1, cfg)
        b_acc = b_acc * gl.convert_layout(b_alpha, gl.SliceLayout(1, b_acc.type.layout))[:, None]
        b_p = gl.convert_layout(b_p_new.to(b_p.dtype), b_p.type.layout)
        i_step += 1
    return b_acc, b_m, b_l, b_p, i_step


@gluon.jit
def attend_block(block, lds_q, o_last, k, v, i_step, scale_log2, S: gl.constexpr, ACC: gl.constexpr, cfg):
    """(accumulator, maximum, denominator, next step) after all tiles of the block. The first tile is always masked."""
    b_s = warpgroup_mma_wait(0, [start_scores(lds_q, wait_tile(k, i_step, cfg), S, cfg)])
    release(k, i_step, cfg)
    b_m = gl.full([ROWS], LOWEST, gl.float32, gl.SliceLayout(1, S))
    b_l = gl.zeros([ROWS], gl.float32, gl.SliceLayout(1, S))
    i_key = (block.tile_hi - 1) * cfg.BLOCK_N
    b_p, _, b_m, b_l = softmax_step(b_s, b_m, b_l, o_last, i_key, scale_log2, True)
    b_p = gl.convert_layout(b_p.to(lds_q.dtype), gl.DotOperandLayout(0, ACC, 2))
    b_acc = gl.zeros([ROWS, cfg.HEAD_SIZE], gl.float32, ACC)
    i_step += 1
    b_acc, b_m, b_l, b_p, i_step = walk(
        b_acc, b_m, b_l, b_p, block.tile_hi - 1, block.body_hi, i_step, lds_q, k, v, o_last, scale_log2, S, cfg, True
    )
    b_acc, b_m, b_l, b_p, i_step = walk(
        b_acc, b_m, b_l, b_p, block.body_hi, 0, i_step, lds_q, k, v, o_last, scale_log2, S, cfg, False
    )
    b_acc = warpgroup_mma(b_p, wait_tile(v, i_step - 1, cfg), b_acc)
    release(v, i_step - 1, cfg)
    return b_acc, b_m, b_l, i_step


@gluon.jit
def store_rows(d_out, q, GROUP_INDEX: gl.constexpr, b_o, block, cfg):
    """Through the warpgroup's own Q buffer, which the products no longer read; rows past the end are dropped."""
    as_tile(q.buffers.index(GROUP_INDEX), ROWS, cfg.HEAD_SIZE).store(b_o.to(d_out.dtype))
    fence_async_shared()
    i_row = block.i_row + GROUP_INDEX * ROWS
    copy_out(d_out, [block.i_batch, i_row, block.i_head, 0], q.buffers.index(GROUP_INDEX))
    tma.store_wait(0)
    mbarrier.arrive(q.free.index(GROUP_INDEX), count=1)


@gluon.jit
def consume(maps, q, k, v, w, cfg, GROUP_INDEX: gl.constexpr):
    """A multiplying warpgroup: 64 rows of every block."""
    S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, cfg.BLOCK_N, 16])
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, cfg.HEAD_SIZE, 16])
    first, end, stride = item_range(w, cfg)
    i_step = 0
    q_phase = 0
    for i_item in range(first, end, stride):
        block = locate_block(i_item, w, cfg)
        o_last = gl.full([ROWS], w.seqlen_kv - 1, gl.int32, gl.SliceLayout(1, S))
        if cfg.CAUSAL:
            o_row = block.i_row + GROUP_INDEX * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, S))
            o_last = gl.minimum(o_row + block.offset, o_last)
        mbarrier.wait(q.ready.index(GROUP_INDEX), q_phase)
        q_phase ^= 1
        lds_q = as_tile(q.buffers.index(GROUP_INDEX), ROWS, cfg.HEAD_SIZE)
        b_acc, b_m, b_l, i_step = attend_block(
            block, lds_q, o_last, k, v, i_step, w.softmax_scale * LOG2_E, S, ACC, cfg
        )
        if w.p_sinks is not None:
            b_l += gl.exp2(gl.load(w.p_sinks + block.i_head).to(gl.float32) * LOG2_E - b_m)
        # The output of a row without keys is zero already, whatever it is divided by.
        b_inverse = gl.convert_layout(1.0 / gl.where(b_l > 0.0, b_l, 1.0), gl.SliceLayout(1, ACC))
        store_rows(maps.d_out, q, GROUP_INDEX, b_acc * b_inverse[:, None], block, cfg)


@gluon.jit
def consume_first(maps, q, k, v, w, cfg):
    """The warpgroup of the upper rows."""
    consume(maps, q, k, v, w, cfg, 0)


@gluon.jit
def consume_second(maps, q, k, v, w, cfg):
    """The warpgroup of the lower rows."""
    consume(maps, q, k, v, w, cfg, 1)


@gluon.jit
def dense_attention(
    d_out,
    d_q,
    d_k,
    d_v,
    p_sinks,
    softmax_scale,
    seqlen_q,
    seqlen_kv,
    num_q_blocks,
    num_heads,
    batch,
    BLOCK_N: gl.constexpr,
    GROUP: gl.constexpr,
    HEAD_SIZE: gl.constexpr,
    CAUSAL: gl.constexpr,
    TOP_LEFT: gl.constexpr,
    MASK_SPLIT: gl.constexpr,
    OVERLAP: gl.constexpr,
    NUM_BUFFERS: gl.constexpr,
    ORDER: gl.constexpr,
):
    """Grid and ORDER as in workbench.kernels.dense. d_*: tensor maps of the operands of workbench.dense_attention."""
    cfg: gl.constexpr = Config(BLOCK_N, GROUP, HEAD_SIZE, CAUSAL, TOP_LEFT, MASK_SPLIT, OVERLAP, NUM_BUFFERS, ORDER)
    w = Work(p_sinks, softmax_scale, seqlen_q, seqlen_kv, num_q_blocks, num_heads, batch)
    q = make_ring(d_q, WARPGROUPS, 1)
    k = make_ring(d_k, NUM_BUFFERS, WARPGROUPS)
    v = make_ring(d_v, NUM_BUFFERS, WARPGROUPS)
    # The copy engine must see the barriers as they were set up.
    fence_async_shared()
    maps = Maps(d_q, d_k, d_v, d_out)
    gl.warp_specialize(
        [
            (consume_first, (maps, q, k, v, w, cfg)),
            (consume_second, (maps, q, k, v, w, cfg)),
            (produce, (maps, q, k, v, w, cfg)),
        ],
        [4, 1],
        [CONSUMER_REGISTERS, PRODUCER_REGISTERS],
    )
