"""Issue budget of a loop: the cycles that its instructions ask of each pipe, and what that leaves of the matrix pipe.

The unit is one iteration of one wave. The waves of a SIMD share its pipes, so n waves ask n times as much of a pipe in
the time that all of them take for an iteration: per wave and iteration, that time is at least what the busiest pipe
needs. Lower bounds of it, of which the largest binds:

    matrix pipe    M: MFMA one after the other
    vector math    M + P + max(0, V + X - S): packed instructions (P) never run beside an MFMA; plain VALU (V) and
                   transcendental ones (X) may, in its shadow S = sum over MFMA of (cycles - 8)
    LDS            L: this SIMD's share of the LDS, which four SIMDs keep busy
    memory port    4 for each LDS and vector memory instruction: they issue through one port
    scalar issue   one cycle for each scalar instruction
    one wave       only with one wave per SIMD: it cannot issue vector and memory instructions in the same cycle, so
                   their slots add up: 4 (MFMA + memory instructions) + V + X + P

MFMA efficiency is M over the cycles of the loop, so M over the largest bound is an upper bound of it: waits, barriers,
latency, dependencies, cache and HBM only add. Evidence kind: modelled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import ProblemError
from workbench.gfx950.costs import Cost, CostTable, costs_of
from workbench.gfx950.isa import LDS_FAMILIES, MEMORY_FAMILIES, InstructionClass, classify

if TYPE_CHECKING:
    from workbench.gfx950.machine_code import Instruction

ISSUE_SLOT = 4
"""Cycles in which a SIMD of 16 lanes takes one instruction of a 64-lane wave."""
EVERY_INSTRUCTION = "every instruction of the loop runs once per iteration, branches within it included"
WITHOUT_VOTED_AWAY = "no lane needs the blocks that a branch on exec leads around: all other instructions run once"
SCALAR_FAMILIES = ("salu", "smem", "wait", "barrier", "branch", "hint")

_PIPE_OF_FAMILY = {
    "mfma": "MFMA",
    "valu": "VALU",
    "acc move": "VALU",
    "cross-lane": "VALU",
    "trans": "TRANS",
    "packed": "packed",
    **dict.fromkeys(LDS_FAMILIES, "LDS"),
    **dict.fromkeys(MEMORY_FAMILIES, "VMEM"),
    **dict.fromkeys(SCALAR_FAMILIES, "scalar"),
}
_THROUGH_LDS = ("bpermute", "permute", "swizzle")
PIPES = ("MFMA", "VALU", "TRANS", "packed", "LDS", "VMEM", "scalar")


@dataclass(frozen=True)
class Budget:
    """Cycles of one iteration of one wave. Evidence kind: modelled."""

    target: str
    cycles: dict[str, int]
    """Pipe -> cycles asked of it, for every pipe of PIPES."""
    counts: dict[str, int]
    """Pipe -> instructions."""
    shadow: int
    """Cycles in which plain vector instructions can issue beside an MFMA."""
    bounds: dict[str, int]
    """Bound -> least cycles of an iteration."""
    used: tuple[tuple[Cost, int], ...]
    """Rows of the cost table and how many instructions each priced."""
    unpriced: tuple[tuple[str, int], ...]
    """Classes without a known cost, counted as free."""
    assumptions: tuple[str, ...]

    @property
    def binding(self) -> str:
        """The bound that is reached first: the first of the largest."""
        return max(self.bounds, key=lambda name: self.bounds[name])

    @property
    def least_cycles(self) -> int:
        return self.bounds[self.binding]

    @property
    def mfma_efficiency(self) -> float | None:
        """Upper bound of MFMA cycles over loop cycles, 0..1; None without MFMA."""
        return self.cycles["MFMA"] / self.least_cycles if self.cycles["MFMA"] else None

    def obstacle(self) -> str:
        """What keeps the matrix pipe from being busy throughout, in words: of the bound that binds."""
        if self.binding == "matrix pipe":
            return "nothing: the matrix pipe binds"
        if self.binding != "vector math":
            return f"{self.binding}: {self.least_cycles} cycles against {self.cycles['MFMA']} of MFMA"
        parts = []
        if self.cycles["packed"]:
            parts.append(
                f"{self.counts['packed']} packed instructions, {self.cycles['packed']} cycles, never beside an MFMA"
            )
        if beyond := self.exposed - self.cycles["packed"]:
            parts.append(f"{beyond} cycles of plain vector and transcendental instructions beyond the MFMA's shadow")
        return "; ".join(parts)

    @property
    def in_shadow(self) -> int:
        """Plain vector and transcendental cycles that fit in the shadow."""
        return min(self.shadow, self.cycles["VALU"] + self.cycles["TRANS"])

    @property
    def exposed(self) -> int:
        """Vector cycles that no MFMA hides: what the shadow cannot take, and every packed instruction."""
        return self.cycles["VALU"] + self.cycles["TRANS"] - self.in_shadow + self.cycles["packed"]


def issue_budget(
    loop: Sequence[Instruction],
    target: str,
    *,
    waves_per_simd: int = 2,
    bank_conflict_degree: float = 1.0,
    trans_cycles: int | None = None,
    counted: str = EVERY_INSTRUCTION,
) -> Budget:
    """Budget of a loop's instructions, each counted once.

    `bank_conflict_degree` multiplies the LDS service time. `trans_cycles` replaces the table's cost of a
    transcendental. `counted` says which instructions these are, as the first assumption. TargetError when no costs are
    known for the target.
    """
    if bank_conflict_degree < 1.0 or waves_per_simd < 1:
        raise ProblemError(
            f"bank_conflict_degree and waves_per_simd must be at least 1, got {bank_conflict_degree}, {waves_per_simd}"
        )
    table = costs_of(target)
    kinds = Counter(classify(instruction) for instruction in loop)
    cycles, counts = dict.fromkeys(PIPES, 0), dict.fromkeys(PIPES, 0)
    used: Counter[Cost] = Counter()
    unpriced = []
    shadow = 0
    for kind, count in kinds.items():
        cost = table.cost(kind)
        if cost is None:
            unpriced.append((kind.name, count))
            continue
        pipe = _pipe_of(kind)
        each = trans_cycles if pipe == "TRANS" and trans_cycles else cost.cycles
        cycles[pipe] += count * each
        counts[pipe] += count
        used[cost] += count
        if pipe == "MFMA":
            shadow += count * max(0, each - table.read_phase)
    cycles["LDS"] = round(cycles["LDS"] * bank_conflict_degree)
    bounds = _bounds(cycles, counts, shadow, waves_per_simd)
    assumptions = (counted, *_assumptions(table, waves_per_simd, bank_conflict_degree, trans_cycles))
    return Budget(target, cycles, counts, shadow, bounds, tuple(used.items()), tuple(sorted(unpriced)), assumptions)


def _pipe_of(kind: InstructionClass) -> str:
    return "LDS" if kind.detail in _THROUGH_LDS else _PIPE_OF_FAMILY[kind.family]


def _bounds(cycles: dict[str, int], counts: dict[str, int], shadow: int, waves_per_simd: int) -> dict[str, int]:
    math = cycles["VALU"] + cycles["TRANS"]
    memory = counts["LDS"] + counts["VMEM"]
    bounds = {
        "matrix pipe": cycles["MFMA"],
        "vector math": cycles["MFMA"] + cycles["packed"] + max(0, math - shadow),
        "LDS": cycles["LDS"],
        "memory port": ISSUE_SLOT * memory,
        "scalar issue": cycles["scalar"],
    }
    if waves_per_simd == 1:
        bounds["one wave"] = ISSUE_SLOT * (counts["MFMA"] + memory) + math + cycles["packed"]
    return bounds


def _assumptions(
    table: CostTable, waves_per_simd: int, bank_conflict_degree: float, trans_cycles: int | None
) -> tuple[str, ...]:
    trans = table.cost(InstructionClass("trans"))
    each = trans_cycles or (trans.cycles if trans else 0)
    conflicts = "no LDS bank conflicts" if bank_conflict_degree == 1.0 else f"LDS time x {bank_conflict_degree:g}"
    alone = (
        "one wave per SIMD: vector and memory instructions take turns"
        if waves_per_simd == 1
        else f"{waves_per_simd} waves per SIMD: vector and memory instructions of different waves issue together"
    )
    return (
        f"a vector instruction issues beside an MFMA from cycle {table.read_phase} on; a packed one never does",
        f"a transcendental takes {each} cycles",
        f"all four SIMDs use the LDS; {conflicts}",
        "a vector memory instruction takes its issue slot; cache and HBM time are left out",
        alone,
        "waits, barriers, latency and dependencies are left out: the bound is an upper one",
    )
