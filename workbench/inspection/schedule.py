"""The hot loop's schedule in one character per instruction, in program order. Evidence kind: static."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from workbench.gfx950.clusters import Role, product_roles
from workbench.gfx950.isa import classify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.gfx950.machine_code import Instruction
    from workbench.inspection.inspection import Inspection

SYMBOLS: dict[str, str] = {
    "M": "MFMA",
    "e": "transcendental (v_exp)",
    "p": "packed",
    "m": "mask (v_cmp, v_cndmask)",
    "c": "cross-lane",
    "r": "LDS read",
    "s": "LDS write",
    "D": "HBM to LDS",
    "w": "wait",
    "|": "barrier",
    "P": "s_setprio",
    ".": "other",
}
"""Character -> what it stands for."""
PRODUCTS: dict[Role, str] = {"fresh": "QK", "carried": "PV"}

_OF_FAMILY = {
    "mfma": "M",
    "trans": "e",
    "packed": "p",
    "cross-lane": "c",
    "lds read": "r",
    "lds write": "s",
    "vmem to lds": "D",
    "wait": "w",
    "barrier": "|",
}


@dataclass(frozen=True)
class Slot:
    """One instruction of the schedule."""

    symbol: str
    product: str
    """`QK` or `PV` for an MFMA, and for what stands between two MFMA of one product; else nothing."""
    skipped: bool
    """In a block that a wave branches around when none of its lanes needs it."""
    instruction: Instruction


def schedule(inspection: Inspection) -> tuple[Slot, ...]:
    """The hot loop's instructions; empty without a hot loop."""
    flow, hot = inspection.flow, inspection.hot
    if flow is None or hot is None:
        return ()
    loop = flow.instructions(hot)
    skipped = {
        index for block in inspection.voted_away for index in range(flow.blocks[block].start, flow.blocks[block].end)
    }
    products = _products(loop)
    return tuple(Slot(symbol_of(each), products[place], each.index in skipped, each) for place, each in enumerate(loop))


def symbol_of(instruction: Instruction) -> str:
    """The character of one instruction."""
    if instruction.mnemonic.startswith(("v_cmp", "v_cndmask")):
        return "m"
    if instruction.mnemonic == "s_setprio":
        return "P"
    return _OF_FAMILY.get(classify(instruction).family, ".")


def _products(loop: Sequence[Instruction]) -> list[str]:
    """For each place the product whose MFMA stand on both sides of it, the loop read as a circle."""
    roles = product_roles(loop)
    places = sorted(roles)
    found = [""] * len(loop)
    for here, there in zip(places, [*places[1:], *places[:1]], strict=True):
        found[here] = PRODUCTS[roles[here]]
        if roles[here] == roles[there]:
            for step in range((there - here) % len(loop)):
                found[(here + step) % len(loop)] = PRODUCTS[roles[here]]
    return found


def strip_text(slots: Sequence[Slot], width: int = 100) -> list[str]:
    """Lines of at most `width` characters of schedule, blocks that no lane needs in parentheses.

    `QK` or `PV` stands in front of a product's MFMA and what is among them.
    """
    lines = []
    for product, group in groupby(slots, key=lambda slot: slot.product):
        text = ""
        for skipped, part in groupby(group, key=lambda slot: slot.skipped):
            symbols = "".join(slot.symbol for slot in part)
            text += f"({symbols})" if skipped else symbols
        pieces = [text[start : start + width] for start in range(0, len(text), width)]
        lines += [f"{'' if number else product:2}  {piece}" for number, piece in enumerate(pieces)]
    return lines


def legend(slots: Sequence[Slot]) -> str:
    """What the characters that occur stand for."""
    seen = {slot.symbol for slot in slots}
    return ", ".join(f"{symbol} {meaning}" for symbol, meaning in SYMBOLS.items() if symbol in seen)
