"""The order in which a tile's copies to LDS are issued: the current V, then the next K, or the other way round.

Copies are counted off in the order of their issue (vmcnt), so a wait for one is a wait for all before it. Evidence:
places of copies, waits and products static; cycles between them modelled; waits of a launch and its errors emulated;
times measured where a gfx950 is.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.gfx950.isa import MEMORY_FAMILIES, classify
from workbench.inspection.schedule import schedule
from workbench.studies.dense_schedule import from_first_qk, in_flight, waits_for_copies
from workbench.studies.lever_figures import certain_faults
from workbench.studies.unified_levers import base_spec, changed_study, paged, small_paged

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from workbench.gfx950.emulator import EmulationResult
    from workbench.gfx950.machine_code import Instruction, Kernel
    from workbench.inspection import Inspection
    from workbench.inspection.schedule import Slot
    from workbench.scenarios import Scenario
    from workbench.studies.lever_study import LeverStudy, Progress

V_FIRST, K_FIRST = "V, then next K", "next K, then V"
ORDERS: dict[str, dict[str, Any]] = {
    V_FIRST: {},
    K_FIRST: {"current_v_first": False},
    "V first, full waits": {"prefetch": False},
    "two V buffers, V first": {"v_double_buffer": True},
    "two V buffers, K first": {"v_double_buffer": True, "current_v_first": False},
    "one K buffer, K first": {"k_single_buffer": True, "current_v_first": False},
}
"""Names of the variants -> changes to a kernel with two K buffers and one V buffer."""
STREAMS = ("K", "V", "table")
_K_ARGUMENT, _V_ARGUMENT = 2, 3
_ROUNDS = 4
_SCALARS = re.compile(r"s(?:(\d+)|\[(\d+):(\d+)\])$")
_WRITES_NONE = ("s_cmp", "s_bitcmp", "s_cbranch", "s_branch", "s_wait", "s_barrier", "s_nop", "s_set", "s_endpgm")


def order_study(
    scenario: Scenario, *, triton_version: str = "", emulate: bool = True, on_step: Progress | None = None
) -> LeverStudy:
    """The Gluon kernel that dispatch picks for the scenario, with two K buffers, in every order."""
    problem = paged(scenario)
    return changed_study(
        problem,
        base_spec("Gluon", problem).with_changes(k_single_buffer=False),
        ORDERS,
        published=("setprio",),
        emulated=small_paged if emulate else None,
        triton_version=triton_version,
        on_step=on_step,
    )


@dataclass(frozen=True)
class Copy:
    """A load of one iteration, from its issue to the wait that asks for it. Static; cycles modelled."""

    stream: str
    """`K`, `V`, or `table` for an entry of the block table."""
    issued: int
    """Instruction of the iteration, from its first load on."""
    awaited: int
    """The wait's instruction on the same scale; beyond the iteration's end it is one of the next."""
    left: int
    """Loads that this wait leaves under way."""
    qk: int
    """QK products of the wave in between."""
    pv: int
    exponentials: int
    """v_exp of the wave in between."""
    cycles: int
    """Issue cycles of what is in between, at least, with the waves of the SIMD that registers and LDS admit."""

    @property
    def instructions(self) -> int:
        """From the issue to the wait."""
        return self.awaited - self.issued


def iteration(inspection: Inspection) -> tuple[Slot, ...]:
    """The hot loop as a circle, from the first load that follows its PV products."""
    slots = from_first_qk(schedule(inspection))
    last = max((place for place, slot in enumerate(slots) if slot.product == "PV" and slot.symbol == "M"), default=0)
    start = next((place for place in range(last, len(slots)) if _loads(slots[place])), 0)
    return (*slots[start:], *slots[:start])


def copies(inspection: Inspection) -> tuple[Copy, ...]:
    """The loads of an iteration in the steady state, if none arrives before a wait asks for it."""
    slots = iteration(inspection)
    size = len(slots)
    queue: deque[int] = deque()
    found = []
    for place in range(_ROUNDS * size):
        slot = slots[place % size]
        left = waits_for_copies(slot)
        while left is not None and len(queue) > left:
            issued = queue.popleft()
            if size <= issued < 2 * size:
                found.append(_copy(inspection, slots, issued - size, place - size, left))
        if _loads(slot):
            queue.append(place)
    return tuple(sorted(found, key=lambda copy: copy.issued))


def _copy(inspection: Inspection, slots: Sequence[Slot], issued: int, awaited: int, left: int) -> Copy:
    from workbench.gfx950.budget import issue_budget

    between = [slots[place % len(slots)] for place in range(issued + 1, awaited)]
    products = [slot.product for slot in between if slot.symbol == "M"]
    waves = inspection.occupancy.waves_per_simd if inspection.occupancy else 1
    code = [slot.instruction for slot in between if not slot.skipped]
    budget = issue_budget(code, inspection.kernel.target, waves_per_simd=max(1, waves))
    return Copy(
        stream=stream_of(inspection.kernel, slots[issued].instruction),
        issued=issued,
        awaited=awaited,
        left=left,
        qk=products.count("QK"),
        pv=products.count("PV"),
        exponentials=sum(slot.symbol == "e" for slot in between),
        cycles=max(1, waves) * budget.least_cycles,
    )


def _loads(slot: Slot) -> bool:
    return classify(slot.instruction).family in MEMORY_FAMILIES


def stream_of(kernel: Kernel, load: Instruction) -> str:
    """What a load of the KV loop fetches: `K` or `V` to LDS, or `table`, by the argument that its address comes from.

    Nothing where the address passed through vector registers and cannot be followed.
    """
    if classify(load).family != "vmem to lds":
        return "table"
    offsets = [argument[".offset"] for argument in kernel.metadata.get(".args", ())]
    descriptor = next((found for operand in load.operands if len(found := _scalars(operand)) == 4), ())
    if not descriptor or len(offsets) <= _V_ARGUMENT:
        return ""
    behind = _arguments_behind(kernel.instructions, load.index, descriptor[0], set())
    named = [name for name, place in (("K", _K_ARGUMENT), ("V", _V_ARGUMENT)) if offsets[place] in behind]
    return named[0] if len(named) == 1 else ""


def _arguments_behind(code: Sequence[Instruction], place: int, register: str, seen: set[tuple[int, str]]) -> set[int]:
    """Offsets of the kernel arguments that a scalar register is computed from, in program order."""
    writer = _writer(code, place, register)
    if writer is None or (writer, register) in seen:
        return set()
    seen.add((writer, register))
    instruction = code[writer]
    if instruction.mnemonic.startswith("s_load"):
        base = _scalars(instruction.operands[1])
        if _writer(code, writer, base[0]) is not None:
            return set()
        return {int(instruction.operands[2], 0) + 4 * _scalars(instruction.operands[0]).index(register)}
    if not instruction.mnemonic.startswith("s_"):
        return set()
    sources = [source for operand in instruction.operands[1:] for source in _scalars(operand)]
    return set().union(*(_arguments_behind(code, writer, source, seen) for source in sources))


def _writer(code: Sequence[Instruction], place: int, register: str) -> int | None:
    for index in range(place - 1, -1, -1):
        mnemonic, operands = code[index].mnemonic, code[index].operands
        if operands and not mnemonic.startswith(_WRITES_NONE) and register in _scalars(operands[0]):
            return index
    return None


def _scalars(operand: str) -> tuple[str, ...]:
    match = _SCALARS.match(operand)
    if match is None:
        return ()
    single, first, last = match.groups()
    numbers = [int(single)] if single else range(int(first), int(last) + 1)
    return tuple(f"s{number}" for number in numbers)


def slack_frame(studies: Sequence[LeverStudy]) -> pd.DataFrame:
    """A line per compiler, order and stream: the load of it with the least time to arrive in."""
    import pandas as pd

    rows = []
    for study in studies:
        for variant, inspection in zip(study.names, study.inspections(), strict=True):
            found = copies(inspection)
            for stream in STREAMS:
                own = [copy for copy in found if copy.stream == stream]
                if own:
                    least = min(own, key=lambda copy: copy.instructions)
                    rows.append(
                        {
                            "triton": study.triton_version,
                            "variant": variant,
                            "stream": stream,
                            "loads": len(own),
                            "issued": own[0].issued,
                            "left": least.left,
                            "instructions": least.instructions,
                            "qk": least.qk,
                            "pv": least.pv,
                            "exponentials": least.exponentials,
                            "cycles": least.cycles,
                            "evidence": "static; cycles modelled",
                        }
                    )
    return pd.DataFrame(rows)


def wait_frame(study: LeverStudy) -> pd.DataFrame:
    """Waits of the KV loop that the emulator executed, by what they wait for and leave, and the check. Emulated."""
    import pandas as pd

    rows = []
    for variant, outcome in study.outcomes.items():
        if outcome.emulated is None:
            continue
        (launch,) = outcome.emulated.launches
        check = outcome.emulated.comparison
        rows.append(
            {
                "variant": variant,
                "waves": launch.details.waves,
                **_waits(launch),
                "instructions": launch.wave_instructions,
                "right": check.ok,
                "of_limit": check.worst_abs / check.allowed,
                "faults": len(certain_faults([launch])),
                "evidence": "emulated",
            }
        )
    return pd.DataFrame(rows)


def _waits(launch: EmulationResult) -> dict[str, int]:
    """Executed waits: those that leave loads under way, those for all of them, those for which none was left."""
    from workbench.inspection import inspect_kernel

    flight = in_flight(inspect_kernel(launch.program.code))
    counts = {"partial": 0, "full": 0, "idle": 0}
    before = (flight.copies[-1], *flight.copies[:-1]) if flight.copies else ()
    for slot, had, left in zip(flight.slots, before, flight.copies, strict=True):
        if waits_for_copies(slot) is not None:
            kind = "idle" if had == left else "partial" if left else "full"
            counts[kind] += launch.details.executed[slot.instruction.index]
    return counts
