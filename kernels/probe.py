"""The smallest kernel with a runtime loop, a matrix instruction and a store: what the doctor compiles and runs."""

import triton
import triton.language as tl


@triton.jit
def matrix_power_kernel(p_x, p_out, exponent, N: tl.constexpr):
    """out = x^exponent for a row-major fp16 matrix [N, N] and exponent >= 1."""
    i_row = tl.arange(0, N)
    o_tile = i_row[:, None] * N + i_row[None, :]
    b_x = tl.load(p_x + o_tile)  # [N, N]
    b_power = b_x
    for _ in range(1, exponent):
        b_power = tl.dot(b_power, b_x).to(tl.float16)  # [N, N] x [N, N]
    tl.store(p_out + o_tile, b_power)
