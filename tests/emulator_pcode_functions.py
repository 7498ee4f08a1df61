"""Functions and number formats of the vendor's pseudo-code."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import torch

FLOAT_TYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": torch.bfloat16,
               "fp8": torch.float8_e4m3fn, "bf8": torch.float8_e5m2}  # fmt: skip
_WIDTHS = {"bf16": 16, "fp8": 8, "bf8": 8}


def from_bits(bits: int, kind: str) -> Any:
    """The number that raw bits are: an int, or a float of its own type (bf16 and fp8 as float32)."""
    if kind in _WIDTHS:
        width = _WIDTHS[kind]
        raw = torch.tensor([bits & (1 << width) - 1], dtype=torch.int32).to(
            torch.uint16 if width == 16 else torch.uint8
        )
        return np.float32(raw.view(FLOAT_TYPES[kind]).float().item())
    width = int(kind[1:])
    bits &= (1 << width) - 1
    if kind[0] == "f":
        return np.array([bits], f"u{width // 8}").view(FLOAT_TYPES[kind])[0]
    return bits - (1 << width) if kind[0] == "i" and bits >> width - 1 else bits


def to_bits(value: Any, kind: str = "") -> int:
    """Raw bits of a number, converted to the type `kind` first where that is one of floating point."""
    if kind == "fp8" and abs(float(value)) > 464:
        return 0xFF if value < 0 else 0x7F  # past the middle to the next value, were there one
    if kind in _WIDTHS:
        rounded = torch.tensor([float(value)], dtype=torch.float32).to(FLOAT_TYPES[kind])
        return int(rounded.view(torch.uint8 if _WIDTHS[kind] == 8 else torch.uint16).item())
    if kind in FLOAT_TYPES and isinstance(value, float | np.floating):
        value = FLOAT_TYPES[kind](value)
    if isinstance(value, np.floating):
        return int(np.array([value]).view(f"u{value.dtype.itemsize}")[0])
    if isinstance(value, float):
        return int(np.array([value]).view(np.uint64)[0])
    return int(value)


def fma(a: Any, b: Any, c: Any) -> Any:
    """Exact product and sum, rounded once."""
    dtype = type(a)
    if not all(np.isfinite(x) for x in (a, b, c)):
        return dtype(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return dtype(np.float64(a) * np.float64(b) + np.float64(c))
    middle = dtype(float(exact))
    if not np.isfinite(middle):
        return middle
    around = [np.nextafter(middle, dtype(-np.inf)), middle, np.nextafter(middle, dtype(np.inf))]
    finite = [x for x in around if np.isfinite(x)]
    return min(finite, key=lambda x: (abs(Fraction(float(x)) - exact), to_bits(x) & 1))


def _exponent(x: Any) -> int:
    width, bits = {np.float16: (10, 5), np.float32: (23, 8), np.float64: (52, 11)}[type(x)]
    return to_bits(x) >> width & (1 << bits) - 1


def _is_signalling(x: Any) -> bool:
    bits = to_bits(np.float64(x))
    return bool(np.isnan(x)) and not bits >> 51 & 1


def _to_integer(low: int, high: int) -> Any:
    def convert(x: Any) -> int:
        return 0 if np.isnan(x) else min(max(int(np.clip(float(x), -1e30, 1e30)), low), high)

    return convert


def _sign_extended(value: int, width: int) -> int:
    if width == 0:
        return 0
    value &= (1 << width) - 1
    return value - (1 << width) if value >> width - 1 else value


def _scaled(kind: str) -> Any:
    """From fp8, times the power of two that the biased exponent `scale` says."""
    return lambda x, scale: (
        np.ldexp(x, int(scale) - 127).astype(np.float32) if kind != "f16" else np.float16(np.ldexp(x, int(scale) - 127))
    )


class OutOfRange(Exception):
    """The pseudo-code does not say what becomes of a value that the narrow format cannot hold."""


def _to_scaled(kind: str) -> Any:
    def convert(x: Any, scale: int) -> int:
        value = np.ldexp(np.float64(x), 127 - int(scale))
        if not abs(value) <= torch.finfo(FLOAT_TYPES[kind]).max:
            raise OutOfRange
        return to_bits(value, kind)

    return convert


def _ieee_choice(larger: bool) -> Any:
    """IEEE maximum or minimum: a NaN wins, +0 is above -0."""

    def choose(x: Any, y: Any) -> Any:
        if np.isnan(x) or np.isnan(y):
            return type(x)(np.nan)
        return max((x, y), key=lambda v: (v, not np.signbit(v)) if larger else (-v, np.signbit(v)))

    return choose


def _three(larger: bool) -> Any:
    choose = _ieee_choice(larger)
    return lambda x, y, z: choose(choose(x, y), z)


FUNCTIONS: dict[str, Any] = {
    "fma": fma,
    "floor": np.floor,
    "trunc": np.trunc,
    "fract": lambda x: x - np.floor(x),
    "isEven": lambda x: int(math.fmod(x, 2) == 0),
    "isNAN": lambda x: int(np.isnan(x)),
    "isSignalNAN": lambda x: int(_is_signalling(x)),
    "isQuietNAN": lambda x: int(np.isnan(x) and not _is_signalling(x)),
    "cvtToQuietNAN": lambda x: x,
    "exponent": _exponent,
    "sign": lambda x: int(np.signbit(x)),
    "abs": abs,
    "sqrt": np.sqrt,
    "signext": lambda x: x,
    "signext_from_bit": _sign_extended,
    "u32_to_f32": np.float32,
    "i32_to_f32": np.float32,
    "u32_to_f64": np.float64,
    "i32_to_f64": np.float64,
    "f32_to_f64": np.float64,
    "f64_to_f32": np.float32,
    "f16_to_f32": np.float32,
    "f32_to_f16": np.float16,
    "bf16_to_f32": np.float32,
    "f32_to_bf16": lambda x: x,
    "f32_to_u32": _to_integer(0, 2**32 - 1),
    "f32_to_i32": _to_integer(-(2**31), 2**31 - 1),
    "f64_to_u32": _to_integer(0, 2**32 - 1),
    "f64_to_i32": _to_integer(-(2**31), 2**31 - 1),
    "f16_to_u16": _to_integer(0, 2**16 - 1),
    "f16_to_i16": _to_integer(-(2**15), 2**15 - 1),
    "u16_to_f16": np.float16,
    "i16_to_f16": np.float16,
    "i32_to_i16": lambda x: min(max(x, -(2**15)), 2**15 - 1),
    "u32_to_u16": lambda x: min(x, 2**16 - 1),
    "i8_to_i32": lambda x: x,
    "u8_to_u32": lambda x: x,
    "f32_to_fp8": lambda x: to_bits(x, "fp8"),
    "f32_to_bf8": lambda x: to_bits(x, "bf8"),
    "fp8_to_f32": lambda x: from_bits(int(x), "fp8") if isinstance(x, int) else x,
    "bf8_to_f32": lambda x: from_bits(int(x), "bf8") if isinstance(x, int) else x,
    **{f"{code}_to_{out}_scale": _scaled(out) for code in ("fp8", "bf8") for out in ("f32", "bf16", "f16")},
    **{f"{source}_to_{code}_scale": _to_scaled(code) for code in ("fp8", "bf8") for source in ("f32", "bf16", "f16")},
    **{
        f"v_{name}_{kind}": _ieee_choice(name == "maximum")
        for name in ("maximum", "minimum")
        for kind in ("f32", "f16")
    },
    **{f"v_{name}3_f16": _three(name == "maximum") for name in ("maximum", "minimum")},
}
