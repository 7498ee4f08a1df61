"""LDS data races: two waves of a workgroup touch one word, one of them writes, and no barrier lies between.

Each wave has a read and a write mark for every word, one bit a byte, set by its accesses and cleared when its
workgroup passes a barrier. An access that the wave has not waited for at the barrier is not over, so its marks stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.gfx950.emulator.program import Instruction
from workbench.gfx950.emulator.state import Array, Group

SPARE_WORDS = 4
"""At the end of each workgroup's LDS: where inactive and out-of-range lanes go."""


Touched = tuple[Array, int, bool, "Array | None"]
"""(words, bytes a lane, whether it writes, byte within the word for narrow accesses)."""
LOG_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class _Access:
    """One LDS instruction of a group, kept to explain a race: place [waves, 64] bytes, negative for inactive lanes."""

    ins: Instruction
    slots: Array
    place: Array
    size: int
    write: bool
    epoch: Array
    """Barriers that each wave's workgroup had passed."""


class RaceTracker:
    """Marks of all resident waves. Off for workgroups of one wave, whose accesses are in order."""

    def __init__(self, workgroups: int, words_each: int, machine: Any) -> None:
        self.machine = machine
        self.words_each = words_each
        self.waves_each = machine.waves_per_workgroup
        self.enabled = self.waves_each > 1 and machine.check_races
        waves = workgroups * self.waves_each if self.enabled else 0
        self.read_marks = np.zeros((waves, words_each), np.uint8)
        self.write_marks = np.zeros((waves, words_each), np.uint8)
        self.owner = np.zeros(workgroups * words_each if self.enabled else 0, np.int32)
        self.log: list[_Access] = []
        self.epoch = np.zeros(workgroups, np.int64)
        """Barriers that each workgroup has passed."""

    def clear(self) -> None:
        self.read_marks.fill(0)
        self.write_marks.fill(0)
        self.log.clear()

    def touch(
        self, ins: Instruction, g: Group, place: Array, size: int, lanes: Array | None, write: bool
    ) -> Touched | None:
        """Mark an access; place [waves, 64] byte positions in the LDS array. Returns what a Pending keeps of it."""
        if not self.enabled:
            return None
        state = self.machine.state
        words = (place >> 2) + g.lds_base(state, self.words_each)[1]
        if lanes is not None:
            spare = (g.slots + 1) * self.words_each - SPARE_WORDS
            words = np.where(lanes, words, spare[:, None])
        byte = place & 3 if size < 4 else None
        self._mark(words, size, write, byte)
        kept = place if lanes is None else np.where(lanes, place, -size)
        self.log.append(_Access(ins, g.slots, kept, size, write, self.epoch[state.workgroup[g.sel]]))
        return words, size, write, byte

    def partial(self, g: Group) -> bool:
        """Whether waves of the group's workgroups are elsewhere, so that they may have stored the same before."""
        counts = np.bincount(self.machine.state.workgroup[g.sel])
        return bool((counts[counts > 0] < self.waves_each).any())

    def owns(self, g: Group, place: Array) -> Array:
        """Of the waves that access the same word in one instruction, one owns it: bool [waves, 64]."""
        wave = np.broadcast_to(g.slots[:, None].astype(np.int32), place.shape)
        words = place >> 2
        self.owner[words] = wave
        return self.owner.take(words) == wave

    def _mark(self, words: Any, size: int, write: bool, byte: Array | None = None) -> None:
        marks = (self.write_marks if write else self.read_marks).reshape(-1)
        if byte is not None:
            for first in range(0, 4, size):
                # Lanes that share a word set the same bits within one pass.
                here = words[byte == first]
                marks[here] |= np.uint8(((1 << size) - 1) << first)
            return
        count = max(1, size // 4)
        if count in (2, 4) and not (words & (count - 1)).any():
            unit: Any = np.uint16 if count == 2 else np.uint32
            marks.view(unit)[words >> (1 if count == 2 else 2)] = unit(0x0F0F if count == 2 else 0x0F0F0F0F)
            return
        for k in range(count):
            marks[words + k] = 0x0F

    def barrier(self, workgroups: Array, groups: list[Group]) -> None:
        """Check and clear the marks of workgroups that pass a barrier; `groups` are the waves released."""
        if not self.enabled:
            return
        state = self.machine.state
        self._check(workgroups)
        whole = len(workgroups) * self.waves_each == len(self.read_marks)
        for marks in (self.read_marks, self.write_marks):
            view = marks.reshape(-1, self.waves_each, self.words_each)
            if whole:
                view.fill(0)
            else:
                view[workgroups] = 0
        self.epoch[workgroups] += 1
        if whole:
            self.log.clear()
        elif len(self.log) > LOG_LIMIT:
            self.log = [entry for entry in self.log if (self.epoch[state.workgroup[entry.slots]] == entry.epoch).any()]
        for group in groups:
            self._mark_unfinished(group)

    def _mark_unfinished(self, group: Group) -> None:
        """Accesses that the waves have not waited for go on behind the barrier."""
        state = self.machine.state
        shift = group.lds_base(state, self.words_each)[1]
        epoch = self.epoch[state.workgroup[group.sel]]
        for entry in group.lgkm:
            if entry.touched is not None:
                words, size, write, byte = entry.touched
                self._mark(words, size, write, byte)
                position = (words - shift) * 4 + (0 if byte is None else byte)
                self._log(entry.pc, group, position, size, write, epoch)
        marks = self.write_marks.reshape(-1)
        for entry in group.vm:
            if entry.lds is not None:
                place, data, lanes = entry.lds
                for k in range(data.shape[-1]):
                    marks[((place >> 2) + shift + k)[lanes]] = 0x0F
                size = 4 * data.shape[-1]
                self._log(entry.pc, group, np.where(lanes, place, -size), size, True, epoch)

    def _log(self, pc: int, group: Group, place: Array, size: int, write: bool, epoch: Array) -> None:
        ins = self.machine.program.instructions[pc]
        self.log.append(_Access(ins, group.slots, place, size, write, epoch))

    def finish(self, workgroups: Array) -> None:
        """The last check, when workgroups end."""
        if self.enabled:
            self._check(workgroups)

    def _check(self, workgroups: Array) -> None:
        shape = (-1, self.waves_each, self.words_each)
        consecutive = len(workgroups) == workgroups[-1] - workgroups[0] + 1
        pick: Any = slice(workgroups[0], workgroups[-1] + 1) if consecutive else workgroups
        reads, writes = (
            marks.reshape(shape)[pick].view(np.uint32)[..., : -SPARE_WORDS // 4]
            for marks in (self.read_marks, self.write_marks)
        )
        seen = np.zeros_like(writes[:, 0])
        twice = np.zeros_like(seen)
        for wave in range(self.waves_each):
            twice |= seen & writes[:, wave]
            seen |= writes[:, wave]
        conflict = twice.copy()
        for wave in range(self.waves_each):
            conflict |= reads[:, wave] & (twice | (seen & ~writes[:, wave]))
        if conflict.any():
            group = int(np.argwhere(conflict.any(axis=1))[0, 0])
            word = int(np.argwhere(np.ascontiguousarray(conflict[group]).view(np.uint8))[0, 0])
            self._explain(int(workgroups[group]), word)

    def _explain(self, workgroup: int, word: int) -> None:
        """Name the two accesses: of two waves, at least one of them a write."""
        state = self.machine.state
        found: list[tuple[Instruction, int, bool]] = []
        for access in self.log:
            position = (workgroup * self.words_each + word) * 4
            hit = ((access.place <= position + 3) & (access.place + access.size > position)).any(axis=1)
            now = (state.workgroup[access.slots] == workgroup) & (access.epoch == self.epoch[workgroup])
            waves = state.wave_in_group[access.slots[hit & now]]
            found += [(access.ins, int(wave), access.write) for wave in waves]
        for i, (first, wave_a, write_a) in enumerate(found):
            for second, wave_b, write_b in found[i + 1 :]:
                if wave_a != wave_b and (write_a or write_b):
                    names = ["write" if write else "read" for write in (write_a, write_b)]
                    self.machine.report_race(
                        second, workgroup,
                        f"LDS byte {word * 4}: {names[1]} by wave {wave_b} races with the {names[0]} by wave {wave_a} "
                        f"at {first.where()}; no barrier lies between",
                    )  # fmt: skip
                    return
