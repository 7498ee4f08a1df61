"""Figures of one variant of a kernel, each with its unit, its evidence and what it is a figure of."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from workbench.gfx950.budget import issue_budget
from workbench.gfx950.isa import classify
from workbench.gfx950.votes import without_blocks
from workbench.levers.emulated import conflicts_by_product
from workbench.levers.facts import facts_of
from workbench.spec import keys_of_tile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.gfx950.budget import Budget
    from workbench.gfx950.emulator import EmulationResult
    from workbench.inspection import Inspection
    from workbench.published import Published
    from workbench.records import Record
    from workbench.spec import KernelSpec
    from workbench.tolerance import Comparison


@dataclass(frozen=True)
class Figure:
    """One line of the tidy frame."""

    variant: str
    figure: str
    value: float | None
    """None where the figure is text alone, or is missing for the reason in `text`."""
    unit: str
    evidence: str
    text: str
    """The value in words, where a number does not say it."""
    of: str
    """What it is a figure of: target and compiler, the emulated problem, or the hardware."""


FROM_FACTS = {
    "vgprs": ("VGPRs", "registers"),
    "agprs": ("AGPRs", "registers"),
    "spills": ("spilled VGPRs", "registers"),
    "lds_bytes": ("LDS", "bytes"),
    "workgroups": ("workgroups per CU", "1"),
    "mfma": ("MFMA", "instructions"),
    "valu": ("VALU", "instructions"),
    "packed": ("packed", "instructions"),
    "trans": ("TRANS", "instructions"),
    "exp_per_score": ("v_exp per score", "1"),
    "cross_lane": ("cross-lane moves", "instructions"),
    "moves_of_p": ("cross-lane moves of P", "instructions"),
    "exp_in_pv": ("v_exp among the PV products", "instructions"),
    "setprio": ("s_setprio", "instructions"),
    "copies": ("copies to LDS", ""),
    "lds_reads": ("LDS reads", ""),
    "lds_writes": ("LDS writes", "instructions"),
    "masks": ("v_cmp and v_cndmask", "instructions"),
    "masks_tail": ("v_cmp and v_cndmask of other loops", "instructions"),
    "vmcnt": ("vmcnt waits", ""),
    "barriers": ("barriers", "instructions"),
}
"""Key of workbench.levers.facts -> name and unit of the figure. From MFMA on: one iteration of a wave's hot loop."""
CONFLICTS = {
    "conflicts_k": "LDS conflict cycles, K read",
    "conflicts_v": "LDS conflict cycles, V read",
    "conflicts_other": "LDS conflict cycles, other",
}
VOTED = ", voted-away blocks skipped"
WITH_CONFLICTS = ", with emulated LDS conflicts"
"""Endings of the figures of an issue budget that is not the plain one."""
_PIPES = ("MFMA", "VALU", "TRANS", "packed", "LDS")
COUNTERS = {
    "SQ_INSTS": ("wave-instructions", "instructions"),
    "SQ_INSTS_VALU": ("vector wave-instructions", "instructions"),
    "SQ_INSTS_LDS": ("LDS wave-instructions", "instructions"),
    "SQ_VALU_MFMA_BUSY_CYCLES": ("MFMA busy cycles", "cycles"),
    "SQ_LDS_BANK_CONFLICT": ("LDS conflict cycles", "cycles"),
    "SQ_LDS_IDX_ACTIVE": ("LDS busy cycles", "cycles"),
    "TCP_TOTAL_CACHE_ACCESSES_sum": ("cache lines asked for", "1"),
}
"""Counter of the emulator -> name and unit of the figure, over the whole launch."""


def static_figures(variant: str, inspection: Inspection, spec: KernelSpec, head_size: int, of: str) -> list[Figure]:
    """Registers, LDS and occupancy of the kernel, and what one iteration of its hot loop holds."""

    def line(name: str, value: float | None, unit: str, text: str = "") -> Figure:
        return Figure(variant, name, value, unit, "static", text, of)

    summary = inspection.summary()["static"]
    loop = inspection.hot_instructions
    found = [
        line("SGPRs", _number(summary["sgprs"]), "registers"),
        line("waves per SIMD", _number(summary["waves_per_simd"]), "1", str(summary["limited_by"] or "")),
        line("code", _number(summary["code_bytes"]), "bytes"),
        line("instructions of an iteration", len(loop), "instructions"),
        line("waits", sum(classify(each).family == "wait" for each in loop), "instructions"),
    ]
    if keys := keys_of_tile(spec):
        found.append(line("instructions per 64 keys", 64 * len(loop) / keys, "instructions"))
    facts = facts_of(inspection, head_size)
    for key, (name, unit) in FROM_FACTS.items():
        value = facts[key]
        if not isinstance(value, str):
            found.append(line(name, _number(value), unit))
        elif key == "vmcnt":
            found.append(line(name, None, unit, value))
        else:
            families = ("vmem to lds",) if key == "copies" else ("lds read",)
            found.append(line(name, _count(inspection, families), "instructions", value))
    return found


def modelled_figures(variant: str, inspection: Inspection, spec: KernelSpec, of: str) -> list[Figure]:
    """The issue budget of an iteration, with every block and, where a vote skips some, without those."""
    found = []
    for budget, suffix in ((inspection.budget, ""), (inspection.voted_budget, VOTED)):
        if budget is not None:
            found += _budget_figures(variant, budget, spec, suffix, of)
    return found


def conflict_figures(
    variant: str, inspection: Inspection, spec: KernelSpec, launches: Sequence[EmulationResult], of: str
) -> list[Figure]:
    """The issue budget of an iteration whose LDS time grows by the conflicts that the emulator counted.

    Blocks that a vote skips are left out.
    """
    flow, hot, occupancy = inspection.flow, inspection.hot, inspection.occupancy
    if flow is None or hot is None or occupancy is None:
        return []
    busy = sum(launch.counters["SQ_LDS_IDX_ACTIVE"] for launch in launches)
    conflicts = sum(launch.counters["SQ_LDS_BANK_CONFLICT"] for launch in launches)
    budget = issue_budget(
        without_blocks(flow, hot, inspection.voted_away),
        inspection.kernel.target,
        waves_per_simd=max(1, occupancy.waves_per_simd),
        bank_conflict_degree=busy / (busy - conflicts) if busy > conflicts else 1.0,
    )
    return _budget_figures(variant, budget, spec, WITH_CONFLICTS, of)


def _budget_figures(variant: str, budget: Budget, spec: KernelSpec, suffix: str, of: str) -> list[Figure]:
    def line(name: str, value: float | None, unit: str, text: str = "") -> Figure:
        return Figure(variant, name + suffix, value, unit, "modelled", text, of)

    cycles = budget.least_cycles
    found = [line("cycles of an iteration", cycles, "cycles", budget.binding)]
    if keys := keys_of_tile(spec):
        found.append(line("cycles per 64 keys", 64 * cycles / keys, "cycles", budget.binding))
    if budget.mfma_efficiency is not None:
        found.append(line("MFMA efficiency, at most", budget.mfma_efficiency, "1", budget.obstacle()))
    pipes = _PIPES if suffix != WITH_CONFLICTS else ("LDS",)
    found += [line(f"{pipe} cycles", budget.cycles[pipe], "cycles") for pipe in pipes]
    if suffix != WITH_CONFLICTS:
        found.append(line("vector cycles outside the MFMA's shadow", budget.exposed, "cycles"))
    return found


def emulated_figures(
    variant: str, launches: Sequence[EmulationResult], comparison: Comparison, of: str
) -> list[Figure]:
    """The check against float64, then what the emulator counted over all launches of the call."""

    def line(name: str, value: float | None, unit: str, text: str = "") -> Figure:
        return Figure(variant, name, value, unit, "emulated", text, of)

    share = comparison.worst_abs / comparison.allowed if comparison.allowed else comparison.worst_abs
    faults = certain_faults(launches)
    found = [
        line("correct", float(comparison.ok), "1", comparison.describe()),
        line("largest error", comparison.max_abs, "1"),
        line("RMS error", comparison.rms, "1"),
        line("worst error over its limit", share, "1"),
        line("faults", len(faults), "1", "; ".join(faults)),
    ]
    totals: Counter[str] = Counter()
    conflicts: Counter[str] = Counter()
    for launch in launches:
        totals.update(launch.counters)
        conflicts.update(conflicts_by_product(launch))
    found += [line(name, totals[counter], unit) for counter, (name, unit) in COUNTERS.items()]
    found += [line(name, conflicts[key], "cycles") for key, name in CONFLICTS.items()]
    return found


def certain_faults(launches: Sequence[EmulationResult]) -> list[str]:
    """What the emulator found that is wrong for certain; suspicions are left out."""
    return [str(finding) for launch in launches for finding in launch.findings if finding.certain]


def measured_figures(variant: str, record: Record) -> list[Figure]:
    """Median time and throughput of a record, or why it has none."""
    from workbench.records import hardware_of

    of = f"{hardware_of(record)}, {record.scenario}"
    if not record.samples:
        return [absent_time(variant, f"{record.status}: {record.message}", of)]
    spread = f"{len(record.samples)} rounds, {min(record.samples):.1f} to {max(record.samples):.1f} us"
    found = [Figure(variant, "time", median(record.samples), "us", "measured", spread, of)]
    rates = (("throughput", record.metrics["tflops"]), ("bandwidth", record.metrics["tbps"]))
    return found + [Figure(variant, name, rate.value, rate.unit, "measured", "", of) for name, rate in rates]


def absent_time(variant: str, why: str, of: str) -> Figure:
    """The line of a time that nothing here can measure."""
    return Figure(variant, "time", None, "us", "measured", why, of)


def published_figures(rows: Sequence[Published]) -> list[Figure]:
    """A line per value; a series such as 30/29/11/0 gives one for each of its parts, numbered in its order."""
    found = []
    for row in rows:
        parts = row.value.split("/")
        for place, part in enumerate(parts):
            config = row.config if len(parts) == 1 else f"{row.config} ({place + 1} of {len(parts)})"
            of = f"{row.hardware}, {row.kernel}"
            found.append(Figure(config, row.metric, float(part), row.unit, "published", row.source, of))
    return found


def _count(inspection: Inspection, families: Sequence[str]) -> int:
    return sum(classify(each).family in families for each in inspection.hot_instructions)


def _number(value: int | float | str | None) -> float | None:
    return None if value is None or isinstance(value, str) else value
