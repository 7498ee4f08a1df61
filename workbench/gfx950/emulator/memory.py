"""Global memory: registered allocations at virtual addresses, backed by the tensors' own bytes."""

from __future__ import annotations

import bisect
import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.errors import EmulationError
from workbench.gfx950.emulator.state import Array

FIRST_ADDRESS = 0x7F00_0000_0000
GUARD = 1 << 33
"""Distance kept between allocations, so that a 32-bit slip never lands in a neighbour."""
ALIGNMENT = 1 << 21


@dataclass
class Allocation:
    """`size` bytes at virtual address `base`. `keep` holds the owner of the bytes alive."""

    name: str
    base: int
    size: int
    data: Array
    writable: bool = True
    keep: Any = None
    views: dict[int, Array] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.base + self.size

    def units(self, width: int) -> Array:
        """The bytes as unsigned integers of `width` bytes; a rest at the end is left out."""
        if width not in self.views:
            whole = self.size // width * width
            self.views[width] = self.data[:whole].view(f"u{width}")
        return self.views[width]


class AccessError(EmulationError):
    """An access outside every registered allocation, by this wave of the group and this lane."""

    wave = 0
    lane = 0


class GlobalMemory:
    """The address space of one launch."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self._bases: list[int] = []
        self._next = FIRST_ADDRESS
        self._by_storage: dict[int, Allocation] = {}
        self.written: set[str] = set()

    def add(self, name: str, data: Array, *, writable: bool = True, keep: Any = None) -> Allocation:
        """Register a flat uint8 array."""
        allocation = Allocation(name, self._next, data.nbytes, data, writable, keep)
        self.allocations.append(allocation)
        self._bases.append(allocation.base)
        span = -(-data.nbytes // ALIGNMENT) * ALIGNMENT
        self._next += span + GUARD
        return allocation

    def add_tensor(self, name: str, tensor: Any, *, writable: bool) -> int:
        """Register a CPU tensor's storage (once) and return the address of its first element."""
        storage = tensor.untyped_storage()
        pointer, size = storage.data_ptr(), storage.nbytes()
        if pointer not in self._by_storage or size == 0:
            buffer: Any = (ctypes.c_uint8 * size).from_address(pointer) if size else (ctypes.c_uint8 * 0)()
            data = np.frombuffer(buffer, np.uint8) if size else np.zeros(0, np.uint8)
            self._by_storage[pointer] = self.add(name, data, writable=writable, keep=tensor)
        allocation = self._by_storage[pointer]
        allocation.writable |= writable
        return allocation.base + tensor.storage_offset() * tensor.element_size()

    def find(self, address: int) -> Allocation | None:
        """The allocation that holds the byte at `address`."""
        place = bisect.bisect_right(self._bases, address) - 1
        if place < 0 or address >= self.allocations[place].end:
            return None
        return self.allocations[place]

    def nearest(self, address: int) -> str:
        """What lies next to a stray address, in words."""
        if not self.allocations:
            return "no allocation is registered"
        closest = min(self.allocations, key=lambda a: max(a.base - address, address - a.end + 1, 0))
        if address < closest.base:
            return f"{closest.base - address} bytes before {closest.name} ({closest.size} bytes)"
        return f"{address - closest.end} bytes past the end of {closest.name} ({closest.size} bytes)"

    def _single(self, addresses: Array, size: int) -> Allocation | None:
        """The allocation that holds all accesses; None if there is no such one."""
        allocation = self.find(int(addresses.min()))
        return allocation if allocation is not None and int(addresses.max()) + size <= allocation.end else None

    def _parts(self, addresses: Array, size: int, mask: Array | None) -> list[tuple[Allocation, Array]]:
        """Allocations touched, each with its lanes. AccessError for a lane outside all of them."""
        owner = np.searchsorted(np.array(self._bases, np.uint64), addresses, "right") - 1
        ends = np.array([a.end for a in self.allocations], np.uint64)
        active = np.ones(addresses.shape, bool) if mask is None else mask
        wrong = ~((owner >= 0) & (addresses + np.uint64(size) <= ends[owner])) & active
        if wrong.any():
            wave, lane = (int(i) for i in np.argwhere(wrong)[0])
            address = int(addresses[wave, lane])
            error = AccessError(f"address {address:#x} is in no tensor: {self.nearest(address)}")
            error.wave, error.lane = wave, lane
            raise error
        return [(self.allocations[index], active & (owner == index)) for index in np.unique(owner[active])]

    def read(self, addresses: Array, size: int, mask: Array | None) -> Array:
        """`size` bytes at each uint64 address [waves, lanes], as uint32 [dwords, waves, lanes].

        1 and 2 bytes are zero-extended. Lanes outside the mask give 0. AccessError outside the allocations.
        """
        if mask is not None:
            if not mask.any():
                return np.zeros((max(1, size // 4), *addresses.shape), np.uint32)
            # Idle lanes follow an active one, so that they need no special case.
            addresses = np.where(mask, addresses, addresses[np.unravel_index(mask.argmax(), mask.shape)])
        allocation = self._single(addresses, size)
        if allocation is not None:
            out = _gather(allocation, (addresses - np.uint64(allocation.base)).view(np.int64), size)
        else:
            out = np.zeros((max(1, size // 4), *addresses.shape), np.uint32)
            for allocation, lanes in self._parts(addresses, size, mask):
                offsets = (addresses[lanes] - np.uint64(allocation.base)).view(np.int64)
                out[:, lanes] = _gather(allocation, offsets, size)
        return out if mask is None else out * mask

    def write(self, addresses: Array, values: list[Array], size: int, mask: Array | None) -> list[Allocation]:
        """Store `size` bytes a lane, dword by dword from `values`; returns the allocations written."""
        if mask is not None:
            addresses = addresses[mask][None]
            values = [np.broadcast_to(value, mask.shape)[mask][None] for value in values]
            if addresses.size == 0:
                return []
        else:
            values = [np.broadcast_to(value, addresses.shape) for value in values]
        whole = self._single(addresses, size)
        if whole is not None:
            _scatter(whole, (addresses - np.uint64(whole.base)).view(np.int64), values, size)
            self.written.add(whole.name)
            return [whole]
        parts = self._parts(addresses, size, None)
        for allocation, lanes in parts:
            offsets = (addresses[lanes] - np.uint64(allocation.base)).view(np.int64)
            _scatter(allocation, offsets, [value[lanes] for value in values], size)
            self.written.add(allocation.name)
        return [allocation for allocation, _ in parts]


def _gather(allocation: Allocation, offsets: Array, size: int) -> Array:
    alignment = int(np.bitwise_or.reduce(offsets, axis=None))
    if size in (1, 2):
        if not alignment & (size - 1):
            return allocation.units(size).take(offsets >> (size - 1)).astype(np.uint32)[None]
        low, high = (allocation.data.take(offsets + i).astype(np.uint32) for i in range(2))
        return (low | high << np.uint32(8))[None]
    count = size // 4
    if alignment & 3:
        return np.stack([_gather_bytes(allocation, offsets + 4 * k) for k in range(count)])
    words = allocation.units(4)
    if count in (2, 4) and not alignment & (size - 1) and not allocation.size % size:
        return np.moveaxis(words.reshape(-1, count).take(offsets // size, axis=0), -1, 0)
    place = offsets >> 2
    return np.stack([words.take(place + k) for k in range(count)])


def _gather_bytes(allocation: Allocation, offsets: Array) -> Array:
    word = np.zeros(offsets.shape, np.uint32)
    for byte in range(4):
        word |= allocation.data.take(offsets + byte).astype(np.uint32) << np.uint32(8 * byte)
    return word


def _scatter(allocation: Allocation, offsets: Array, values: list[Array], size: int) -> None:
    alignment = int(np.bitwise_or.reduce(offsets, axis=None))
    if size in (1, 2) and not alignment & (size - 1):
        allocation.units(size)[offsets >> (size - 1)] = values[0].astype(f"u{size}")
    elif size >= 4 and not alignment & 3:
        words, place = allocation.units(4), offsets >> 2
        for k, value in enumerate(values):
            words[place + k] = value
    else:
        for byte in range(size):
            shift = np.uint32(8 * (byte % 4))
            allocation.data[offsets + byte] = (values[byte // 4] >> shift).astype(np.uint8)
