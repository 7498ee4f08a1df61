"""Loads and stores of every width: global, buffer, flat, scratch and LDS."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.emulator_asm import run_body
from tests.emulator_pcode import PSEUDO_CODE
from workbench.errors import EmulationError
from workbench.gfx950.emulator.lds import READS, WRITES
from workbench.gfx950.emulator.registry import OPCODES
from workbench.gfx950.emulator.vmem import LOADS, STORES

PITCH = 32
"""Bytes of a lane in memory."""
OLD = 0xA5A5A5A5
# v1: the lane's byte offset; s[12:15]: a buffer over the first tensor; v[20:21] its lane's flat address.
SETUP = ["v_mul_u32_u24 v1, 32, v0", "s_mov_b64 s[12:13], s[4:5]", "s_mov_b32 s14, {records}", "s_mov_b32 s15, 0x27000",
         "v_mov_b32 v21, s5", "v_add_co_u32 v20, vcc, s4, v1", "v_addc_co_u32 v21, vcc, 0, v21, vcc",
         *(f"v_mov_b32 v{i}, 0xa5a5a5a5" for i in range(8, 12))]  # fmt: skip
STORE_RESULT = [f"global_store_dword v1, v{8 + i}, s[6:7] offset:{4 * i}" for i in range(4)]


def _memory(seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    """A random tensor of 64 lanes, and its bytes [64, PITCH]."""
    words = torch.randint(-(2**31), 2**31, (64, PITCH // 4), generator=torch.Generator().manual_seed(seed)).int()
    return words, words.numpy().view(np.uint8)


def _run(body: list[str], source: torch.Tensor, records: int = 64 * PITCH, **options: Any) -> tuple[np.ndarray, Any]:
    """Run with the result in v[8:11]; uint32 [64, 4] and the findings."""
    out = torch.zeros(64, PITCH // 4, dtype=torch.int32)
    setup = [line.format(records=records) for line in SETUP]
    result = run_body([*setup, *body, "s_waitcnt vmcnt(0) lgkmcnt(0)", *STORE_RESULT], [source, out], **options)
    return out.numpy().view(np.uint32)[:, :4], result


def _address(family: str, store: bool, data: str, offset: int) -> str:
    """Operands of an access to the lane's bytes of the first tensor."""
    if family == "buffer":
        return f"{data}, v1, s[12:15], 0 offen offset:{offset}"
    where, base = {"global": ("v1", ", s[4:5]"), "flat": ("v[20:21]", "")}[family]
    return f"{where}, {data}{base} offset:{offset}" if store else f"{data}, {where}{base} offset:{offset}"


def _registers(size: int, first: int = 8) -> str:
    count = max(1, size // 4)
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


def _loaded(data: np.ndarray, size: int, half: str, signed: bool) -> np.ndarray:
    """What the destination holds: uint32 [64, 4], starting from OLD."""
    wanted = np.full((64, 4), OLD, np.uint32)
    if size >= 4:
        wanted[:, : size // 4] = np.ascontiguousarray(data[:, :size]).view(np.uint32)
        return wanted
    kind = f"{'i' if signed else 'u'}{size}"
    value = np.ascontiguousarray(data[:, :size]).view(kind)[:, 0].astype(np.int64)
    if not half:
        wanted[:, 0] = value.astype(np.int32).view(np.uint32) if signed else value
    else:
        bits = (value & 0xFFFF).astype(np.uint32)
        wanted[:, 0] = bits | np.uint32(OLD & 0xFFFF0000) if half == "lo" else bits << np.uint32(16) | OLD & 0xFFFF
    return wanted


@pytest.mark.parametrize("family", ["global", "flat", "buffer"])
@pytest.mark.parametrize("suffix", LOADS)
def test_load(family: str, suffix: str) -> None:
    source, data = _memory()
    size, half, signed = LOADS[suffix]
    address = _address(family, False, _registers(size), 4)
    got, _ = _run([f"{family}_load_{suffix} {address}"], source)
    assert (got == _loaded(data[:, 4:], size, half, signed)).all()


@pytest.mark.parametrize("family", ["global", "flat", "buffer"])
@pytest.mark.parametrize("suffix", STORES)
def test_store(family: str, suffix: str) -> None:
    source, data = _memory()
    wanted = data.copy()
    size, shift = STORES[suffix]
    values = np.array([0x11223344, 0x55667788, 0x99AABBCC, 0xDDEEFF00], np.uint32)
    body = [f"v_mov_b32 v{8 + i}, {value:#x}" for i, value in enumerate(values)]
    _run([*body, f"{family}_store_{suffix} {_address(family, True, _registers(size), 4)}"], source)
    wanted[:, 4 : 4 + size] = values.view(np.uint8)[shift // 8 : shift // 8 + size]
    assert (source.numpy().view(np.uint8) == wanted).all()


@pytest.mark.parametrize("suffix", LOADS)
def test_scratch_load(suffix: str) -> None:
    """Private memory: each lane gets back its own words."""
    source, data = _memory()
    size, half, signed = LOADS[suffix]
    body = ["global_load_dwordx4 v[12:15], v1, s[4:5]", "s_waitcnt vmcnt(0)", "v_mov_b32 v16, 8",
            "scratch_store_dwordx4 v16, v[12:15], off offset:4",
            f"scratch_load_{suffix} {_registers(size)}, v16, off offset:4"]  # fmt: skip
    got, _ = _run(body, source, scratch=64)
    assert (got == _loaded(data, size, half, signed)).all()


@pytest.mark.parametrize("suffix", STORES)
def test_scratch_store(suffix: str) -> None:
    source, _ = _memory()
    size, shift = STORES[suffix]
    body = ["s_mov_b32 s16, 16", "scratch_store_dwordx4 off, v[8:11], s16",
            *(f"v_mov_b32 v{12 + i}, {0x11223344 + i:#x}" for i in range(4)),
            f"scratch_store_{suffix} off, {_registers(size, 12)}, s16",
            "scratch_load_dwordx4 v[8:11], off, s16"]  # fmt: skip
    got, _ = _run(body, source, scratch=64)
    wanted = np.full(4, OLD, np.uint32)
    data = np.array([0x11223344 + i for i in range(4)], np.uint32).view(np.uint8)
    wanted.view(np.uint8)[:size] = data[shift // 8 : shift // 8 + size]
    assert (got == wanted).all()


def test_the_spare_half_of_a_spilled_pair_may_be_undefined() -> None:
    """v60 and v61 are never written: as data they are a compiler's spill, as an address they are a fault."""
    source, _ = _memory()
    _, result = _run(["scratch_store_dwordx2 off, v[60:61], off offset:4"], source, scratch=64)
    assert result.findings == ()
    with pytest.raises(EmulationError, match=r"scratch offset .* is outside the 64 bytes of a lane"):
        _run(["scratch_store_dword v60, v8, off offset:4"], source, scratch=64)


def test_scratch_beyond_its_size() -> None:
    with pytest.raises(EmulationError, match=r"scratch_load_dword .*outside the 16 bytes of a lane"):
        _run(["scratch_load_dword v8, off, off offset:16"], _memory()[0], scratch=16)


def test_buffer_ends_where_its_records_do() -> None:
    """A load past the end gives 0, a store is dropped; in range are the lanes whose last byte is."""
    source, data = _memory()
    records = 10 * PITCH + 8
    got, _ = _run(["buffer_load_dwordx2 v[8:9], v1, s[12:15], 0 offen offset:4"], source, records)
    wanted = np.zeros((64, 2), np.uint32)
    wanted[:10] = np.ascontiguousarray(data[:10, 4:12]).view(np.uint32)
    assert (got[:, :2] == wanted).all()
    before = data.copy()
    _run(["buffer_store_dwordx2 v[8:9], v1, s[12:15], 0 offen offset:4"], source, records)
    assert (np.flatnonzero((source.numpy().view(np.uint8) != before).any(axis=1)) == np.arange(10)).all()


def _to_lds(instruction: str, size: int) -> None:
    """Lanes load 16 bytes apart and M0 = 256: the data lie there in lane order, whatever the lanes' addresses."""
    source, data = _memory()
    spacing = max(size, 4)
    width = {1: "u8", 2: "u16"}.get(size, f"b{8 * size}")
    body = ["v_sub_u32 v2, 63, v0", "v_mul_u32_u24 v2, 32, v2", "s_mov_b32 m0, 0x100", instruction,
            "s_waitcnt vmcnt(0)", f"v_mul_u32_u24 v3, {spacing}, v0",
            f"ds_read_{width} {_registers(size)}, v3 offset:256"]  # fmt: skip
    got, result = _run(body, source, lds=256 + 64 * spacing)
    assert (got == _loaded(data[::-1], size, "", False)).all()
    assert result.findings == ()


@pytest.mark.parametrize(
    ("suffix", "size"), [("ubyte", 1), ("ushort", 2), ("dword", 4), ("dwordx3", 12), ("dwordx4", 16)]
)
@pytest.mark.parametrize("family", ["global", "buffer"])
def test_load_to_lds(family: str, suffix: str, size: int) -> None:
    if family == "global":
        _to_lds(f"global_load_lds_{suffix} v2, s[4:5]", size)
    else:
        _to_lds(f"buffer_load_{suffix} v2, s[12:15], 0 offen lds", size)


def test_load_to_lds_arrives_with_its_wait() -> None:
    """Before the wait the old content is there; a load that is out of range brings zeros."""
    source, _ = _memory()
    body = ["v_lshlrev_b32 v3, 2, v0", "v_mov_b32 v4, 7", "ds_write_b32 v3, v4", "s_waitcnt lgkmcnt(0)",
            "s_mov_b32 m0, 0", "buffer_load_dword v1, s[12:15], 0 offen lds", "ds_read_b32 v8, v3",
            "s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0)",
            "ds_read_b32 v9, v3"]  # fmt: skip
    got, _ = _run(body, source, records=8 * PITCH, lds=256)
    assert (got[:, 0] == 7).all()
    assert (got[:8, 1] == source.numpy().view(np.uint32)[:8, 0]).all()
    assert (got[8:, 1] == 0).all()


FILL_LDS = ["global_load_dwordx4 v[12:15], v1, s[4:5]", "global_load_dwordx4 v[16:19], v1, s[4:5] offset:16",
            "s_waitcnt vmcnt(0)", "ds_write_b128 v1, v[12:15]", "ds_write_b128 v1, v[16:19] offset:16",
            "s_waitcnt lgkmcnt(0)"]  # fmt: skip


@pytest.mark.parametrize("suffix", READS)
def test_lds_read(suffix: str) -> None:
    source, data = _memory()
    size, half, signed = READS[suffix]
    got, _ = _run([*FILL_LDS, f"ds_read_{suffix} {_registers(size)}, v1 offset:8"], source, lds=64 * PITCH)
    assert (got == _loaded(data[:, 8:], size, half, signed)).all()


@pytest.mark.parametrize("suffix", WRITES)
def test_lds_write(suffix: str) -> None:
    source, data = _memory()
    size, shift = WRITES[suffix]
    body = [*FILL_LDS, *(f"v_mov_b32 v{12 + i}, {0x11223344 + i:#x}" for i in range(4)),
            f"ds_write_{suffix} v1, {_registers(size, 12)} offset:16",
            "ds_read_b128 v[8:11], v1 offset:16"]  # fmt: skip
    got, _ = _run(body, source, lds=64 * PITCH)
    wanted = data[:, 16:].copy()
    values = np.array([0x11223344 + i for i in range(4)], np.uint32).view(np.uint8)
    wanted[:, :size] = values[shift // 8 : shift // 8 + size]
    assert (got.view(np.uint8) == wanted).all()


@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize("stride", ["", "st64"])
def test_lds_two_at_once(width: int, stride: str) -> None:
    """Offsets count elements, or 64 elements: written by write2, read back one by one, then by read2."""
    size = width // 8
    unit = size * (64 if stride else 1)
    source, _ = _memory()
    registers = ("v12", "v14") if width == 32 else ("v[12:13]", "v[14:15]")
    destination = "v[8:9]" if width == 32 else "v[8:11]"
    body = ["global_load_dwordx4 v[12:15], v1, s[4:5]", f"v_mul_u32_u24 v2, {2 * size}, v0", "s_waitcnt vmcnt(0)",
            f"ds_write2{stride}_b{width} v2, {registers[0]}, {registers[1]} offset0:{3 if stride else 1} offset1:"
            f"{7 if stride else 2}"]  # fmt: skip
    first, second = (3 * unit, 7 * unit) if stride else (unit, 2 * unit)
    single = f"b{width}"
    one, two = ("v8", "v9") if width == 32 else ("v[8:9]", "v[10:11]")
    words = source.numpy().view(np.uint32)
    wanted = words[:, [0, 2]] if width == 32 else words[:, :4]
    options = {"lds": 8192}
    if not stride:
        # The second element of a lane is the first of none, since lanes are two elements apart.
        body[1] = f"v_mul_u32_u24 v2, {4 * size}, v0"
    got, _ = _run([*body, f"ds_read_{single} {one}, v2 offset:{first}", f"ds_read_{single} {two}, v2 offset:{second}"],
                  source, **options)  # fmt: skip
    assert (got[:, : wanted.shape[1]] == wanted).all()
    pair = f"ds_read2{stride}_b{width} {destination}, v2 offset0:{3 if stride else 1} offset1:{7 if stride else 2}"
    got, _ = _run([*body, pair], source, **options)
    assert (got[:, : wanted.shape[1]] == wanted).all()


@pytest.mark.parametrize("element", [2, 1])
def test_transposing_read(element: int) -> None:
    """16 lanes ask for 8 bytes each, a matrix of 16 columns row by row; each receives a column."""
    source, data = _memory()
    kind = np.uint16 if element == 2 else np.uint8
    got, _ = _run([*FILL_LDS, f"ds_read_b64_tr_b{8 * element} v[8:9], v1 offset:8"], source, lds=64 * PITCH)
    asked = np.ascontiguousarray(data[:, 8:16]).view(kind)
    wanted = np.stack([asked[first : first + 16].reshape(8 // element, 16).T for first in range(0, 64, 16)])
    assert (np.ascontiguousarray(got[:, :2]).view(kind) == wanted.reshape(64, -1)).all()


def test_every_vector_memory_opcode_of_the_pseudo_code_is_modelled() -> None:
    """Formatted buffers, which address textures, and LDS addressed by thread are left out."""
    names = [name for name in PSEUDO_CODE if name.startswith(("buffer_", "global_", "flat_", "scratch_"))]
    assert [name for name in names if name not in OPCODES and "format" not in name] == []
