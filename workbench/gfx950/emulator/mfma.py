"""Matrix instructions. Lane layouts: reference facts in the hardware notes, checked by executing compiled kernels.

Every A and B operand is brought to [waves, k, row or column] float32; the order of k is the same for both, so that any
order gives the product. Products of 16-bit and 8-bit inputs are exact in float32; sums are float32.
MFMA ignores EXEC and the float mode: denormals are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from workbench.gfx950.emulator import fp
from workbench.gfx950.emulator.builder import Builder, Run
from workbench.gfx950.emulator.registry import op
from workbench.gfx950.emulator.state import Array, Group

_U32, _F32 = np.uint32, np.float32
_NAME = re.compile(r"v_mfma_(?:scale_)?[fi]32_(\d+)x(\d+)x(\d+)_?(\w+?)(?:_1k)?$")


@dataclass(frozen=True)
class Shape:
    """M = N = extent; a lane holds `k // groups` consecutive k of one row, groups = 64 / extent."""

    extent: int
    k: int
    kind: str

    @property
    def groups(self) -> int:
        return 64 // self.extent

    @property
    def accumulators(self) -> int:
        return self.extent * self.extent // 64


def parse_shape(opcode: str) -> Shape | None:
    """Shape of an MFMA opcode, or None if it is another instruction or has another form."""
    match = _NAME.match(opcode)
    if not match or match[1] != match[2]:
        return None
    return Shape(int(match[1]), int(match[3]), match[4].removeprefix("_"))


def _bf16(words: Array, out: Array) -> None:
    """words [n, groups, registers, extent] to out [n, groups, registers, 2, extent] float32."""
    bits = out.view(_U32)
    np.left_shift(words, _U32(16), out=bits[..., 0, :])
    np.bitwise_and(words, _U32(0xFFFF0000), out=bits[..., 1, :])


def _f16(words: Array, out: Array) -> None:
    out[..., 0, :] = words.astype(np.uint16).view(np.float16)
    out[..., 1, :] = (words >> _U32(16)).astype(np.uint16).view(np.float16)


def _fp8(table: Array) -> Callable[[Array, Array], None]:
    def unpack(words: Array, out: Array) -> None:
        for byte in range(4):
            out[..., byte, :] = table[(words >> _U32(8 * byte)) & _U32(0xFF)]

    return unpack


def _i8(words: Array, out: Array) -> None:
    for byte in range(4):
        out[..., byte, :] = (words >> _U32(8 * byte)).astype(np.int8)


def _f32(words: Array, out: Array) -> None:
    out[..., 0, :] = words.view(_F32)


_UNPACK: dict[str, tuple[int, Callable[[Array, Array], None]]] = {
    "bf16": (2, _bf16), "f16": (2, _f16), "fp8": (4, _fp8(fp.E4M3_TABLE)), "bf8": (4, _fp8(fp.E5M2_TABLE)),
    "f32": (1, _f32), "i8": (4, _i8),
}  # fmt: skip
"""Input type: elements in a register, and how they come out of it."""


def _matrix_reader(b: Builder, position: int, shape: Shape, code: str) -> Callable[[Group], Array]:
    """Reader of an input as float32 [n, k, extent]."""
    operand = b.operand(position)
    if not operand.is_vector:
        raise b.error(f"operand {position} of a matrix instruction must be vector registers")
    b.mark_read(operand, operand.count)
    elements, unpack = _UNPACK[code]
    first, count, vector = b.row(operand), operand.count, b.state.vector

    def read(g: Group) -> Array:
        words = vector[first : first + count, g.sel].reshape(count, g.n, shape.groups, shape.extent)
        out = np.empty((g.n, shape.groups, count, elements, shape.extent), _F32)
        unpack(words.transpose(1, 2, 0, 3), out)
        return out.reshape(g.n, -1, shape.extent)

    return read


def _input_codes(b: Builder, shape: Shape) -> tuple[str, str]:
    if shape.kind == "f8f6f4":
        codes = {0: "fp8", 1: "bf8"}
        chosen = b.modifier("cbsz"), b.modifier("blgp")
        if not all(code in codes for code in chosen):
            raise b.error("only fp8 and bf8 inputs of the f8f6f4 instructions are modelled")
        return codes[chosen[0]], codes[chosen[1]]
    if b.modifier("cbsz") or b.modifier("abid") or b.modifier("blgp"):
        raise b.error("broadcast modifiers cbsz, abid and blgp are not modelled")
    if "_" in shape.kind:
        first, second = shape.kind.split("_")
        return first, second
    return shape.kind, shape.kind


_SHAPES = [
    "32x32x16_f16", "32x32x16_bf16", "16x16x32_f16", "16x16x32_bf16", "32x32x8_f16", "16x16x16_f16",
    "32x32x8_bf16", "32x32x8_bf16_1k", "16x16x16_bf16", "16x16x16_bf16_1k", "32x32x8f16", "16x16x16f16",
    "32x32x2_f32", "16x16x4_f32", "32x32x2f32", "16x16x4f32", "32x32x8bf16_1k", "16x16x16bf16_1k",
    "32x32x16_fp8_fp8", "16x16x32_fp8_fp8", "32x32x16_bf8_bf8", "16x16x32_bf8_bf8", "32x32x16_fp8_bf8",
    "16x16x32_fp8_bf8", "32x32x16_bf8_fp8", "16x16x32_bf8_fp8",
]  # fmt: skip
_F8F6F4 = ["32x32x64_f8f6f4", "16x16x128_f8f6f4"]
_I8 = ["32x32x32_i8", "16x16x64_i8", "32x32x16_i8", "16x16x32_i8"]


def _unit_scale(b: Builder, index: int) -> Callable[[Group], None]:
    """Check of the scales of input `index` (0 is A, 1 is B): a byte a lane, an exponent biased by 127."""
    scale = b.u32(4 + index)
    low, high = (tuple(b.modifier(name, ())) for name in ("op_sel", "op_sel_hi"))
    byte = (low[index] if index < len(low) else 0) + 2 * (high[index] if index < len(high) else 0)
    shift = _U32(8 * byte)

    def check(g: Group) -> None:
        if not (np.asarray(scale(g)) >> shift & _U32(0xFF) == _UNIT_SCALE).all():
            raise b.error(
                f"only block scales of 1 (the byte {_UNIT_SCALE}) are modelled, operand {4 + index} has others"
            )

    return check


_UNIT_SCALE = 127


@op(*(f"v_mfma_scale_f32_{name}" for name in _F8F6F4))
def _scaled_multiply(b: Builder) -> Run:
    multiply, checks = _matrix_multiply(b), [_unit_scale(b, index) for index in range(2)]

    def run(g: Group) -> int | None:
        for check in checks:
            check(g)
        return multiply(g)

    return run


@op(*(f"v_mfma_f32_{name}" for name in _SHAPES + _F8F6F4), *(f"v_mfma_i32_{name}" for name in _I8))
def _matrix_multiply(b: Builder) -> Run:
    shape = parse_shape(b.ins.opcode)
    if shape is None:
        raise b.error("this matrix shape is not modelled")
    code_a, code_b = _input_codes(b, shape)
    read_a, read_b = _matrix_reader(b, 1, shape, code_a), _matrix_reader(b, 2, shape, code_b)
    accumulate = _accumulator(b, shape)
    kept_denormals = b.machine.kept_denormals

    def run(g: Group) -> None:
        with kept_denormals():
            product = np.matmul(read_a(g).transpose(0, 2, 1), read_b(g))
            accumulate(g, product)

    return run


def _accumulator(b: Builder, shape: Shape) -> Callable[[Group, Array], None]:
    """D = C + product. Accumulator 4q + r of lane l is row 4 * groups * q + 4 * (l / extent) + r, column l % extent."""
    target, source = b.operand(0), b.operand(3)
    count, groups = shape.accumulators, shape.groups
    if target.count != count:
        raise b.error(f"the accumulator must be {count} registers")
    for offset in range(count):
        b.vdst(0, offset)
    first = b.row(target)
    dtype = np.int32 if shape.kind == "i8" else _F32
    vector = b.state.vector.view(dtype)
    constant = None
    if source.kind == "const":
        constant = _U32(source.bits32()).view(dtype)
        start = -1
    else:
        b.mark_read(source, count)
        start = b.row(source)

    def accumulate(g: Group, product: Array) -> None:
        blocks = (
            product.astype(dtype, copy=False).reshape(g.n, count // 4, groups, 4, shape.extent).transpose(1, 3, 0, 2, 4)
        )
        form = (count // 4, 4, g.n, groups, shape.extent)
        addend = constant if constant is not None else vector[start : start + count, g.sel].reshape(form)
        if g.dense:
            out = vector[first : first + count, g.sel].reshape(form)
            np.add(blocks, addend, out=out)
        else:
            vector[first : first + count, g.sel] = (blocks + addend).reshape(count, g.n, 64)

    return accumulate
