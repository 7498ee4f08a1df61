"""Scalar ALU: bit fields, counts and single bits, for 32 and 64 bits alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.gfx950.emulator.builder import Builder, Reader, Run, Writer
from workbench.gfx950.emulator.registry import op
from workbench.gfx950.emulator.state import Group

_U32, _I32, _U64, _I64 = np.uint32, np.int32, np.uint64, np.int64
_NONE = _U32(0xFFFFFFFF)
"""What a search gives that finds nothing."""


def _width(b: Builder) -> int:
    return 64 if b.ins.opcode.endswith("64") else 32


def _source(b: Builder, position: int) -> Reader:
    """A source as uint64, zero-extended."""
    if _width(b) == 64:
        return b.u64(position)
    reader = b.u32(position)
    return lambda g: np.asarray(reader(g)).astype(_U64)


def _destination(b: Builder) -> Writer:
    """Writer of uint64 results."""
    if _width(b) == 64:
        return b.sdst64()
    write = b.sdst()
    return lambda g, value: write(g, value.astype(_U32))


def _ones(width: Any) -> Any:
    """uint64 with so many low bits set; 64 and more set all."""
    width = np.asarray(width, _U64)
    return np.where(width >= 64, ~_U64(0), (_U64(1) << np.minimum(width, _U64(63))) - _U64(1))


@op("s_bfe_u32", "s_bfe_i32", "s_bfe_u64", "s_bfe_i64")
def _bit_field(b: Builder) -> Run:
    signed, bits = "_i" in b.ins.opcode, _width(b)
    x, control, dst, scc = _source(b, 1), b.u32(2), _destination(b), b.scc()
    largest_offset = _U64(bits - 1)

    def run(g: Group) -> None:
        ctl = np.asarray(control(g)).astype(_U64)
        offset, width = ctl & largest_offset, np.minimum(ctl >> _U64(16) & _U64(127), _U64(bits))
        value = x(g)
        if signed:
            wide = value.astype(_U32).view(_I32).astype(_I64) if bits == 32 else value.view(_I64)
            value = (wide >> offset.view(_I64)).view(_U64)
        else:
            value = value >> offset
        field = value & _ones(width)
        if signed:
            sign = np.where(width > 0, field >> np.maximum(width, _U64(1)) - _U64(1) & _U64(1), _U64(0))
            field = np.where(sign != 0, field | ~_ones(width), field)
        result = field & _ones(bits)
        dst(g, result)
        scc(g, result != 0)

    return run


@op("s_bfm_b32", "s_bfm_b64")
def _bit_field_mask(b: Builder) -> Run:
    x, y, dst, keep = b.u32(1), b.u32(2), _destination(b), _U64(_width(b) - 1)

    def run(g: Group) -> None:
        size, offset = (np.asarray(reader(g)).astype(_U64) & keep for reader in (x, y))
        dst(g, np.asarray(_ones(size) << offset))

    return run


@op("s_brev_b32", "s_brev_b64")
def _reverse(b: Builder) -> Run:
    x, dst, bits = _source(b, 1), _destination(b), _width(b)

    def run(g: Group) -> None:
        value = x(g)
        low, high = (reverse_bits(part.astype(_U32)).astype(_U64) for part in (value, value >> _U64(32)))
        dst(g, low if bits == 32 else low << _U64(32) | high)

    return run


def reverse_bits(value: Any) -> Any:
    """Bits of each 32-bit word in reverse order."""
    value = np.asarray(value)
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        by, pattern = _U32(shift), _U32(mask)
        value = (value >> by & pattern) | (value & pattern) << by
    return value >> _U32(16) | value << _U32(16)


@op(*(f"s_bcnt{bit}_i32_b{bits}" for bit in "01" for bits in (32, 64)))
def _count(b: Builder) -> Run:
    x, dst, scc, bits = _source(b, 1), b.sdst(), b.scc(), _width(b)
    zeros = "bcnt0" in b.ins.opcode

    def run(g: Group) -> None:
        count = np.bitwise_count(x(g)).astype(_U32)
        count = _U32(bits) - count if zeros else count
        dst(g, count)
        scc(g, count != 0)

    return run


def _lowest_one(value: Any) -> Any:
    """Position of the lowest bit that is set, of uint64 values."""
    return np.bitwise_count((value & (~value + _U64(1))) - _U64(1)).astype(_U32)


def _used_bits(value: Any) -> Any:
    """Position of the highest bit that is set, plus one."""
    for shift in (1, 2, 4, 8, 16, 32):
        value = value | value >> _U64(shift)
    return np.bitwise_count(value).astype(_U32)


@op(*(f"s_ff{bit}_i32_b{bits}" for bit in "01" for bits in (32, 64)))
def _find_first(b: Builder) -> Run:
    x, dst, bits = _source(b, 1), b.sdst(), _width(b)
    zero = "ff0" in b.ins.opcode

    def run(g: Group) -> None:
        value = ~x(g) & _ones(bits) if zero else x(g)
        dst(g, np.where(value == 0, _NONE, _lowest_one(value)))

    return run


@op("s_flbit_i32_b32", "s_flbit_i32_b64", "s_flbit_i32", "s_flbit_i32_i64")
def _find_last_bit(b: Builder) -> Run:
    """Leading zeros, or for the signed forms how many leading bits are like the sign."""
    x, dst, bits = _source(b, 1), b.sdst(), _width(b)
    signed = b.ins.opcode in ("s_flbit_i32", "s_flbit_i32_i64")

    def run(g: Group) -> None:
        value = x(g)
        if signed:
            negative = value >> _U64(bits - 1) & _U64(1)
            value = np.where(negative != 0, ~value & _ones(bits), value)
        dst(g, np.where(value == 0, _NONE, _U32(bits) - _used_bits(value)))

    return run


@op(*(f"s_bitcmp{bit}_b{bits}" for bit in "01" for bits in (32, 64)))
def _test_bit(b: Builder) -> Run:
    wanted, keep = _U64(int(b.ins.opcode[8])), _U32(_width(b) - 1)
    x, y, scc = _source(b, 0), b.u32(1), b.scc()
    return lambda g: scc(g, (x(g) >> (y(g) & keep).astype(_U64) & _U64(1)) == wanted)


@op(*(f"s_bitset{bit}_b{bits}" for bit in "01" for bits in (32, 64)))
def _set_bit(b: Builder) -> Run:
    bit_on, keep = b.ins.opcode[8] == "1", _U32(_width(b) - 1)
    x, dst = b.u32(1), _destination(b)
    old = b.u64(0) if _width(b) == 64 else b.u32(0)

    def run(g: Group) -> None:
        bit = _U64(1) << (x(g) & keep).astype(_U64)
        before = np.asarray(old(g)).astype(_U64)
        dst(g, before | bit if bit_on else before & ~bit)

    return run
