"""Atomic operations on global memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.gfx950.emulator.program import Instruction
from workbench.gfx950.emulator.state import Array, Group


@dataclass(frozen=True)
class Atomic:
    """`combine(old, operand)` on numbers of `dtype`."""

    dtype: str
    combine: Callable[[Any, Any], Any]
    compares: bool = False

    @property
    def size(self) -> int:
        return max(4, np.dtype(self.dtype).itemsize)

    def apply(self, old: Any, operand: Any, expected: Any) -> Any:
        """The cell's new content; all are unsigned numbers of `size` bytes, `expected` that of a compare and swap."""
        if self.compares:
            return operand if old == expected else old
        with np.errstate(over="ignore"):
            combined = self.combine(old.view(self.dtype), operand.view(self.dtype))
        return np.asarray(combined).astype(self.dtype).view(old.dtype)


def _add_halves(old: Any, operand: Any) -> Any:
    """Two float16 sums in one word."""
    pair = np.array([old, operand], np.uint32).view(np.float16)
    return (pair[:2] + pair[2:]).astype(np.float16).view(np.uint32)[0]


def _add_bf16(old: Any, operand: Any) -> Any:
    from workbench.gfx950.emulator import fp

    words = np.array([old, operand], np.uint32)
    low, high = (half.view(np.float32) for half in (words << np.uint32(16), words & np.uint32(0xFFFF0000)))
    return (fp.f32_to_bf16(low[:1] + low[1:]) | fp.f32_to_bf16(high[:1] + high[1:]) << np.uint32(16))[0]


def _second(old: Any, operand: Any) -> Any:
    del old
    return operand


def _family(suffix: str, wide: str) -> dict[str, Atomic]:
    unsigned, signed = ("u8", "i8") if wide else ("u4", "i4")
    return {
        f"add{suffix}": Atomic(unsigned, lambda old, x: old + x),
        f"sub{suffix}": Atomic(unsigned, lambda old, x: old - x),
        f"and{suffix}": Atomic(unsigned, lambda old, x: old & x),
        f"or{suffix}": Atomic(unsigned, lambda old, x: old | x),
        f"xor{suffix}": Atomic(unsigned, lambda old, x: old ^ x),
        f"umin{suffix}": Atomic(unsigned, min),
        f"umax{suffix}": Atomic(unsigned, max),
        f"smin{suffix}": Atomic(signed, min),
        f"smax{suffix}": Atomic(signed, max),
        f"swap{suffix}": Atomic(unsigned, _second),
        f"cmpswap{suffix}": Atomic(unsigned, _second, compares=True),
        f"inc{suffix}": Atomic(unsigned, lambda old, x: old * 0 if old >= x else old + type(old)(1)),
        f"dec{suffix}": Atomic(unsigned, lambda old, x: x if old == 0 or old > x else old - type(old)(1)),
    }


ATOMICS: dict[str, Atomic] = {
    **_family("", ""),
    **_family("_x2", "wide"),
    "add_f32": Atomic("f4", lambda old, x: old + x),
    "add_f64": Atomic("f8", lambda old, x: old + x),
    "max_f64": Atomic("f8", np.fmax),
    "min_f64": Atomic("f8", np.fmin),
    "pk_add_f16": Atomic("u4", _add_halves),
    "pk_add_bf16": Atomic("u4", _add_bf16),
}


def apply_atomic(
    machine: Any, ins: Instruction, g: Group, where: Array, values: list[Array], atomic: Atomic, lanes: Array | None
) -> list[Array]:
    """Run the operation for every active lane in order, wave by wave; returns the old values as dwords."""
    words = atomic.size // 4
    old = [np.zeros(where.shape, np.uint32) for _ in range(words)]
    machine.count_request(ins, g, where, atomic.size, lanes, write=True)
    active = np.argwhere(np.ones(where.shape, bool) if lanes is None else lanes)
    unsigned = np.dtype(f"u{atomic.size}")
    for wave, lane in active:
        address = where[wave : wave + 1, lane : lane + 1]
        allocation = machine.allocation_of(ins, g, address, atomic.size, (int(wave), int(lane)))
        cell = allocation.units(atomic.size)
        place = (int(address[0, 0]) - allocation.base) // atomic.size
        operand = number([value[wave, lane] for value in values[:words]], unsigned)
        before = cell[place]
        expected = number([value[wave, lane] for value in values[words:]], unsigned) if atomic.compares else None
        cell[place] = atomic.apply(before, operand, expected)
        for k, word in enumerate(np.array([before]).view(np.uint32)):
            old[k][wave, lane] = word
    return old


def number(words: list[Any], unsigned: Any) -> Any:
    """Dwords, low first, as one number of an unsigned dtype."""
    return np.array(words, np.uint32).view(unsigned)[0]
