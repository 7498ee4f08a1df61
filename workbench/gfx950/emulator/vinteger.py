"""Vector ALU, integers and bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.gfx950.emulator.builder import Builder, Run
from workbench.gfx950.emulator.registry import op
from workbench.gfx950.emulator.salu_bits import reverse_bits
from workbench.gfx950.emulator.state import Group
from workbench.gfx950.emulator.vcompare import compare_writer
from workbench.gfx950.emulator.vfloat import elementwise

_U32, _I32, _U64, _I64 = np.uint32, np.int32, np.uint64, np.int64
_FIVE = _U32(31)


def _low24(x: Any) -> Any:
    return x & _U32(0xFFFFFF)


def _signed24(x: Any) -> Any:
    return (x << _U32(8)).view(_I32) >> _I32(8)


def _high(x: Any, y: Any) -> Any:
    return ((x.astype(_U64) * y.astype(_U64)) >> _U64(32)).astype(_U32)


def _high_signed(x: Any, y: Any) -> Any:
    product = x.view(_I32).astype(_I64) * y.view(_I32).astype(_I64)
    return (product >> _I64(32)).astype(_U32)


_UNSIGNED: dict[str, Any] = {
    "v_add_u32": np.add,
    "v_sub_u32": np.subtract,
    "v_subrev_u32": lambda x, y: y - x,
    "v_mul_lo_u32": np.multiply,
    "v_mul_hi_u32": _high,
    "v_mul_hi_i32": _high_signed,
    "v_mul_u32_u24": lambda x, y: _low24(x) * _low24(y),
    "v_mul_i32_i24": lambda x, y: (_signed24(x) * _signed24(y)).view(_U32),
    "v_mul_hi_i32_i24": lambda x, y: _high_signed(_signed24(x), _signed24(y)),
    "v_mul_hi_u32_u24": lambda x, y: _high(_low24(x), _low24(y)),
    "v_and_b32": np.bitwise_and,
    "v_or_b32": np.bitwise_or,
    "v_xor_b32": np.bitwise_xor,
    "v_xnor_b32": lambda x, y: ~(x ^ y),
    "v_lshlrev_b32": lambda x, y: y << (x & _FIVE),
    "v_lshrrev_b32": lambda x, y: y >> (x & _FIVE),
    "v_ashrrev_i32": lambda x, y: (y.view(_I32) >> (x & _FIVE).view(_I32)).view(_U32),
    "v_min_u32": np.minimum,
    "v_max_u32": np.maximum,
    "v_bfm_b32": lambda x, y: ((_U32(1) << (x & _FIVE)) - _U32(1)) << (y & _FIVE),
    "v_bcnt_u32_b32": lambda x, y: np.bitwise_count(x).astype(_U32) + y,
}
_SIGNED: dict[str, Any] = {
    "v_min_i32": np.minimum, "v_max_i32": np.maximum, "v_add_i32": np.add, "v_sub_i32": np.subtract,
}  # fmt: skip


@op(*_UNSIGNED)
def _binary(b: Builder) -> Run:
    return elementwise(b, _UNSIGNED[b.ins.opcode], [b.u32(1), b.u32(2)], b.state.v)


@op(*_SIGNED)
def _binary_signed(b: Builder) -> Run:
    return elementwise(b, _SIGNED[b.ins.opcode], [b.i32(1), b.i32(2)], b.state.vi)


def _bit_field(x: Any, offset: Any, width: Any) -> Any:
    keep = ((_U64(1) << (width & _FIVE).astype(_U64)) - _U64(1)).astype(_U32)
    return (x >> (offset & _FIVE)) & keep


def _bit_field_signed(x: Any, offset: Any, width: Any) -> Any:
    width = width & _FIVE
    field = _bit_field(x, offset, width)
    left = (_U32(32) - width) & _FIVE
    extended = ((field << left).view(_I32) >> left.view(_I32)).view(_U32)
    # A field that reaches past bit 31 takes its sign from bit 31.
    whole = (x.view(_I32) >> (offset & _FIVE).view(_I32)).view(_U32)
    past = (offset & _FIVE) + width >= _U32(32)
    return np.where(width == 0, _U32(0), np.where(past, whole, extended))


def _align(x: Any, y: Any, amount: Any) -> Any:
    wide = x.astype(_U64) << _U64(32) | y
    return (wide >> amount.astype(_U64)).astype(_U32)


def _bytes_product(dtype: Any) -> Any:
    """Sum of the products of four bytes each, and an addend, wrapping."""

    def product(x: Any, y: Any, z: Any) -> Any:
        for byte in range(4):
            shift = _U32(8 * byte)
            left, right = ((value >> shift).astype(dtype).astype(_I32) for value in (x, y))
            z = z + (left * right).view(_U32)
        return z

    return product


def _middle(smaller: Any, larger: Any) -> Any:
    return lambda x, y, z: larger(smaller(x, y), smaller(larger(x, y), z))


def _sad(x: Any, y: Any, z: Any) -> Any:
    return np.maximum(x, y) - np.minimum(x, y) + z


def _as_signed(function: Any) -> Any:
    return lambda *xs: function(*(x.view(_I32) for x in xs)).view(_U32)


_TERNARY: dict[str, Any] = {
    "v_add3_u32": lambda x, y, z: x + y + z,
    "v_lshl_add_u32": lambda x, y, z: (x << (y & _FIVE)) + z,
    "v_add_lshl_u32": lambda x, y, z: (x + y) << (z & _FIVE),
    "v_lshl_or_b32": lambda x, y, z: (x << (y & _FIVE)) | z,
    "v_and_or_b32": lambda x, y, z: (x & y) | z,
    "v_or3_b32": lambda x, y, z: x | y | z,
    "v_xad_u32": lambda x, y, z: (x ^ y) + z,
    "v_bfi_b32": lambda x, y, z: (x & y) | (~x & z),
    "v_bfe_u32": _bit_field,
    "v_bfe_i32": _bit_field_signed,
    "v_alignbit_b32": lambda x, y, z: _align(x, y, z & _FIVE),
    "v_alignbyte_b32": lambda x, y, z: _align(x, y, (z & _U32(3)) * _U32(8)),
    "v_mad_u32_u24": lambda x, y, z: _low24(x) * _low24(y) + z,
    "v_mad_i32_i24": lambda x, y, z: (_signed24(x) * _signed24(y)).view(_U32) + z,
    "v_mad_u32_u16": lambda x, y, z: (x & _U32(0xFFFF)) * (y & _U32(0xFFFF)) + z,
    "v_min3_u32": lambda x, y, z: np.minimum(np.minimum(x, y), z),
    "v_max3_u32": lambda x, y, z: np.maximum(np.maximum(x, y), z),
    "v_min3_i32": _as_signed(lambda x, y, z: np.minimum(np.minimum(x, y), z)),
    "v_max3_i32": _as_signed(lambda x, y, z: np.maximum(np.maximum(x, y), z)),
    "v_med3_u32": _middle(np.minimum, np.maximum),
    "v_med3_i32": _as_signed(_middle(np.minimum, np.maximum)),
    "v_sad_u32": _sad,
    "v_dot4_i32_i8": _bytes_product(np.int8),
    "v_dot4_u32_u8": _bytes_product(np.uint8),
}


@op(*_TERNARY)
def _ternary(b: Builder) -> Run:
    function, dst = _TERNARY[b.ins.opcode], b.vdst()
    x, y, z = b.u32(1), b.u32(2), b.u32(3)
    return lambda g: dst(g, np.asarray(function(x(g), y(g), z(g))))


@op("v_bitop3_b32", "v_bitop3_b16")
def _bitop3(b: Builder) -> Run:
    """Any function of three bits: bit 4a + 2b + c of the table is the result for inputs a, b, c."""
    table, dst = b.modifier("bitop3"), b.vdst()
    x, y, z = b.u32(1), b.u32(2), b.u32(3)
    keep = _U32(0xFFFF if b.ins.opcode.endswith("16") else 0xFFFFFFFF)
    if table == 0x96:
        return lambda g: dst(g, np.asarray((x(g) ^ y(g) ^ z(g)) & keep))
    terms = [row for row in range(8) if table >> row & 1]

    def run(g: Group) -> None:
        inputs = x(g), y(g), z(g)
        inverse = tuple(~value for value in inputs)
        result = _U32(0)
        for row in terms:
            a, b_, c = ((inputs if row >> 2 - i & 1 else inverse)[i] for i in range(3))
            result = result | (a & b_ & c)
        dst(g, np.asarray(result & keep))

    return run


def _gather_bytes(high: Any, low: Any, picks: list[int]) -> Any:
    """Byte i of the result is byte picks[i] of the eight in (low, high)."""
    if picks == [2, 3, 6, 7]:
        return low >> _U32(16) | (high & _U32(0xFFFF0000))
    if picks == [0, 1, 4, 5]:
        return (low & _U32(0xFFFF)) | high << _U32(16)
    result: Any = _U32(0)
    for byte, pick in enumerate(picks):
        source = low if pick < 4 else high
        data = (source >> _U32(8 * (pick & 3))) & _U32(0xFF)
        result = result | data << _U32(8 * byte)
    return np.asarray(result)


@op("v_perm_b32")
def _permute_bytes(b: Builder) -> Run:
    x, y, selector, dst = b.u32(1), b.u32(2), b.u32(3), b.vdst()

    def general(g: Group) -> None:
        uniform = np.atleast_1d(selector(g))
        if uniform.shape[-1] == 1 and int(uniform.min()) == (code := int(uniform.max())):
            picks = [code >> 8 * byte & 0xFF for byte in range(4)]
            if max(picks) < 8:
                dst(g, _gather_bytes(x(g), y(g), picks))
                return
        wide = x(g).astype(_U64) << _U64(32) | y(g)
        choice = selector(g)
        result: Any = _U32(0)
        for byte in range(4):
            which = (choice >> _U32(8 * byte)) & _U32(0xFF)
            data = (wide >> (np.minimum(which, _U32(7)) * _U32(8)).astype(_U64)).astype(_U32) & _U32(0xFF)
            signs = (wide >> ((which & _U32(3)) * _U32(16) + _U32(15)).astype(_U64)).astype(_U32) & _U32(1)
            data = np.where((which >= 8) & (which < 12), signs * _U32(0xFF), data)
            data = np.where(which == 12, _U32(0), np.where(which > 12, _U32(0xFF), data))
            result = result | data << _U32(8 * byte)
        dst(g, np.asarray(result))

    return general


def _leading_zeros(x: Any) -> Any:
    value = np.asarray(x)
    for shift in (1, 2, 4, 8, 16):
        value = value | value >> _U32(shift)
    used = np.bitwise_count(value).astype(_U32)
    return np.where(used == 0, _U32(0xFFFFFFFF), _U32(32) - used)


def _trailing_zeros(x: Any) -> Any:
    value = np.asarray(x)
    count = np.bitwise_count((value & (~value + _U32(1))) - _U32(1)).astype(_U32)
    return np.where(value == 0, _U32(0xFFFFFFFF), count)


def _leading_signs(x: Any) -> Any:
    value = np.asarray(x)
    return _leading_zeros(np.where(value >> _U32(31) != 0, ~value, value))


_UNARY: dict[str, Any] = {
    "v_not_b32": np.invert,
    "v_bfrev_b32": reverse_bits,
    "v_ffbh_u32": _leading_zeros,
    "v_ffbh_i32": _leading_signs,
    "v_ffbl_b32": _trailing_zeros,
    "v_prng_b32": lambda x: x << _U32(1) ^ (x >> _U32(31)) * _U32(197),
}


@op(*_UNARY)
def _unary(b: Builder) -> Run:
    return elementwise(b, _UNARY[b.ins.opcode], [b.u32(1)], b.state.v)


_CARRY = {"v_add_co_u32": (0, 0), "v_sub_co_u32": (1, 0), "v_subrev_co_u32": (2, 0),
          "v_addc_co_u32": (0, 1), "v_subb_co_u32": (1, 1), "v_subbrev_co_u32": (2, 1)}  # fmt: skip


@op(*_CARRY)
def _carry(b: Builder) -> Run:
    """Operands (dst, carry out, x, y[, carry in])."""
    form, chained = _CARRY[b.ins.opcode]
    dst, out = b.vdst(), b.mask_dst(1)
    x, y = b.u32(2), b.u32(3)
    carry = b.lanes_of(4) if chained else None

    def run(g: Group) -> None:
        left, right = x(g).astype(_I64), y(g).astype(_I64)
        extra = carry(g).astype(_I64) if carry else 0
        total = left + right + extra if form == 0 else (left - right if form == 1 else right - left) - extra
        dst(g, np.asarray(total).astype(_U32))
        out(g, np.asarray((total < 0) | (total > 0xFFFFFFFF)))

    return run


@op("v_mad_u64_u32", "v_mad_i64_i32")
def _multiply_add_wide(b: Builder) -> Run:
    """Operands (dst pair, carry out, x, y, addend pair)."""
    signed = b.ins.opcode == "v_mad_i64_i32"
    x, y, addend, dst, out = b.u32(2), b.u32(3), b.u64(4), b.vdst64(), b.mask_dst(1)

    def run(g: Group) -> None:
        if signed:
            product = (x(g).view(_I32).astype(_I64) * y(g).view(_I32).astype(_I64)).view(_U64)
        else:
            product = x(g).astype(_U64) * y(g).astype(_U64)
        total = np.asarray(product + addend(g))
        dst(g, total)
        out(g, total < product)

    return run


@op("v_lshl_add_u64")
def _shift_add_wide(b: Builder) -> Run:
    x, amount, y, dst = b.u64(1), b.u32(2), b.u64(3), b.vdst64()
    return lambda g: dst(g, np.asarray((x(g) << (amount(g) & _U32(7)).astype(_U64)) + y(g)))


@op("v_lshlrev_b64", "v_lshrrev_b64", "v_ashrrev_i64")
def _shift_wide(b: Builder) -> Run:
    name = b.ins.opcode
    amount, x, dst = b.u32(1), b.u64(2), b.vdst64()
    wide = _I64 if name == "v_ashrrev_i64" else _U64

    def run(g: Group) -> None:
        by, value = (amount(g) & _U32(63)).astype(wide), x(g).view(wide)
        dst(g, np.asarray(value << by if name == "v_lshlrev_b64" else value >> by))

    return run


@op("v_mov_b32", "v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32")
def _move(b: Builder) -> Run:
    x, dst = b.u32(1), b.vdst()
    return lambda g: dst(g, x(g))


@op("v_mov_b64")
def _move_wide(b: Builder) -> Run:
    x, dst = b.u64(1), b.vdst64()
    return lambda g: dst(g, np.asarray(x(g)))


@op("v_swap_b32")
def _swap(b: Builder) -> Run:
    x, y, to_x, to_y = b.u32(0), b.u32(1), b.vdst(0), b.vdst(1)

    def run(g: Group) -> None:
        first, second = x(g).copy(), y(g).copy()
        to_x(g, second)
        to_y(g, first)

    return run


@op("v_cndmask_b32")
def _select(b: Builder) -> Run:
    """Operands (dst, value where the mask is 0, value where it is 1[, mask])."""
    chooses_by_operand = b.has(3) and b.operand(3).kind in ("s", "const")
    mask = b.lanes_of(3 if chooses_by_operand else None)
    signed = any(b.operand(i).neg or b.operand(i).abs for i in (1, 2))
    x, y = (b.f32(1), b.f32(2)) if signed else (b.u32(1), b.u32(2))
    dst = b.vdst()
    return lambda g: dst(g, np.where(mask(g), y(g), x(g)))


@op("v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32")
def _count_below(b: Builder) -> Run:
    lanes = np.arange(64)
    reach = np.clip(lanes if "_lo_" in b.ins.opcode else lanes - 32, 0, 32).astype(_U64)
    below = ((_U64(1) << reach) - _U64(1)).astype(_U32)
    x, y, dst = b.u32(1), b.u32(2), b.vdst()
    return lambda g: dst(g, np.bitwise_count(x(g) & below).astype(_U32) + y(g))


@op("v_readfirstlane_b32", "v_readlane_b32")
def _read_lane(b: Builder) -> Run:
    x, dst = b.u32(1), b.sdst()
    which = b.u32(2) if b.has(2) else None

    def run(g: Group) -> None:
        values = x(g)
        if values.ndim < 2 or values.shape[1] == 1:
            dst(g, values)
        elif which is not None:
            lane = np.broadcast_to((which(g) & _U32(63)).astype(_I64), (g.n, 1))
            dst(g, np.take_along_axis(values, lane, axis=1))
        elif g.lanes is None:
            dst(g, values[:, :1])
        else:
            dst(g, np.take_along_axis(values, g.lanes.argmax(axis=1)[:, None], axis=1))

    return run


@op("v_writelane_b32")
def _write_lane(b: Builder) -> Run:
    """Operands (dst, value, lane). Ignores EXEC; other lanes keep their content."""
    target = b.operand(0)
    value, lane = b.u32(1), b.u32(2)
    row = b.state.v[b.row(target)]
    # Not a read of the old content: spilled scalars are written lane by lane into a register that starts undefined.
    b.vdst()

    def run(g: Group) -> None:
        which = np.broadcast_to((lane(g) & _U32(63)).astype(_I64), (g.n, 1))
        row[g.slots[:, None], which] = value(g)

    return run


@op("v_permlane32_swap_b32", "v_permlane16_swap_b32")
def _swap_halves(b: Builder) -> Run:
    x, y, to_x, to_y = b.u32(0), b.u32(1), b.vdst(0), b.vdst(1)
    lanes = np.arange(64)
    distance = 32 if "32_swap" in b.ins.opcode else 16
    upper = (lanes & distance) != 0
    partner = lanes ^ distance

    def run(g: Group) -> None:
        first, second = x(g), y(g)
        new_first = np.where(upper, second[:, partner], first)
        new_second = np.where(upper, second, first[:, partner])
        to_x(g, new_first)
        to_y(g, new_second)

    return run


@op("v_cmp_class_f32", "v_cmpx_class_f32")
def _classify(b: Builder) -> Run:
    has_destination = b.has(2)
    first = 1 if has_destination else 0
    x, wanted = b.f32(first), b.u32(first + 1)
    write = compare_writer(b, 0 if has_destination else None)

    def run(g: Group) -> None:
        value = np.asarray(x(g))
        bits = value.view(_U32)
        exponent, mantissa, negative = bits >> _U32(23) & _U32(255), bits & _U32(0x7FFFFF), bits >> _U32(31) != 0
        cases = [
            ((exponent == 255) & (mantissa != 0), np.where(mantissa >> _U32(22) != 0, 1, 0)),
            (exponent == 255, np.where(negative, 2, 9)),
            (exponent > 0, np.where(negative, 3, 8)),
            (mantissa > 0, np.where(negative, 4, 7)),
        ]
        kind = np.where(negative, 5, 6)
        for condition, code in reversed(cases):
            kind = np.where(condition, code, kind)
        write(g, (wanted(g) >> kind.astype(_U32) & _U32(1)) != 0)

    return run
