"""Conversions between number formats, fp8 with and without scale among them."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.gfx950.emulator import fp
from workbench.gfx950.emulator.builder import Builder, Reader, Run, Writer
from workbench.gfx950.emulator.registry import op
from workbench.gfx950.emulator.state import Group
from workbench.gfx950.emulator.vfloat import elementwise, float_writer

_U32, _I32, _F32, _F16, _F64 = np.uint32, np.int32, np.float32, np.float16, np.float64
_HALF = _U32(0xFFFF)
_BYTE = _U32(0xFF)
_SHIFT = _U32(16)


def _f16_bits(x: Any) -> Any:
    return np.asarray(x).astype(_F16).view(np.uint16).astype(_U32)


def _byte_to_float(index: int) -> Any:
    shift = _U32(8 * index)
    return lambda x: ((x >> shift) & _BYTE).astype(_F32)


_FROM_F32: dict[str, Any] = {
    "v_cvt_u32_f32": lambda x: fp.to_integer(x, _U32),
    "v_cvt_i32_f32": lambda x: fp.to_integer(x, _I32).view(_U32),
    "v_cvt_rpi_i32_f32": lambda x: fp.to_integer(np.floor(np.asarray(x, _F64) + 0.5), _I32).view(_U32),
    "v_cvt_flr_i32_f32": lambda x: fp.to_integer(np.floor(x), _I32).view(_U32),
    "v_cvt_f16_f32": _f16_bits,
}
_FROM_U32: dict[str, Any] = {
    "v_cvt_f32_u32": lambda x: x.astype(_F32),
    "v_cvt_f32_i32": lambda x: x.view(_I32).astype(_F32),
    "v_cvt_f32_f16": lambda x: x.astype(np.uint16).view(_F16).astype(_F32),
    "v_cvt_f32_bf16": lambda x: fp.bf16_to_f32(x & _HALF),
    **{f"v_cvt_f32_ubyte{i}": _byte_to_float(i) for i in range(4)},
}


@op(*_FROM_F32)
def _from_f32(b: Builder) -> Run:
    return elementwise(b, _FROM_F32[b.ins.opcode], [b.f32(1)], b.state.v)


@op(*_FROM_U32)
def _from_u32(b: Builder) -> Run:
    function, x, dst = _FROM_U32[b.ins.opcode], b.u32(1), float_writer(b)
    operand = b.operand(1)
    return lambda g: dst(g, np.asarray(b.signed(lambda g: function(x(g)), operand)(g)))


_FROM_SHORT: dict[str, Any] = {
    "v_cvt_f16_u16": (np.uint16, lambda x: x.astype(_F16)),
    "v_cvt_f16_i16": (np.int16, lambda x: x.astype(_F16)),
    "v_cvt_u16_f16": (_F16, lambda x: fp.to_integer(x, np.uint16)),
    "v_cvt_i16_f16": (_F16, lambda x: fp.to_integer(x, np.int16)),
}


@op(*_FROM_SHORT)
def _from_short(b: Builder) -> Run:
    """Between the low halves of two registers."""
    dtype, function = _FROM_SHORT[b.ins.opcode]
    x, dst = b.f16(1) if dtype == _F16 else b.u32(1), b.vdst16()

    def run(g: Group) -> None:
        value = x(g) if dtype == _F16 else x(g).astype(np.uint16).view(dtype)
        dst(g, np.asarray(function(value)))

    return run


@op("v_cvt_pk_i16_i32", "v_cvt_pk_u16_u32")
def _pack_integers(b: Builder) -> Run:
    """Two 32-bit integers, each saturated to 16 bits."""
    wide, narrow = (_I32, np.int16) if b.ins.opcode.endswith("i32") else (_U32, np.uint16)
    limits = np.iinfo(narrow)
    x, y, dst = b.u32(1), b.u32(2), b.vdst()

    def half(value: Any) -> Any:
        clipped = np.clip(np.asarray(value).view(wide), limits.min, limits.max)
        return clipped.astype(narrow).view(np.uint16).astype(_U32)

    return lambda g: dst(g, half(x(g)) | half(y(g)) << _SHIFT)


def f32_to_f16_towards_zero(x: Any) -> Any:
    """float16 bits (uint32) with the magnitude rounded down; overflow gives the largest finite value."""
    value = np.asarray(x, _F32)
    half = value.astype(_F16)
    too_far = np.abs(half.astype(_F64)) > np.abs(value.astype(_F64))
    half = np.where(too_far & np.isfinite(value), np.nextafter(half, _F16(0)), half)
    return half.view(np.uint16).astype(_U32)


_PACK: dict[str, Any] = {
    "v_cvt_pk_bf16_f32": fp.f32_to_bf16,
    "v_cvt_pk_f16_f32": _f16_bits,
    "v_cvt_pkrtz_f16_f32": f32_to_f16_towards_zero,
}


@op(*_PACK)
def _pack_two(b: Builder) -> Run:
    function, x, y, dst = _PACK[b.ins.opcode], b.f32(1), b.f32(2), b.vdst()
    return lambda g: dst(g, np.asarray(function(x(g)) | function(y(g)) << _SHIFT))


@op("v_pack_b32_f16")
def _pack_halves(b: Builder) -> Run:
    select = (*b.modifier("op_sel", ()), 0, 0, 0)
    x, y, dst = b.f16(1, bool(select[0])), b.f16(2, bool(select[1])), b.vdst()

    def run(g: Group) -> None:
        low, high = (np.asarray(r(g)).view(np.uint16).astype(_U32) for r in (x, y))
        dst(g, np.asarray(low | high << _SHIFT))

    return run


def _table(opcode: str) -> Any:
    return fp.E5M2_TABLE if "bf8" in opcode else fp.E4M3_TABLE


def _op_sel(b: Builder, bit: int) -> int:
    given = tuple(b.modifier("op_sel", ()))
    return given[bit] if bit < len(given) else 0


def _word_writer(b: Builder) -> Writer:
    """Writes 16 bits into the half that the last op_sel bit names; the other half stays."""
    dst, old = b.vdst(), b.u32(0)
    given = tuple(b.modifier("op_sel", ()))
    if given and given[-1]:
        return lambda g, value: dst(g, (old(g) & _HALF) | value << _SHIFT)
    return lambda g, value: dst(g, (old(g) & ~_HALF) | value)


_POWERS = np.ldexp(1.0, np.arange(256) - 127)
"""Of two, by the exponent field of a float32."""


def _scaled(value: Any, scale: Any, sign: int) -> Any:
    """float32 value times (sign 1) or divided by (sign -1) the scale, of which only the exponent field counts."""
    power = _POWERS[np.asarray(scale).view(_U32) >> _U32(23) & _BYTE]
    return np.multiply(value, power if sign > 0 else 1 / power, dtype=_F64).astype(_F32)


@op("v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32")
def _pack_fp8(b: Builder) -> Run:
    table, x, y, write = _table(b.ins.opcode), b.f32(1), b.f32(2), _word_writer(b)
    return lambda g: write(g, fp.f32_to_fp8(x(g), table) | fp.f32_to_fp8(y(g), table) << _U32(8))


@op("v_cvt_scalef32_pk_fp8_f32", "v_cvt_scalef32_pk_bf8_f32")
def _pack_fp8_scaled(b: Builder) -> Run:
    """Values are divided by the scale's power of two and saturate."""
    table, x, y, scale, write = _table(b.ins.opcode), b.f32(1), b.f32(2), b.f32(3), _word_writer(b)

    def run(g: Group) -> None:
        by = scale(g)
        low, high = (fp.f32_to_fp8(_scaled(v, by, -1), table, saturate=True) for v in (x(g), y(g)))
        write(g, low | high << _U32(8))

    return run


@op(
    "v_cvt_scalef32_pk_fp8_bf16", "v_cvt_scalef32_pk_bf8_bf16", "v_cvt_scalef32_pk_fp8_f16", "v_cvt_scalef32_pk_bf8_f16"
)
def _pack_halves_to_fp8(b: Builder) -> Run:
    table, x, scale, write = _table(b.ins.opcode.replace("_bf16", "")), b.u32(1), b.f32(2), _word_writer(b)
    wide = fp.bf16_to_f32 if b.ins.opcode.endswith("bf16") else _f16_to_f32

    def run(g: Group) -> None:
        bits, by = x(g), scale(g)
        halves = bits & _HALF, bits >> _SHIFT
        low, high = (fp.f32_to_fp8(_scaled(wide(v), by, -1), table, saturate=True) for v in halves)
        write(g, low | high << _U32(8))

    return run


def _f16_to_f32(bits: Any) -> Any:
    return np.asarray(bits).astype(np.uint16).view(_F16).astype(_F32)


def _word_of(b: Builder, position: int) -> Reader:
    """The half of a source that holds two fp8 codes; SDWA or op_sel chooses it."""
    raw, high = b.u32(position), _op_sel(b, 0)
    return (lambda g: raw(g) >> _SHIFT) if high else raw


@op("v_cvt_pk_f32_fp8", "v_cvt_pk_f32_bf8")
def _unpack_fp8(b: Builder) -> Run:
    table, x, low, high = _table(b.ins.opcode), _word_of(b, 1), b.vdst(0), b.vdst(0, 1)

    def run(g: Group) -> None:
        bits = x(g)
        first, second = table[bits & _BYTE], table[(bits >> _U32(8)) & _BYTE]
        low(g, first)
        high(g, second)

    return run


@op("v_cvt_scalef32_pk_f32_fp8", "v_cvt_scalef32_pk_f32_bf8")
def _unpack_fp8_scaled(b: Builder) -> Run:
    table, x, scale = _table(b.ins.opcode), _word_of(b, 1), b.f32(2)
    low, high = b.vdst(0), b.vdst(0, 1)

    def run(g: Group) -> None:
        bits, by = x(g), scale(g)
        first, second = (_scaled(table[code], by, 1) for code in (bits & _BYTE, (bits >> _U32(8)) & _BYTE))
        low(g, first)
        high(g, second)

    return run


_SCALED_HALVES = [f"v_cvt_scalef32_pk_{out}_{code}" for out in ("bf16", "f16") for code in ("fp8", "bf8")]


@op(*_SCALED_HALVES)
def _unpack_fp8_to_halves(b: Builder) -> Run:
    table, x, scale, dst = _table(b.ins.opcode), _word_of(b, 1), b.f32(2), b.vdst()
    to_bits = fp.f32_to_bf16 if "_bf16_" in b.ins.opcode else _f16_bits

    def run(g: Group) -> None:
        bits, by = x(g), scale(g)
        low, high = (to_bits(_scaled(table[code], by, 1)) for code in (bits & _BYTE, (bits >> _U32(8)) & _BYTE))
        dst(g, np.asarray(low | high << _SHIFT))

    return run


@op("v_cvt_f32_fp8", "v_cvt_f32_bf8")
def _one_fp8(b: Builder) -> Run:
    table, x, dst = _table(b.ins.opcode), b.u32(1), b.vdst()
    shift = _U32(8 * (_op_sel(b, 0) + 2 * _op_sel(b, 1)))
    return lambda g: dst(g, table[(x(g) >> shift) & _BYTE])


@op(*(f"v_cvt_scalef32_{out}_{code}" for out in ("f32", "f16") for code in ("fp8", "bf8")))
def _one_fp8_scaled(b: Builder) -> Run:
    table, x, scale, dst = _table(b.ins.opcode), b.u32(1), b.f32(2), b.vdst()
    finish = _f16_bits if "_f16_" in b.ins.opcode else np.asarray
    shift = _U32(8 * (_op_sel(b, 0) + 2 * _op_sel(b, 1)))
    return lambda g: dst(g, finish(_scaled(table[(x(g) >> shift) & _BYTE], scale(g), 1)))
