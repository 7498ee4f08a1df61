"""One kernel, inspected: resources, mix, loops, runs, occupancy and issue budget under one roof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import TargetError
from workbench.gfx950.budget import WITHOUT_VOTED_AWAY, Budget, issue_budget
from workbench.gfx950.cfg import ControlFlow, Loop, control_flow
from workbench.gfx950.clusters import RunReport, find_runs
from workbench.gfx950.isa import Mix, mix_of
from workbench.gfx950.limits import Limits, limits_of
from workbench.gfx950.liveness import peak_pressure
from workbench.gfx950.occupancy import Occupancy, Step, cap_note, llvm_occupancy, next_steps, occupancy_of
from workbench.gfx950.votes import voted_away, without_blocks

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.gfx950.machine_code import Instruction, Kernel
    from workbench.inspection.sections import Section


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """Everything said about one kernel. Static figures come from the file, modelled ones from the issue budget."""

    title: str
    kernel: Kernel
    mix: Mix
    flow: ControlFlow | None
    """None where there are no instructions to look at."""
    hot: Loop | None
    hot_mix: Mix | None
    runs: RunReport | None
    """None without MFMA in the hot loop."""
    live_vgprs: int | None
    """Most vector registers that hold a needed value at once."""
    live_vgprs_of_loops: dict[int, int]
    """The same for each loop, inner loops left out, by the loop's header."""
    occupancy: Occupancy | None
    """None for a target whose limits are not known."""
    llvm_occupancy: int | None
    """LLVM's figure, computed; what LLVM printed stands in the kernel's resources."""
    steps: tuple[Step, ...]
    budget: Budget | None
    """Every instruction of the hot loop counted once."""
    voted_away: frozenset[int]
    """Blocks of the hot loop that a wave branches around when none of its lanes needs them."""
    voted_budget: Budget | None
    """The budget without those blocks; None where there are none."""
    notes: tuple[str, ...]
    """What the reader must know to read the figures."""

    @property
    def hot_instructions(self) -> tuple[Instruction, ...]:
        """Instructions of the hot loop in program order."""
        return self.flow.instructions(self.hot) if self.flow and self.hot else ()

    def summary(self) -> dict[str, dict[str, int | float | str | None]]:
        """The figures that studies compare, by evidence kind. Instruction counts are those of the hot loop."""
        resources, occupancy, budget = self.kernel.resources, self.occupancy, self.budget
        families = self.hot_mix.families() if self.hot_mix else {}
        to_pv = self.runs.qk_to_pv if self.runs else None
        static: dict[str, int | float | str | None] = {
            "vgprs": resources.vgprs,
            "vgprs_reserved": resources.vgprs_reserved,
            "live_vgprs": self.live_vgprs,
            "agprs": resources.agprs,
            "sgprs": resources.sgprs,
            "vgpr_spills": resources.vgpr_spills,
            "scratch_bytes": resources.scratch_bytes,
            "code_bytes": resources.code_bytes,
            "lds_bytes": occupancy.lds_bytes if occupancy else resources.lds_bytes,
            "workgroups_per_cu": occupancy.workgroups_per_cu if occupancy else None,
            "waves_per_simd": occupancy.waves_per_simd if occupancy else None,
            "limited_by": " and ".join(occupancy.limiters) if occupancy else None,
            "longest_run": self.runs.longest.length if self.runs else None,
            "qk_to_pv": to_pv.length if to_pv else None,
            **{f"hot {family}": count for family, count in families.items()},
        }
        modelled: dict[str, int | float | str | None] = {}
        if budget:
            modelled = {f"{pipe} cycles": cycles for pipe, cycles in budget.cycles.items()}
            modelled |= {
                "shadow cycles": budget.shadow,
                "exposed vector cycles": budget.exposed,
                "least cycles": budget.least_cycles,
                "binding": budget.binding,
                "mfma_efficiency": budget.mfma_efficiency,
            }
        if self.voted_budget:
            modelled |= {
                "voted least cycles": self.voted_budget.least_cycles,
                "voted binding": self.voted_budget.binding,
                "voted mfma_efficiency": self.voted_budget.mfma_efficiency,
            }
        return {"static": static, "modelled": modelled}

    def sections(self) -> tuple[Section, ...]:
        """The figures as titled tables."""
        from workbench.inspection.sections import sections_of

        return sections_of(self)

    def __rich__(self) -> object:
        from workbench.inspection.text import render_sections

        return render_sections(self.title, self.sections(), self.notes)

    def to_html(self, path: Path | None = None, *, assembly: bool = True) -> str:
        """A self-contained page, written to `path` if given; ReportError if that file exists."""
        from workbench.inspection.html import inspection_page, write_page

        page = inspection_page(self, assembly=assembly)
        return write_page(page, path) if path else page

    def _repr_html_(self) -> str:
        from workbench.inspection.html import sections_fragment

        return sections_fragment(self.title, self.sections(), self.notes)


def inspect_kernel(
    kernel: Kernel,
    *,
    title: str | None = None,
    lds_bytes: int | None = None,
    num_warps: int | None = None,
    modern_llvm: bool = False,
    notes: tuple[str, ...] = (),
) -> Inspection:
    """Inspect one kernel.

    `lds_bytes` is the whole LDS of a workgroup, which a file says only where it is static; `num_warps` its waves, by
    default those of the largest workgroup that the kernel allows.
    """
    flow = control_flow(kernel) if kernel.instructions else None
    hot = flow.hot_loop() if flow else None
    instructions = flow.instructions(hot) if flow and hot else ()
    limits = _limits(kernel.target)
    occupancy = None
    if limits is not None:
        occupancy = occupancy_of(kernel.resources, limits, lds_bytes=lds_bytes, num_warps=num_warps)
    waves = max(1, occupancy.waves_per_simd) if occupancy else 1
    live, live_of_loops = peak_pressure(flow) if flow else (None, {})
    skipped = voted_away(flow, hot) if flow and hot else frozenset()
    budget, voted_budget = None, None
    if flow and hot and limits:
        budget = issue_budget(instructions, kernel.target, waves_per_simd=waves)
        if skipped:
            others = without_blocks(flow, hot, skipped)
            voted_budget = issue_budget(others, kernel.target, waves_per_simd=waves, counted=WITHOUT_VOTED_AWAY)
    return Inspection(
        title=title or f"{kernel.name} for {kernel.target}",
        kernel=kernel,
        mix=mix_of(kernel.instructions),
        flow=flow,
        hot=hot,
        hot_mix=mix_of(instructions) if hot else None,
        runs=find_runs(instructions),
        live_vgprs=live,
        live_vgprs_of_loops=live_of_loops,
        occupancy=occupancy,
        llvm_occupancy=llvm_occupancy(kernel.resources, limits, modern=modern_llvm) if limits else None,
        steps=next_steps(occupancy) if occupancy else (),
        budget=budget,
        voted_away=skipped,
        voted_budget=voted_budget,
        notes=(*notes, *_unknown(kernel, lds_bytes, num_warps), *_notes(kernel, limits, flow, hot)),
    )


def _limits(target: str) -> Limits | None:
    try:
        return limits_of(target)
    except TargetError:
        return None


def _unknown(kernel: Kernel, lds_bytes: int | None, num_warps: int | None) -> list[str]:
    resources = kernel.resources
    notes = []
    if lds_bytes is None and not resources.lds_bytes:
        notes.append("the file names no LDS; a dynamic part, such as all of Triton's, must be given (--lds)")
    if num_warps is None and not resources.workgroup_size_known:
        notes.append("the file names no workgroup size: 1024 threads are assumed unless waves are given (--warps)")
    return notes


def _notes(kernel: Kernel, limits: Limits | None, flow: ControlFlow | None, hot: Loop | None) -> list[str]:
    notes = []
    if limits is None:
        notes.append(f"no limits and costs are known for {kernel.target}: no occupancy, no issue budget")
    elif note := cap_note(kernel.resources, limits):
        notes.append(note)
    if flow and flow.indirect:
        notes.append("the code jumps through registers: loops may be missing")
    if flow and hot is None:
        notes.append("the kernel has no loop: no hot loop, no issue budget")
    if hot and hot.children:
        notes.append("the hot loop holds inner loops, whose instructions its mix and budget count once")
    return notes
