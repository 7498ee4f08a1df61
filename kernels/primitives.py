"""Device functions shared by the 2D, 3D and dense kernels: the steps of the streaming softmax.

Alphabet: i_ index, o_ offsets, m_ mask, p_ pointer, b_ tile in registers; capitals are compile-time extents.
Tile axes: M query rows, N keys, D head channels. A transposed tile holds keys along its first axis.
Scores live in the log2 domain: 2^(s log2 e) = e^s, and the hardware has 2^x.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
# Start of the running maximum. Finite, so that no row ever computes (-inf) - (-inf).
LOWEST = tl.constexpr(-3.4028234663852886e38)
# Lazy rescale: a tile may exceed the anchor by this much (log2) before the state is re-based.
RESCALE_THRESHOLD_LOG2 = tl.constexpr(8.0)
# Below it tanh is a polynomial under float32: from here on 1 - 2 / (1 + e^(2x)) loses no more than a bit.
TANH_REACH = tl.constexpr(0.7)
# Triton's interpreter multiplies the raw bits of bf16 operands in tl.dot (3.6 and 3.9).
INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def dot(b_a, b_b, b_acc):
    """b_acc + b_a @ b_b in float32; float32 operands are multiplied in full precision."""
    if INTERPRETED:
        b_a = b_a.to(tl.float32)
        b_b = b_b.to(tl.float32)
    return tl.dot(b_a, b_b, b_acc, input_precision="ieee")


@triton.jit
def to_compute(b_x, COMPUTE: tl.constexpr):
    """Cast to the dtype in which the two products multiply, given by name."""
    if COMPUTE == "bf16":
        return b_x.to(tl.bfloat16)
    elif COMPUTE == "fp16":
        return b_x.to(tl.float16)
    else:
        return b_x.to(tl.float32)


@triton.jit
def to_fp16_rows(b_x, CHANNEL_AXIS: tl.constexpr):
    """(b_x in fp16, [M] powers of two that undo its scaling): each row's largest value goes to 2^15 .. 2^16.

    Exact for bf16 and fp8 values down to 2^-31 of the row's largest; what lies below is off by less than 2^-41 of it.
    """
    b_x = b_x.to(tl.float32)
    b_exponent = (tl.max(tl.abs(b_x), CHANNEL_AXIS).to(tl.int32, bitcast=True) >> 23) & 255
    # Both factors stay normal numbers. A row with infinity or NaN has exponent 255, and keeps them.
    b_exponent = tl.maximum(b_exponent, 16)
    b_factor = ((269 - b_exponent) << 23).to(tl.float32, bitcast=True)
    b_undo = ((b_exponent - 15) << 23).to(tl.float32, bitcast=True)
    return (b_x * tl.expand_dims(b_factor, CHANNEL_AXIS)).to(tl.float16), b_undo


@triton.jit
def per_row(b_x, TRANSPOSED: tl.constexpr):
    """[M] -> broadcastable along the keys of a score tile."""
    return b_x[None, :] if TRANSPOSED else b_x[:, None]


@triton.jit
def per_key(b_x, TRANSPOSED: tl.constexpr):
    """[N] -> broadcastable along the rows of a score tile."""
    return b_x[:, None] if TRANSPOSED else b_x[None, :]


@triton.jit
def scores(b_q, b_k, TRANSPOSED: tl.constexpr):
    """Raw q . k. b_q is [M, D], or [D, M] when transposed; b_k is [N, D]. Gives [M, N], or [N, M]."""
    if TRANSPOSED:
        # [N, D] x [D, M] -> [N, M]
        return dot(b_k, b_q, tl.zeros((b_k.shape[0], b_q.shape[1]), tl.float32))
    else:
        # [M, D] x [D, N] -> [M, N]
        return dot(b_q, tl.trans(b_k), tl.zeros((b_q.shape[0], b_k.shape[0]), tl.float32))


@triton.jit
def accumulate(b_p, b_v, b_acc, TRANSPOSED: tl.constexpr, V_TRANSPOSED: tl.constexpr = False):
    """b_acc + P V. b_p is [M, N] or [N, M]; b_v is [N, D]; b_acc is [M, D], or [D, M] when transposed.

    V_TRANSPOSED, with a transposed product: b_v is [D, N] already.
    """
    b_p = b_p.to(b_v.dtype)
    if V_TRANSPOSED:
        return dot(b_v, b_p, b_acc)
    elif TRANSPOSED:
        # [D, N] x [N, M] -> [D, M]
        return dot(tl.trans(b_v), b_p, b_acc)
    else:
        # [M, N] x [N, D] -> [M, D]
        return dot(b_p, b_v, b_acc)


@triton.jit
def tanh_excess(b_z):
    """tanh(x) / x - 1 of z = x^2, for |x| < TANH_REACH: off by at most 2^-25 of tanh(x) / x.

    The polynomial of degree 5 without constant term whose largest relative error in tanh(x) is least.
    """
    b_y = 0.020091904 - 0.0051386016 * b_z
    b_y = b_y * b_z - 0.053558838
    b_y = b_y * b_z + 0.13329111
    return (b_y * b_z - 0.3333319) * b_z


@triton.jit
def softcap_log2(b_s, softcap, COMPUTE: tl.constexpr):
    """c tanh(s / c) on scores already multiplied by log2 e; saturates to +-c without overflow.

    Off by a few units in its last place under float32; else in that of c, far below what rounding P to 16 bits costs.
    """
    cap_log2 = softcap * LOG2_E
    if COMPUTE == "fp32":
        # tanh|x| = 1 - 2 / (1 + e^(2|x|)) cancels near 0, where a polynomial takes its place.
        b_e = tl.exp2(tl.abs(b_s) * (-2.0 / softcap))
        b_far = cap_log2 * (1.0 - 2.0 * b_e / (1.0 + b_e))
        b_x = b_s * (1.0 / cap_log2)
        return tl.where(tl.abs(b_x) < TANH_REACH, b_s + b_s * tanh_excess(b_x * b_x), tl.where(b_s < 0, -b_far, b_far))
    # tanh(x) = 1 - 2 / (1 + e^(2x)), and e^(2 s / c) = 2^(2 b_s / c)
    return cap_log2 * (1.0 - 2.0 / (1.0 + tl.exp2(b_s * (2.0 / softcap))))


@triton.jit
def initial_state(M: tl.constexpr, D: tl.constexpr, TRANSPOSED: tl.constexpr):
    """Running output [M, D] (or [D, M]), maximum [M] and denominator [M] before the first key."""
    b_acc = tl.zeros((D, M) if TRANSPOSED else (M, D), tl.float32)
    return b_acc, tl.full((M,), LOWEST, tl.float32), tl.zeros((M,), tl.float32)


@triton.jit
def rebase(b_acc, b_m, b_l, b_m_new, TRANSPOSED: tl.constexpr):
    """Re-express the state under the maximum b_m_new; exact up to rounding."""
    b_alpha = tl.exp2(b_m - b_m_new)
    return b_acc * per_row(b_alpha, TRANSPOSED), b_m_new, b_l * b_alpha


@triton.jit
def online_softmax(
    b_s,
    scale_log2,
    b_acc,
    b_m,
    b_l,
    TRANSPOSED: tl.constexpr,
    LAZY: tl.constexpr,
    ROW_SCALE: tl.constexpr = False,
    HEADROOM: tl.constexpr = 0,
    LATE_SUM: tl.constexpr = False,
):
    """One step of the recurrence on a score tile: probabilities of the tile and the re-based state.

    b_s is [M, N] or [N, M], masked entries -inf; scale_log2 > 0 is still to be applied and folds into the
    subtraction of the maximum as one fused multiply-add. It is one number, or [M] with ROW_SCALE. The anchor of the
    exponents lies HEADROOM (log2) below the maximum, so that probabilities reach 2^HEADROOM. With LATE_SUM the
    denominator b_l has the shape of the tile and is to be summed over the keys after the last one.
    """
    KEY_AXIS: tl.constexpr = 0 if TRANSPOSED else 1
    if HEADROOM > 0:
        b_m_new = tl.maximum(b_m, tl.max(b_s, KEY_AXIS) * scale_log2 - HEADROOM)
    else:
        b_m_new = tl.maximum(b_m, tl.max(b_s, KEY_AXIS) * scale_log2)
    if LAZY:
        # One vote for the whole workgroup; P stays below 2^threshold. Only the accumulator is worth a branch.
        exceeds = tl.max(b_m_new - b_m, 0) > RESCALE_THRESHOLD_LOG2
        b_m_new = tl.where(exceeds, b_m_new, b_m)
        b_alpha = tl.exp2(b_m - b_m_new)
        if exceeds:
            b_acc = b_acc * per_row(b_alpha, TRANSPOSED)
        b_m = b_m_new
        b_l = b_l * (per_row(b_alpha, TRANSPOSED) if LATE_SUM else b_alpha)
    elif LATE_SUM:
        b_alpha = tl.exp2(b_m - b_m_new)
        b_acc, b_m, b_l = b_acc * per_row(b_alpha, TRANSPOSED), b_m_new, b_l * per_row(b_alpha, TRANSPOSED)
    else:
        b_acc, b_m, b_l = rebase(b_acc, b_m, b_l, b_m_new, TRANSPOSED)
    if ROW_SCALE:
        b_p = tl.exp2(b_s * per_row(scale_log2, TRANSPOSED) - per_row(b_m, TRANSPOSED))
    else:
        b_p = tl.exp2(b_s * scale_log2 - per_row(b_m, TRANSPOSED))
    return b_p, b_acc, b_m, b_l + (b_p if LATE_SUM else tl.sum(b_p, KEY_AXIS))


@triton.jit
def add_sink(b_acc, b_m, b_l, b_sink, TRANSPOSED: tl.constexpr):
    """Append one score per row (natural log domain) that takes probability and carries no value."""
    b_sink_log2 = b_sink.to(tl.float32) * LOG2_E
    b_acc, b_m, b_l = rebase(b_acc, b_m, b_l, tl.maximum(b_m, b_sink_log2), TRANSPOSED)
    return b_acc, b_m, b_l + tl.exp2(b_sink_log2 - b_m)


@triton.jit
def normalise(b_acc, b_l, TRANSPOSED: tl.constexpr):
    """Output [M, D]; a row that saw no key is zero."""
    # The output of such a row is zero already, whatever it is divided by.
    b_o = b_acc * per_row(1.0 / tl.where(b_l > 0.0, b_l, 1.0), TRANSPOSED)
    return tl.trans(b_o) if TRANSPOSED else b_o
