"""Where things lie: MFMA fragments, LDS tiles and the copies that fill them.

A wave owns 32 query rows, the columns of a 32x32 MFMA; lane l holds row l % 32. A score tile S^T has its keys in the
registers of a lane, so the softmax reduces in registers and exchanges once with lane l ^ 32.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.constexpr_function
def mfma_layout(num_warps):
    """Accumulators of 32x32x16 MFMA, [keys or channels, query rows], waves side by side along the rows."""
    return gl.amd.AMDMFMALayout(version=4, instr_shape=[32, 32, 16], transposed=False, warps_per_cta=[1, num_warps])


@gluon.constexpr_function
def operand(index, mfma, k_width):
    """Operand 0 or 1 of an MFMA, k_width consecutive elements of the reduced axis in each lane.

    With k_width 4 operand 1 lies exactly as an accumulator does: P needs no move between the products.
    """
    return gl.DotOperandLayout(index, mfma, k_width)


@gluon.constexpr_function
def copy_width(wide):
    """16-bit elements that a lane copies to LDS with one instruction: 16 bytes, or 4."""
    return 8 if wide else 2


@gluon.constexpr_function
def copy_layout(head_size, num_warps, wide):
    """Tile [keys, channels] over lanes so that each wave writes one stretch of LDS with each instruction."""
    width = copy_width(wide)
    lanes_along = min(64, head_size // width)
    return gl.BlockedLayout([1, width], [64 // lanes_along, lanes_along], [num_warps, 1], [1, 0])


@gluon.constexpr_function
def stretch(wide):
    """Elements that one copy instruction of a wave writes side by side; padding can only follow a stretch."""
    return 64 * copy_width(wide)


@gluon.constexpr_function
def lds_written(keys, head_size, pad, wide):
    """Tile [keys, channels] in LDS in the order in which it is copied."""
    if pad == 0:
        return gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    return gl.PaddedSharedLayout.with_identity_for([[stretch(wide), pad]], [keys, head_size], [1, 0])


@gluon.constexpr_function
def keys_per_stretch(head_size, wide):
    """Keys in one stretch."""
    return max(1, stretch(wide) // head_size)


@gluon.constexpr_function
def lds_read(keys, head_size, pad, wide):
    """The same tile by key. The keys of a wide stretch lie keys / (keys per stretch) apart, see copied_keys."""
    if not wide or pad == 0:
        return lds_written(keys, head_size, pad, wide)
    stretches = keys // keys_per_stretch(head_size, wide)
    bases = [[0, 1 << bit] for bit in range(head_size.bit_length() - 1)]
    bases += [[stretches << bit, 0] for bit in range(keys_per_stretch(head_size, wide).bit_length() - 1)]
    bases += [[1 << bit, 0] for bit in range(stretches.bit_length() - 1)]
    return gl.PaddedSharedLayout([[stretch(wide), pad]], bases, [], [keys, head_size])


@gluon.jit
def copied_keys(o_n, KEYS: gl.constexpr, HEAD_SIZE: gl.constexpr, PAD: gl.constexpr, WIDE: gl.constexpr):
    """Keys in the order in which they are copied.

    Neighbouring keys go to different stretches: the lanes of one LDS read ask for neighbouring keys, and padding
    parts only stretches.
    """
    if WIDE and PAD > 0:
        PER: gl.constexpr = keys_per_stretch(HEAD_SIZE, WIDE)
        return o_n % PER * (KEYS // PER) + o_n // PER
    else:
        return o_n
