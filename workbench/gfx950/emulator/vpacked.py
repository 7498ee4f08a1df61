"""Packed and mixed-precision vector instructions: two float32 or two 16-bit results a lane."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.gfx950.emulator import fp
from workbench.gfx950.emulator.builder import Builder, Reader, Run
from workbench.gfx950.emulator.registry import op
from workbench.gfx950.emulator.state import Group

_U32, _F32, _F16 = np.uint32, np.float32, np.float16
_SHIFT = _U32(16)


def _flags(b: Builder, name: str, count: int, default: int) -> tuple[int, ...]:
    given = tuple(b.modifier(name, ()))
    return given + (default,) * (count - len(given))


def _negated(reader: Reader, negate: int) -> Reader:
    return (lambda g: np.negative(reader(g))) if negate else reader


def _word(b: Builder, position: int, high: int) -> Reader:
    """One float32 of a register pair; a scalar constant serves both halves."""
    operand = b.operand(position)
    if operand.kind == "const":
        return b.f32(position)
    return b.f32(position, high)


def _pair_sources(b: Builder, count: int) -> list[list[Reader]]:
    """Sources of the low and of the high result."""
    low_select, high_select = _flags(b, "op_sel", count, 0), _flags(b, "op_sel_hi", count, 1)
    negations = _flags(b, "neg_lo", count, 0), _flags(b, "neg_hi", count, 0)
    return [
        [_negated(_word(b, i + 1, select[i]), negate[i]) for i in range(count)]
        for select, negate in ((low_select, negations[0]), (high_select, negations[1]))
    ]


_PAIR_F32: dict[str, Any] = {"v_pk_add_f32": np.add, "v_pk_mul_f32": np.multiply}


@op(*_PAIR_F32)
def _packed_binary(b: Builder) -> Run:
    function = _PAIR_F32[b.ins.opcode]
    (x0, y0), (x1, y1) = _pair_sources(b, 2)
    low, high = b.vdst(0), b.vdst(0, 1)

    def run(g: Group) -> None:
        first, second = np.asarray(function(x0(g), y0(g))), np.asarray(function(x1(g), y1(g)))
        low(g, first)
        high(g, second)

    return run


@op("v_pk_fma_f32")
def _packed_fma(b: Builder) -> Run:
    (x0, y0, z0), (x1, y1, z1) = _pair_sources(b, 3)
    low, high = b.vdst(0), b.vdst(0, 1)

    def run(g: Group) -> None:
        exact = not g.flushes
        first, second = fp.fma32(x0(g), y0(g), z0(g), exact), fp.fma32(x1(g), y1(g), z1(g), exact)
        low(g, first)
        high(g, second)

    return run


@op("v_pk_mov_b32")
def _packed_move(b: Builder) -> Run:
    """Low result from the first source, high result from the second, each half chosen by op_sel."""
    select = _flags(b, "op_sel", 2, 0)
    sources = [b.u32(i + 1) if b.operand(i + 1).kind == "const" else b.u32(i + 1, select[i]) for i in range(2)]
    low, high = b.vdst(0), b.vdst(0, 1)

    def run(g: Group) -> None:
        # Copies, since the destination may overlap a source.
        first, second = np.array(sources[0](g)), np.array(sources[1](g))
        low(g, first)
        high(g, second)

    return run


def _half(raw: Reader, high: int) -> Reader:
    if high:
        return lambda g: (raw(g) >> _SHIFT).astype(np.uint16)
    return lambda g: raw(g).astype(np.uint16)


def _half_sources(b: Builder, count: int, dtype: Any) -> list[list[Reader]]:
    low_select, high_select = _flags(b, "op_sel", count, 0), _flags(b, "op_sel_hi", count, 1)
    negations = _flags(b, "neg_lo", count, 0), _flags(b, "neg_hi", count, 0)

    def reader(position: int, select: int, negate: int) -> Reader:
        operand = b.operand(position)
        if operand.kind == "const":
            # An inline constant fills the low half; the high half of a literal is its upper 16 bits.
            bits = operand.bits16() if dtype == _F16 or -16 <= operand.value <= 64 else operand.bits32()
            value = np.uint16(bits & 0xFFFF if not select else bits >> 16).view(dtype)
            return _negated(lambda g: value, negate)
        half = _half(b.u32(position), select)
        return _negated(lambda g: half(g).view(dtype), negate)

    return [
        [reader(i + 1, select[i], negate[i]) for i in range(count)]
        for select, negate in ((low_select, negations[0]), (high_select, negations[1]))
    ]


def fma16(x: Any, y: Any, z: Any) -> Any:
    """float16 FMA: product and sum are exact in float64, so one rounding remains."""
    return (np.multiply(x, y, dtype=np.float64) + np.asarray(z, np.float64)).astype(_F16)


_SHIFT_MASK = np.uint16(15)
_HALF_OPS: dict[str, tuple[Any, int, Any]] = {
    "v_pk_add_f16": (np.add, 2, _F16),
    "v_pk_mul_f16": (np.multiply, 2, _F16),
    "v_pk_max_f16": (fp.maximum, 2, _F16),
    "v_pk_min_f16": (fp.minimum, 2, _F16),
    "v_pk_fma_f16": (fma16, 3, _F16),
    "v_pk_maximum3_f16": (lambda x, y, z: fp.ieee_maximum(fp.ieee_maximum(x, y), z), 3, _F16),
    "v_pk_minimum3_f16": (lambda x, y, z: fp.ieee_minimum(fp.ieee_minimum(x, y), z), 3, _F16),
    "v_pk_add_u16": (np.add, 2, np.uint16),
    "v_pk_sub_u16": (np.subtract, 2, np.uint16),
    "v_pk_mul_lo_u16": (np.multiply, 2, np.uint16),
    "v_pk_max_u16": (np.maximum, 2, np.uint16),
    "v_pk_min_u16": (np.minimum, 2, np.uint16),
    "v_pk_add_i16": (np.add, 2, np.int16),
    "v_pk_sub_i16": (np.subtract, 2, np.int16),
    "v_pk_max_i16": (np.maximum, 2, np.int16),
    "v_pk_min_i16": (np.minimum, 2, np.int16),
    "v_pk_lshlrev_b16": (lambda x, y: y << (x & _SHIFT_MASK), 2, np.uint16),
    "v_pk_lshrrev_b16": (lambda x, y: y >> (x & _SHIFT_MASK), 2, np.uint16),
    "v_pk_ashrrev_i16": (lambda x, y: y >> (x & np.int16(15)), 2, np.int16),
    "v_pk_mad_u16": (lambda x, y, z: x * y + z, 3, np.uint16),
    "v_pk_mad_i16": (lambda x, y, z: x * y + z, 3, np.int16),
}


@op(*_HALF_OPS)
def _packed_half(b: Builder) -> Run:
    function, count, dtype = _HALF_OPS[b.ins.opcode]
    low_sources, high_sources = _half_sources(b, count, dtype)
    dst, clamp = b.vdst(), b.modifier("clamp", False)
    if clamp and dtype != _F16:
        raise b.error("integer clamp is not modelled")

    def half(g: Group, sources: list[Reader]) -> Any:
        value = np.asarray(function(*(source(g) for source in sources)), dtype)
        if clamp:
            value = np.where(np.isnan(value), _F16(0), np.clip(value, _F16(0), _F16(1)))
        return value.view(np.uint16).astype(_U32)

    return lambda g: dst(g, np.asarray(half(g, low_sources) | half(g, high_sources) << _SHIFT))


def _mixed_source(b: Builder, position: int, index: int) -> Reader:
    """float32, or with op_sel_hi a half picked by op_sel, widened."""
    operand = b.operand(position)
    half = _flags(b, "op_sel_hi", 3, 0)[index]
    if not half:
        return b.f32(position)
    if operand.kind == "const":
        constant = _F32(np.uint16(operand.bits16()).view(_F16))
        return lambda g: constant
    bits = _half(b.u32(position), _flags(b, "op_sel", 3, 0)[index])
    reader = lambda g: bits(g).view(_F16).astype(_F32)  # noqa: E731
    return b.signed(reader, operand)


@op("v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16", "v_mad_mix_f32", "v_mad_mixlo_f16", "v_mad_mixhi_f16")
def _mixed_fma(b: Builder) -> Run:
    x, y, z = (_mixed_source(b, i + 1, i) for i in range(3))
    dst, clamp = b.vdst(), b.modifier("clamp", False)
    form = b.ins.opcode.rsplit("_", 1)[0][-2:]
    old = b.u32(0) if form in ("lo", "hi") else None

    def run(g: Group) -> None:
        result = fp.fma32(x(g), y(g), z(g))
        if clamp:
            result = np.clip(result, _F32(0), _F32(1))
        if old is None:
            dst(g, result)
            return
        half = result.astype(_F16).view(np.uint16).astype(_U32)
        rest = old(g)
        dst(g, (rest & _U32(0xFFFF0000)) | half if form == "lo" else (rest & _U32(0xFFFF)) | half << _SHIFT)

    return run


@op("v_dot2_f32_f16", "v_dot2_f32_bf16", "v_dot2c_f32_f16", "v_dot2c_f32_bf16")
def _dot2(b: Builder) -> Run:
    bf16 = "bf16" in b.ins.opcode
    chained = "dot2c" in b.ins.opcode
    x, y, z, dst = b.u32(1), b.u32(2), b.f32(0 if chained else 3), b.vdst()

    def halves(bits: Any) -> tuple[Any, Any]:
        if bf16:
            return fp.bf16_to_f32(bits & _U32(0xFFFF)), np.asarray(bits & _U32(0xFFFF0000)).view(_F32)
        return tuple(part.astype(np.uint16).view(_F16).astype(_F32) for part in (bits, bits >> _SHIFT))

    def run(g: Group) -> None:
        (a0, a1), (b0, b1) = halves(x(g)), halves(y(g))
        dst(g, fp.fma32(a1, b1, fp.fma32(a0, b0, z(g))))

    return run


_F16_BINARY: dict[str, Any] = {
    "v_add_f16": np.add, "v_sub_f16": np.subtract, "v_subrev_f16": lambda x, y: y - x, "v_mul_f16": np.multiply,
    "v_max_f16": fp.maximum, "v_min_f16": fp.minimum,
}  # fmt: skip
_F16_UNARY: dict[str, Any] = {
    "v_exp_f16": np.exp2, "v_log_f16": np.log2, "v_rcp_f16": lambda x: _F16(1) / x, "v_sqrt_f16": np.sqrt,
    "v_rsq_f16": lambda x: (1 / np.sqrt(np.asarray(x, _F32))).astype(_F16),
    "v_floor_f16": np.floor, "v_ceil_f16": np.ceil, "v_trunc_f16": np.trunc, "v_rndne_f16": np.rint,
}  # fmt: skip
_F16_TERNARY: dict[str, Any] = {
    "v_fma_f16": fma16,
    "v_max3_f16": lambda x, y, z: fp.maximum(fp.maximum(x, y), z),
    "v_min3_f16": lambda x, y, z: fp.minimum(fp.minimum(x, y), z),
    "v_med3_f16": fp.median,
}


@op(*_F16_BINARY, *_F16_UNARY, *_F16_TERNARY)
def _half_arithmetic(b: Builder) -> Run:
    name = b.ins.opcode
    count = 3 if name in _F16_TERNARY else 2 if name in _F16_BINARY else 1
    function = (_F16_TERNARY | _F16_BINARY | _F16_UNARY)[name]
    select = _flags(b, "op_sel", count + 1, 0)
    sources = [b.f16(i + 1, bool(select[i])) for i in range(count)]
    dst = b.vdst16()
    return lambda g: dst(g, np.asarray(function(*(source(g) for source in sources)), _F16))


def _middle(x: Any, y: Any, z: Any) -> Any:
    return np.maximum(np.minimum(x, y), np.minimum(np.maximum(x, y), z))


_INT16: dict[str, Any] = {"i16": np.int16, "u16": np.uint16}


@op("v_ldexp_f16")
def _scale_half(b: Builder) -> Run:
    x, power, dst = b.f16(1), b.u32(2), b.vdst16()
    return lambda g: dst(g, np.ldexp(x(g), power(g).astype(np.int16).astype(np.int32)).astype(_F16))


_SHORT: dict[str, tuple[Any, int, Any]] = {
    **{f"v_{name[5:]}": form for name, form in _HALF_OPS.items() if form[2] != _F16},
    "v_subrev_u16": (lambda x, y: y - x, 2, np.uint16),
    **{f"v_max3_{kind}": (lambda x, y, z: np.maximum(np.maximum(x, y), z), 3, dtype) for kind, dtype in _INT16.items()},
    **{f"v_min3_{kind}": (lambda x, y, z: np.minimum(np.minimum(x, y), z), 3, dtype) for kind, dtype in _INT16.items()},
    **{f"v_med3_{kind}": (_middle, 3, dtype) for kind, dtype in _INT16.items()},
}


@op(*_SHORT)
def _short_arithmetic(b: Builder) -> Run:
    function, count, dtype = _SHORT[b.ins.opcode]
    sources, dst = [b.u32(i + 1) for i in range(count)], b.vdst16()

    def run(g: Group) -> None:
        halves = [np.asarray(source(g)).astype(np.uint16).view(dtype) for source in sources]
        dst(g, np.asarray(function(*halves), dtype))

    return run
