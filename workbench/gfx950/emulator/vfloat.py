"""Vector ALU, float32 and float64 arithmetic, transcendental functions and division steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.gfx950.emulator import fp
from workbench.gfx950.emulator.builder import Builder, Run, Writer
from workbench.gfx950.emulator.registry import op
from workbench.gfx950.emulator.state import Group

_F32, _I32, _U32 = np.float32, np.int32, np.uint32
_OMOD = {("mul", 2): 2.0, ("mul", 4): 4.0, ("div", 2): 0.5}


def float_writer(b: Builder, position: int = 0) -> Writer:
    """Writer of float32 results, with the output multiplier and the clamp to [0, 1]."""
    write = b.vdst(position)
    factor = next((_F32(v) for (name, n), v in _OMOD.items() if b.modifier(name, None) == n), None)
    clamp = b.modifier("clamp", False)
    if factor is None and not clamp:
        return write

    def finish(g: Group, value: Any) -> None:
        if factor is not None:
            value = value * factor
        if clamp:
            value = np.where(np.isnan(value), _F32(0), np.clip(value, _F32(0), _F32(1)))
        write(g, np.asarray(value, _F32))

    return finish


def elementwise(b: Builder, function: Callable[..., Any], sources: list[Any], rows: Any) -> Run:
    """dst = function(sources); a numpy ufunc writes straight into the register where all lanes are active."""
    write = float_writer(b) if rows is b.state.vf else b.vdst()
    simple = b.dpp is None and not b.ins.modifiers and b.ins.encoding != "sdwa" and isinstance(function, np.ufunc)
    if not simple:
        return lambda g: write(g, np.asarray(function(*(source(g) for source in sources))))
    row = rows[b.row(b.operand(0))]
    if len(sources) == 1:
        (only,) = sources

        def unary(g: Group) -> None:
            if g.lane_bits is None and g.dense:
                function(only(g), out=row[g.sel])
            else:
                write(g, np.asarray(function(only(g))))

        return unary
    x, y = sources

    def binary(g: Group) -> None:
        if g.lane_bits is None and g.dense:
            function(x(g), y(g), out=row[g.sel])
        else:
            write(g, np.asarray(function(x(g), y(g))))

    return binary


def _legacy_multiply(x: Any, y: Any) -> Any:
    return np.where((x == 0) | (y == 0), _F32(0), x * y)


_BINARY: dict[str, Any] = {
    "v_add_f32": np.add,
    "v_sub_f32": np.subtract,
    "v_subrev_f32": lambda x, y: y - x,
    "v_mul_f32": np.multiply,
    "v_mul_legacy_f32": _legacy_multiply,
    "v_max_f32": fp.maximum,
    "v_min_f32": fp.minimum,
}


@op(*_BINARY)
def _binary(b: Builder) -> Run:
    if b.ins.opcode == "v_max_f32" and b.operand(1) == b.operand(2):
        # The compiler's canonicalisation: x as it is (NaN quieted, denormals by the mode).
        return elementwise(b, np.positive, [b.f32(1)], b.state.vf)
    return elementwise(b, _BINARY[b.ins.opcode], [b.f32(1), b.f32(2)], b.state.vf)


@op("v_fma_f32", "v_fmac_f32", "v_fmaak_f32", "v_fmamk_f32")
def _fma(b: Builder) -> Run:
    third = 0 if b.ins.opcode == "v_fmac_f32" else 3
    x, y, z, dst = b.f32(1), b.f32(2), b.f32(third), float_writer(b)
    return lambda g: dst(g, fp.fma32(x(g), y(g), z(g), not g.flushes))


@op("v_mad_f32", "v_mac_f32", "v_mad_legacy_f32")
def _multiply_then_add(b: Builder) -> Run:
    third = 0 if b.ins.opcode == "v_mac_f32" else 3
    x, y, z, dst = b.f32(1), b.f32(2), b.f32(third), float_writer(b)
    product = _legacy_multiply if "legacy" in b.ins.opcode else np.multiply
    return lambda g: dst(g, np.asarray(product(x(g), y(g)) + z(g)))


_TERNARY: dict[str, Any] = {
    "v_max3_f32": lambda x, y, z: fp.maximum(fp.maximum(x, y), z),
    "v_min3_f32": lambda x, y, z: fp.minimum(fp.minimum(x, y), z),
    "v_maximum3_f32": lambda x, y, z: fp.ieee_maximum(fp.ieee_maximum(x, y), z),
    "v_minimum3_f32": lambda x, y, z: fp.ieee_minimum(fp.ieee_minimum(x, y), z),
    "v_med3_f32": fp.median,
}


@op(*_TERNARY)
def _ternary(b: Builder) -> Run:
    return elementwise(b, _TERNARY[b.ins.opcode], [b.f32(1), b.f32(2), b.f32(3)], b.state.vf)


def exp2(x: Any) -> Any:
    """2**x as v_exp_f32: denormal results are zero."""
    result = np.asarray(np.exp2(x))
    return np.where(result < fp.SMALLEST_NORMAL, _F32(0), result) if result.min() < fp.SMALLEST_NORMAL else result


def _log2(x: Any) -> Any:
    return np.log2(fp.flush(x))


def _reciprocal(x: Any) -> Any:
    return fp.flush(_F32(1) / fp.flush(x))


def _reciprocal_root(x: Any) -> Any:
    return (1.0 / np.sqrt(fp.flush(x).astype(np.float64))).astype(_F32)


def _turns(function: Any) -> Any:
    """sin and cos take turns, not radians, and are defined up to 256 of them."""

    def of_turns(x: Any) -> Any:
        value = function(2 * np.pi * np.asarray(x, np.float64))
        return np.where(np.isfinite(x) & (np.abs(x) > 256), 0, value).astype(_F32)

    return of_turns


def _fraction(x: Any) -> Any:
    return np.minimum(x - np.floor(x), np.nextafter(_F32(1), _F32(0)))


def _mantissa(x: Any) -> Any:
    return np.where(np.isfinite(x), np.frexp(x)[0], x)


_UNARY: dict[str, Any] = {
    "v_exp_f32": exp2,
    "v_log_f32": _log2,
    "v_rcp_f32": _reciprocal,
    "v_rcp_iflag_f32": _reciprocal,
    "v_rsq_f32": _reciprocal_root,
    "v_sqrt_f32": np.sqrt,
    "v_sin_f32": _turns(np.sin),
    "v_cos_f32": _turns(np.cos),
    "v_fract_f32": _fraction,
    "v_trunc_f32": np.trunc,
    "v_ceil_f32": np.ceil,
    "v_floor_f32": np.floor,
    "v_rndne_f32": np.rint,
    "v_frexp_mant_f32": _mantissa,
}


@op(*_UNARY)
def _unary(b: Builder) -> Run:
    return elementwise(b, _UNARY[b.ins.opcode], [b.f32(1)], b.state.vf)


@op("v_frexp_exp_i32_f32")
def _exponent(b: Builder) -> Run:
    x, dst = b.f32(1), b.vdst()

    def run(g: Group) -> None:
        value = x(g)
        exponent = np.where(np.isfinite(value), np.frexp(value)[1], 0)
        dst(g, np.asarray(exponent, _I32))

    return run


@op("v_ldexp_f32")
def _scale_exponent(b: Builder) -> Run:
    x, power, dst = b.f32(1), b.i32(2), float_writer(b)
    return lambda g: dst(g, np.asarray(np.ldexp(x(g), power(g)), _F32))


@op("v_div_scale_f32")
def _division_scale(b: Builder) -> Run:
    """Scales denominator or numerator away from overflow and underflow, and flags that a scale is to be undone.

    CDNA ISA: operands (dst, flags, value, denominator, numerator); value is one of the other two.
    """
    dst, flags = b.vdst(0), b.mask_dst(1)
    value, denominator, numerator = b.f32(2), b.f32(3), b.f32(4)

    def exponent(x: Any) -> Any:
        return (np.asarray(x).view(_U32) >> _U32(23) & _U32(255)).astype(_I32)

    up, down = _F32(2.0**64), _F32(2.0**-64)

    def run(g: Group) -> None:
        v, d, n = value(g), denominator(g), numerator(g)
        n_exp, d_exp = exponent(n), exponent(d)
        huge_d = d_exp >= 253  # the reciprocal would be denormal
        tiny_q = np.abs(np.asarray(n, np.float64) / np.asarray(d, np.float64)) < 2.0**-126
        is_d, is_n = v == d, v == n
        cases = [
            ((n == 0) | (d == 0), _F32(np.nan), False),
            (n_exp - d_exp >= 96, np.where(is_d, v * up, v), True),
            ((d_exp == 0) & (d != 0), v * up, False),
            (huge_d & tiny_q, np.where(is_d, v * down, v), True),
            (huge_d, v * down, False),
            (tiny_q, np.where(is_n, v * up, v), True),
            (n_exp <= 23, v * up, False),
        ]
        scaled, flag = v, np.zeros((), bool)
        for condition, result, scales in reversed(cases):
            scaled, flag = np.where(condition, result, scaled), np.where(condition, scales, flag)
        dst(g, np.asarray(scaled, _F32))
        flags(g, flag)

    return run


@op("v_div_fmas_f32")
def _division_fma(b: Builder) -> Run:
    x, y, z, flag, dst = b.f32(1), b.f32(2), b.f32(3), b.lanes_of(), b.vdst()

    def run(g: Group) -> None:
        result = fp.fma32(x(g), y(g), z(g), not g.flushes)
        # The numerator's exponent tells in which direction v_div_scale_f32 had scaled.
        exponent = np.asarray(z(g)).view(_U32) >> _U32(23) & _U32(255)
        undo = np.where(exponent > 127, _F32(2.0**64), _F32(2.0**-64))
        dst(g, np.where(flag(g), result * undo, result).astype(_F32))

    return run


@op("v_div_fixup_f32")
def _division_fixup(b: Builder) -> Run:
    quotient, denominator, numerator, dst = b.f32(1), b.f32(2), b.f32(3), b.vdst()

    def run(g: Group) -> None:
        q, d, n = quotient(g), denominator(g), numerator(g)
        sign = np.where(np.signbit(d) ^ np.signbit(n), _F32(-1), _F32(1))
        nan = np.isnan(d) | np.isnan(n) | ((d == 0) & (n == 0)) | (np.isinf(d) & np.isinf(n))
        infinite = (d == 0) | np.isinf(n)
        zero = np.isinf(d) | (n == 0)
        ratio = np.abs(np.asarray(n, np.float64) / np.asarray(d, np.float64))
        result = np.copysign(q, sign)
        result = np.where(ratio >= 2.0**128, sign * _F32(np.inf), result)
        result = np.where(zero, sign * _F32(0), result)
        result = np.where(infinite, sign * _F32(np.inf), result)
        dst(g, np.where(nan, _F32(np.nan), result).astype(_F32))

    return run
