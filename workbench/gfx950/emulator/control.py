"""Scalar memory loads, and the instructions that steer a wave: branches, waits, barriers, the end."""

from __future__ import annotations

import numpy as np

from workbench.gfx950.emulator.builder import Builder, Run
from workbench.gfx950.emulator.operands import EXEC, SCC, VCC
from workbench.gfx950.emulator.registry import op
from workbench.gfx950.emulator.state import SCALAR_BIT, Array, Group, Pending

_U32, _U64 = np.uint32, np.uint64
_SIZES = {"dword": 1, "dwordx2": 2, "dwordx4": 4, "dwordx8": 8, "dwordx16": 16}
RESCHEDULE = -1
"""What an executor returns: None to go on, an index to jump to, RESCHEDULE when the group parked, split or ended."""


@op(*(f"s_load_{name}" for name in _SIZES), *(f"s_buffer_load_{name}" for name in _SIZES))
def _scalar_load(b: Builder) -> Run:
    count = _SIZES[b.ins.opcode.rsplit("_", 1)[1]]
    target = b.operand(0)
    buffer = "buffer" in b.ins.opcode
    base = b.u64(1)
    records = b.u32(1, 2) if buffer else None
    offset = b.u32(2) if b.has(2) else None
    extra = _U64(b.modifier("offset", 0) if isinstance(b.modifier("offset", 0), int) else 0)
    machine, ins = b.machine, b.ins
    for k in range(count):
        b.scalar_writer(target.index + k)
    bits = sum(b.bit(target, k) for k in range(count))

    def run(g: Group) -> None:
        where = base(g) & _U64(0xFFFFFFFFFFFF)
        shift = extra if offset is None else offset(g).astype(_U64) + extra
        mask = None
        if records is not None:
            in_range = np.broadcast_to(shift + _U64(4 * count) <= records(g), where.shape)
            mask = None if in_range.all() else in_range
        values = machine.read_scalar(ins, g, np.broadcast_to(where + shift, (g.n, 1)), 4 * count, mask)
        machine.issue_local(g, Pending(ins.index, True, target.index, values, None, bits))

    return run


@op("s_branch")
def _branch(b: Builder) -> Run:
    target = b.machine.program.target_of(b.ins)
    return lambda g: target


def _condition(b: Builder) -> tuple[Array, Array | None, bool]:
    """(rows to test, second row, whether the branch is taken on zero)."""
    kind = b.ins.opcode.removeprefix("s_cbranch_")
    index = {"scc": SCC, "vcc": VCC, "exe": EXEC}[kind[:3]]
    b.reads |= 1 << (SCALAR_BIT + index)
    rows = b.state.s
    if index == SCC:
        return rows[SCC], None, kind.endswith("0")
    b.reads |= 1 << (SCALAR_BIT + index + 1)
    return rows[index], rows[index + 1], not kind.endswith("nz")


@op(*(f"s_cbranch_{kind}" for kind in ("scc0", "scc1", "vccz", "vccnz", "execz", "execnz")))
def _conditional_branch(b: Builder) -> Run:
    target, machine = b.machine.program.target_of(b.ins), b.machine
    low, high, on_zero = _condition(b)

    def run(g: Group) -> int | None:
        value = low[g.sel] if high is None else low[g.sel] | high[g.sel]
        taken = (value == 0) if on_zero else (value != 0)
        count = int(np.count_nonzero(taken))
        if count == 0:
            return None
        if count == g.n:
            return target
        machine.split(g, taken[:, 0], target)
        return RESCHEDULE

    return run


@op("s_waitcnt")
def _wait(b: Builder) -> Run:
    vector, scalar = b.modifier("vmcnt", None), b.modifier("lgkmcnt", None)
    machine = b.machine

    def run(g: Group) -> None:
        if vector is not None and len(g.vm) > vector:
            machine.deliver_vector(g, len(g.vm) - vector)
        if scalar is not None and len(g.lgkm) > scalar:
            machine.deliver_local(g, scalar)

    return run


@op("s_barrier")
def _barrier(b: Builder) -> Run:
    machine = b.machine
    return machine.arrive


@op("s_endpgm")
def _end(b: Builder) -> Run:
    machine = b.machine
    return machine.end


_NO_EFFECT = ("s_nop", "s_sleep", "s_setprio", "s_inst_prefetch", "s_sethalt", "s_ttracedata", "s_code_end", "v_nop",
              "s_incperflevel", "s_decperflevel", "s_set_gpr_idx_off", "ds_nop")  # fmt: skip


@op(*_NO_EFFECT)
def _nothing(b: Builder) -> Run:
    del b
    return lambda g: None
