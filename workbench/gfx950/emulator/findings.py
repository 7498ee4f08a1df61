"""What the emulator noticed beyond the result: hazards that hardware would hide, each explained in one line."""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.gfx950.emulator.program import Instruction

KINDS = {
    "missing-wait": "a register is used before the wait that its load needs",
    "lds-race": "two waves touch one LDS word with no barrier between",
    "lds-bounds": "an LDS access past the workgroup's allocation",
    "undefined-use": "a value that nobody defined reaches global memory, an address, a branch or EXEC",
    "lds-uninitialised": "a read of LDS that nobody wrote",
    "input-write": "a store into a tensor that is an input",
}


SUSPICIONS = frozenset({"lds-uninitialised"})
"""Not wrong by themselves: compilers read ahead in pipelined code and discard what they read. What was never written is
NaN, so that a use that matters shows in the output, and its way is followed: see undefined-use."""


@dataclass
class Finding:
    """One kind of hazard at one instruction; `count` how often it was met."""

    kind: str
    line: int
    source: str
    message: str
    count: int = 1

    @property
    def certain(self) -> bool:
        """Whether the code is wrong, or only suspicious (see SUSPICIONS)."""
        return self.kind not in SUSPICIONS

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass
class Findings:
    """Findings by kind and instruction; the first occurrence is the one that is described."""

    by_place: dict[tuple[str, int], Finding] = field(default_factory=dict)

    def add(self, kind: str, ins: Instruction, detail: str) -> None:
        key = (kind, ins.index)
        if key in self.by_place:
            self.by_place[key].count += 1
            return
        self.by_place[key] = Finding(kind, ins.line, ins.source, f"{ins.where()}: {detail}")

    def sorted(self) -> tuple[Finding, ...]:
        order = list(KINDS)
        return tuple(sorted(self.by_place.values(), key=lambda f: (order.index(f.kind), f.line)))
