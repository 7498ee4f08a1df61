"""The paged cache on gfx950: query blocks, page tables, and pages on their way to LDS. See unified_2d.md."""

from typing import NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.language import core

from ..paged import find_sequence
from .steps import HAS_REINTERPRET


class Config(NamedTuple):
    """Compile-time extents, layouts and levers.

    A block holds BLOCK_M rows, which are BLOCK_Q positions. A tile is copied from COPIES base addresses, COPY_KEYS keys
    from each. STATE: where maxima and denominators lie between tiles.
    """

    NUM_WARPS: gl.constexpr
    TILE: gl.constexpr
    GROUP: gl.constexpr
    HEAD_SIZE: gl.constexpr
    BLOCK_SIZE: gl.constexpr
    WINDOW: gl.constexpr
    SOFTCAP: gl.constexpr
    I64: gl.constexpr
    SCALAR_STATE: gl.constexpr
    MASK_ONCE: gl.constexpr
    MASK_LIMIT: gl.constexpr
    MASK_SPLIT: gl.constexpr
    P_WIDTH: gl.constexpr
    Q_REGISTERS: gl.constexpr
    FAST_PAGED: gl.constexpr
    K_BUFFERS: gl.constexpr
    V_BUFFERS: gl.constexpr
    V_FIRST: gl.constexpr
    PREFETCH: gl.constexpr
    PARTS: gl.constexpr
    SWIZZLE: gl.constexpr
    WIDE: gl.constexpr
    LAZY: gl.constexpr
    EXP2_FAST: gl.constexpr
    SETPRIO: gl.constexpr
    NATIVE_FP8: gl.constexpr
    STAGED: gl.constexpr
    ALL_DECODE: gl.constexpr
    BLOCK_M: gl.constexpr
    BLOCK_Q: gl.constexpr
    COPY_KEYS: gl.constexpr
    COPIES: gl.constexpr
    MFMA: gl.constexpr
    STATE: gl.constexpr


class Table(NamedTuple):
    """One row of the block table, and the entries of it that may be read."""

    p_row: gl.tensor
    page_lo: gl.tensor
    page_hi: gl.tensor


class Block(NamedTuple):
    """A query block: 32 * NUM_WARPS rows of one (sequence, KV head), row r = (position r // GROUP, head r % GROUP).

    i_token is its first position's token, first_limit the last key that position sees; num_positions may be past the
    end of the block. Some row sees key_lo..key_hi - 1, every row full_lo..full_hi - 1.
    """

    i_seq: gl.tensor
    i_head_kv: gl.tensor
    i_token: gl.tensor
    i_pos: gl.tensor
    num_positions: gl.tensor
    kv_len: gl.tensor
    context_len: gl.tensor
    first_limit: gl.tensor
    key_lo: gl.tensor
    key_hi: gl.tensor
    full_lo: gl.tensor
    full_hi: gl.tensor


class Stream(NamedTuple):
    """K or V of one head: its LDS as it is copied and as it is read, its cache, and strides in elements.

    copied [buffers * copies, keys of a copy, HEAD_SIZE]; read [buffers * PARTS, TILE / PARTS, HEAD_SIZE].
    """

    copied: gl.shared_memory_descriptor
    read: gl.shared_memory_descriptor
    p: gl.tensor
    stride_block: gl.tensor
    stride_token: gl.tensor


@gluon.constexpr_function
def keys_of_copy(tile, block_size, fast_paged):
    """Keys that are copied from one base address: those of the tile in one page, or all of them."""
    return min(tile, block_size) if fast_paged else tile


@gluon.constexpr_function
def copy_layout(keys, head_size, element_bytes, wide, num_warps):
    """Tile [keys, channels] over lanes so that each wave writes one stretch of LDS with each instruction.

    A lane copies 16 bytes, or 4 where 16 would let the workgroup reach past the copy.
    """
    width = (16 if wide and keys * head_size * element_bytes >= 1024 * num_warps else 4) // element_bytes
    lanes_along = min(64, head_size // width)
    return gl.BlockedLayout([1, width], [64 // lanes_along, lanes_along], [num_warps, 1], [1, 0])


@gluon.constexpr_function
def fetch_layout(keys, head_size, num_warps):
    """fp8 tile [keys, channels] in registers: 8 channels to a lane, which become one LDS write, or 4."""
    width = 8 if keys * head_size >= 512 * num_warps else 4
    lanes_along = head_size // width
    return gl.BlockedLayout([1, width], [64 // lanes_along, lanes_along], [num_warps, 1], [1, 0])


@gluon.constexpr_function
def rows_per_phase(head_size, element_bytes):
    """Keys that share one phase of the swizzle: those in one row of all banks."""
    return max(1, 256 // (head_size * element_bytes))


@gluon.constexpr_function
def num_phases(head_size, element_bytes, vec):
    """Phases of the swizzle: places for `vec` elements in one row of all banks, or in one key."""
    return min(head_size, 256 // element_bytes) // vec


@gluon.constexpr_function
def lds_layout(head_size, element_bytes, vec, swizzle):
    """Tile [keys, channels] in LDS, `vec` channels in a row, their place XORed with the key."""
    if not swizzle:
        return gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    phases = num_phases(head_size, element_bytes, vec)
    return gl.SwizzledSharedLayout(vec, rows_per_phase(head_size, element_bytes), phases, [1, 0])


@gluon.constexpr_function
def bytes_of(dtype):
    """Bytes of an element."""
    return dtype.primitive_bitwidth // 8


@gluon.constexpr_function
def chunk_of_keys(dtype):
    """Channels of K that a lane reads at once, 16 bytes: k_width of the QK product too."""
    return 128 // dtype.primitive_bitwidth


# Values are read transposed: 16 lanes ask for 4 keys of 16 channels, a wave for 8 keys of 32.
CHUNK_OF_VALUES = gl.constexpr(32)


@gluon.jit
def locate_block(p_cu_seqlens_q, p_kv_lens, num_seqs, i_qblock, i_head_kv, cfg):
    """The query block; num_positions <= 0 means nothing to do."""
    i_seq = i_qblock
    if not cfg.ALL_DECODE:
        i_seq = find_sequence(p_cu_seqlens_q, num_seqs, i_qblock, cfg.BLOCK_Q)
    i_start = gl.load(p_cu_seqlens_q + i_seq)
    query_len = gl.load(p_cu_seqlens_q + i_seq + 1) - i_start
    i_pos = gl.to_tensor(0)
    if not cfg.ALL_DECODE:
        i_pos = (i_qblock - (i_start // cfg.BLOCK_Q + i_seq)) * cfg.BLOCK_Q
    kv_len = gl.load(p_kv_lens + i_seq)
    context_len = kv_len - query_len
    num_positions = query_len - i_pos
    first_limit = context_len + i_pos
    last_limit = first_limit + gl.minimum(num_positions, cfg.BLOCK_Q) - 1
    key_hi = gl.maximum(last_limit + 1, 0)
    full_hi = gl.maximum(first_limit + 1, 0)
    key_lo = gl.to_tensor(0)
    full_lo = gl.to_tensor(0)
    if cfg.WINDOW > 0:
        key_lo = gl.maximum(first_limit + 1 - cfg.WINDOW, 0)
        full_lo = gl.maximum(last_limit + 1 - cfg.WINDOW, 0)
    return Block(
        i_seq, i_head_kv, i_start + i_pos, i_pos, num_positions, kv_len, context_len, first_limit,
        key_lo, key_hi, full_lo, full_hi,
    )  # fmt: skip


@gluon.jit
def make_table(p_block_table, stride_table, block, cfg):
    """The block's row of the block table."""
    p_row = p_block_table + block.i_seq.to(gl.int64) * stride_table
    page_hi = gl.maximum(block.key_hi - 1, 0) // cfg.BLOCK_SIZE
    return Table(p_row, gl.minimum(block.key_lo // cfg.BLOCK_SIZE, page_hi), page_hi)


@core.extern
def first_lane(x, _semantic=None):
    """int32 of the wave's first lane, in scalar registers."""
    symbol = ("llvm.amdgcn.readfirstlane.i32", core.int32)
    return core.extern_elementwise("", "", [x], {(core.int32,): symbol}, is_pure=True, _semantic=_semantic)


@gluon.constexpr_function
def pages_layout(copies, num_warps):
    """Every lane holds all pages of a tile."""
    return gl.BlockedLayout([copies], [64], [num_warps], [0])


@gluon.jit
def load_pages(table, i_tile, cfg):
    """Physical blocks of the tile's pages, [copies]; past the table's ends the nearest entry."""
    if cfg.FAST_PAGED:
        o_page = i_tile * cfg.TILE // cfg.BLOCK_SIZE + gl.arange(0, cfg.COPIES, pages_layout(cfg.COPIES, cfg.NUM_WARPS))
        o_page = gl.minimum(gl.maximum(o_page, table.page_lo), table.page_hi)
        # The compiler would move equal values to scalars at once, and wait for them a tile too early.
        o_page = gl.inline_asm_elementwise("v_mov_b32 $0, $1", "=v,s", [o_page], dtype=gl.int32, is_pure=True, pack=1)
        return gl.amd.cdna4.buffer_load(table.p_row, o_page)
    else:
        return 0


@gluon.jit
def as_scalars(b_pages, cfg):
    """Loaded pages, in scalar registers."""
    if cfg.FAST_PAGED:
        return first_lane(b_pages)
    else:
        return b_pages


@gluon.jit
def page_base(x, b_pages, i_copy: gl.constexpr, i_first, cfg):
    """Address of key i_first, which the page number i_copy of the tile holds."""
    if not cfg.FAST_PAGED:
        return x.p
    m_page = gl.arange(0, cfg.COPIES, pages_layout(cfg.COPIES, cfg.NUM_WARPS)) == i_copy
    i_block = gl.sum(gl.where(m_page, b_pages, 0), 0)
    if cfg.I64:
        p_page = x.p + i_block.to(gl.int64) * x.stride_block
    else:
        p_page = x.p + i_block * x.stride_block
    if cfg.TILE < cfg.BLOCK_SIZE:
        p_page += i_first % cfg.BLOCK_SIZE * x.stride_token
    return p_page


@gluon.jit
def key_offsets(x, table, o_n, i_first, cfg):
    """Elements from the base address to each key of a copy."""
    if cfg.FAST_PAGED:
        return o_n * x.stride_token
    else:
        o_key = i_first + o_n
        o_page = gl.minimum(gl.maximum(o_key // cfg.BLOCK_SIZE, table.page_lo), table.page_hi)
        return gl.load(table.p_row + o_page) * x.stride_block + o_key % cfg.BLOCK_SIZE * x.stride_token


@gluon.jit
def swizzled_channels(o_n, o_d, element_bytes: gl.constexpr, VEC: gl.constexpr, cfg):
    """[keys, channels]: the channel that goes to place o_d of key o_n, see lds_layout."""
    if cfg.SWIZZLE:
        PHASES: gl.constexpr = num_phases(cfg.HEAD_SIZE, element_bytes, VEC)
        o_phase = o_n // rows_per_phase(cfg.HEAD_SIZE, element_bytes) % PHASES
        return (o_d[None, :] // VEC ^ o_phase[:, None]) * VEC + o_d[None, :] % VEC
    else:
        return o_d[None, :]


@gluon.jit
def readable(o_n, i_first, block, cfg):
    """Keys that some row sees. The others may lie in freed blocks, or hold NaN, and 0 x NaN is NaN."""
    m_n = o_n < block.key_hi - i_first
    if cfg.WINDOW > 0:
        m_n = m_n & (o_n >= block.key_lo - i_first)
    return m_n


@gluon.jit
def copy_tile(x, table, b_pages, i_tile, i_buffer, block, VEC: gl.constexpr, cfg):
    """Start copying a tile from the cache to LDS; keys that no row sees become 0."""
    ELEMENT_BYTES: gl.constexpr = bytes_of(x.p.dtype.element_ty)
    LAYOUT: gl.constexpr = copy_layout(cfg.COPY_KEYS, cfg.HEAD_SIZE, ELEMENT_BYTES, cfg.WIDE, cfg.NUM_WARPS)
    o_n = gl.arange(0, cfg.COPY_KEYS, gl.SliceLayout(1, LAYOUT))
    o_d = gl.arange(0, cfg.HEAD_SIZE, gl.SliceLayout(0, LAYOUT))
    for i_copy in gl.static_range(cfg.COPIES):
        i_first = i_tile * cfg.TILE + i_copy * cfg.COPY_KEYS
        o_key = key_offsets(x, table, o_n, i_first, cfg)
        offsets = o_key[:, None] + swizzled_channels(o_n, o_d, ELEMENT_BYTES, VEC, cfg)
        gl.amd.cdna4.async_copy.buffer_load_to_shared(
            x.copied.index(i_buffer * cfg.COPIES + i_copy),
            page_base(x, b_pages, i_copy, i_first, cfg),
            offsets,
            mask=readable(o_n, i_first, block, cfg)[:, None],
        )
    gl.amd.cdna4.async_copy.commit_group()


@gluon.jit
def fetch_tile(x, table, b_pages, i_tile, block, cfg):
    """An fp8 tile on its way to registers, one tensor [keys of a copy, HEAD_SIZE] for each copy."""
    LAYOUT: gl.constexpr = fetch_layout(cfg.COPY_KEYS, cfg.HEAD_SIZE, cfg.NUM_WARPS)
    o_n = gl.arange(0, cfg.COPY_KEYS, gl.SliceLayout(1, LAYOUT))
    o_d = gl.arange(0, cfg.HEAD_SIZE, gl.SliceLayout(0, LAYOUT))
    fetched = ()
    for i_copy in gl.static_range(cfg.COPIES):
        i_first = i_tile * cfg.TILE + i_copy * cfg.COPY_KEYS
        offsets = key_offsets(x, table, o_n, i_first, cfg)[:, None] + o_d[None, :]
        b_x = gl.amd.cdna4.buffer_load(
            page_base(x, b_pages, i_copy, i_first, cfg), offsets, mask=readable(o_n, i_first, block, cfg)[:, None]
        )
        fetched += (b_x,)
    return fetched


@gluon.jit
def store_tile(x, fetched, i_buffer, cfg):
    """A fetched tile to LDS, in the dtype of the products."""
    for i_copy in gl.static_range(cfg.COPIES):
        x.copied.index(i_buffer * cfg.COPIES + i_copy).store(fetched[i_copy].to(x.copied.dtype))


@gluon.jit
def reinterpreted(lds, SHAPE: gl.constexpr, LAYOUT: gl.constexpr):
    """The same LDS seen in another shape and layout."""
    if HAS_REINTERPRET:
        return lds.reinterpret(lds.dtype, SHAPE, LAYOUT)
    else:
        return lds._reinterpret(lds.dtype, SHAPE, LAYOUT)
