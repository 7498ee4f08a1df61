"""Atomics on global memory and LDS, on edge values: two lanes of a wave share each cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.emulator_asm import run_body
from workbench.gfx950.emulator.atomics import ATOMICS
from workbench.gfx950.emulator.lds_atomics import OPERATIONS


def _edge_cells(operation: str, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """(cells [32], operands [64]) with edge values."""
    random = np.random.default_rng(3)
    if operation.startswith("pk_"):
        # Two halves that are finite as fp16 and as bf16.
        values = np.array([0x00000000, 0x80003C00, 0x3F800001, 0xBC004248, 0x0400C1A0, 0x42F68001], np.uint32)
    elif dtype.startswith("f"):
        values = np.array([0.0, -0.0, 1.0, -2.5, 3e30, -1e-20, np.inf, 1e-3], dtype)
    else:
        values = np.array(
            [0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFF00000001, 2**64 - 1], np.uint64
        ).astype(dtype)
    return random.choice(values, 32), random.choice(values, 64)


def _pair_sum(name: str) -> Callable[[int, int], int]:
    dtype = torch.bfloat16 if name.endswith("bf16") else torch.float16

    def add(old: int, operand: int) -> int:
        a, b = (torch.tensor([x], dtype=torch.int64).to(torch.int32).view(dtype) for x in (old, operand))
        return int((a.float() + b.float()).to(dtype).view(torch.int32).item())

    return add


_MEANING: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda old, x: old + x, "sub": lambda old, x: old - x, "and": lambda old, x: old & x,
    "or": lambda old, x: old | x, "xor": lambda old, x: old ^ x, "min": min, "max": max, "swap": lambda old, x: x,
    "inc": lambda old, x: 0 if old >= x else old + 1, "dec": lambda old, x: x if old == 0 or old > x else old - 1,
}  # fmt: skip


def _expected(operation: str, dtype: str, cells: np.ndarray, operands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(cells afterwards, old value that each lane gets); lane l works on cell l / 2."""
    cells, old = cells.copy(), np.zeros_like(operands)
    meaning = _pair_sum(operation) if operation.startswith("pk_") else _MEANING[operation]
    for lane in range(64):
        old[lane] = cells[lane // 2]
        before, operand = cells[lane // 2], operands[lane]
        if not dtype.startswith("f"):
            before, operand = int(before), int(operand)
        result = meaning(before, operand)
        if not dtype.startswith("f"):
            result = np.array(int(result) % 2 ** (8 * cells.itemsize), f"u{dtype[1:]}").view(dtype)
        cells[lane // 2] = result
    return cells, old


def _kind_of(name: str) -> tuple[str, str]:
    """(operation, dtype) of a global or an LDS atomic's name."""
    if name.startswith("pk_"):
        return name, "u4"
    operation = name.partition("_")[0].replace("wrxchg", "swap")
    code = "f" if "_f" in name else "i" if operation in ("smin", "smax") or "_i" in name else "u"
    if operation[1:] in ("min", "max"):
        operation = operation[1:]
    return operation, f"{code}{8 if name.endswith(('_x2', '64')) else 4}"


def _tensor(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values.view(np.uint8).copy())


def _run_atomic(
    lines: list[str], cells: np.ndarray, operands: np.ndarray, size: int, lds: bool
) -> tuple[np.ndarray, ...]:
    """Operands in v[12:13], old values expected in v[14:15]; the cell's address in v2 (bytes from s[4:5] or in LDS)."""
    memory, old = _tensor(cells), torch.zeros(64 * size, dtype=torch.uint8)
    words = size // 4
    suffix = "" if words == 1 else f"x{words}"
    registers = [f"v{first}" if words == 1 else f"v[{first}:{first + 1}]" for first in (12, 14, 16)]
    body = ["v_lshrrev_b32 v2, 1, v0", f"v_mul_u32_u24 v2, {size}, v2", f"v_mul_u32_u24 v1, {size}, v0",
            f"global_load_dword{suffix} {registers[0]}, v1, s[6:7]",
            f"global_load_dword{suffix} {registers[2]}, v2, s[4:5]", "s_mov_b64 s[12:13], s[4:5]",
            f"s_mov_b32 s14, {32 * size}", "s_mov_b32 s15, 0x27000", "v_mov_b32 v21, s5",
            "v_add_co_u32 v20, vcc, s4, v2",
            "v_addc_co_u32 v21, vcc, 0, v21, vcc", "v_mov_b32 v14, 0", "v_mov_b32 v15, 0",
            "s_waitcnt vmcnt(0)"]  # fmt: skip
    if lds:
        body += [f"ds_write_b{8 * size} v2, {registers[2]}", "s_waitcnt lgkmcnt(0)"]
    body += [*lines, "s_waitcnt vmcnt(0) lgkmcnt(0)", f"global_store_dword{suffix} v1, {registers[1]}, s[8:9]"]
    if lds:
        body += [f"ds_read_b{8 * size} {registers[2]}, v2", "s_waitcnt lgkmcnt(0)",
                 f"global_store_dword{suffix} v2, {registers[2]}, s[4:5]"]  # fmt: skip
    run_body(body, [memory, _tensor(operands), old], lds=1024 if lds else 0, strict=True)
    return memory.numpy().view(cells.dtype), old.numpy().view(cells.dtype)


def _same(got: np.ndarray, wanted: np.ndarray) -> bool:
    if got.dtype.kind == "f":
        return bool(np.array_equal(got, wanted, equal_nan=True))
    return bool((got == wanted).all())


GLOBAL_ATOMICS = [name for name in ATOMICS if "cmpswap" not in name]


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("family", ["global", "buffer", "flat"])
@pytest.mark.parametrize("name", GLOBAL_ATOMICS)
def test_atomic(name: str, family: str, returns: bool) -> None:
    operation, dtype = _kind_of(name)
    cells, operands = _edge_cells(operation, dtype)
    size = cells.itemsize
    data, old = ("v12", "v14") if size == 4 else ("v[12:13]", "v[14:15]")
    if family == "buffer":
        # The old value replaces the operand.
        line = f"buffer_atomic_{name} {data}, v2, s[12:15], 0 offen"
        after = [f"v_mov_b32 v{14 + i}, v{12 + i}" for i in range(2)] if returns else []
        lines = [line + (" sc0" if returns else ""), "s_waitcnt vmcnt(0)", *after]
    else:
        place = ("v2", ", s[4:5]") if family == "global" else ("v[20:21]", "")
        target = f"{old}, " if returns else ""
        lines = [f"{family}_atomic_{name} {target}{place[0]}, {data}{place[1]}" + (" sc0" if returns else "")]
    with np.errstate(all="ignore"):
        wanted_cells, wanted_old = _expected(operation, dtype, cells, operands)
    got_cells, got_old = _run_atomic(lines, cells, operands, size, lds=False)
    assert _same(got_cells, wanted_cells)
    assert _same(got_old, wanted_old if returns else np.zeros_like(wanted_old))


LDS_ATOMICS = [name for name in OPERATIONS if not name.startswith("cmpst")]


@pytest.mark.parametrize(
    ("name", "returns"),
    [(name, returns) for name in LDS_ATOMICS for returns in (False, True) if returns or "wrxchg" not in name],
)
def test_lds_atomic(name: str, returns: bool) -> None:
    operation, dtype = _kind_of(name)
    cells, operands = _edge_cells(operation, dtype)
    size = cells.itemsize
    data, old = ("v12", "v14") if size == 4 else ("v[12:13]", "v[14:15]")
    kind, suffix = name.rsplit("_", 1)
    line = f"ds_{kind}_rtn_{suffix} {old}, v2, {data}" if returns else f"ds_{name} v2, {data}"
    with np.errstate(all="ignore"):
        wanted_cells, wanted_old = _expected(operation, dtype, cells, operands)
    got_cells, got_old = _run_atomic([line], cells, operands, size, lds=True)
    assert _same(got_cells, wanted_cells)
    assert _same(got_old, wanted_old if returns else np.zeros_like(wanted_old))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("family", ["global", "buffer", "flat", "ds"])
def test_compare_and_swap(family: str, wide: bool) -> None:
    """Even lanes expect what is there and store 77, odd lanes find that 77 and do not."""
    dtype = np.uint64 if wide else np.uint32
    cells = np.arange(5, 37, dtype=dtype)
    size = cells.itemsize
    # v[22:23] new value, v[24:25] expected; v[16:17] holds the cell's content before.
    body = ["v_mov_b32 v22, 77", "v_mov_b32 v23, 0", "v_mov_b32 v24, v16", "v_mov_b32 v25, 0"]
    if wide:
        new, expected, both, old = "v[22:23]", "v[24:25]", "v[22:25]", "v[14:15]"
    else:
        new, expected, both, old = "v22", "v24", "v[22:23]", "v14"
        body.append("v_mov_b32 v23, v24")
    suffix = "_x2" if wide else ""
    body += {
        "global": [f"global_atomic_cmpswap{suffix} {old}, v2, {both}, s[4:5] sc0"],
        "flat": [f"flat_atomic_cmpswap{suffix} {old}, v[20:21], {both} sc0"],
        "buffer": [f"buffer_atomic_cmpswap{suffix} {both}, v2, s[12:15], 0 offen sc0", "s_waitcnt vmcnt(0)",
                   "v_mov_b32 v14, v22", "v_mov_b32 v15, v23"],
        "ds": [f"ds_cmpst_rtn_b{8 * size} {old}, v2, {expected}, {new}"],
    }[family]  # fmt: skip
    got_cells, got_old = _run_atomic(body, cells, np.zeros(64, dtype), size, lds=family == "ds")
    assert (got_cells == 77).all()
    assert (got_old[::2] == cells).all()
    assert (got_old[1::2] == 77).all()
    if family == "ds":
        no_return = [*body[:-1], f"ds_cmpst_b{8 * size} v2, {expected}, {new}"]
        assert (_run_atomic(no_return, cells, np.zeros(64, dtype), size, lds=True)[0] == 77).all()
