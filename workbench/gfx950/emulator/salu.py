"""Scalar ALU: one value per wave, [waves, 1] arrays. SCC is row 125 of the scalar file."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from workbench.gfx950.emulator.builder import Builder, Reader, Run
from workbench.gfx950.emulator.mode import checked_mode
from workbench.gfx950.emulator.operands import EXEC
from workbench.gfx950.emulator.registry import op
from workbench.gfx950.emulator.state import Group

_U32, _I32, _U64, _I64 = np.uint32, np.int32, np.uint64, np.int64


def _two_sources(b: Builder) -> tuple[Reader, Reader]:
    """SOPK forms read their destination and a 16-bit constant."""
    return (b.u32(1), b.u32(2)) if b.has(2) else (b.u32(0), b.k16(1))


def _signed(reader: Reader) -> Reader:
    return lambda g: reader(g).view(_I32)


@op("s_add_u32", "s_sub_u32", "s_addc_u32", "s_subb_u32")
def _add_unsigned(b: Builder) -> Run:
    x, y, dst, scc = b.u32(1), b.u32(2), b.sdst(), b.scc()
    subtract, carry_in = "sub" in b.ins.opcode, b.ins.opcode in ("s_addc_u32", "s_subb_u32")
    carry = b.scc_reader() if carry_in else None

    def run(g: Group) -> None:
        left, right = _wide(x(g)), _wide(y(g))
        extra = _wide(carry(g)) if carry else 0
        total = left - right - extra if subtract else left + right + extra
        dst(g, np.asarray(total).astype(_U32))
        scc(g, (total < 0) if subtract else (total > 0xFFFFFFFF))

    return run


def _wide(value: Any) -> Any:
    return value.astype(_I64)


@op("s_add_i32", "s_sub_i32", "s_addk_i32")
def _add_signed(b: Builder) -> Run:
    x, y = (_signed(reader) for reader in _two_sources(b))
    dst, scc = b.sdst(), b.scc()
    subtract = "sub" in b.ins.opcode

    def run(g: Group) -> None:
        left, right = _wide(x(g)), _wide(y(g))
        total = left - right if subtract else left + right
        dst(g, np.asarray(total).astype(_U32))
        scc(g, (total > 0x7FFFFFFF) | (total < -0x80000000))

    return run


@op("s_mul_i32", "s_mulk_i32")
def _multiply(b: Builder) -> Run:
    (x, y), dst = _two_sources(b), b.sdst()
    return lambda g: dst(g, x(g) * y(g))


@op("s_mul_hi_u32", "s_mul_hi_i32")
def _multiply_high(b: Builder) -> Run:
    signed = b.ins.opcode.endswith("i32")
    x, y = (b.i32(1), b.i32(2)) if signed else (b.u32(1), b.u32(2))
    dst, wide = b.sdst(), _I64 if signed else _U64
    shift = wide(32)
    return lambda g: dst(g, np.asarray((x(g).astype(wide) * y(g).astype(wide)) >> shift).astype(_U32))


_BITWISE = {
    "and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y,
    "andn2": lambda x, y: x & ~y, "orn2": lambda x, y: x | ~y,
    "nand": lambda x, y: ~(x & y), "nor": lambda x, y: ~(x | y), "xnor": lambda x, y: ~(x ^ y),
}  # fmt: skip


@op(*(f"s_{name}_b32" for name in _BITWISE))
def _bitwise32(b: Builder) -> Run:
    function = _BITWISE[b.ins.opcode[2:-4]]
    x, y, dst, scc = b.u32(1), b.u32(2), b.sdst(), b.scc()

    def run(g: Group) -> None:
        value = function(x(g), y(g))
        dst(g, value)
        scc(g, value != 0)

    return run


@op(*(f"s_{name}_b64" for name in _BITWISE))
def _bitwise64(b: Builder) -> Run:
    function = _BITWISE[b.ins.opcode[2:-4]]
    x, y, dst, scc = b.u64(1), b.u64(2), b.sdst64(), b.scc()

    def run(g: Group) -> None:
        value = function(x(g), y(g))
        dst(g, value)
        scc(g, value != 0)

    return run


_SAVE_EXEC = {
    "and": lambda s, e: s & e, "or": lambda s, e: s | e, "xor": lambda s, e: s ^ e, "andn2": lambda s, e: s & ~e,
    "orn2": lambda s, e: s | ~e, "andn1": lambda s, e: ~s & e, "orn1": lambda s, e: ~s | e,
    "nand": lambda s, e: ~(s & e), "nor": lambda s, e: ~(s | e), "xnor": lambda s, e: ~(s ^ e),
}  # fmt: skip


@op(*(f"s_{name}_saveexec_b64" for name in _SAVE_EXEC))
def _save_exec(b: Builder) -> Run:
    function = _SAVE_EXEC[b.ins.opcode[2 : -len("_saveexec_b64")]]
    source, dst, scc = b.u64(1), b.sdst64(), b.scc()
    low, high = b.scalar_writer(EXEC), b.scalar_writer(EXEC + 1)
    state = b.state

    def run(g: Group) -> None:
        old = state.s[EXEC][g.sel] | state.s[EXEC + 1][g.sel].astype(_U64) << _U64(32)
        value = function(source(g), old)
        dst(g, old)
        low(g, (value & _U64(0xFFFFFFFF)).astype(_U32))
        high(g, (value >> _U64(32)).astype(_U32))
        scc(g, value != 0)

    return run


@op("s_lshl_b32", "s_lshr_b32", "s_ashr_i32")
def _shift32(b: Builder) -> Run:
    name = b.ins.opcode
    x, dst, scc = (b.i32(1) if name == "s_ashr_i32" else b.u32(1)), b.sdst(), b.scc()
    amount, mask = b.u32(2), _U32(31)
    left = name == "s_lshl_b32"

    def run(g: Group) -> None:
        value = x(g)
        by = (amount(g) & mask).astype(value.dtype)
        value = value << by if left else value >> by
        dst(g, value.view(_U32))
        scc(g, value != 0)

    return run


@op("s_lshl_b64", "s_lshr_b64", "s_ashr_i64")
def _shift64(b: Builder) -> Run:
    name = b.ins.opcode
    x, dst, scc = b.u64(1), b.sdst64(), b.scc()
    amount, mask = b.u32(2), _U32(63)
    wide = _I64 if name == "s_ashr_i64" else _U64
    left = name == "s_lshl_b64"

    def run(g: Group) -> None:
        value = x(g).view(wide)
        by = (amount(g) & mask).astype(wide)
        value = (value << by if left else value >> by).view(_U64)
        dst(g, value)
        scc(g, value != 0)

    return run


@op("s_lshl1_add_u32", "s_lshl2_add_u32", "s_lshl3_add_u32", "s_lshl4_add_u32")
def _shift_add(b: Builder) -> Run:
    shift = _U64(int(b.ins.opcode[6]))
    x, y, dst, scc = b.u32(1), b.u32(2), b.sdst(), b.scc()

    def run(g: Group) -> None:
        total = (x(g).astype(_U64) << shift) + y(g).astype(_U64)
        dst(g, total.astype(_U32))
        scc(g, total > 0xFFFFFFFF)

    return run


@op("s_min_i32", "s_max_i32", "s_min_u32", "s_max_u32")
def _min_max(b: Builder) -> Run:
    signed, smaller = b.ins.opcode.endswith("i32"), "min" in b.ins.opcode
    x, y = (b.i32(1), b.i32(2)) if signed else (b.u32(1), b.u32(2))
    dst, scc = b.sdst(), b.scc()
    choose = np.minimum if smaller else np.maximum

    def run(g: Group) -> None:
        left, right = x(g), y(g)
        dst(g, choose(left, right).view(_U32))
        scc(g, left < right if smaller else left >= right)

    return run


@op("s_pack_ll_b32_b16", "s_pack_lh_b32_b16", "s_pack_hh_b32_b16")
def _pack(b: Builder) -> Run:
    form = b.ins.opcode[7:9]
    x, y, dst = b.u32(1), b.u32(2), b.sdst()
    shift, half = _U32(16), _U32(0xFFFF)

    def run(g: Group) -> None:
        low = x(g) >> shift if form[0] == "h" else x(g) & half
        high = y(g) >> shift if form[1] == "h" else y(g) & half
        dst(g, low | high << shift)

    return run


@op("s_mov_b32", "s_movk_i32")
def _move(b: Builder) -> Run:
    x, dst = (b.k16(1) if b.ins.opcode == "s_movk_i32" else b.u32(1)), b.sdst()
    return lambda g: dst(g, x(g))


@op("s_mov_b64")
def _move64(b: Builder) -> Run:
    x, dst = b.u64(1), b.sdst64()
    return lambda g: dst(g, x(g))


@op("s_cmov_b32", "s_cmovk_i32")
def _conditional_move(b: Builder) -> Run:
    x = b.k16(1) if b.ins.opcode == "s_cmovk_i32" else b.u32(1)
    old, dst, scc = b.u32(0), b.sdst(), b.scc_reader()
    return lambda g: dst(g, np.where(scc(g) != 0, x(g), old(g)))


@op("s_cmov_b64")
def _conditional_move64(b: Builder) -> Run:
    x, old, dst, scc = b.u64(1), b.u64(0), b.sdst64(), b.scc_reader()
    return lambda g: dst(g, np.where(scc(g) != 0, x(g), old(g)))


@op("s_cselect_b32")
def _select(b: Builder) -> Run:
    x, y, dst, scc = b.u32(1), b.u32(2), b.sdst(), b.scc_reader()
    return lambda g: dst(g, np.where(scc(g) != 0, x(g), y(g)))


@op("s_cselect_b64")
def _select64(b: Builder) -> Run:
    x, y, dst, scc = b.u64(1), b.u64(2), b.sdst64(), b.scc_reader()
    return lambda g: dst(g, np.where(scc(g) != 0, x(g), y(g)))


@op("s_not_b32")
def _not(b: Builder) -> Run:
    x, dst, scc = b.u32(1), b.sdst(), b.scc()

    def run(g: Group) -> None:
        value = ~x(g)
        dst(g, value)
        scc(g, value != 0)

    return run


@op("s_not_b64")
def _not64(b: Builder) -> Run:
    x, dst, scc = b.u64(1), b.sdst64(), b.scc()

    def run(g: Group) -> None:
        value = ~x(g)
        dst(g, value)
        scc(g, value != 0)

    return run


@op("s_abs_i32")
def _absolute(b: Builder) -> Run:
    x, dst, scc = b.i32(1), b.sdst(), b.scc()

    def run(g: Group) -> None:
        value = np.abs(x(g)).view(_U32)
        dst(g, value)
        scc(g, value != 0)

    return run


@op("s_absdiff_i32")
def _absolute_difference(b: Builder) -> Run:
    x, y, dst, scc = b.i32(1), b.i32(2), b.sdst(), b.scc()

    def run(g: Group) -> None:
        value = np.abs(x(g) - y(g)).view(_U32)
        dst(g, value)
        scc(g, value != 0)

    return run


@op("s_sext_i32_i8", "s_sext_i32_i16")
def _sign_extend(b: Builder) -> Run:
    narrow = np.int8 if b.ins.opcode.endswith("i8") else np.int16
    x, dst = b.u32(1), b.sdst()
    return lambda g: dst(g, x(g).astype(narrow).astype(_I32).view(_U32))


_COMPARE = {
    "eq": np.equal,
    "lg": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
}


@op(*(f"s_cmp{k}_{name}_{t}32" for name in _COMPARE for t in "iu" for k in ("", "k")))
def _compare(b: Builder) -> Run:
    form, name, kind = b.ins.opcode.removeprefix("s_").split("_")
    function = _COMPARE[name]
    x, y, scc = b.u32(0), b.k16(1) if form == "cmpk" else b.u32(1), b.scc()
    if kind == "i32":
        x, y = _signed(x), _signed(y)
    return lambda g: scc(g, function(x(g), y(g)))


@op("s_cmp_eq_u64", "s_cmp_lg_u64")
def _compare64(b: Builder) -> Run:
    function = np.equal if "eq" in b.ins.opcode else np.not_equal
    x, y, scc = b.u64(0), b.u64(1), b.scc()
    return lambda g: scc(g, function(x(g), y(g)))


_HWREG = re.compile(r"hwreg\(\s*(\w+)\s*(?:,\s*(\d+)\s*,\s*(\d+)\s*)?\)")


@op("s_getreg_b32")
def _get_hardware_register(b: Builder) -> Run:
    dst = b.sdst()
    registers = b.machine.hardware_registers
    match = _HWREG.match(b.operand(1).label)
    if match is None or match[1] not in registers:
        raise b.error(f"this hardware register is not modelled; known: {', '.join(registers)}")
    read, first, width = registers[match[1]], _U32(int(match[2] or 0)), int(match[3] or 32)
    keep = _U32((1 << width) - 1)
    return lambda g: dst(g, read(g) >> first & keep)


@op("s_setreg_imm32_b32", "s_setreg_b32")
def _set_hardware_register(b: Builder) -> Run:
    """Only fields of MODE. Waves that run together share one MODE, so a register must hold the same in all of them."""
    match = _HWREG.match(b.operand(0).label)
    if match is None or match[1] != "HW_REG_MODE":
        raise b.error("only fields of HW_REG_MODE can be set")
    first, width = int(match[2] or 0), int(match[3] or 32)
    field = ((1 << width) - 1) << first
    value, machine, where = b.u32(1), b.machine, b.ins.where()

    def run(g: Group) -> None:
        values = np.unique(value(g))
        if len(values) > 1:
            raise b.error("waves that set MODE to different values are not modelled")
        g.mode = checked_mode((g.mode & ~field) | (int(values[0]) << first & field), where)
        machine.flush_denormals(g.flushes)

    return run


@op("s_memtime", "s_memrealtime")
def _time(b: Builder) -> Run:
    dst, machine = b.sdst64(), b.machine
    return lambda g: dst(g, np.full((g.n, 1), machine.steps * 4, _U64))
