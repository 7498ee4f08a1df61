"""Figures of an inspection as titled tables, which text, HTML and comparison all read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.gfx950.budget import PIPES
from workbench.gfx950.isa import FAMILIES, mix_of
from workbench.gfx950.occupancy import both_budgets

if TYPE_CHECKING:
    from workbench.gfx950.budget import Budget
    from workbench.gfx950.clusters import Run
    from workbench.inspection.inspection import Inspection

_BUDGET = "Issue budget of the hot loop, one iteration of one wave"

EVERY_BLOCK, SKIPPED = "every block run", "voted-away blocks skipped"
"""Which instructions of the loop a budget counts: a wave may branch around some blocks when no lane needs them."""

Value = int | float | str | None
"""A float is a fraction and shown in per cent; None is shown as a dash."""


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    label: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Section:
    """One table with its evidence kind."""

    title: str
    evidence: str
    columns: tuple[str, ...]
    """Titles of the values; the label's column has none."""
    rows: tuple[Row, ...]
    lines: tuple[str, ...] = ()
    """Sentences below the table."""
    comparable: bool = True
    """Whether rows of the same label may be set side by side."""
    missing: Value = None
    """What a row that only the other side has counts as."""


def sections_of(inspection: Inspection) -> tuple[Section, ...]:
    """Every table that the inspection has figures for."""
    found = (
        _resources(inspection),
        _occupancy(inspection),
        _loops(inspection),
        _mix(inspection),
        _runs(inspection),
        _budget(_BUDGET, inspection.budget, EVERY_BLOCK) if inspection.budget else None,
        _budget(f"{_BUDGET}, {SKIPPED}", inspection.voted_budget, SKIPPED) if inspection.voted_budget else None,
    )
    return tuple(section for section in found if section is not None)


def _resources(inspection: Inspection) -> Section:
    resources = inspection.kernel.resources
    rows = (
        ("VGPRs used, AGPRs included", resources.vgprs),
        ("VGPRs reserved", resources.vgprs_reserved),
        ("VGPRs alive at once, at most", inspection.live_vgprs),
        ("AGPRs", resources.agprs),
        ("SGPRs", resources.sgprs),
        ("VGPR spills", resources.vgpr_spills),
        ("SGPR spills", resources.sgpr_spills),
        ("scratch, bytes a lane", resources.scratch_bytes),
        ("LDS, static bytes", resources.lds_bytes),
        ("LDS, all bytes", inspection.occupancy.lds_bytes if inspection.occupancy else None),
        ("code bytes", resources.code_bytes),
        ("instructions", inspection.mix.total or None),
    )
    return Section("Resources", "static", ("",), tuple(Row(label, (value,)) for label, value in rows))


def _occupancy(inspection: Inspection) -> Section | None:
    occupancy = inspection.occupancy
    if occupancy is None:
        return None
    printed = inspection.kernel.resources.llvm_occupancy
    rows = [
        Row("workgroups per CU", (occupancy.workgroups_per_cu,)),
        Row("waves per SIMD", (occupancy.waves_per_simd,)),
        Row("waves of a workgroup", (occupancy.num_warps,)),
        Row("limited by", (" and ".join(occupancy.limiters),)),
        *(Row(f"workgroups by {resource}", (count,)) for resource, count in occupancy.admitted.items()),
        Row("waves per SIMD by registers", (occupancy.waves_by_registers,)),
        Row("LLVM's occupancy, computed", (inspection.llvm_occupancy,)),
        Row("LLVM's occupancy, printed", (printed,)),
    ]
    lines = [step.text for step in inspection.steps]
    if occupancy.lds_bytes:
        lines += [f"LDS budget {name}: {other.describe()}" for name, other in both_budgets(occupancy).items()]
    return Section("Occupancy", "static", ("",), tuple(rows), tuple(lines))


def _loops(inspection: Inspection) -> Section | None:
    if inspection.flow is None or not inspection.flow.loops:
        return None
    rows = []
    for loop in inspection.flow.loops:
        instructions = inspection.flow.instructions(loop)
        mfma = mix_of(instructions).family("mfma")
        lines = f"{instructions[0].line}..{instructions[-1].line}"
        mark = "hot" if loop is inspection.hot else ""
        label = f"{'  ' * (loop.depth - 1)}{loop.label}"
        live = inspection.live_vgprs_of_loops[loop.header]
        rows.append(Row(label, (loop.depth, len(instructions), mfma, live, lines, mark)))
    columns = ("depth", "instructions", "MFMA", "VGPRs alive", "lines", "")
    return Section("Loops", "static", columns, tuple(rows), comparable=False)


def _mix(inspection: Inspection) -> Section | None:
    if not inspection.mix.total:
        return None
    whole = dict(inspection.mix.counts)
    hot = dict(inspection.hot_mix.counts) if inspection.hot_mix else {}
    rows = []
    for family, title in FAMILIES.items():
        kinds = [kind for kind in whole if kind.family == family]
        if kinds:
            rows.append(Row(title, (sum(whole[kind] for kind in kinds), sum(hot.get(kind, 0) for kind in kinds))))
        rows += [Row(f"  {kind.name}", (whole[kind], hot.get(kind, 0))) for kind in kinds if kind.detail]
    rows.append(Row("all", (inspection.mix.total, sum(hot.values()))))
    unknown = ", ".join(f"{mnemonic} ({count})" for mnemonic, count in inspection.mix.unknown)
    lines = (f"no class is known for: {unknown}",) if unknown else ()
    return Section("Instruction mix", "static", ("kernel", "hot loop"), tuple(rows), lines, missing=0)


def _runs(inspection: Inspection) -> Section | None:
    runs = inspection.runs
    if runs is None:
        return None
    named = (
        ("longest run between MFMA", runs.longest),
        ("longest run from QK to PV", runs.qk_to_pv),
        ("longest run from PV to QK", runs.pv_to_qk),
    )
    rows = [Row("MFMA", (runs.mfma,)), Row("clusters of one product", (runs.clusters,))]
    rows += [Row(label, (run.length if run else None,)) for label, run in named]
    lines = [f"{label}: {_describe(run)}" for label, run in named[1:] if run]
    if runs.qk_to_pv is None:
        lines.append("one product only: no MFMA of the loop starts from zero beside one that adds to a carried value")
    return Section("Between the MFMA of the hot loop", "static", ("instructions",), tuple(rows), tuple(lines))


def _describe(run: Run) -> str:
    return ", ".join(f"{count} {FAMILIES[family]}" for family, count in run.mix.families().items()) or "nothing"


def _budget(title: str, budget: Budget, counted: str) -> Section:
    rows = [Row(f"{pipe} cycles", (budget.cycles[pipe],)) for pipe in PIPES]
    rows += [
        Row("MFMA shadow, cycles", (budget.shadow,)),
        Row("vector cycles in the shadow", (budget.in_shadow,)),
        Row("vector cycles outside it", (budget.exposed,)),
        *(Row(f"bound by {name}, cycles", (cycles,)) for name, cycles in budget.bounds.items()),
        Row("bound that binds", (budget.binding,)),
        Row(f"MFMA efficiency, at most, {counted}", (budget.mfma_efficiency,)),
    ]
    unpriced = ", ".join(f"{name} ({count})" for name, count in budget.unpriced)
    lines = [f"assumed: {assumption}" for assumption in budget.assumptions]
    if budget.cycles["MFMA"]:
        lines.insert(0, f"in the way of the rest: {budget.obstacle()}")
    if unpriced:
        lines.insert(0, f"counted as free, no cost known: {unpriced}")
    return Section(title, "modelled", ("",), tuple(rows), tuple(lines))
