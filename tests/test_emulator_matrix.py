"""Matrix instructions against a float64 product, with the operands laid out by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from tests.emulator_asm import kernel, run_body
from workbench.errors import EmulationError
from workbench.gfx950.emulator import emulate
from workbench.gfx950.emulator.registry import OPCODES

MATRIX = [name for name in OPCODES if name.startswith("v_mfma")]
_TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "fp8": torch.float8_e4m3fn,
          "bf8": torch.float8_e5m2, "i8": torch.int8}  # fmt: skip
_NAME = re.compile(r"v_mfma_(scale_)?[fi]32_(\d+)x\d+x(\d+)_?([a-z0-9]+?)(?:_([a-z0-9]+))?(_1k)?$")


def _form(name: str) -> tuple[int, int, str, str]:
    """(rows, depth, type of A, type of B)."""
    match = _NAME.match(name)
    assert match
    first = match[4]
    second = match[5] if match[5] not in (None, "1k") else first
    if first == "f8f6f4":
        first, second = "fp8", "bf8"
    return int(match[2]), int(match[3]), first, second


def _operand(rows: int, depth: int, kind: str, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A [rows, depth] matrix as float64, and its registers [64 lanes, dwords].

    Lane l holds row l % rows; of the depth, consecutive elements from (l / rows) * depth / (64 / rows).
    """
    generator = torch.Generator().manual_seed(seed)
    if kind == "i8":
        matrix = torch.randint(-128, 128, (rows, depth), generator=generator).to(torch.int8)
    else:
        matrix = torch.randn(rows, depth, generator=generator).to(_TYPES[kind])
    groups = 64 // rows
    lanes = matrix.view(rows, groups, depth // groups).transpose(0, 1).reshape(64, depth // groups).contiguous()
    return matrix.double(), lanes.view(torch.uint8).view(torch.int32)


def _run(name: str, scale: int = 127) -> tuple[torch.Tensor, torch.Tensor]:
    """(result, wanted), both [rows, rows]."""
    rows, depth, first, second = _form(name)
    (a, registers_a), (b, registers_b) = _operand(rows, depth, first, 0), _operand(rows, depth, second, 1)
    count_a, count_b = registers_a.shape[1], registers_b.shape[1]
    accumulators = rows * rows // 64
    integer = "_i32_" in name
    c = torch.randint(-1000, 1000, (accumulators, 64)).int() if integer else torch.randn(accumulators, 64)
    out = torch.zeros(accumulators, 64, dtype=c.dtype)
    body = ["v_lshlrev_b32 v1, 2, v0", f"v_mul_u32_u24 v2, {4 * count_a}, v0", f"v_mul_u32_u24 v3, {4 * count_b}, v0"]
    body += [f"global_load_dword v{8 + i}, v2, s[4:5] offset:{4 * i}" for i in range(count_a)]
    body += [f"global_load_dword v{24 + i}, v3, s[6:7] offset:{4 * i}" for i in range(count_b)]
    body += ["v_mov_b32 v4, v1"]
    for i in range(accumulators):
        body += [f"global_load_dword v{40 + i}, v4, s[8:9]", "s_waitcnt vmcnt(0)",
                 f"v_accvgpr_write_b32 a{i}, v{40 + i}",
                 "v_add_u32 v4, 0x100, v4"]  # fmt: skip
    d = f"a[0:{accumulators - 1}]"
    modifiers = " cbsz:0 blgp:1" if "f8f6f4" in name else ""
    scales = ", v5, v6" if "_scale_" in name else ""
    body += [f"v_mov_b32 v5, {scale:#x}", "v_mov_b32 v6, 0x7f00"]
    if scales:
        modifiers = " op_sel:[0,1,0] op_sel_hi:[0,0,0]" + modifiers
    body += [f"{name} {d}, v[8:{7 + count_a}], v[24:{23 + count_b}], {d}{scales}{modifiers}", "v_mov_b32 v4, v1"]
    for i in range(accumulators):
        body += [f"v_accvgpr_read_b32 v7, a{i}", "global_store_dword v4, v7, s[10:11]", "v_add_u32 v4, 0x100, v4"]
    run_body(body, [registers_a, registers_b, c, out], strict=True)
    return _unpacked(out, rows), a @ b.T + _unpacked(c, rows).double()


def _unpacked(registers: torch.Tensor, rows: int) -> torch.Tensor:
    """Accumulator i of lane l is row 4 * (64 / rows) * (i / 4) + 4 * (l / rows) + i % 4, column l % rows."""
    matrix = torch.zeros(rows, rows, dtype=registers.dtype)
    for i in range(registers.shape[0]):
        for lane in range(64):
            matrix[4 * (64 // rows) * (i // 4) + 4 * (lane // rows) + i % 4, lane % rows] = registers[i, lane]
    return matrix


@pytest.mark.parametrize("name", MATRIX)
def test_product(name: str) -> None:
    result, wanted = _run(name)
    if result.dtype == torch.int32:
        assert torch.equal(result.double(), wanted)
    else:
        torch.testing.assert_close(result.double(), wanted, rtol=1e-6, atol=2e-5)


def test_block_scales_other_than_one_are_an_error() -> None:
    with pytest.raises(EmulationError, match=r"v_mfma_scale_f32_32x32x64_f8f6f4 .*only block scales of 1"):
        _run("v_mfma_scale_f32_32x32x64_f8f6f4", scale=128)


def test_formats_below_8_bits_are_an_error() -> None:
    body = ["v_mfma_f32_16x16x128_f8f6f4 v[8:11], v[12:19], v[20:27], 0 cbsz:2 blgp:2"]
    with pytest.raises(EmulationError, match="only fp8 and bf8 inputs of the f8f6f4 instructions are modelled"):
        emulate(kernel(body, pointers=1), (1,), [torch.zeros(1)])


def test_constant_accumulator_and_idle_lanes() -> None:
    """EXEC does not matter: all lanes multiply."""
    out = torch.zeros(4, 64)
    body = ["v_lshlrev_b32 v1, 2, v0", "v_mov_b32 v2, 0x3c003c00", "v_mov_b32 v3, v2", "s_mov_b64 exec, 1",
            "v_mfma_f32_16x16x16_f16 v[8:11], v[2:3], v[2:3], 1.0", "s_mov_b64 exec, -1"]  # fmt: skip
    for i in range(4):
        body += [f"global_store_dword v1, v{8 + i}, s[4:5] offset:{256 * i}"]
    run_body(body, [out])
    assert (out == 17.0).all()


def test_integer_sums_wrap() -> None:
    out = torch.zeros(64, dtype=torch.int32)
    body = ["v_lshlrev_b32 v1, 2, v0", *(f"v_mov_b32 v{i}, 0x7f7f7f7f" for i in range(2, 10)),
            *(f"v_bfrev_b32 v{i}, -2" for i in range(10, 14)),
            "v_mfma_i32_16x16x64_i8 v[10:13], v[2:5], v[6:9], v[10:13]",
            "global_store_dword v1, v10, s[4:5]"]  # fmt: skip
    run_body(body, [out])
    assert (out.numpy() == np.int32(0x7FFFFFFF + 64 * 127 * 127 - 2**32)).all()
