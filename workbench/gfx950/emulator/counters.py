"""What happened, counted: instructions by place, LDS cycles, cache lines, and an optional trace of memory requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.gfx950.costs import costs_of
from workbench.gfx950.emulator.program import Instruction, Program
from workbench.gfx950.emulator.state import Array
from workbench.gfx950.isa import LDS_FAMILIES

LINE_BYTES = 128
_LINE_SHIFT = np.uint64(7)
_INACTIVE = np.int64(-(1 << 40))
_MIX = np.random.default_rng(1).integers(-(2**62), 2**62, 128) | 1
"""Weights of a 64-bit hash of a wave's pattern of cache lines: equal patterns need counting once."""

_SQ_NAMES: dict[str, tuple[str, ...]] = {
    "SQ_INSTS_VALU": ("mfma", "valu", "trans", "packed", "acc move", "cross-lane"),
    "SQ_INSTS_MFMA": ("mfma",),
    "SQ_INSTS_SALU": ("salu",),
    "SQ_INSTS_SMEM": ("smem",),
    "SQ_INSTS_LDS": LDS_FAMILIES,
    "SQ_INSTS_VMEM_RD": ("vmem load", "vmem to lds", "scratch load"),
    "SQ_INSTS_VMEM_WR": ("vmem store", "vmem atomic", "scratch store"),
    "SQ_INSTS_BRANCH": ("branch",),
}
"""Counter -> families of workbench.gfx950.isa."""
_MOPS = {"F16": ("f16",), "BF16": ("bf16", "bf16_1k"), "F32": ("f32",),
         "F8": ("fp8_fp8", "bf8_bf8", "fp8_bf8", "bf8_fp8"),
         "F6F4": ("f8f6f4",)}  # fmt: skip


@dataclass(frozen=True)
class MemoryTrace:
    """L2 requests in emulated order, one a cache line and wave: columns of equal length.

    The order is that of the emulator's lock step, not a device's; a cache model may interleave waves as it likes.
    """

    step: Array
    """Number of the request's instruction in the order of execution."""
    wave: Array
    """Wave over the whole launch; divide by the waves of a workgroup for the workgroup."""
    line: Array
    """Address of the cache line."""
    write: Array


Request = tuple[Array, Array, Array, Array]


class Counters:
    """Totals of one launch."""

    def __init__(self, program: Program, waves_per_workgroup: int, trace: bool) -> None:
        count = len(program.instructions)
        self.program = program
        self.waves_per_workgroup = waves_per_workgroup
        self.executed = [0] * count
        self.conflict_cycles = [0] * count
        self.lds_cycles = [0] * count
        self.lines = [0] * count
        self.waves = 0
        self.workgroups = 0
        self._known: dict[int, int] = {}
        self._trace: list[Request] | None = [] if trace else None
        self._requests = 0

    @property
    def wave_instructions(self) -> int:
        """Instructions executed, summed over waves."""
        return sum(self.executed)

    def request(
        self, ins: Instruction, where: Array, size: int, lanes: Array | None, *, write: bool, waves: Array
    ) -> None:
        """Count the cache lines of a vector memory access; where [waves, 64] byte addresses."""
        first = where >> _LINE_SHIFT
        crosses = size & (size - 1) or int(np.bitwise_or.reduce(where, axis=None)) & (size - 1)
        last = (where + np.uint64(size - 1)) >> _LINE_SHIFT if crosses else first
        if self._trace is not None:
            self._trace.append(self._record(first, last, lanes, write, waves))
        shape = (first - first[:, :1]).view(np.int64)
        if lanes is not None:
            shape = np.where(lanes, shape, _INACTIVE)
        if crosses:
            ends = (last - first[:, :1]).view(np.int64)
            shape = np.concatenate((shape, ends if lanes is None else np.where(lanes, ends, _INACTIVE)), axis=1)
        keys = (shape * _MIX[: shape.shape[1]]).sum(axis=1).tolist()
        lines = 0
        for row, key in enumerate(keys):
            if key not in self._known:
                self._known[key] = len(np.unique(shape[row][shape[row] != _INACTIVE]))
            lines += self._known[key]
        self.lines[ins.index] += lines

    def _record(self, first: Array, last: Array, lanes: Array | None, write: bool, waves: Array) -> Request:
        self._requests += 1
        wave = np.broadcast_to(waves[:, None], first.shape)
        pick = slice(None) if lanes is None else lanes
        pairs = np.stack((wave[pick].ravel().astype(np.uint64), first[pick].ravel()), axis=1)
        more = np.stack((wave[pick].ravel().astype(np.uint64), last[pick].ravel()), axis=1)
        unique = np.unique(np.concatenate((pairs, more)), axis=0)
        n = len(unique)
        step, lines = np.full(n, self._requests), unique[:, 1] << _LINE_SHIFT
        return step, unique[:, 0].astype(np.int64), lines, np.full(n, write)

    def trace(self) -> MemoryTrace | None:
        """The recorded requests; None if none were asked for."""
        if self._trace is None:
            return None
        if not self._trace:
            return MemoryTrace(*(np.zeros(0, dtype) for dtype in (np.int64, np.int64, np.uint64, bool)))
        return MemoryTrace(*(np.concatenate(column) for column in zip(*self._trace, strict=True)))

    def by_family(self) -> dict[str, int]:
        """Wave-instructions by the families of workbench.gfx950.isa."""
        totals: dict[str, int] = {}
        for instruction, count in zip(self.program.instructions, self.executed, strict=True):
            totals[instruction.kind.family] = totals.get(instruction.kind.family, 0) + count
        return totals

    def rocprof(self) -> dict[str, int]:
        """Totals under rocprof's counter names, summed over the device. Evidence kind: emulated.

        SQ_VALU_MFMA_BUSY_CYCLES is the issue time of workbench.gfx950.costs; TCP_TOTAL_CACHE_ACCESSES_sum counts
        128-byte lines that vector memory instructions touch, each once an instruction.
        """
        families = self.by_family()
        values = {"SQ_WAVES": self.waves}
        values |= {name: sum(families.get(f, 0) for f in parts) for name, parts in _SQ_NAMES.items()}
        values["SQ_INSTS"] = self.wave_instructions
        values["SQ_VALU_MFMA_BUSY_CYCLES"] = self._matrix_cycles()
        values |= {f"SQ_INSTS_VALU_MFMA_MOPS_{name}": self._matrix_ops(kinds) for name, kinds in _MOPS.items()}
        conflicts = sum(self.conflict_cycles)
        values["SQ_LDS_BANK_CONFLICT"] = conflicts
        values["SQ_LDS_IDX_ACTIVE"] = sum(self.lds_cycles) + conflicts
        values["TCP_TOTAL_CACHE_ACCESSES_sum"] = sum(self.lines)
        return values

    def _matrix_cycles(self) -> int:
        table = costs_of("gfx950")
        total = 0
        for instruction, count in zip(self.program.instructions, self.executed, strict=True):
            if instruction.kind.family == "mfma" and count:
                cost = table.cost(instruction.kind)
                total += count * (cost.cycles if cost else 0)
        return total

    def _matrix_ops(self, kinds: tuple[str, ...]) -> int:
        """Matrix operations in units of 512 floating-point operations."""
        total = 0
        for instruction, count in zip(self.program.instructions, self.executed, strict=True):
            shape, _, operands = instruction.kind.detail.partition(" ")
            if instruction.kind.family == "mfma" and operands in kinds:
                m, n, k = (int(extent) for extent in shape.split("x"))
                total += count * 2 * m * n * k // 512
        return total

    def by_line(self) -> dict[int, dict[str, Any]]:
        """Per assembly line: executions, bank-conflict cycles, cache lines."""
        rows = zip(self.program.instructions, self.executed, self.conflict_cycles, self.lines, strict=True)
        return {
            ins.line: {"text": ins.text, "executed": executed, "conflict_cycles": conflicts, "cache_lines": lines}
            for ins, executed, conflicts, lines in rows
        }
