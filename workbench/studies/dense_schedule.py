"""The dense kernel's levers that move instructions: transposed PV, cluster, prefetch, priority. Static.

Each reads one property off the hot loop in program order, the loop taken as a circle.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.gfx950.isa import MEMORY_FAMILIES, classify
from workbench.inspection.schedule import schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.inspection import Inspection
    from workbench.inspection.schedule import Slot

K_WIDTHS = {True: 4, False: 8}
"""transposed_pv -> keys that a lane hands to one PV product side by side (k_width of the operand)."""
STEP_KEYS = 16
"""Keys of one 32x32x16 product."""
_ROUNDS = 3


def keys_left_by_qk(half: int) -> list[int]:
    """Keys of a step of 16 in one lane, in the order of its registers, as the QK product leaves them.

    half: 0 for lanes 0..31, 1 for lanes 32..63. Accumulators of a 32x32 MFMA: rows 8 j + 4 half + 0..3.
    """
    return [8 * block + 4 * half + place for block in range(2) for place in range(4)]


def keys_wanted_by_pv(half: int, k_width: int) -> list[int]:
    """Keys of a step of 16 in one lane as the PV product wants its second operand with that k_width, 4 or 8."""
    blocks = range(8 // k_width)
    return [2 * k_width * block + k_width * half + place for block in blocks for place in range(k_width)]


def moves_of_layout(k_width: int) -> int:
    """Of the 16 keys of a step, those that must come from the other half of the lanes."""
    return sum(key not in keys_left_by_qk(half) for half in range(2) for key in keys_wanted_by_pv(half, k_width))


@dataclass(frozen=True)
class Mixing:
    """How the exponentials of an iteration lie among its MFMA, from the first QK product on."""

    mfma: tuple[int, ...]
    """MFMA issued up to and with each v_exp, in program order."""
    total_mfma: int
    beside_pv: int
    """v_exp between the first and the last PV product."""

    @property
    def total(self) -> int:
        return len(self.mfma)


def mixing(inspection: Inspection) -> Mixing:
    """Where the v_exp of the hot loop stand, counted in MFMA from the first QK product."""
    slots = from_first_qk(schedule(inspection))
    done, places = 0, []
    for slot in slots:
        done += slot.symbol == "M"
        if slot.symbol == "e":
            places.append(done)
    return Mixing(tuple(places), done, sum(slot.symbol == "e" and slot.product == "PV" for slot in slots))


def from_first_qk(slots: Sequence[Slot]) -> list[Slot]:
    """The loop, as a circle, from the first QK product that follows a PV product."""
    products = [(place, slot.product) for place, slot in enumerate(slots) if slot.symbol == "M"]
    previous = products[-1][1] if products else ""
    for place, product in products:
        if product == "QK" and previous == "PV":
            return [*slots[place:], *slots[:place]]
        previous = product
    return list(slots)


@dataclass(frozen=True)
class InFlight:
    """Vector memory copies under way after each instruction of the hot loop."""

    slots: tuple[Slot, ...]
    copies: tuple[int, ...]
    windows: tuple[int, ...]
    """For each copy of an iteration, MFMA of the wave between its issue and the wait that asks for it."""

    def share(self, product: str) -> float | None:
        """Of a product's MFMA, the share that is issued while a copy is under way."""
        own = [
            copies for slot, copies in zip(self.slots, self.copies, strict=True)
            if slot.symbol == "M" and slot.product == product
        ]  # fmt: skip
        return sum(copies > 0 for copies in own) / len(own) if own else None

    @property
    def drained(self) -> list[int]:
        """Copies that each waiting s_waitcnt vmcnt waits for, in program order."""
        before = [self.copies[-1], *self.copies[:-1]]
        return [
            had - left for slot, had, left in zip(self.slots, before, self.copies, strict=True)
            if slot.symbol == "w" and waits_for_copies(slot) is not None
        ]  # fmt: skip


def in_flight(inspection: Inspection) -> InFlight:
    """Copies under way in the steady state of the loop, if none arrives before a wait asks for it."""
    slots = from_first_qk(schedule(inspection))
    queue: deque[int] = deque()
    windows: list[int] = []
    products, counts = 0, [0] * len(slots)
    for _ in range(_ROUNDS):
        windows.clear()
        for place, slot in enumerate(slots):
            products += slot.symbol == "M"
            limit = waits_for_copies(slot)
            while limit is not None and len(queue) > limit:
                windows.append(products - queue.popleft())
            if classify(slot.instruction).family in MEMORY_FAMILIES:
                queue.append(products)
            counts[place] = len(queue)
    return InFlight(tuple(slots), tuple(counts), tuple(windows))


def waits_for_copies(slot: Slot) -> int | None:
    """The count that a wait lets stay under way; None for an instruction that does not wait for copies."""
    if slot.instruction.mnemonic != "s_waitcnt":
        return None
    for operand in slot.instruction.operands:
        for part in operand.split():
            if part.startswith("vmcnt("):
                return int(part.removeprefix("vmcnt(").rstrip(")"))
    return None


def priorities(slots: Sequence[Slot]) -> list[int]:
    """The wave's priority at each instruction, in the steady state of the loop; a wave starts with 0."""
    level, found = 0, [0] * len(slots)
    for _ in range(2):
        for place, slot in enumerate(slots):
            if slot.symbol == "P":
                level = int(slot.instruction.operands[0], 0)
            found[place] = level
    return found


def raised(inspection: Inspection) -> Counter[str]:
    """What is issued at a priority above 0, by the schedule's classes; MFMA under their product's name."""
    slots = from_first_qk(schedule(inspection))
    return Counter(
        slot.product if slot.symbol == "M" else slot.symbol
        for slot, level in zip(slots, priorities(slots), strict=True)
        if level > 0
    )


def products(inspection: Inspection) -> Counter[str]:
    """MFMA of the hot loop by product."""
    return Counter(slot.product for slot in schedule(inspection) if slot.symbol == "M")
