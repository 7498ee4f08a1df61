"""An answer's figures as titled tables, and two answers' side by side."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

from workbench.explorer.plan import planned_lds
from workbench.explorer.problem_edits import spell_value
from workbench.gfx950.limits import limits_of
from workbench.gfx950.occupancy import Occupancy
from workbench.inspection.compare import beside
from workbench.inspection.sections import Row, Section
from workbench.levers.facts import FACTS
from workbench.problem import DenseAttentionProblem
from workbench.spec import keys_of_tile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.explorer.answer import Answer
    from workbench.explorer.plan import Plan
    from workbench.inspection.sections import Value

CONFLICTS = {fact.key: fact.title.removeprefix("conflicts ") for fact in FACTS if fact.evidence == "emulated"}
ROUTING = "Routing"
_GEOMETRY, _FIELDS = "Geometry", "Fields of the spec"
AT_ONCE = (ROUTING, _GEOMETRY, _FIELDS)
"""Titles of the tables that need no machine code."""
_LEFT_OUT = ("Loops", "Instruction mix")


def tables(answer: Answer) -> tuple[Section, ...]:
    """Every table that there are figures for, in the order of how soon they are known."""
    plan = answer.plan
    if plan is None:
        return ()
    found = [_routing(plan), _geometry(plan)]
    if answer.inspection is not None:
        sections = answer.inspection.sections()
        found += [section for section in sections if section.title not in _LEFT_OUT]
        found.insert(4, _hot_mix(sections))
    elif answer.compiled is not None:
        found.append(_nvidia_resources(answer))
    if answer.conflicts:
        rows = [Row(title, (answer.conflicts[key],)) for key, title in CONFLICTS.items()]
        lines = (f"over a launch of {answer.conflicts_of}",)
        found.append(Section("LDS bank conflicts, cycles", "emulated", ("",), tuple(rows), lines))
    if answer.time:
        found.append(_time(answer))
    found.append(_spec(plan))
    return tuple(section for section in found if section.rows or section.lines)


def tables_beside(before: Answer, after: Answer) -> tuple[Section, ...]:
    """The tables of both with every column as A, B and B - A."""
    ours = {section.title: section for section in tables(before)}
    theirs = {section.title: section for section in tables(after)}
    return tuple(beside(ours.get(title), theirs.get(title)) for title in dict.fromkeys([*ours, *theirs]))


def what_if_table(compiled: Occupancy, asked: Occupancy) -> Section:
    """Occupancy as compiled, beside that of other registers, LDS and waves."""
    rows = [
        Row("VGPRs", (compiled.vgprs, asked.vgprs)),
        Row("LDS bytes", (compiled.lds_bytes, asked.lds_bytes)),
        Row("waves of a workgroup", (compiled.num_warps, asked.num_warps)),
        Row("workgroups per CU", (compiled.workgroups_per_cu, asked.workgroups_per_cu)),
        Row("waves per SIMD", (compiled.waves_per_simd, asked.waves_per_simd)),
        Row("limited by", (" and ".join(compiled.limiters), " and ".join(asked.limiters))),
    ]
    return Section("Occupancy", "static", ("as compiled", "what if"), tuple(rows))


def only_differences(sections: Sequence[Section]) -> tuple[Section, ...]:
    """Tables of two sides less the rows in which both agree."""
    kept = (replace(section, rows=tuple(row for row in section.rows if differs(row))) for section in sections)
    return tuple(section for section in kept if section.rows)


def differs(row: Row) -> bool:
    """Whether the sides of a row of three columns each, A, B and B - A, disagree in a figure that both have."""
    pairs = zip(row.values[::3], row.values[1::3], strict=True)
    return any(before != after and None not in (before, after) for before, after in pairs)


def _routing(plan: Plan) -> Section:
    kernel = plan.kernel.kernel if plan.kernel else type(plan.base).__name__
    rows: list[Row] = [Row("lane", (plan.lane,)), Row("kernel", (kernel,)), Row("device", (plan.device.title,))]
    rows += [Row(name, (count,)) for name, count in plan.facts.items()]
    return Section(ROUTING, "static", ("",), tuple(rows), plan.reasons)


def _geometry(plan: Plan) -> Section:
    spec, problem = plan.spec, plan.problem
    if spec is None or not plan.launches:
        return Section(_GEOMETRY, "static", ("",), ())
    grid = plan.launches[0].grid
    rows: list[tuple[str, Value]] = [
        ("query rows of a workgroup", getattr(spec, "block_m", None)),
        ("keys of a KV tile", keys_of_tile(spec)),
        ("waves of a workgroup", dict(plan.requests[0].options).get("num_warps")),
        ("launch grid", " x ".join(map(str, grid))),
        ("workgroups", grid[0] * grid[1] * grid[2]),
        ("kernels launched", len(plan.launches)),
        ("query heads per KV head", problem.group_size),
    ]
    if not isinstance(problem, DenseAttentionProblem):
        rows.append(("sequences", problem.num_seqs))
    lds, waves = planned_lds(plan), dict(plan.requests[0].options).get("num_warps")
    if lds is not None and isinstance(waves, int):
        planned = Occupancy(limits_of(plan.state.target), vgprs=1, lds_bytes=lds, num_warps=waves)
        rows += [("LDS by the spec, bytes", lds), ("workgroups per CU, by that LDS", planned.admitted["LDS"])]
    lines = tuple(f"then {launch.kernel} on {' x '.join(map(str, launch.grid))}" for launch in plan.launches[1:])
    return Section(_GEOMETRY, "static", ("",), tuple(Row(label, (value,)) for label, value in rows), lines)


def _hot_mix(sections: Sequence[Section]) -> Section:
    """The instruction mix with the hot loop's column alone."""
    mix = next((section for section in sections if section.title == "Instruction mix"), None)
    if mix is None:
        return Section("", "static", (), ())
    rows = tuple(Row(row.label, row.values[1:]) for row in mix.rows if row.values[1])
    return replace(mix, title="Instruction mix of the hot loop", columns=("",), rows=rows)


def _nvidia_resources(answer: Answer) -> Section:
    compiled = answer.compiled
    registers = compiled.registers if compiled else None
    rows = [
        Row("registers a thread", (registers.vgprs if registers else None,)),
        Row("stack, bytes a thread", (registers.scratch_bytes if registers else None,)),
        Row("shared memory, bytes", (compiled.lds_bytes if compiled else None,)),
        Row("warps of a workgroup", (compiled.num_warps if compiled else None,)),
    ]
    lines = ("mix, occupancy and issue budget are for AMD targets",)
    return Section("Resources", "static", ("",), tuple(rows), lines)


def _time(answer: Answer) -> Section:
    time = answer.time
    rows = [
        Row("median, us", (round(time["median_us"], 1),)),
        Row("least and most, us", (f"{time['least_us']:.1f} to {time['most_us']:.1f}",)),
        *(Row(name, (round(time[key], 2),)) for key, name in (("tflops", "TFLOP/s"), ("tbps", "TB/s")) if key in time),
    ]
    lines = (f"{time['rounds']} rounds on {time['device']}",)
    return Section("Time", "measured", ("",), tuple(rows), lines)


def _spec(plan: Plan) -> Section:
    if plan.spec is None:
        return Section(_FIELDS, "static", ("",), ())
    rows = [Row(field.name, (spell_value(getattr(plan.spec, field.name)),)) for field in fields(plan.spec)]
    return Section(_FIELDS, "static", ("",), tuple(rows))
