"""Floating-point arithmetic as the vector ALU does it: single-rounding FMA, ordered zeros, narrow formats."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.gfx950.emulator.state import Array

_LOW29, _MIDPOINT = np.int64(0x1FFFFFFF), np.int64(0x10000000)
_TINY = np.float64(2.0**-125)
SMALLEST_NORMAL = np.float32(2.0**-126)


def fma32(a: Any, b: Any, c: Any, exact_denormals: bool = True) -> Array:
    """a * b + c on float32 with one rounding.

    The product of two float32 is exact in float64, so only the sum rounds twice. That matters where the float64 sum
    lies exactly between two float32, or rounds to a denormal; those elements are redone with their rounding error.
    """
    product = np.multiply(a, b, dtype=np.float64)
    total = np.asarray(product + c)
    suspect = (total.view(np.int64) & _LOW29) == _MIDPOINT
    if exact_denormals:
        magnitude = np.abs(total)
        suspect |= (magnitude < _TINY) & (magnitude > 0)
    if suspect.any():
        total = _sticky(total, product, np.asarray(c, np.float64), suspect)
    return total.astype(np.float32)


def _sticky(total: Array, product: Array, addend: Array, suspect: Array) -> Array:
    """Round to odd where `suspect`: the last bit records that something was lost, so the next rounding is right."""
    back = total - product
    lost = (product - (total - back)) + (addend - back)
    nudge = suspect & (lost != 0) & ((total.view(np.int64) & 1) == 0) & np.isfinite(total)
    return np.where(nudge, np.nextafter(total, np.where(lost > 0, np.inf, -np.inf)), total)


def maximum(a: Any, b: Any) -> Array:
    """IEEE maxNum with +0 above -0; a NaN gives way to a number."""
    result = np.asarray(np.fmax(a, b))
    zero = result == 0
    if zero.any():
        unsigned = _uint_like(result)
        bits = np.asarray(a).view(unsigned) & np.asarray(b).view(unsigned)
        result = np.where(zero & (np.asarray(a) == b), bits.view(result.dtype), result)
    return result


def minimum(a: Any, b: Any) -> Array:
    """IEEE minNum with -0 below +0; a NaN gives way to a number."""
    result = np.asarray(np.fmin(a, b))
    zero = result == 0
    if zero.any():
        unsigned = _uint_like(result)
        bits = np.asarray(a).view(unsigned) | np.asarray(b).view(unsigned)
        result = np.where(zero & (np.asarray(a) == b), bits.view(result.dtype), result)
    return result


def ieee_maximum(a: Any, b: Any) -> Array:
    """IEEE 754-2019 maximum: a NaN wins, +0 is above -0."""
    return np.where(np.isnan(a) | np.isnan(b), np.add(a, b), maximum(a, b))


def ieee_minimum(a: Any, b: Any) -> Array:
    """IEEE 754-2019 minimum: a NaN wins, -0 is below +0."""
    return np.where(np.isnan(a) | np.isnan(b), np.add(a, b), minimum(a, b))


def _uint_like(value: Array) -> Any:
    return {2: np.uint16, 4: np.uint32, 8: np.uint64}[value.dtype.itemsize]


def median(a: Any, b: Any, c: Any) -> Array:
    """The middle one of three; with a NaN among them the smallest of the others."""
    low, high = minimum(a, b), maximum(a, b)
    middle = maximum(low, minimum(high, c))
    unordered = np.isnan(a) | np.isnan(b) | np.isnan(c)
    return np.where(unordered, minimum(low, c), middle)


def flush(value: Any) -> Any:
    """Denormal float32 as zero of the same sign."""
    return np.where(np.abs(value) < SMALLEST_NORMAL, np.copysign(np.float32(0), value), value)


def to_integer(value: Any, dtype: Any) -> Any:
    """Towards zero, saturating to the integer type; NaN gives 0."""
    limits = np.iinfo(dtype)
    whole = np.trunc(np.asarray(value, np.float64))
    return np.where(np.isnan(whole), 0, np.clip(whole, limits.min, limits.max)).astype(np.int64).astype(dtype)


def bf16_to_f32(half: Any) -> Any:
    """uint32 holding a bf16 in its low 16 bits, as float32."""
    return np.asarray(half << np.uint32(16)).view(np.float32)


def f32_to_bf16(value: Any) -> Array:
    """float32 to bf16 bits (uint32), round to nearest even; NaN stays NaN."""
    bits = np.asarray(value).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(value), (bits >> np.uint32(16)) | np.uint32(0x40), rounded)


def _decode_table(exponent_bits: int, mantissa_bits: int, bias: int, infinities: bool) -> Array:
    table = np.zeros(256, np.float32)
    top = (1 << exponent_bits) - 1
    for code in range(256):
        exponent, mantissa = code >> mantissa_bits & top, code & (1 << mantissa_bits) - 1
        if exponent == 0:
            value = mantissa * 2.0 ** (1 - bias - mantissa_bits)
        else:
            value = (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)
        if infinities and exponent == top:
            value = float("inf") if mantissa == 0 else float("nan")
        elif not infinities and code & 0x7F == 0x7F:
            value = float("nan")
        table[code] = -value if code & 0x80 else value
    return table


E4M3_TABLE = _decode_table(4, 3, 7, infinities=False)
"""OCP e4m3fn: no infinities, one NaN code a sign."""
E5M2_TABLE = _decode_table(5, 2, 15, infinities=True)
"""OCP e5m2."""


def f32_to_fp8(value: Any, table: Array, saturate: bool = False) -> Array:
    """float32 to the nearest fp8 code (uint32), ties to even.

    What exceeds the largest finite value becomes NaN (e4m3) or infinity (e5m2), or the largest with `saturate`.
    """
    value = np.asarray(value, np.float32)
    finite = np.flatnonzero(np.isfinite(table[:128]))
    levels = table[finite].astype(np.float64)
    magnitude = np.abs(value).astype(np.float64)
    upper = np.clip(np.searchsorted(levels, magnitude), 1, len(levels) - 1)
    below, above = magnitude - levels[upper - 1], levels[upper] - magnitude
    code = np.where((below < above) | ((below == above) & (upper % 2 == 1)), upper - 1, upper)
    largest = len(levels) - 1
    step = levels[-1] - levels[-2]
    # Half a step above the largest value is a tie, which goes to the even code.
    limit = levels[-1] + step / 2
    overflow = (magnitude > limit) | ((magnitude == limit) & (largest % 2 == 1))
    code = np.where(overflow, largest if saturate else largest + 1, code)
    code = np.where(np.isnan(value), 0x7F, code)
    return (code | np.where(np.signbit(value), 0x80, 0)).astype(np.uint32)
