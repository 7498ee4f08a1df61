"""Vector compares: one bit a lane, to VCC or a scalar pair, and for v_cmpx to EXEC as well."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.gfx950.emulator.builder import Builder, Run, Writer
from workbench.gfx950.emulator.operands import EXEC
from workbench.gfx950.emulator.registry import op
from workbench.gfx950.emulator.state import WAVE, Group, pack_lanes


def _not(function: Any) -> Any:
    return lambda x, y: ~function(x, y)


def _unordered(x: Any, y: Any) -> Any:
    return np.isnan(x) | np.isnan(y)


def _constant(value: bool) -> Any:
    return lambda x, y: np.full(np.broadcast_shapes(np.shape(x), np.shape(y)), value)


_ORDERED = {
    "f": _constant(False), "lt": np.less, "eq": np.equal, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip
_INTEGER = _ORDERED | {"ne": np.not_equal, "t": _constant(True)}
_FLOAT = _ORDERED | {
    "lg": lambda x, y: (x < y) | (x > y),
    "o": _not(_unordered),
    "u": _unordered,
    "nge": _not(np.greater_equal),
    "nlg": lambda x, y: (x == y) | _unordered(x, y),
    "ngt": _not(np.greater),
    "nle": _not(np.less_equal),
    "neq": np.not_equal,
    "nlt": _not(np.less),
    "tru": _constant(True),
}
_TYPES = {"f32": _FLOAT, "f64": _FLOAT, "f16": _FLOAT, "i32": _INTEGER, "u32": _INTEGER, "i64": _INTEGER,
          "u64": _INTEGER,
          "i16": _INTEGER, "u16": _INTEGER}  # fmt: skip
_NAMES = [f"v_{kind}_{name}_{dtype}" for kind in ("cmp", "cmpx") for dtype, table in _TYPES.items() for name in table]


def _reader(b: Builder, dtype: str, position: int) -> Any:
    if dtype == "f16":
        return b.f16(position)
    if dtype in ("i16", "u16"):
        raw, narrow = b.u32(position), np.int16 if dtype == "i16" else np.uint16
        return lambda g: raw(g).astype(narrow)
    if dtype == "i64":
        wide = b.u64(position)
        return lambda g: wide(g).view(np.int64)
    return getattr(b, dtype)(position)


@op(*_NAMES)
def _compare(b: Builder) -> Run:
    _, _, name, dtype = b.ins.opcode.split("_")
    function = _TYPES[dtype][name]
    first = 1 if b.has(2) else 0
    x, y = _reader(b, dtype, first), _reader(b, dtype, first + 1)
    write = compare_writer(b, 0 if first else None)
    return lambda g: write(g, function(x(g), y(g)))


def compare_writer(b: Builder, position: int | None) -> Writer:
    """Writer of a lane mask to the scalar pair at `position` (VCC when None), and for v_cmpx to EXEC as well."""
    out = b.mask_dst(position)
    if not b.ins.opcode.startswith("v_cmpx"):
        return out
    low, high = b.scalar_writer(EXEC), b.scalar_writer(EXEC + 1)

    def write(g: Group, mask: Any) -> None:
        mask = np.broadcast_to(mask, (g.n, WAVE))
        out(g, mask)
        words = pack_lanes(mask if g.lanes is None else mask & g.lanes)
        low(g, words[:, :1])
        high(g, words[:, 1:])

    return write
