"""A debugger's view of one or a few workgroups: step, break at a line, look at registers across lanes and at LDS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.errors import EmulationError
from workbench.gfx950.emulator.api import FloatMode
from workbench.gfx950.emulator.findings import Finding
from workbench.gfx950.emulator.images import kernel_image
from workbench.gfx950.emulator.launch import prepare
from workbench.gfx950.emulator.machine import Machine
from workbench.gfx950.emulator.operands import parse_operand
from workbench.gfx950.emulator.program import Instruction
from workbench.gfx950.emulator.schedule import advance, merge
from workbench.gfx950.emulator.state import Array, Group
from workbench.gfx950.emulator.undefined import register_names

_DTYPES = {"u32": np.uint32, "i32": np.int32, "f32": np.float32, "f16": np.float16, "bf16": np.uint16}
_MARGIN = 3


def accumulator_matrix(registers: Array, extent: int) -> Array:
    """The [extent, extent] matrix that an MFMA's accumulator registers [registers, 64 lanes] hold."""
    blocks = registers.reshape(-1, 4, 64 // extent, extent)
    return blocks.transpose(0, 2, 1, 3).reshape(extent, extent)


@dataclass(frozen=True)
class InFlight:
    """A memory operation whose result a wave cannot see yet."""

    counter: str
    """The wait that makes it visible: vmcnt or lgkmcnt."""
    instruction: Instruction
    destination: str
    """Registers, `LDS`, or '' for a store."""


class Debugger:
    """Runs the workgroups `first` .. `first + count - 1` of a launch, one instruction at a time.

    The wave at the lowest program counter goes next, so all waves of a workgroup keep together as far as branches and
    barriers allow. Stores go to the tensors in `args` as in `emulate`.
    """

    def __init__(
        self,
        kernel: Any,
        grid: Sequence[int],
        args: Sequence[Any] | Mapping[str, Any],
        *,
        first: int = 0,
        count: int = 1,
    ) -> None:
        image = kernel_image(kernel)
        self.program = image.decoded()
        launch = prepare(image, self.program, grid, args, None)
        if not 0 <= first < first + count <= launch.num_workgroups:
            raise EmulationError(f"workgroups {first}..{first + count - 1} are not in the grid {launch.grid}")
        self.machine = Machine(launch, count)
        self.machine.load_batch(first, count)

    @property
    def finished(self) -> bool:
        """Whether every wave has ended."""
        return not self.machine.ready

    @property
    def line(self) -> int | None:
        """Assembly line of the next instruction; None at the end."""
        return None if self.finished else self.program.instructions[self._next().pc].line

    @property
    def source(self) -> str:
        """Source place of the next instruction, `kernel.py:31`, or ''."""
        return "" if self.finished else self.program.instructions[self._next().pc].source

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Hazards met so far."""
        return self.machine.findings.sorted()

    def in_flight(self, wave: int = 0) -> tuple[InFlight, ...]:
        """What a wave has issued and not waited for, vector memory first, each queue oldest first."""
        groups = [*self.machine.ready, *self.machine.parked]
        group = next((group for group in groups if wave in group.slots), None)
        queues = (("vmcnt", group.vm), ("lgkmcnt", group.lgkm)) if group else ()
        return tuple(
            InFlight(
                counter,
                self.program.instructions[entry.pc],
                "LDS" if entry.lds is not None else register_names(entry.bits),
            )
            for counter, queue in queues
            for entry in queue
        )

    def _next(self) -> Group:
        merge(self.machine)
        return self.machine.ready[0]

    def step(self, count: int = 1) -> int | None:
        """Execute up to `count` instructions; returns the line that comes next."""
        with FloatMode(self.machine):
            for _ in range(count):
                if self.finished:
                    break
                advance(self.machine, self._next(), len(self.machine.code), 1)
        return self.line

    def run_to(self, line: int, limit: int = 1_000_000) -> int | None:
        """Run until the next instruction is the first one at or after an assembly line; None if the end comes first."""
        target = self.program.at_line(line)
        return self._run_until(lambda pc: pc == target, limit)

    def run_to_source(self, place: str, limit: int = 1_000_000) -> int | None:
        """Run until the next instruction belongs to a source place such as `unified_2d.py:42`."""
        instructions = self.program.instructions
        if not any(instruction.source == place for instruction in instructions):
            known = sorted({instruction.source for instruction in instructions if instruction.source})
            raise EmulationError(f"no instruction comes from {place}; known places: {', '.join(known[:12])}, ...")
        return self._run_until(lambda pc: instructions[pc].source == place, limit)

    def _run_until(self, reached: Any, limit: int) -> int | None:
        self.step()
        for _ in range(limit):
            if self.finished or reached(self._next().pc):
                return self.line
            self.step()
        raise EmulationError(f"the breakpoint was not reached within {limit} instructions")

    def register(self, name: str, dtype: str = "u32", wave: int = 0) -> Array:
        """A register of one wave: `v3`, `v[0:3]`, `a0`, `s[4:5]`, `vcc`, ... as [registers, lanes].

        dtype: u32, i32, f32, or f16 / bf16 for both halves of each lane, [registers, lanes, 2] (bf16 as float32).
        """
        operand = parse_operand(name)
        if operand.kind not in ("v", "a", "s"):
            raise EmulationError(f"{name} is not a register")
        if dtype not in _DTYPES:
            raise EmulationError(f"dtype must be one of {', '.join(_DTYPES)}, got {dtype!r}")
        state = self.machine.state
        base = operand.index + (state.num_arch if operand.kind == "a" else 0)
        file = state.scalar if operand.kind == "s" else state.vector
        if base + operand.count > len(file):
            raise EmulationError(f"the kernel has no register {name}")
        values = file[base : base + operand.count, wave].copy()
        if dtype == "bf16":
            halves = values.view(np.uint16).reshape(*values.shape, 2).astype(np.uint32)
            return (halves << np.uint32(16)).view(np.float32)
        if dtype == "f16":
            return values.view(np.float16).reshape(*values.shape, 2)
        return values.view(_DTYPES[dtype])

    def accumulator_tile(self, name: str, extent: int = 32, wave: int = 0) -> Array:
        """Accumulator registers of one MFMA as the matrix they hold, [extent, extent] float32."""
        registers = self.register(name, "f32", wave)
        if registers.shape[0] != extent * extent // 64:
            raise EmulationError(f"a {extent} x {extent} accumulator is {extent * extent // 64} registers, got {name}")
        return accumulator_matrix(registers, extent)

    def lds(self, offset: int, count: int, dtype: str = "u32", workgroup: int = 0) -> Array:
        """`count` 32-bit words of LDS from a byte offset; f16 and bf16 as for `register`."""
        storage = self.machine.lds
        first = workgroup * storage.words_each + offset // 4
        if offset % 4 or not 0 <= offset <= offset + 4 * count <= storage.size:
            raise EmulationError(
                f"LDS bytes {offset}..{offset + 4 * count} are not whole words of {storage.size} bytes"
            )
        words = storage.words[first : first + count].copy()
        if dtype == "bf16":
            return (words.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
        return words.view(_DTYPES[dtype])

    def listing(self, margin: int = _MARGIN) -> str:
        """The instructions around the next one, which an arrow marks."""
        if self.finished:
            return "all waves have ended"
        pc = self._next().pc
        rows = self.program.instructions[max(pc - margin, 0) : pc + margin + 1]
        return "\n".join(f"{'->' if row.index == pc else '  '} {row.line:6d}  {row.text}" for row in rows)
