"""Steps that the Gluon kernels share: copies to LDS, waits, priorities, the lazy rescale."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from ..primitives import RESCALE_THRESHOLD_LOG2
from .layouts import copied_keys, copy_layout, lds_read

# Triton 3.6 has these two under other names.
barrier = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier
HAS_REINTERPRET = gl.constexpr(hasattr(gl.shared_memory_descriptor, "reinterpret"))


@gluon.jit
def copy_keys(lds, p_first, stride_token, num_keys, COUNT: gl.constexpr, PAD: gl.constexpr, cfg):
    """Copy COUNT keys from p_first on to LDS; where ranges are checked, keys past num_keys become 0. No commit.

    lds: [COUNT, HEAD_SIZE] in the order of copying.
    """
    LAYOUT: gl.constexpr = copy_layout(cfg.HEAD_SIZE, cfg.NUM_WARPS, cfg.WIDE)
    o_n = gl.arange(0, COUNT, gl.SliceLayout(1, LAYOUT))
    o_n = copied_keys(o_n, COUNT, cfg.HEAD_SIZE, PAD, cfg.WIDE)
    o_d = gl.arange(0, cfg.HEAD_SIZE, gl.SliceLayout(0, LAYOUT))
    offsets = o_n[:, None] * stride_token + o_d[None, :]
    if cfg.RAGGED:
        gl.amd.cdna4.async_copy.buffer_load_to_shared(lds, p_first, offsets, mask=(o_n < num_keys)[:, None])
    else:
        gl.amd.cdna4.async_copy.buffer_load_to_shared(lds, p_first, offsets)


@gluon.jit
def by_key(lds, COUNT: gl.constexpr, PAD: gl.constexpr, cfg):
    """COUNT copied keys seen by key."""
    LAYOUT: gl.constexpr = lds_read(COUNT, cfg.HEAD_SIZE, PAD, cfg.WIDE)
    if HAS_REINTERPRET:
        return lds.reinterpret(lds.dtype, [COUNT, cfg.HEAD_SIZE], LAYOUT)
    else:
        return lds._reinterpret(lds.dtype, [COUNT, cfg.HEAD_SIZE], LAYOUT)


@gluon.constexpr_function
def tied(count):
    """Constraints of inline assembly that hands `count` registers through, so that nothing has to be moved."""
    return ",".join(["=v"] * count + [str(index) for index in range(count)])


@gluon.constexpr_function
def priority(level):
    """Assembly that sets the wave's priority; nothing for a level below 0."""
    return f"s_setprio {level}" if level >= 0 else ""


@gluon.jit
def set_priority(b_x, LEVEL: gl.constexpr, REGISTERS: gl.constexpr, PACK: gl.constexpr):
    """s_setprio LEVEL once b_x is ready and before it is used; returns b_x.

    b_x holds PACK elements in REGISTERS registers of a lane.
    """
    return gl.inline_asm_elementwise(
        priority(LEVEL), tied(REGISTERS), [b_x], dtype=b_x.dtype, is_pure=False, pack=PACK
    )  # fmt: skip


@gluon.jit
def set_priority_after_both(b_x, b_y, LEVEL: gl.constexpr, REGISTERS: gl.constexpr, PACK: gl.constexpr):
    """The same for two tensors: neither is used before both are ready. A LEVEL below 0 only orders."""
    return gl.inline_asm_elementwise(
        priority(LEVEL), tied(2 * REGISTERS), [b_x, b_y], dtype=(b_x.dtype, b_y.dtype), is_pure=False, pack=PACK
    )


@gluon.jit
def rescale_unless_one(
    x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15,
    f0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15,
):  # fmt: skip
    """The 16 registers of one accumulator, which hold one query row, times that row's factor.

    Too much work to be turned into selects, so a wave whose lanes all hold 1 branches around it. A branch of the
    language would be taken by the workgroup as one, after a vote through LDS.
    """
    if f0 != 1.0:
        x0, x1, x2, x3 = x0 * f0, x1 * f0, x2 * f0, x3 * f0
        x4, x5, x6, x7 = x4 * f0, x5 * f0, x6 * f0, x7 * f0
        x8, x9, x10, x11 = x8 * f0, x9 * f0, x10 * f0, x11 * f0
        x12, x13, x14, x15 = x12 * f0, x13 * f0, x14 * f0, x15 * f0
    return x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15


@gluon.jit
def exp2(b_x, FAST: gl.constexpr):
    """2^b_x as the one instruction that it is, or guarded: a result under 2^-126 is kept as a denormal number."""
    if FAST:
        return gl.exp2(b_x)
    else:
        m_low = b_x < -126.0
        return gl.exp2(b_x + gl.where(m_low, 64.0, 0.0)) * gl.where(m_low, 2.0**-64, 1.0)


@gluon.jit
def rescale(b_acc, b_alpha, LAZY: gl.constexpr):
    """b_acc times the factor of each row; LAZY lets a wave whose rows all have factor 1 branch around it."""
    if LAZY:
        (b_acc,) = gl.map_elementwise(rescale_unless_one, b_acc, b_alpha[None, :], pack=16)
        return b_acc
    else:
        return b_acc * b_alpha[None, :]


@gluon.jit
def rebase(b_m, b_l, b_m_new, LAZY: gl.constexpr):
    """Factor of each row, and maximum and denominator under b_m_new.

    LAZY keeps the old anchor of a row that the tile exceeds by little.
    """
    if LAZY:
        b_m_new = gl.where(b_m_new - b_m > RESCALE_THRESHOLD_LOG2, b_m_new, b_m)
    b_alpha = gl.exp2(b_m - b_m_new)
    return b_alpha, b_m_new, b_l * b_alpha
