"""One launch being executed: resident workgroups, their memory, and the services that instructions call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import EmulationError
from workbench.gfx950.emulator import (
    control,
    convert,
    lds,
    lds_atomics,
    mfma,
    salu,
    salu_bits,
    vcompare,
    vdouble,
    vfloat,
    vinteger,
    vmem,
    vpacked,
)
from workbench.gfx950.emulator.banks import phases_of
from workbench.gfx950.emulator.builder import Builder, Run
from workbench.gfx950.emulator.control import RESCHEDULE
from workbench.gfx950.emulator.counters import Counters
from workbench.gfx950.emulator.findings import Findings
from workbench.gfx950.emulator.launch import Launch, initial_registers
from workbench.gfx950.emulator.lds_storage import LocalMemory
from workbench.gfx950.emulator.memory import AccessError, Allocation
from workbench.gfx950.emulator.mode import initial_mode
from workbench.gfx950.emulator.program import Instruction, Program
from workbench.gfx950.emulator.registry import build
from workbench.gfx950.emulator.state import WAVE, Array, Group, Pending, WaveState
from workbench.gfx950.emulator.undefined import LaneFiles, UndefinedValues, register_names

if TYPE_CHECKING:
    from collections.abc import Iterator

FAMILIES = (
    control,
    convert,
    lds,
    lds_atomics,
    mfma,
    salu,
    salu_bits,
    vcompare,
    vdouble,
    vfloat,
    vinteger,
    vmem,
    vpacked,
)
"""Importing them fills the opcode table."""

MAX_VMCNT = 63
MAX_LGKMCNT = 15
"""Largest values of the counters of outstanding operations (6 and 4 bits). At the limit a wave issues nothing more, and
compilers leave out the wait that this stall stands for."""
MAX_INSTRUCTIONS_PER_WAVE = 20_000_000
"""A wave that executes more is taken for one that never ends: over 10,000 key tiles of the largest kernel here."""


@dataclass(frozen=True, slots=True)
class Step:
    """A built instruction."""

    run: Run
    reads: int
    touches: int
    writes: int
    writes_exec: bool
    ins: Instruction


class Machine:
    """Executes the workgroups of a launch, a batch of them at a time."""

    def __init__(
        self,
        launch: Launch,
        batch: int,
        *,
        check_races: bool = True,
        trace: bool = False,
        max_instructions: int = MAX_INSTRUCTIONS_PER_WAVE,
    ) -> None:
        self.launch = launch
        self.program: Program = launch.program
        self.memory = launch.memory
        self.waves_per_workgroup = -(-self.program.workgroup_size // WAVE)
        self.batch = batch
        self.check_races = check_races
        self.max_instructions = max_instructions
        num_arch, num_acc = _register_counts(self.program)
        self.state = WaveState(batch * self.waves_per_workgroup, num_arch, num_acc)
        self.mode = initial_mode(self.program)
        self.flushing = False
        self.steps = 0
        self.findings = Findings()
        self.undefined = UndefinedValues()
        self.lane_files = LaneFiles(self.program)
        self.tainted: dict[int, Array] | None = None
        """The group's undefined registers after the running instruction, where it spreads them."""
        self.counters = Counters(self.program, self.waves_per_workgroup, trace)
        self.hardware_registers = _hardware_registers()
        self.scratch_size = self.program.descriptor.get("private_segment_fixed_size", 0)
        self.scratch = self._reserve_scratch()
        self.lds = LocalMemory(batch, launch.lds_bytes, self)
        self.live = np.zeros(batch, np.int64)
        self.waiting = np.zeros(batch, np.int64)
        self.first_workgroup = 0
        self.ready: list[Group] = []
        self.parked: list[Group] = []
        self.code = [self._step(instruction) for instruction in self.program.instructions]

    def _step(self, instruction: Instruction) -> Step:
        builder = Builder(instruction, self)
        run = build(builder)
        reads, writes = self.lane_files.masks(instruction, builder.reads, builder.writes)
        return Step(run, reads, reads | writes, writes, builder.writes_exec, instruction)

    # -- workgroups ------------------------------------------------------------------------------------------------

    def load_batch(self, first: int, count: int) -> None:
        """Make workgroups first .. first + count - 1 resident, at their first instruction."""
        self.first_workgroup = first
        self.state.reset()
        self.lds.reset()
        waves = count * self.waves_per_workgroup
        index = np.arange(self.state.waves)
        self.state.workgroup[:] = index // self.waves_per_workgroup
        self.state.wave_in_group[:] = index % self.waves_per_workgroup
        self.live[:] = 0
        self.live[:count] = self.waves_per_workgroup
        self.waiting[:] = 0
        defined = initial_registers(self.launch, self.state, first, count)
        undefined = self.lane_files.all_registers & ~defined
        group = Group(np.arange(waves), self.program.entry, undefined, self.mode)
        group.refresh_lanes(self.state)
        self.ready, self.parked = [group], []
        self.counters.waves += waves
        self.counters.workgroups += count

    def split(self, g: Group, taken: Array, target: int) -> None:
        """Divergence: the waves in `taken` continue at `target`, the others at the next instruction."""
        away, stay = g.subset(taken, self.state), g.subset(~taken, self.state)
        away.pc, stay.pc = target, g.pc + 1
        self.ready += [away, stay]
        self.ready.remove(g)

    def arrive(self, g: Group) -> int | None:
        """A group reaches s_barrier: it passes if its workgroups are complete, else its waves park."""
        workgroups = self.state.workgroup[g.sel]
        counts = np.bincount(workgroups, minlength=self.batch)
        if not self.parked and (counts[workgroups] == self.live[workgroups]).all():
            self.lds.races.barrier(np.flatnonzero(counts), [g])
            return None
        self.waiting += counts
        self.ready.remove(g)
        self.parked.append(g)
        self._release(counts > 0)
        return RESCHEDULE

    def _release(self, candidates: Array) -> None:
        """Let go the waves of those workgroups that are complete at a barrier."""
        complete = candidates & (self.waiting == self.live) & (self.live > 0)
        if not complete.any():
            return
        released, remaining = [], []
        for group in self.parked:
            leaves = complete[self.state.workgroup[group.sel]]
            if leaves.all():
                released.append(group)
            elif leaves.any():
                released.append(group.subset(leaves, self.state))
                remaining.append(group.subset(~leaves, self.state))
            else:
                remaining.append(group)
        self.parked = remaining
        self.waiting[complete] = 0
        self.lds.races.barrier(np.flatnonzero(complete), released)
        for group in released:
            group.pc += 1
        self.ready += released

    def end(self, g: Group) -> int:
        """Waves end; a barrier no longer waits for them."""
        counts = np.bincount(self.state.workgroup[g.sel], minlength=self.batch)
        self.live -= counts
        self.ready.remove(g)
        over = (counts > 0) & (self.live == 0)
        if over.any():
            self.lds.races.finish(np.flatnonzero(over))
        self._release(counts > 0)
        return RESCHEDULE

    # -- float mode --------------------------------------------------------------------------------------------------

    def flush_denormals(self, flush: bool) -> None:
        """Let the host's float unit treat float32 denormals as the wave's MODE says."""
        if flush != self.flushing:
            import torch

            torch.set_flush_denormal(flush)
            self.flushing = flush

    @contextmanager
    def kept_denormals(self) -> Iterator[None]:
        """Denormals are kept inside, whatever MODE says."""
        before = self.flushing
        self.flush_denormals(False)
        try:
            yield
        finally:
            self.flush_denormals(before)

    # -- late delivery ---------------------------------------------------------------------------------------------

    def issue_vector(self, g: Group, entry: Pending) -> None:
        """A vector memory operation starts; at the counter's limit only once the oldest one is over."""
        g.vm.append(entry)
        g.pending |= entry.bits
        if len(g.vm) > MAX_VMCNT:
            self.deliver_vector(g, len(g.vm) - MAX_VMCNT)

    def issue_local(self, g: Group, entry: Pending) -> None:
        """An LDS operation or a scalar load starts, within the limit of their common counter."""
        g.lgkm.append(entry)
        g.pending |= entry.bits
        if len(g.lgkm) > MAX_LGKMCNT:
            self.deliver_local(g, MAX_LGKMCNT)

    def deliver_vector(self, g: Group, count: int) -> None:
        """The `count` oldest vector memory operations become visible."""
        for entry in g.vm[:count]:
            self._deliver(g, entry)
        del g.vm[:count]
        g.refresh_pending()

    def deliver_local(self, g: Group, remaining: int) -> None:
        """What `lgkmcnt(remaining)` guarantees: LDS operations return in order, scalar loads in any order."""
        if remaining == 0:
            done = g.lgkm
        else:
            scalars = sum(entry.scalar for entry in g.lgkm)
            ordered = [entry for entry in g.lgkm if not entry.scalar]
            done = ordered[: max(len(g.lgkm) - remaining - scalars, 0)]
        for entry in done:
            self._deliver(g, entry)
        over = {id(entry) for entry in done}
        g.lgkm = [entry for entry in g.lgkm if id(entry) not in over]
        g.refresh_pending()

    def _deliver(self, g: Group, entry: Pending) -> None:
        if entry.lds is not None:
            self.lds.deliver(entry.lds)
        values = entry.values
        if values is None:
            return
        file = self.state.scalar if entry.scalar else self.state.vector
        rows = slice(entry.row, entry.row + len(values))
        if entry.half:
            old = file[rows, g.sel]
            low = entry.half == "lo"
            keep = np.uint32(0xFFFF0000 if low else 0xFFFF)
            values = (old & keep) | (values & np.uint32(0xFFFF) if low else values << np.uint32(16))
        if entry.mask is not None:
            values = np.where(entry.mask, values, file[rows, g.sel])
        file[rows, g.sel] = values

    # -- memory ----------------------------------------------------------------------------------------------------

    def read_global(self, ins: Instruction, g: Group, where: Array, size: int, lanes: Array | None) -> Array:
        """Vector load; the request is counted."""
        self.counters.request(ins, where, size, lanes, write=False, waves=self.global_waves(g))
        return self._guarded(ins, g, lambda: self.memory.read(where, size, lanes))

    def read_scalar(self, ins: Instruction, g: Group, where: Array, size: int, mask: Array | None) -> Array:
        return self._guarded(ins, g, lambda: self.memory.read(where, size, mask), scalar=True)

    def write_global(
        self, ins: Instruction, g: Group, where: Array, values: list[Array], size: int, lanes: Array | None
    ) -> None:
        """Vector store; a store into an input is reported."""
        self.counters.request(ins, where, size, lanes, write=True, waves=self.global_waves(g))
        for allocation in self._guarded(ins, g, lambda: self.memory.write(where, values, size, lanes)):
            if not allocation.writable:
                self.report("input-write", ins, g, 0, f"stores into {allocation.name}, which is an input")

    def count_request(
        self, ins: Instruction, g: Group, where: Array, size: int, lanes: Array | None, write: bool
    ) -> None:
        self.counters.request(ins, where, size, lanes, write=write, waves=self.global_waves(g))

    def count_lds(
        self, ins: Instruction, g: Group, place: Array, size: int, write: bool, transposed: bool = False
    ) -> None:
        """Bank conflicts of a DS access."""
        self.counters.conflict_cycles[ins.index] += self.lds.banks.cycles(place, size, write, g.lanes, transposed)
        self.counters.lds_cycles[ins.index] += g.n * len(phases_of(size, write, transposed).lanes)

    def allocation_of(self, ins: Instruction, g: Group, address: Array, size: int, at: tuple[int, int]) -> Allocation:
        """The allocation of one lane's atomic."""
        found = self.memory.find(int(address[0, 0]))
        if found is None or int(address[0, 0]) + size > found.end:
            error = AccessError(
                f"address {int(address[0, 0]):#x} is in no tensor: {self.memory.nearest(int(address[0, 0]))}"
            )
            error.wave, error.lane = at
            raise self._explained(ins, g, error)
        if not found.writable:
            self.report("input-write", ins, g, at[0], f"an atomic changes {found.name}, which is an input")
        self.memory.written.add(found.name)
        return found

    def _guarded(self, ins: Instruction, g: Group, access: Callable[[], Any], scalar: bool = False) -> Any:
        try:
            return access()
        except AccessError as error:
            raise self._explained(ins, g, error, scalar) from None

    def _explained(self, ins: Instruction, g: Group, error: AccessError, scalar: bool = False) -> EmulationError:
        lane = "" if scalar else f", lane {error.lane}"
        return AccessError(f"{ins.where()}: {self.place(g, error.wave)}{lane}: {error}")

    def scratch_base(self, g: Group) -> Array:
        """Address of each lane's private memory."""
        lane = g.slots[:, None].astype(np.uint64) * np.uint64(WAVE) + np.arange(WAVE, dtype=np.uint64)
        base = self.scratch.base if self.scratch else 0
        return np.uint64(base) + lane * np.uint64(self.scratch_size)

    def _reserve_scratch(self) -> Allocation | None:
        if not self.scratch_size:
            return None
        data = np.zeros(self.state.waves * WAVE * self.scratch_size, np.uint8)
        return self.memory.add("scratch", data)

    # -- reports ---------------------------------------------------------------------------------------------------

    def global_waves(self, g: Group) -> Array:
        """Wave numbers over the whole launch."""
        return g.slots + self.first_workgroup * self.waves_per_workgroup

    def place(self, g: Group, wave: int) -> str:
        """Where a wave of a group is, in words."""
        slot = int(g.slots[wave])
        workgroup = self.launch.coordinates(self.first_workgroup + int(self.state.workgroup[slot]))
        return f"workgroup {workgroup}, wave {int(self.state.wave_in_group[slot])}"

    def report(self, kind: str, ins: Instruction, g: Group, wave: int, message: str) -> None:
        self.findings.add(kind, ins, f"{self.place(g, wave)}: {message}")

    def report_race(self, ins: Instruction, workgroup: int, message: str) -> None:
        where = self.launch.coordinates(self.first_workgroup + workgroup)
        self.findings.add("lds-race", ins, f"workgroup {where}: {message}")

    def check_hazard(self, step: Step, g: Group) -> None:
        """An instruction meets a register that is pending or was never written."""
        stale = step.touches & g.pending
        if stale:
            self._report_stale(step, g, stale)
        unset = step.reads & g.uninit
        if unset:
            self.undefined.meet(self, step, g, unset)

    def _report_stale(self, step: Step, g: Group, stale: int) -> None:
        for queue, counter in ((g.vm, "vmcnt"), (g.lgkm, "lgkmcnt")):
            for entry in queue:
                hit = entry.bits & stale
                if not hit or (entry.half and step.writes & hit and queue is g.vm):
                    continue
                loader = self.program.instructions[entry.pc]
                if not step.reads & hit and _same_queue(step.ins.opcode, counter):
                    continue  # results of one queue arrive in order, so the later one stays
                verb = "reads" if step.reads & hit else "overwrites"
                self.report(
                    "missing-wait", step.ins, g, 0,
                    f"{verb} {register_names(hit)} before an s_waitcnt {counter} has made the result of "
                    f"{loader.where()} visible",
                )  # fmt: skip
                return


def _same_queue(opcode: str, counter: str) -> bool:
    if counter == "vmcnt":
        return opcode.startswith(("buffer_", "global_", "flat_", "scratch_"))
    return opcode.startswith("ds_")


def _register_counts(program: Program) -> tuple[int, int]:
    """Rows needed: what the code names, and at least v0."""
    highest = {"v": 0, "a": -1}
    for instruction in program.instructions:
        for operand in instruction.operands:
            if operand.kind in highest:
                highest[operand.kind] = max(highest[operand.kind], operand.index + operand.count - 1)
    return highest["v"] + 1, highest["a"] + 1


def _hardware_registers() -> dict[str, Callable[[Group], Any]]:
    def zero(g: Group) -> Array:
        return np.zeros((g.n, 1), np.uint32)

    def mode(g: Group) -> Array:
        return np.full((g.n, 1), g.mode, np.uint32)

    return {"HW_REG_MODE": mode, "HW_REG_XCC_ID": zero, "HW_REG_HW_ID": zero}
