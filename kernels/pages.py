"""The paged cache: which block a tile's keys lie in, and the loads of K and V tiles. Config and names: see paged.py."""

import triton
import triton.language as tl

from .primitives import per_key, per_row


@triton.jit
def tile_blocks(p_table_row, i_tile, key_hi, cfg, MASKED: tl.constexpr):
    """Physical block of each key of a tile: a scalar when the tile is one page, else [N]."""
    PAGES: tl.constexpr = cfg.TILE // cfg.BLOCK_SIZE
    if cfg.FAST_PAGED and PAGES >= 1 and cfg.TILE % cfg.BLOCK_SIZE == 0:
        if PAGES == 1:
            i_block = tl.load(p_table_row + i_tile)
        else:
            o_page = i_tile * PAGES + tl.arange(0, PAGES)
            if MASKED:
                b_page = tl.load(p_table_row + o_page, mask=o_page * cfg.BLOCK_SIZE < key_hi, other=0)
            else:
                b_page = tl.load(p_table_row + o_page)
            b_page = tl.broadcast_to(b_page[:, None], (PAGES, cfg.BLOCK_SIZE))
            i_block = tl.reshape(b_page, (cfg.TILE,))
    else:
        o_n = i_tile * cfg.TILE + tl.arange(0, cfg.TILE)
        if MASKED:
            i_block = tl.load(p_table_row + o_n // cfg.BLOCK_SIZE, mask=o_n < key_hi, other=0)
        else:
            i_block = tl.load(p_table_row + o_n // cfg.BLOCK_SIZE)
    return i_block.to(tl.int64) if cfg.I64 else i_block


@triton.jit
def pages_of_tile(p_table_row, i_tile, key_hi, cfg):
    """Table entries of the pages that a tile of whole pages, or of a part of one, lies in: a scalar, or [PAGES]."""
    PAGES: tl.constexpr = max(cfg.TILE // cfg.BLOCK_SIZE, 1)
    if PAGES == 1:
        i_page = i_tile * cfg.TILE // cfg.BLOCK_SIZE
        return tl.load(p_table_row + i_page, mask=i_page * cfg.BLOCK_SIZE < key_hi, other=0)
    else:
        o_page = i_tile * PAGES + tl.arange(0, PAGES)
        return tl.load(p_table_row + o_page, mask=o_page * cfg.BLOCK_SIZE < key_hi, other=0)


@triton.jit
def spread_pages(b_page, cfg):
    """Physical block of each key of a tile from pages_of_tile's entries: a scalar when the tile is in one page."""
    PAGES: tl.constexpr = cfg.TILE // cfg.BLOCK_SIZE
    if PAGES > 1:
        b_page = tl.reshape(tl.broadcast_to(b_page[:, None], (PAGES, cfg.BLOCK_SIZE)), (cfg.TILE,))
    return b_page.to(tl.int64) if cfg.I64 else b_page


@triton.jit
def slots_of_tile(i_tile, o_n, cfg):
    """Slot of each key of a tile in its page [N]."""
    if not cfg.PAGES_AHEAD:
        return o_n % cfg.BLOCK_SIZE
    elif cfg.TILE < cfg.BLOCK_SIZE:
        return i_tile * cfg.TILE % cfg.BLOCK_SIZE + tl.arange(0, cfg.TILE)
    else:
        # The same for every tile and page, which the remainder of o_n would hide from the compiler.
        PAGES: tl.constexpr = cfg.TILE // cfg.BLOCK_SIZE
        o_slot = tl.broadcast_to(tl.arange(0, cfg.BLOCK_SIZE)[None, :], (PAGES, cfg.BLOCK_SIZE))
        return tl.reshape(o_slot, (cfg.TILE,))


@triton.jit
def load_tile(
    p_cache,
    i_block,
    o_slot,
    m_key,
    stride_block,
    stride_token,
    cfg,
    MASKED: tl.constexpr,
    TRANSPOSED: tl.constexpr = False,
):
    """One K or V tile [N, D], or [D, N] when transposed; masked keys and padded channels are zero."""
    o_d = tl.arange(0, cfg.HEAD_PAD)
    p_n = p_cache + i_block * stride_block + o_slot * stride_token
    p_tile = per_key(p_n, TRANSPOSED=not TRANSPOSED) + per_row(o_d, TRANSPOSED=not TRANSPOSED)
    if cfg.HEAD_PAD != cfg.HEAD_SIZE:
        m_tile = per_row(o_d < cfg.HEAD_SIZE, TRANSPOSED=not TRANSPOSED)
        if MASKED:
            m_tile = m_tile & per_key(m_key, TRANSPOSED=not TRANSPOSED)
        return tl.load(p_tile, mask=m_tile, other=0.0)
    elif MASKED:
        return tl.load(p_tile, mask=per_key(m_key, TRANSPOSED=not TRANSPOSED), other=0.0)
    else:
        return tl.load(p_tile)
