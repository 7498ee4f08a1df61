"""Local data share of the resident workgroups: storage, bounds, and what was never written."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.gfx950.emulator.banks import BankModel
from workbench.gfx950.emulator.program import Instruction
from workbench.gfx950.emulator.races import SPARE_WORDS, RaceTracker
from workbench.gfx950.emulator.state import POISON, WAVE, Array, Group

_U32 = np.uint32
_POISON = _U32(POISON)


class LocalMemory:
    """LDS of `workgroups` resident workgroups, `size` bytes each, as one array of words."""

    def __init__(self, workgroups: int, size: int, machine: Any) -> None:
        self.size = size
        self.machine = machine
        self.words_each = -(-size // 16) * 4 + SPARE_WORDS
        """Words a workgroup takes; the spare ones are where out-of-range accesses go."""
        self.words = np.full(workgroups * self.words_each, POISON, np.uint32)
        self.halves = self.words.view(np.uint16)
        self.bytes = self.words.view(np.uint8)
        self.quads = self.words.reshape(-1, 4)
        self.pairs = self.words.reshape(-1, 2)
        self.races = RaceTracker(workgroups, self.words_each, machine)
        self.banks = BankModel()

    def reset(self) -> None:
        """A new batch of workgroups: nothing is written yet."""
        self.words.fill(POISON)
        self.races.clear()

    def locate(self, ins: Instruction, g: Group, offsets: Array, size: int) -> Array:
        """Byte positions in `bytes` [waves, 64] of each lane's access.

        Out-of-range lanes are reported and, like inactive ones where need be, sent to the spare words.
        """
        if offsets.shape != (g.n, WAVE):
            offsets = np.broadcast_to(offsets, (g.n, WAVE))
        if int(offsets.max()) + size > self.size:
            wrong = offsets + size > self.size
            active = wrong if g.lanes is None else wrong & g.lanes
            if active.any():
                wave, lane = (int(i) for i in np.argwhere(active)[0])
                self.machine.report(
                    "lds-bounds", ins, g, wave,
                    f"lane {lane} accesses LDS byte {int(offsets[wave, lane])}, {size} bytes, of {self.size}",
                )  # fmt: skip
            offsets = np.where(wrong, 4 * (self.words_each - SPARE_WORDS), offsets)
        return offsets + g.lds_base(self.machine.state, self.words_each)[0]

    def load(self, ins: Instruction, g: Group, place: Array, size: int, bits: int) -> Array:
        """uint32 [dwords, waves, 64] for the registers `bits`; 1 and 2 bytes zero-extended."""
        data = self.raw(place, size)
        held = data if size >= 4 else self.words.take(place >> 2)[..., None]
        stale = held == _POISON
        if stale.any():
            self._report_stale(ins, g, place, stale.any(axis=-1), bits)
        return np.moveaxis(data, -1, 0)

    def raw(self, place: Array, size: int) -> Array:
        """uint32 [waves, 64, dwords] without checks."""
        alignment = int(np.bitwise_or.reduce(place, axis=None))
        if size == 16 and not alignment & 15:
            return self.quads.take(place >> 4, axis=0)
        if size == 8 and not alignment & 7:
            return self.pairs.take(place >> 3, axis=0)
        if size >= 4 and not alignment & 3:
            return np.stack([self.words.take((place >> 2) + k) for k in range(size // 4)], axis=-1)
        if size == 2 and not alignment & 1:
            return self.halves.take(place >> 1).astype(np.uint32)[..., None]
        parts = [self._bytes_at(place + 4 * k, min(size, 4)) for k in range(max(1, size // 4))]
        return np.stack(parts, axis=-1)

    def _bytes_at(self, place: Array, count: int) -> Array:
        word = np.zeros(place.shape, np.uint32)
        for byte in range(count):
            word |= self.bytes.take(place + byte).astype(np.uint32) << _U32(8 * byte)
        return word

    def _report_stale(self, ins: Instruction, g: Group, place: Array, stale: Array, bits: int) -> None:
        """Words that still hold the poison were never written."""
        if g.lanes is not None:
            stale = stale & g.lanes
        # Out-of-range accesses went to the spare words, and were reported.
        stale = stale & (place % (self.words_each * 4) < 4 * (self.words_each - SPARE_WORDS))
        if stale.any():
            wave, lane = (int(i) for i in np.argwhere(stale)[0])
            byte = int(place[wave, lane]) % (self.words_each * 4)
            self.machine.report("lds-uninitialised", ins, g, wave, f"lane {lane} reads LDS byte {byte}, never written")
            if bits:
                self.machine.undefined.from_lds(self.machine, ins, g, stale.any(axis=1), bits, byte)

    def write(self, ins: Instruction, g: Group, place: Array, data: Array, size: int) -> Any:
        """A checked store of data [waves, 64, dwords]; returns what a Pending keeps for the race check.

        Replicated layouts let several waves store the same value, which is no race: a store that changes nothing, or
        repeats what another wave stores in the same instruction, leaves no mark.
        """
        lanes = g.lanes
        if not self.races.enabled:
            self.store(place, data, size, lanes)
            return None
        before = self.raw(place, size) if self.races.partial(g) else None
        self.store(place, data, size, lanes)
        wanted = data if size >= 4 else data & _U32((1 << 8 * size) - 1)
        others = ~self.races.owns(g, place)
        repeats = None
        if others.any():
            repeats = others & (self.raw(place, size) == wanted).all(axis=-1)
        if before is not None:
            silent = (before == wanted).all(axis=-1)
            repeats = silent if repeats is None else repeats | silent
        if repeats is not None and repeats.any():
            lanes = ~repeats if lanes is None else lanes & ~repeats
        return self.races.touch(ins, g, place, size, lanes, write=True)

    def store(self, place: Array, data: Array, size: int, lanes: Array | None) -> None:
        """data [waves, 64, dwords] to the active lanes' places."""
        if lanes is not None:
            place, data = place[lanes], data[lanes]
        alignment = int(np.bitwise_or.reduce(place, axis=None))
        if size == 16 and not alignment & 15:
            self.quads[place >> 4] = data
        elif size == 8 and not alignment & 7:
            self.pairs[place >> 3] = data
        elif size >= 4 and not alignment & 3:
            for k in range(size // 4):
                self.words[(place >> 2) + k] = data[..., k]
        elif size == 2 and not alignment & 1:
            self.halves[place >> 1] = data[..., 0].astype(np.uint16)
        else:
            for byte in range(size):
                self.bytes[place + byte] = (data[..., byte // 4] >> _U32(8 * (byte % 4))).astype(np.uint8)

    def arriving(self, ins: Instruction, g: Group, offsets: Array, values: Array) -> Any:
        """Data of a load to LDS: (byte positions, dwords [waves, 64, k], lanes), stored when the wave has waited."""
        size = 4 * len(values)
        place = self.locate(ins, g, offsets, size)
        lanes = np.ones((g.n, WAVE), bool) if g.lanes is None else g.lanes
        self.races.touch(ins, g, place, size, g.lanes, write=True)
        return place, np.moveaxis(values, 0, -1), lanes

    def deliver(self, entry: Any) -> None:
        """Loads to LDS arrive."""
        place, data, lanes = entry
        self.store(place, data, 4 * data.shape[-1], None if lanes.all() else lanes)
