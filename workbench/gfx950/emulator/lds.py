"""The DS instructions: reads, writes, transposing reads and lane permutations of the local data share."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.gfx950.emulator.builder import Builder, Run
from workbench.gfx950.emulator.registry import op
from workbench.gfx950.emulator.state import WAVE, Array, Group, Pending

_U32 = np.uint32

READS = {
    "u8": (1, "", False), "i8": (1, "", True), "u16": (2, "", False), "i16": (2, "", True), "b32": (4, "", False),
    "b64": (8, "", False), "b96": (12, "", False), "b128": (16, "", False), "u8_d16": (1, "lo", False),
    "u8_d16_hi": (1, "hi", False), "i8_d16": (1, "lo", True), "i8_d16_hi": (1, "hi", True), "u16_d16": (2, "lo", False),
    "u16_d16_hi": (2, "hi", False),
}  # fmt: skip
WRITES = {
    "b8": (1, 0), "b8_d16_hi": (1, 16), "b16": (2, 0), "b16_d16_hi": (2, 16), "b32": (4, 0), "b64": (8, 0),
    "b96": (12, 0),
    "b128": (16, 0),
}  # fmt: skip


def _destination(b: Builder, count: int) -> tuple[int, int]:
    """(first row, register mask) of the destination."""
    target = b.operand(0)
    for k in range(count):
        b.vdst(0, k)
    return b.row(target), sum(b.bit(target, k) for k in range(count))


def _stacked(g: Group, data: list[Any], shift: int) -> Array:
    """Dwords to store, [waves, 64, dwords]."""
    out = np.empty((g.n, WAVE, len(data)), np.uint32)
    for k, value in enumerate(data):
        out[..., k] = value(g) >> _U32(shift) if shift else value(g)
    return out


@op(*(f"ds_read_{name}" for name in READS))
def _read(b: Builder) -> Run:
    size, half, signed = READS[b.ins.opcode.removeprefix("ds_read_")]
    row, bits = _destination(b, max(1, size // 4))
    if half:
        b.mark_read(b.operand(0))
    offsets, machine, ins = b.lds_offsets(1, b.modifier("offset")), b.machine, b.ins
    lds = machine.lds

    def run(g: Group) -> None:
        place = lds.locate(ins, g, offsets(g), size)
        machine.count_lds(ins, g, place, size, write=False)
        touched = lds.races.touch(ins, g, place, size, g.lanes, write=False)
        values = lds.load(ins, g, place, size, bits)
        if signed:
            narrow = np.int8 if size == 1 else np.int16
            values = values.astype(narrow).astype(np.int32).view(_U32)
        machine.issue_local(g, Pending(ins.index, False, row, values, g.lanes, bits, half, touched=touched))

    return run


@op(*(f"ds_write_{name}" for name in WRITES))
def _write(b: Builder) -> Run:
    size, shift = WRITES[b.ins.opcode.removeprefix("ds_write_")]
    offsets, machine, ins = b.lds_offsets(0, b.modifier("offset")), b.machine, b.ins
    data = [b.u32(1, k) for k in range(max(1, size // 4))]
    lds = machine.lds

    def run(g: Group) -> None:
        place = lds.locate(ins, g, offsets(g), size)
        machine.count_lds(ins, g, place, size, write=True)
        touched = lds.write(ins, g, place, _stacked(g, data, shift), size)
        machine.issue_local(g, Pending(ins.index, False, 0, None, None, 0, touched=touched))

    return run


_TWO = [f"{kind}2{stride}_{width}" for kind in ("read", "write") for stride in ("", "st64") for width in ("b32", "b64")]


@op(*(f"ds_{name}" for name in _TWO))
def _two(b: Builder) -> Run:
    """Two accesses at offsets counted in elements, or in 64 elements."""
    name = b.ins.opcode
    size = 8 if name.endswith("b64") else 4
    unit = size * (64 if "st64" in name else 1)
    reading = "read" in name
    words = size // 4
    machine, ins, lds = b.machine, b.ins, b.machine.lds
    position = 1 if reading else 0
    offsets = [b.lds_offsets(position, b.modifier(f"offset{i}") * unit) for i in range(2)]
    row, bits = _destination(b, 2 * words) if reading else (0, 0)
    data = [] if reading else [[b.u32(1 + i, k) for k in range(words)] for i in range(2)]

    def run(g: Group) -> None:
        values: list[Array] = []
        for i in range(2):
            place = lds.locate(ins, g, offsets[i](g), size)
            machine.count_lds(ins, g, place, size, write=not reading)
            if reading:
                touched = lds.races.touch(ins, g, place, size, g.lanes, write=False)
                values.append(lds.load(ins, g, place, size, bits))
            else:
                touched = lds.write(ins, g, place, _stacked(g, data[i], 0), size)
        result = np.concatenate(values) if reading else None
        machine.issue_local(g, Pending(ins.index, False, row, result, g.lanes, bits, touched=touched))

    return run


_LANES = np.arange(WAVE)


@op("ds_read_b64_tr_b16", "ds_read_b64_tr_b8")
def _read_transposed(b: Builder) -> Run:
    """16 lanes read 8 bytes each; lane c of the 16 receives column c of the matrix that those bytes are, row by row."""
    element = 2 if b.ins.opcode.endswith("b16") else 1
    per_lane = 8 // element
    column = _LANES & 15
    lanes_per_row = 16 // per_lane
    sources = [(_LANES & ~15) + row * lanes_per_row + column // per_lane for row in range(per_lane)]
    shift = ((column % per_lane) * element * 8).astype(np.uint64)
    keep = np.uint64((1 << 8 * element) - 1)
    row, bits = _destination(b, 2)
    offsets, machine, ins = b.lds_offsets(1, b.modifier("offset")), b.machine, b.ins
    lds = machine.lds
    half = per_lane // 2

    def run(g: Group) -> None:
        place = lds.locate(ins, g, offsets(g), 8)
        machine.count_lds(ins, g, place, 8, write=False, transposed=True)
        touched = lds.races.touch(ins, g, place, 8, g.lanes, write=False)
        low, high = lds.load(ins, g, place, 8, bits)
        wide = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
        values = np.empty((2, g.n, WAVE), np.uint32)
        for register in range(2):
            word = np.zeros((g.n, WAVE), np.uint64)
            for i in range(half):
                picked = wide.take(sources[register * half + i], axis=1)
                word |= ((picked >> shift) & keep) << np.uint64(8 * element * i)
            values[register] = word
        machine.issue_local(g, Pending(ins.index, False, row, values, g.lanes, bits, touched=touched))

    return run


@op("ds_bpermute_b32", "ds_permute_b32")
def _permute(b: Builder) -> Run:
    """Moves values between lanes by a byte address; LDS memory is not touched. Inactive lanes give 0."""
    pull = b.ins.opcode == "ds_bpermute_b32"
    row, bits = _destination(b, 1)
    offsets, value, machine, ins = b.lds_offsets(1, b.modifier("offset")), b.u32(2), b.machine, b.ins

    def run(g: Group) -> None:
        lane = (np.broadcast_to(offsets(g), (g.n, WAVE)) >> 2) & 63
        data = np.broadcast_to(value(g), (g.n, WAVE))
        if g.lanes is not None:
            data = np.where(g.lanes, data, _U32(0))
        if pull:
            moved = np.take_along_axis(data, lane, axis=1)
        else:
            moved = np.zeros((g.n, WAVE), np.uint32)
            active = np.ones((g.n, WAVE), bool) if g.lanes is None else g.lanes
            wave, source = np.nonzero(active)
            moved[wave, lane[wave, source]] = data[wave, source]
        machine.issue_local(g, Pending(ins.index, False, row, moved[None], g.lanes, bits))

    return run


def _swizzle_sources(b: Builder) -> Array:
    text = b.modifier("offset")
    if isinstance(text, int):
        return _swizzle_from_code(text)
    kind, *values = text.removeprefix("swizzle(").rstrip(")").replace(" ", "").split(",")
    if kind == "QUAD_PERM":
        return (_LANES & ~3) + np.array([int(v) for v in values])[_LANES & 3]
    if kind == "BITMASK_PERM":
        code = values[0].strip('"')
        source = np.zeros(WAVE, int)
        for bit, char in enumerate(reversed(code)):
            own = _LANES >> bit & 1
            source |= {"0": own * 0, "1": own * 0 + 1, "p": own, "i": 1 - own}[char] << bit
        return (_LANES & 32) | source
    numbers = [int(v) for v in values]
    if kind == "SWAP":
        return _LANES ^ numbers[0]
    if kind == "REVERSE":
        return _LANES ^ (numbers[0] - 1)
    if kind == "BROADCAST":
        return (_LANES & ~(numbers[0] - 1)) + numbers[1]
    raise b.error(f"swizzle {kind} is not modelled")


def _swizzle_from_code(code: int) -> Array:
    if code & 0x8000:
        return (_LANES & ~3) + (code >> 2 * (_LANES & 3) & 3)
    keep, either, flip = code & 31, code >> 5 & 31, code >> 10 & 31
    return (_LANES & 32) | ((_LANES & keep | either) ^ flip)


@op("ds_swizzle_b32")
def _swizzle(b: Builder) -> Run:
    source = _swizzle_sources(b)
    row, bits = _destination(b, 1)
    value, machine, ins = b.u32(1), b.machine, b.ins

    def run(g: Group) -> None:
        data = np.broadcast_to(value(g), (g.n, WAVE))
        if g.lanes is not None:
            data = np.where(g.lanes, data, _U32(0))
        machine.issue_local(g, Pending(ins.index, False, row, data[:, source][None], g.lanes, bits))

    return run
