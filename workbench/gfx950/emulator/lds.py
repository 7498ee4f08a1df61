"""Local data share: storage of the resident workgroups, its checks, and the DS instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.gfx950.emulator.banks import BankModel
from workbench.gfx950.emulator.builder import Builder, Run
from workbench.gfx950.emulator.program import Instruction
from workbench.gfx950.emulator.races import RaceTracker
from workbench.gfx950.emulator.registry import op
from workbench.gfx950.emulator.state import POISON, WAVE, Array, Group, Pending

_U32, _I64 = np.uint32, np.int64
_POISON = _U32(POISON)


class LocalMemory:
    """LDS of `workgroups` resident workgroups, `size` bytes each, as one array of words."""

    def __init__(self, workgroups: int, size: int, machine: Any) -> None:
        self.size = size
        self.machine = machine
        self.words_each = -(-size // 16) * 4 + 4
        """Words a workgroup takes, with one spare 16-byte slot where out-of-range accesses go."""
        self.words = np.full(workgroups * self.words_each, POISON, np.uint32)
        self.halves = self.words.view(np.uint16)
        self.bytes = self.words.view(np.uint8)
        self.quads = self.words.reshape(-1, 4)
        self.pairs = self.words.reshape(-1, 2)
        self.races = RaceTracker(workgroups, self.words_each, machine)
        self.banks = BankModel()

    def reset(self) -> None:
        self.words.fill(POISON)
        self.races.clear()

    def locate(self, ins: Instruction, g: Group, offsets: Array, size: int, lanes: Array | None) -> Array:
        """Byte positions in `bytes` of each lane's access; out-of-range lanes are reported and sent to the spare slot."""
        offsets = np.broadcast_to(offsets, (g.n, WAVE))
        if lanes is not None:
            offsets = np.where(lanes, offsets, 0)
        if int(offsets.max(initial=0)) + size > self.size or int(offsets.min(initial=0)) < 0:
            wrong = (offsets + size > self.size) | (offsets < 0)
            if lanes is not None:
                wrong &= lanes
            if wrong.any():
                wave, lane = (int(i) for i in np.argwhere(wrong)[0])
                self.machine.report(
                    "lds-bounds", ins, g, wave,
                    f"lane {lane} accesses LDS byte {int(offsets[wave, lane])}, {size} bytes, of {self.size}",
                )  # fmt: skip
            offsets = np.where(wrong if lanes is None else wrong | ~lanes, self.words_each * 4 - 16, offsets)
        base = self.machine.state.workgroup[g.sel] * (self.words_each * 4)
        return offsets + base[:, None]

    def load(self, ins: Instruction, g: Group, place: Array, size: int, lanes: Array | None) -> list[Array]:
        """uint32 arrays, one a dword; 1 and 2 bytes zero-extended."""
        aligned = not (place & (min(size, 16) - 1 if size != 12 else 3)).any()
        if size == 16 and aligned:
            rows = self.quads.take(place >> 4, axis=0)
            values = [rows[..., k] for k in range(4)]
        elif size == 8 and aligned:
            rows = self.pairs.take(place >> 3, axis=0)
            values = [rows[..., k] for k in range(2)]
        elif size >= 4 and not (place & 3).any():
            values = [self.words.take((place >> 2) + k) for k in range(size // 4)]
        elif size == 2 and aligned:
            values = [self.halves.take(place >> 1).astype(np.uint32)]
        else:
            values = [self._bytes_at(place + 4 * k, min(size, 4)) for k in range(max(1, size // 4))]
        self._check_initialised(ins, g, place, size, values, lanes)
        return values

    def write(self, ins: Instruction, g: Group, place: Array, values: list[Array], size: int, lanes: Array | None) -> Any:
        """A checked store; returns what a Pending keeps for the race check.

        Replicated layouts let several waves store the same value, which is no race: a store that changes nothing, or
        repeats what another wave stores in the same instruction, leaves no mark.
        """
        if not self.races.enabled:
            self.store(place, values, size, lanes)
            return None
        before = self._raw(place, size)
        self.store(place, values, size, lanes)
        after = self._raw(place, size)
        keep = (1 << 8 * min(size, 4)) - 1
        wanted = [value & _U32(keep) for value in values]
        repeats = _all_equal(before, wanted) | (_all_equal(after, wanted) & ~self.races.owns(g, place))
        if repeats.any():
            lanes = ~repeats if lanes is None else lanes & ~repeats
        return self.races.touch(ins, g, place, size, lanes, write=True)

    def _raw(self, place: Array, size: int) -> list[Array]:
        if size < 4 or (place & 3).any():
            return [self._bytes_at(place + 4 * k, min(size, 4)) for k in range(max(1, size // 4))]
        return [self.words.take((place >> 2) + k) for k in range(size // 4)]

    def _bytes_at(self, place: Array, count: int) -> Array:
        word = np.zeros(place.shape, np.uint32)
        for byte in range(count):
            word |= self.bytes.take(place + byte).astype(np.uint32) << _U32(8 * byte)
        return word

    def _check_initialised(
        self, ins: Instruction, g: Group, place: Array, size: int, values: list[Array], lanes: Array | None
    ) -> None:
        """Words that still hold the poison were never written."""
        whole = values if size >= 4 else [self.words.take(place >> 2)]
        for value in whole:
            stale = value == _POISON
            if lanes is not None:
                stale &= lanes
            if stale.any():
                wave, lane = (int(i) for i in np.argwhere(stale)[0])
                byte = int(place[wave, lane]) % (self.words_each * 4)
                self.machine.report("lds-uninitialised", ins, g, wave, f"lane {lane} reads LDS byte {byte}, never written")
                return

    def store(self, place: Array, values: list[Array], size: int, lanes: Array | None) -> None:
        if lanes is not None:
            place = place[lanes]
            values = [np.broadcast_to(value, lanes.shape)[lanes] for value in values]
        if size == 16 and not (place & 15).any():
            self.quads[place >> 4] = np.stack(np.broadcast_arrays(*values), axis=-1)
        elif size >= 4 and not (place & 3).any():
            for k, value in enumerate(values):
                self.words[(place >> 2) + k] = value
        elif size == 2 and not (place & 1).any():
            self.halves[place >> 1] = values[0].astype(np.uint16)
        else:
            for byte in range(size):
                self.bytes[place + byte] = (values[byte // 4] >> _U32(8 * (byte % 4))).astype(np.uint8)

    def arriving(self, ins: Instruction, g: Group, offsets: Array, values: list[Array]) -> Any:
        """Data of a load to LDS: (byte positions, dwords [waves, 64, k], lanes), stored when the wave has waited."""
        size = 4 * len(values)
        place = self.locate(ins, g, offsets, size, g.lanes)
        lanes = np.ones((g.n, WAVE), bool) if g.lanes is None else g.lanes
        self.races.touch(ins, g, place, size, g.lanes, write=True)
        return place, np.stack([np.broadcast_to(v, (g.n, WAVE)) for v in values], axis=-1), lanes

    def deliver(self, entry: Any) -> None:
        place, data, lanes = entry
        size = 4 * data.shape[-1]
        self.store(place, [data[..., k] for k in range(data.shape[-1])], size, None if lanes.all() else lanes)


def _all_equal(left: list[Array], right: list[Array]) -> Array:
    equal = left[0] == right[0]
    for a, b in zip(left[1:], right[1:], strict=True):
        equal = equal & (a == b)
    return equal


READS = {
    "u8": (1, "", False), "i8": (1, "", True), "u16": (2, "", False), "i16": (2, "", True), "b32": (4, "", False),
    "b64": (8, "", False), "b96": (12, "", False), "b128": (16, "", False), "u8_d16": (1, "lo", False),
    "u8_d16_hi": (1, "hi", False), "i8_d16": (1, "lo", True), "i8_d16_hi": (1, "hi", True), "u16_d16": (2, "lo", False),
    "u16_d16_hi": (2, "hi", False),
}  # fmt: skip
WRITES = {
    "b8": (1, 0), "b8_d16_hi": (1, 16), "b16": (2, 0), "b16_d16_hi": (2, 16), "b32": (4, 0), "b64": (8, 0), "b96": (12, 0),
    "b128": (16, 0),
}  # fmt: skip


def _destination(b: Builder, count: int) -> tuple[tuple[int, ...], int]:
    target = b.operand(0)
    for k in range(count):
        b.vdst(0, k)
    rows = tuple(b.row(target, k) for k in range(count))
    return rows, sum(b.bit(target, k) for k in range(count))


def _offsets(b: Builder, position: int, extra: int) -> Callable[[Group], Array]:
    reader, constant = b.u32(position), _I64(extra)
    return lambda g: reader(g).astype(_I64) + constant


@op(*(f"ds_read_{name}" for name in READS))
def _read(b: Builder) -> Run:
    size, half, signed = READS[b.ins.opcode.removeprefix("ds_read_")]
    rows, bits = _destination(b, max(1, size // 4))
    if half:
        b.mark_read(b.operand(0))
    offsets, machine, ins = _offsets(b, 1, b.modifier("offset")), b.machine, b.ins
    lds = machine.lds

    def run(g: Group) -> None:
        place = lds.locate(ins, g, offsets(g), size, g.lanes)
        machine.count_lds(ins, g, place, size, write=False)
        touched = lds.races.touch(ins, g, place, size, g.lanes, write=False)
        values = lds.load(ins, g, place, size, g.lanes)
        if signed:
            narrow = np.int8 if size == 1 else np.int16
            values = [values[0].astype(narrow).astype(np.int32).view(_U32)]
        g.lgkm.append(Pending(ins.index, False, rows, tuple(values), g.lanes, bits, half, touched=touched))
        g.pending |= bits

    return run


@op(*(f"ds_write_{name}" for name in WRITES))
def _write(b: Builder) -> Run:
    size, shift = WRITES[b.ins.opcode.removeprefix("ds_write_")]
    offsets, machine, ins = _offsets(b, 0, b.modifier("offset")), b.machine, b.ins
    data = [b.u32(1, k) for k in range(max(1, size // 4))]
    lds = machine.lds

    def run(g: Group) -> None:
        place = lds.locate(ins, g, offsets(g), size, g.lanes)
        machine.count_lds(ins, g, place, size, write=True)
        values = [value(g) >> _U32(shift) if shift else value(g) for value in data]
        touched = lds.write(ins, g, place, values, size, g.lanes)
        g.lgkm.append(Pending(ins.index, False, (), (), None, 0, touched=touched))

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
    offsets = [_offsets(b, position, b.modifier(f"offset{i}") * unit) for i in range(2)]
    rows, bits = _destination(b, 2 * words) if reading else ((), 0)
    data = [] if reading else [[b.u32(1 + i, k) for k in range(words)] for i in range(2)]

    def run(g: Group) -> None:
        values: list[Array] = []
        touched = None
        for i in range(2):
            place = lds.locate(ins, g, offsets[i](g), size, g.lanes)
            machine.count_lds(ins, g, place, size, write=not reading)
            if reading:
                touched = lds.races.touch(ins, g, place, size, g.lanes, write=False)
                values += lds.load(ins, g, place, size, g.lanes)
            else:
                touched = lds.write(ins, g, place, [value(g) for value in data[i]], size, g.lanes)
        g.lgkm.append(Pending(ins.index, False, rows, tuple(values), g.lanes, bits, touched=touched))
        g.pending |= bits

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
    rows, bits = _destination(b, 2)
    offsets, machine, ins = _offsets(b, 1, b.modifier("offset")), b.machine, b.ins
    lds = machine.lds
    half = per_lane // 2

    def run(g: Group) -> None:
        place = lds.locate(ins, g, offsets(g), 8, g.lanes)
        machine.count_lds(ins, g, place, 8, write=False)
        touched = lds.races.touch(ins, g, place, 8, g.lanes, write=False)
        low, high = lds.load(ins, g, place, 8, g.lanes)
        wide = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
        values = []
        for register in range(2):
            word = np.zeros((g.n, WAVE), np.uint64)
            for i in range(half):
                picked = wide[:, sources[register * half + i]]
                word |= ((picked >> shift) & keep) << np.uint64(8 * element * i)
            values.append(word.astype(np.uint32))
        g.lgkm.append(Pending(ins.index, False, rows, tuple(values), g.lanes, bits, touched=touched))
        g.pending |= bits

    return run


@op("ds_bpermute_b32", "ds_permute_b32")
def _permute(b: Builder) -> Run:
    """Moves values between lanes by a byte address; LDS memory is not touched. Inactive lanes give 0."""
    pull = b.ins.opcode == "ds_bpermute_b32"
    rows, bits = _destination(b, 1)
    offsets, value, ins = _offsets(b, 1, b.modifier("offset")), b.u32(2), b.ins

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
        g.lgkm.append(Pending(ins.index, False, rows, (moved,), g.lanes, bits))
        g.pending |= bits

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
    rows, bits = _destination(b, 1)
    value, ins = b.u32(1), b.ins

    def run(g: Group) -> None:
        data = np.broadcast_to(value(g), (g.n, WAVE))
        if g.lanes is not None:
            data = np.where(g.lanes, data, _U32(0))
        g.lgkm.append(Pending(ins.index, False, rows, (data[:, source],), g.lanes, bits))
        g.pending |= bits

    return run


_ATOMIC: dict[str, Any] = {
    "add_u32": ("u4", np.add), "sub_u32": ("u4", np.subtract), "add_f32": ("f4", np.add), "max_f32": ("f4", np.fmax),
    "min_f32": ("f4", np.fmin), "max_u32": ("u4", np.maximum), "min_u32": ("u4", np.minimum), "max_i32": ("i4", np.maximum),
    "min_i32": ("i4", np.minimum), "and_b32": ("u4", np.bitwise_and), "or_b32": ("u4", np.bitwise_or),
    "xor_b32": ("u4", np.bitwise_xor),
}  # fmt: skip


@op(*(f"ds_{name}" for name in _ATOMIC), *(f"ds_{n.split('_')[0]}_rtn_{n.split('_')[1]}" for n in _ATOMIC))
def _lds_atomic(b: Builder) -> Run:
    """Read-modify-write of 32 bits, lane after lane."""
    name = b.ins.opcode.removeprefix("ds_")
    returns = "_rtn_" in name
    dtype, function = _ATOMIC[name.replace("_rtn", "")]
    rows, bits = _destination(b, 1) if returns else ((), 0)
    position = 1 if returns else 0
    offsets, value = _offsets(b, position, b.modifier("offset")), b.u32(position + 1)
    machine, ins, lds = b.machine, b.ins, b.machine.lds
    typed = lds.words.view(dtype)

    def run(g: Group) -> None:
        place = lds.locate(ins, g, offsets(g), 4, g.lanes)
        machine.count_lds(ins, g, place, 4, write=True)
        lds.load(ins, g, place, 4, g.lanes)
        index, data = place >> 2, np.broadcast_to(value(g), (g.n, WAVE)).view(np.uint32)
        old = np.zeros((g.n, WAVE), np.uint32)
        active = np.ones((g.n, WAVE), bool) if g.lanes is None else g.lanes
        if returns:
            for wave, lane in np.argwhere(active):
                at = index[wave, lane]
                old[wave, lane] = lds.words[at]
                typed[at] = function(typed[at], data[wave, lane].view(dtype))
        else:
            function.at(typed, index[active], np.ascontiguousarray(data[active]).view(dtype))
        g.lgkm.append(Pending(ins.index, False, rows, (old,) if returns else (), g.lanes, bits))
        g.pending |= bits

    return run
