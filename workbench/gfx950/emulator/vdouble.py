"""Vector ALU, float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.gfx950.emulator import fp
from workbench.gfx950.emulator.builder import Builder, Run
from workbench.gfx950.emulator.registry import op
from workbench.gfx950.emulator.state import Group

_F32, _F64, _I32, _U32 = np.float32, np.float64, np.int32, np.uint32

_BINARY: dict[str, Any] = {
    "v_add_f64": np.add, "v_mul_f64": np.multiply, "v_max_f64": fp.maximum, "v_min_f64": fp.minimum,
}  # fmt: skip
_UNARY: dict[str, Any] = {
    "v_trunc_f64": np.trunc, "v_ceil_f64": np.ceil, "v_floor_f64": np.floor, "v_rndne_f64": np.rint,
}  # fmt: skip


@op(*_BINARY)
def _binary(b: Builder) -> Run:
    function, x, y, dst = _BINARY[b.ins.opcode], b.f64(1), b.f64(2), b.vdst64()
    return lambda g: dst(g, np.asarray(function(x(g), y(g))))


@op(*_UNARY)
def _unary(b: Builder) -> Run:
    function, x, dst = _UNARY[b.ins.opcode], b.f64(1), b.vdst64()
    return lambda g: dst(g, np.asarray(function(x(g)), _F64))


@op("v_ldexp_f64")
def _scale_exponent(b: Builder) -> Run:
    x, power, dst = b.f64(1), b.i32(2), b.vdst64()
    return lambda g: dst(g, np.asarray(np.ldexp(x(g), power(g)), _F64))


@op("v_cvt_f64_f32")
def _widen(b: Builder) -> Run:
    x, dst = b.f32(1), b.vdst64()
    return lambda g: dst(g, np.asarray(x(g)).astype(_F64))


@op("v_cvt_f32_f64")
def _narrow(b: Builder) -> Run:
    x, dst = b.f64(1), b.vdst()
    return lambda g: dst(g, np.asarray(x(g)).astype(_F32))


@op("v_cvt_f64_i32", "v_cvt_f64_u32")
def _from_integer(b: Builder) -> Run:
    x, dst = (b.i32(1) if b.ins.opcode.endswith("i32") else b.u32(1)), b.vdst64()
    return lambda g: dst(g, np.asarray(x(g)).astype(_F64))


@op("v_cvt_i32_f64", "v_cvt_u32_f64")
def _to_integer(b: Builder) -> Run:
    x, dst = b.f64(1), b.vdst()
    dtype = _I32 if "_i32_" in b.ins.opcode else _U32

    def run(g: Group) -> None:
        dst(g, fp.to_integer(x(g), dtype).view(_U32))

    return run
