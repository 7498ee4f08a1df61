"""Which waves go next.

The group at the lowest program counter runs until it reaches a place where another group waits, so that waves that
took different branches meet again. In the seeded mode the order, the length of each turn and the delivery of loads
are random.
"""

from __future__ import annotations

import numpy as np

from workbench.errors import EmulationError
from workbench.gfx950.emulator.machine import Machine
from workbench.gfx950.emulator.state import Group

TURN = 200_000
"""Instructions after which a group that does not end yields to the others, so that a spinning wave starves nobody."""


def run_batch(machine: Machine, seed: int | None = None) -> None:
    """Run the resident workgroups to their end. EmulationError when waves wait at a barrier or loop for ever."""
    random = None if seed is None else np.random.default_rng(seed)
    tired: Group | None = None
    while machine.ready:
        merge(machine)
        group, stop = _choose(machine, tired) if random is None else _choose_randomly(machine, random)
        limit = TURN if random is None else int(random.integers(1, 64))
        if random is not None:
            _deliver_some(machine, group, random)
        slots, before = group.slots, machine.steps
        limit = min(limit, _instructions_left(machine, group))
        tired = group if advance(machine, group, stop, limit) else None
        machine.state.executed[slots] += machine.steps - before
    if machine.parked:
        waiting = machine.parked[0]
        ins = machine.program.instructions[waiting.pc]
        raise EmulationError(
            f"{ins.where()}: {machine.place(waiting, 0)} waits at a barrier that the rest of its workgroup never "
            "reaches"
        )


def _instructions_left(machine: Machine, g: Group) -> int:
    """What a wave of the group may still execute; EmulationError when that is nothing."""
    executed = machine.state.executed[g.sel]
    left = machine.max_instructions - int(executed.max())
    if left > 0:
        return left
    ins = machine.program.instructions[g.pc]
    loops = machine.program.loops_around(g.pc)
    inside = f", in {' inside '.join(loops)}" if loops else ""
    raise EmulationError(
        f"{ins.where()}: {machine.place(g, int(executed.argmax()))} has executed {machine.max_instructions:,} "
        f"instructions without ending{inside}; a launch that needs more takes max_instructions_per_wave=..."
    )


def merge(machine: Machine) -> None:
    """Join groups that stand at one place and wait for the same operations."""
    if len(machine.ready) < 2:
        return
    places: dict[object, Group] = {}
    for group in machine.ready:
        key = (group.pc, group.signature())
        if key in places:
            places[key].absorb(group, machine.state)
        else:
            places[key] = group
    machine.ready = sorted(places.values(), key=lambda g: g.pc)


def _choose(machine: Machine, tired: Group | None) -> tuple[Group, int]:
    ready = machine.ready
    end = len(machine.code)
    if len(ready) == 1:
        return ready[0], end
    group = next((g for g in ready if g is not tired), ready[0]) if tired is not None else ready[0]
    others = [g.pc for g in ready if g is not group]
    stop = min((pc for pc in others if pc > group.pc), default=end)
    if group.pc in others:
        # Same place, other outstanding operations: the next wait may make them alike.
        stop = min(stop, _after_next_wait(machine, group.pc))
    return group, stop


def _after_next_wait(machine: Machine, pc: int) -> int:
    for step in machine.code[pc:]:
        if step.ins.opcode == "s_waitcnt":
            return step.ins.index + 1
    return len(machine.code)


def _choose_randomly(machine: Machine, random: np.random.Generator) -> tuple[Group, int]:
    group = machine.ready[int(random.integers(len(machine.ready)))]
    if group.n > 1 and random.random() < 0.05:
        cut = random.random(group.n) < 0.5
        if cut.any() and not cut.all():
            parts = [group.subset(cut, machine.state), group.subset(~cut, machine.state)]
            machine.ready.remove(group)
            machine.ready += parts
            group = parts[0]
    return group, len(machine.code)


def _deliver_some(machine: Machine, group: Group, random: np.random.Generator) -> None:
    """Memory may answer earlier than the wait asks."""
    if group.vm and random.random() < 0.5:
        machine.deliver_vector(group, int(random.integers(1, len(group.vm) + 1)))
    if group.lgkm and random.random() < 0.5:
        machine.deliver_local(group, int(random.integers(0, len(group.lgkm))))


def advance(machine: Machine, g: Group, stop: int, limit: int) -> bool:
    """Run a group until it leaves the ready list, reaches `stop`, or has executed `limit` instructions (then True)."""
    code, executed = machine.code, machine.counters.executed
    state, pc, left = machine.state, g.pc, limit
    machine.flush_denormals(g.flushes)
    while left:
        step = code[pc]
        if step.touches & g.pending or step.reads & g.uninit:
            machine.check_hazard(step, g)
        executed[pc] += g.n
        left -= 1
        jump = step.run(g)
        if jump is None:
            pc += 1
        elif jump >= 0:
            pc = jump
        else:
            machine.steps += limit - left
            return False
        if g.uninit & step.writes:
            g.uninit &= ~step.writes
        if machine.tainted is not None:
            g.set_undefined(machine.tainted)
            machine.tainted = None
        if step.writes_exec:
            g.refresh_lanes(state)
        g.pc = pc
        if pc >= stop:
            machine.steps += limit - left
            return False
    machine.steps += limit
    return True
