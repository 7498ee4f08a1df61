"""Vector memory: buffer, global, flat and scratch loads, stores and atomics, and loads that go to LDS.

A flat address is taken for one of global memory; those that mean LDS or scratch are in no tensor, which is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.gfx950.emulator.atomics import ATOMICS, apply_atomic
from workbench.gfx950.emulator.builder import Builder, Reader, Run
from workbench.gfx950.emulator.operands import M0
from workbench.gfx950.emulator.registry import op
from workbench.gfx950.emulator.state import WAVE, Array, Group, Pending

_U32, _U64, _I64 = np.uint32, np.uint64, np.int64

LOADS = {
    "ubyte": (1, "", False), "sbyte": (1, "", True), "ushort": (2, "", False), "sshort": (2, "", True),
    "dword": (4, "", False), "dwordx2": (8, "", False), "dwordx3": (12, "", False), "dwordx4": (16, "", False),
    "short_d16": (2, "lo", False), "short_d16_hi": (2, "hi", False), "ubyte_d16": (1, "lo", False),
    "ubyte_d16_hi": (1, "hi", False), "sbyte_d16": (1, "lo", True), "sbyte_d16_hi": (1, "hi", True),
}  # fmt: skip
"""Load suffix: bytes, half of the destination that changes, sign extension."""
STORES = {
    "byte": (1, 0), "byte_d16_hi": (1, 16), "short": (2, 0), "short_d16_hi": (2, 16), "dword": (4, 0),
    "dwordx2": (8, 0), "dwordx3": (12, 0), "dwordx4": (16, 0),
}  # fmt: skip
"""Store suffix: bytes, right shift of the data."""
TO_LDS = {"dword": 4, "dwordx3": 12, "dwordx4": 16, "ubyte": 1, "ushort": 2}

# address(g) -> (uint64 addresses [waves, 64], lanes in range or None for all)
Address = Callable[[Group], "tuple[Array, Array | None]"]


def _wide(value: Any) -> Any:
    return np.asarray(value).astype(_U64)


def _buffer_address(b: Builder, first: int, size: int) -> Address:
    """Operands (vaddr or off, resource, soffset). Out-of-range lanes are left out: loads give 0, stores do nothing."""
    resource = first + 1
    base_low, base_high, records, _ = (b.u32(resource, i) for i in range(4))
    soffset = b.u32(first + 2)
    instruction_offset = _U64(b.modifier("offset"))
    parts: list[Reader] = []
    indexed, offset_enabled = b.modifier("idxen", False), b.modifier("offen", False)
    if indexed or offset_enabled:
        parts = [b.u32(first, i) for i in range(int(indexed) + int(offset_enabled))]

    def address(g: Group) -> tuple[Array, Array | None]:
        high = base_high(g)
        if int(high.max()) >> 31:
            raise b.error("swizzled buffer resources are not modelled")
        base = base_low(g) | _wide(high & _U32(0xFFFF)) << _U64(32)
        constant = _wide(soffset(g)) + instruction_offset
        offset = _wide(parts[-1](g)) + constant if offset_enabled else constant + np.zeros((g.n, 1), _U64)
        limit = _wide(records(g))
        if indexed:
            stride = _wide(high >> _U32(16) & _U32(0x3FFF))
            index = _wide(parts[0](g))
            inside = (index < limit) & ((offset - _wide(soffset(g)) + _U64(size) <= stride) | (stride == 0))
            offset = offset + index * stride
        elif int(offset.max()) + size <= int(limit.min()):
            return _over_lanes(base + offset, g), None
        else:
            inside = offset + _U64(size) <= limit
        inside = _over_lanes(inside, g)
        return _over_lanes(base + offset, g), None if inside.all() else inside

    return address


def _over_lanes(value: Array, g: Group) -> Array:
    return value if value.shape == (g.n, WAVE) else np.broadcast_to(value, (g.n, WAVE))


def _global_address(b: Builder, first: int) -> Address:
    """Operands (vaddr pair, off) or (32-bit voffset, saddr pair)."""
    offset = _I64(b.modifier("offset"))
    scalar = b.has(first + 1) and b.operand(first + 1).kind == "s"
    if scalar:
        low, base = b.u32(first), b.u64(first + 1)
        return lambda g: (_over_lanes(base(g) + _wide(low(g)) + offset.view(_U64), g), None)
    wide = b.u64(first)
    if offset:
        return lambda g: (wide(g) + offset.view(_U64), None)
    return lambda g: (wide(g), None)


def _scratch_address(b: Builder, first: int) -> Address:
    """Private memory: a region of its own for every lane."""
    offset = _I64(b.modifier("offset"))
    vector = b.u32(first) if b.operand(first).kind == "v" else None
    scalar = b.u32(first + 1) if b.has(first + 1) and b.operand(first + 1).kind in ("s", "const") else None
    machine = b.machine

    def address(g: Group) -> tuple[Array, Array | None]:
        place = np.broadcast_to(offset.view(_U64), (g.n, 1))
        for part in (vector, scalar):
            if part is not None:
                place = place + _wide(part(g))
        if int(place.max()) >= machine.scratch_size:
            raise b.error(f"scratch offset {int(place.max())} is outside the {machine.scratch_size} bytes of a lane")
        return machine.scratch_base(g) + place, None

    return address


def _address(b: Builder, first: int, size: int) -> Address:
    family = b.ins.opcode.split("_")[0]
    if family == "buffer":
        return _buffer_address(b, first, size)
    return _scratch_address(b, first) if family == "scratch" else _global_address(b, first)


def _combined(lanes: Array | None, in_range: Array | None) -> Array | None:
    if lanes is None:
        return in_range
    return lanes if in_range is None else lanes & in_range


def _sign(value: Array, size: int) -> Array:
    narrow = np.int8 if size == 1 else np.int16
    return value.astype(narrow).astype(np.int32).view(_U32)


_LOAD_NAMES = [f"{family}_load_{suffix}" for family in ("buffer", "global", "flat", "scratch") for suffix in LOADS]


@op(*_LOAD_NAMES)
def _load(b: Builder) -> Run:
    suffix = b.ins.opcode.split("_load_")[1]
    if b.modifier("lds", False):
        return _load_to_lds(b, TO_LDS[suffix], 0)
    size, half, signed = LOADS[suffix]
    target = b.operand(0)
    count = max(1, size // 4)
    for offset in range(count):
        b.vdst(0, offset)
    if half:
        b.mark_read(target)
    address, machine, pc = _address(b, 1, size), b.machine, b.ins.index
    row = b.row(target)
    bits = sum(b.bit(target, offset) for offset in range(count))

    def run(g: Group) -> None:
        where, in_range = address(g)
        lanes = _combined(g.lanes, in_range)
        values = machine.read_global(b.ins, g, where, size, lanes)
        if signed:
            values = _sign(values, size)
        machine.issue_vector(g, Pending(pc, False, row, values, g.lanes, bits, half))

    return run


@op(*(f"global_load_lds_{suffix}" for suffix in TO_LDS))
def _global_to_lds(b: Builder) -> Run:
    return _load_to_lds(b, TO_LDS[b.ins.opcode.removeprefix("global_load_lds_")], 0)


def _load_to_lds(b: Builder, size: int, first: int) -> Run:
    """Lane l's bytes go to LDS at M0 + instruction offset + l * max(size, 4); they arrive when vmcnt says so."""
    address, machine, pc = _address(b, first, size), b.machine, b.ins.index
    b.reads |= 1 << (512 + M0)
    offset = b.modifier("offset")
    spacing = max(size, 4)
    lane_offsets = np.arange(WAVE) * spacing + offset

    def run(g: Group) -> None:
        where, in_range = address(g)
        lanes = _combined(g.lanes, in_range)
        values = machine.read_global(b.ins, g, where, size, lanes)
        start = machine.state.s[M0][g.sel].astype(_I64)
        if int(start.max()) > machine.lds.size:
            raise b.error(f"M0 = {int(start.max()):#x} is outside the {machine.lds.size} bytes of LDS")
        entry = machine.lds.arriving(b.ins, g, start + lane_offsets, values)
        machine.issue_vector(g, Pending(pc, False, 0, None, None, 0, lds=entry))

    return run


_STORE_NAMES = [f"{family}_store_{suffix}" for family in ("buffer", "global", "flat", "scratch") for suffix in STORES]


@op(*_STORE_NAMES)
def _store(b: Builder) -> Run:
    size, shift = STORES[b.ins.opcode.split("_store_")[1]]
    data_position, first = (0, 1) if b.ins.opcode.startswith("buffer") else (1, 0)
    data = [b.u32(data_position, k) for k in range(max(1, size // 4))]
    machine, pc = b.machine, b.ins.index
    if b.ins.opcode.startswith("buffer"):
        address = _buffer_address(b, first, size)
    else:
        # global_store vaddr, vdata, saddr: the address operands are not adjacent.
        shuffled = _without(b, 1)
        address = _address(shuffled, 0, size)
        b.reads |= shuffled.reads

    def run(g: Group) -> None:
        where, in_range = address(g)
        values = [value(g) >> _U32(shift) if shift else value(g) for value in data]
        machine.write_global(b.ins, g, where, values, size, _combined(g.lanes, in_range))
        machine.issue_vector(g, Pending(pc, False, 0, None, None, 0))

    return run


def _without(b: Builder, position: int) -> Builder:
    """A builder of the same instruction with one operand taken out."""
    kept = tuple(operand for i, operand in enumerate(b.ins.operands) if i != position)
    return Builder(replace(b.ins, operands=kept), b.machine)


_ATOMIC_NAMES = [f"{family}_atomic_{name}" for family in ("buffer", "global", "flat") for name in ATOMICS]


@op(*_ATOMIC_NAMES)
def _atomic(b: Builder) -> Run:
    """Read-modify-write, lane after lane. With sc0 (glc) the old value is returned."""
    kind = b.ins.opcode.split("_atomic_")[1]
    atomic = ATOMICS[kind]
    returns = b.modifier("sc0", False) or b.modifier("glc", False)
    machine, pc = b.machine, b.ins.index
    size = atomic.size
    words = size // 4
    is_buffer = b.ins.opcode.startswith("buffer")
    data_position = 0 if is_buffer else (2 if returns else 1)
    data = [b.u32(data_position, k) for k in range(words * (2 if atomic.compares else 1))]
    if is_buffer:
        address = _buffer_address(b, 1, size)
    else:
        shuffled = _without(b, data_position)
        address = _global_address(shuffled, 1 if returns else 0)
        b.reads |= shuffled.reads
    row = bits = 0
    if returns:
        target = b.operand(0)
        for k in range(words):
            b.vdst(0, k)
        row = b.row(target)
        bits = sum(b.bit(target, k) for k in range(words))

    def run(g: Group) -> None:
        where, in_range = address(g)
        lanes = _combined(g.lanes, in_range)
        values = [np.broadcast_to(value(g), (g.n, WAVE)) for value in data]
        old = apply_atomic(machine, b.ins, g, where, values, atomic, lanes)
        machine.issue_vector(g, Pending(pc, False, row, np.stack(old) if returns else None, g.lanes, bits))

    return run


_CACHE_CONTROL = "buffer_wbl2 buffer_inv buffer_wbinvl1 buffer_wbinvl1_vol s_dcache_wb s_dcache_inv s_icache_inv"


@op(*_CACHE_CONTROL.split())
def _cache_control(b: Builder) -> Run:
    """Memory is coherent here. A write-back counts in vmcnt like a store."""
    counts = b.ins.opcode == "buffer_wbl2"
    machine, pc = b.machine, b.ins.index

    def run(g: Group) -> None:
        if counts:
            machine.issue_vector(g, Pending(pc, False, 0, None, None, 0))

    return run
