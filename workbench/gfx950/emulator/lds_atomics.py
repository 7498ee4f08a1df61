"""Atomic operations on the local data share."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.gfx950.emulator.atomics import ATOMICS, Atomic, number
from workbench.gfx950.emulator.builder import Builder, Run
from workbench.gfx950.emulator.registry import op
from workbench.gfx950.emulator.state import WAVE, Array, Group, Pending

_FLOAT_CHOICES = {
    f"{name}_{kind}": Atomic(dtype, function)
    for name, function in (("max", np.fmax), ("min", np.fmin))
    for kind, dtype in (("f32", "f4"), ("f64", "f8"))
}
_ALIKE = {"u32": "", "u64": "_x2", "b32": "", "b64": "_x2"}


def _integers() -> dict[str, Atomic]:
    table = {f"{name}_{kind}": ATOMICS[f"{name}{_ALIKE[kind]}"] for name in ("add", "sub", "inc", "dec")
             for kind in ("u32", "u64")}  # fmt: skip
    for name in ("and", "or", "xor"):
        table |= {f"{name}_{kind}": ATOMICS[f"{name}{_ALIKE[kind]}"] for kind in ("b32", "b64")}
    for name in ("min", "max"):
        for width, suffix in (("32", ""), ("64", "_x2")):
            table |= {f"{name}_u{width}": ATOMICS[f"u{name}{suffix}"], f"{name}_i{width}": ATOMICS[f"s{name}{suffix}"]}
    for width, suffix in (("32", ""), ("64", "_x2")):
        table |= {f"wrxchg_b{width}": ATOMICS[f"swap{suffix}"], f"cmpst_b{width}": ATOMICS[f"cmpswap{suffix}"]}
    return table


OPERATIONS: dict[str, Atomic] = _integers() | _FLOAT_CHOICES | {
    name: ATOMICS[name] for name in ("add_f32", "add_f64", "pk_add_f16", "pk_add_bf16")
}  # fmt: skip
"""Name without `ds_` and `_rtn`: what it does to a cell."""
_FAST: dict[str, np.ufunc] = {
    "add_u32": np.add, "sub_u32": np.subtract, "add_f32": np.add, "max_f32": np.fmax, "min_f32": np.fmin,
    "max_u32": np.maximum, "min_u32": np.minimum, "max_i32": np.maximum, "min_i32": np.minimum,
    "and_b32": np.bitwise_and, "or_b32": np.bitwise_or, "xor_b32": np.bitwise_xor,
}  # fmt: skip
"""numpy's own loop over the lanes, where no old value is wanted."""


def _opcodes() -> list[str]:
    returning = [f"ds_{kind}_rtn_{dtype}" for kind, dtype in (name.rsplit("_", 1) for name in OPERATIONS)]
    return [f"ds_{name}" for name in OPERATIONS if not name.startswith("wrxchg")] + returning


@op(*_opcodes())
def _lds_atomic(b: Builder) -> Run:
    """Read-modify-write, lane after lane. Compare and swap takes the expected value before the new one."""
    opcode = b.ins.opcode.removeprefix("ds_")
    name, returns = opcode.replace("_rtn", ""), "_rtn_" in opcode
    atomic = OPERATIONS[name]
    words = atomic.size // 4
    first = 1 if returns else 0
    row = bits = 0
    if returns:
        target = b.operand(0)
        for k in range(words):
            b.vdst(0, k)
        row, bits = b.row(target), sum(b.bit(target, k) for k in range(words))
    offsets = b.lds_offsets(first, b.modifier("offset"))
    operands = [[b.u32(first + 1 + i, k) for k in range(words)] for i in range(2 if atomic.compares else 1)]
    machine, ins, lds = b.machine, b.ins, b.machine.lds
    cells = lds.words.view(f"u{atomic.size}")
    fast = None if returns else _FAST.get(name)
    typed = lds.words.view(atomic.dtype)
    unsigned = cells.dtype

    def run(g: Group) -> None:
        place = lds.locate(ins, g, offsets(g), atomic.size)
        machine.count_lds(ins, g, place, atomic.size, write=True)
        lds.load(ins, g, place, atomic.size, bits)
        index = place // atomic.size
        active = np.ones((g.n, WAVE), bool) if g.lanes is None else g.lanes
        values = [[np.broadcast_to(word(g), (g.n, WAVE)) for word in operand] for operand in operands]
        if fast is not None:
            fast.at(typed, index[active], np.ascontiguousarray(values[0][0][active]).view(atomic.dtype))
            g.lgkm.append(Pending(ins.index, False, row, None, g.lanes, bits))
            return
        old = np.zeros((words, g.n, WAVE), np.uint32)
        for wave, lane in np.argwhere(active):
            at = index[wave, lane]
            before = cells[at]
            old[:, wave, lane] = _words(before)
            given = [number([word[wave, lane] for word in operand], unsigned) for operand in values]
            cells[at] = atomic.apply(before, given[-1], given[0])
        g.lgkm.append(Pending(ins.index, False, row, old if returns else None, g.lanes, bits))
        g.pending |= bits

    return run


def _words(cell: Any) -> Array:
    return np.array([cell]).view(np.uint32)
