# mypy: ignore-errors
"""Kernels that divide and do nothing else: what is left of a division in machine code."""

import triton
import triton.language as tl


@triton.jit
def quotient(n, divisor, multiplier, shift, WAY: tl.constexpr, DIVISOR: tl.constexpr):
    """n // divisor for int32 n. WAY `none` hands n through; `magic` takes a multiplier and a shift made on the host."""
    u = n.to(tl.uint32)
    if WAY == "runtime":
        n = n // divisor
    elif WAY == "runtime unsigned":
        n = (u // divisor.to(tl.uint32)).to(tl.int32)
    elif WAY == "constant":
        n = n // DIVISOR
    elif WAY == "constant unsigned":
        n = (u // DIVISOR).to(tl.int32)
    elif WAY == "magic":
        n = ((tl.umulhi(u, multiplier.to(tl.uint32)) + u) >> shift.to(tl.uint32)).to(tl.int32)
    return n


@triton.jit
def divide_lanes(
    p_n,
    p_out,
    divisor,
    multiplier,
    shift,
    WAY: tl.constexpr,
    DIVISOR: tl.constexpr,
    REPEATS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A different n in every lane: out = n // divisor, REPEATS times over if more than once."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b_first = tl.load(p_n + o)
    b_n = quotient(b_first, divisor, multiplier, shift, WAY, DIVISOR)
    for _ in tl.static_range(1, REPEATS):
        # The first n again, or the compiler makes one division of two.
        b_n = quotient((b_n ^ b_first) & 0x7FFFFFFF, divisor, multiplier, shift, WAY, DIVISOR)
    tl.store(p_out + o, b_n)


@triton.jit
def divide_program(p_out, first, divisor, multiplier, shift, WAY: tl.constexpr, DIVISOR: tl.constexpr):
    """One n for the whole program, its own number: out[i] = (first + i) // divisor."""
    i = tl.program_id(0)
    tl.store(p_out + i, quotient(i + first, divisor, multiplier, shift, WAY, DIVISOR))
