"""Occupancy: how many waves and workgroups a compute unit holds, what limits them, and what the next one would take.

Each of three resources admits a number of workgroups of W waves per CU, and the smallest counts:

    registers    floor(4 n / W), with n = floor(512 / V) waves per SIMD and V the vector registers that the kernel
                 reserves, rounded up to the granule
    LDS          floor(budget / L), with L the workgroup's LDS, rounded up to the granule
    wave slots   floor(32 / W), and at most 16 workgroups of more than one wave

A CU deals the waves out evenly, so k workgroups put ceil(k W / 4) waves on its fullest SIMD. SGPRs limit nothing here:
a wave of gfx9-4x has its own, though LLVM's figure counts them (see `llvm_occupancy`). Evidence kind: static.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workbench.errors import ProblemError

if TYPE_CHECKING:
    from workbench.gfx950.limits import Limits
    from workbench.gfx950.resources import Resources

SPECIFICATION_LDS_BYTES = 64 * 1024
"""The budget behind the specification's argument "48 KB -> 1 workgroup, 32 KB -> 2" (specification §4)."""
_SPECIFICATION_LDS_GRANULE = 512

# LLVM, AMDGPU back end, gfx9: SGPRs of a SIMD, their granule, and what it sets aside for a trap handler.
_LLVM_SGPRS, _LLVM_SGPR_GRANULE, _LLVM_TRAP_SGPRS = 800, 16, 16


@dataclass(frozen=True)
class Occupancy:
    """Occupancy of one kernel. The four inputs first, then what follows from them."""

    limits: Limits
    vgprs: int
    """Vector registers that the kernel reserves per lane, not rounded."""
    lds_bytes: int
    """Of a workgroup, static and dynamic."""
    num_warps: int
    """W: waves of a workgroup."""

    @property
    def allocated_vgprs(self) -> int:
        return _round_up(max(self.vgprs, 1), self.limits.vgpr_granule)

    @property
    def allocated_lds(self) -> int:
        return _round_up(self.lds_bytes, self.limits.lds_granule)

    @property
    def waves_by_registers(self) -> int:
        """Waves per SIMD that the register file admits, wave slots counted."""
        return min(self.limits.waves_per_simd, self.limits.vgprs // self.allocated_vgprs)

    @property
    def admitted(self) -> dict[str, int]:
        """Resource -> workgroups per CU that it admits; no entry for LDS where none is used."""
        limits = self.limits
        slots = limits.wave_slots // self.num_warps
        found = {"registers": limits.simds * (limits.vgprs // self.allocated_vgprs) // self.num_warps}
        if self.lds_bytes:
            found["LDS"] = limits.lds_bytes // self.allocated_lds
        found["wave slots"] = slots if self.num_warps == 1 else min(slots, limits.workgroups)
        return found

    @property
    def workgroups_per_cu(self) -> int:
        """0 when one workgroup alone does not fit."""
        return min(self.admitted.values())

    @property
    def waves_per_cu(self) -> int:
        return self.workgroups_per_cu * self.num_warps

    @property
    def waves_per_simd(self) -> int:
        """On the fullest SIMD."""
        return -(-self.waves_per_cu // self.limits.simds)

    @property
    def limiters(self) -> tuple[str, ...]:
        """The resources that admit no more than the occupancy."""
        return tuple(resource for resource, count in self.admitted.items() if count == self.workgroups_per_cu)

    def describe(self) -> str:
        """One line: workgroups, waves, limiter."""
        limiter = " and ".join(self.limiters)
        if self.workgroups_per_cu == 0:
            return f"one workgroup does not fit a CU ({limiter})"
        return (
            f"{self.workgroups_per_cu} workgroup{_s(self.workgroups_per_cu)}/CU, "
            f"{self.waves_per_simd} wave{_s(self.waves_per_simd)}/SIMD, limited by {limiter}"
        )


@dataclass(frozen=True)
class Step:
    """A smaller use of one resource that admits more, and the occupancy after it."""

    text: str
    occupancy: Occupancy
    gains: bool
    """Whether the CU holds more workgroups after this step alone."""


def occupancy_of(
    resources: Resources, limits: Limits, *, lds_bytes: int | None = None, num_warps: int | None = None
) -> Occupancy:
    """Occupancy of a kernel by its resources.

    `lds_bytes` is the workgroup's whole LDS (default: the static part), `num_warps` its waves (default: those of the
    largest workgroup that the kernel allows).
    """
    return _checked(
        Occupancy(
            limits,
            vgprs=resources.vgprs_reserved,
            lds_bytes=resources.lds_bytes if lds_bytes is None else lds_bytes,
            num_warps=-(-resources.max_workgroup_size // 64) if num_warps is None else num_warps,
        )
    )


def what_if(
    occupancy: Occupancy, *, vgprs: int | None = None, lds_bytes: int | None = None, num_warps: int | None = None
) -> Occupancy:
    """The occupancy with some inputs changed."""
    changed = Occupancy(
        occupancy.limits,
        occupancy.vgprs if vgprs is None else vgprs,
        occupancy.lds_bytes if lds_bytes is None else lds_bytes,
        occupancy.num_warps if num_warps is None else num_warps,
    )
    return _checked(changed)


def both_budgets(occupancy: Occupancy) -> dict[str, Occupancy]:
    """The device's LDS budget and, where it is another, the one of the specification's argument, by name."""
    limits = occupancy.limits
    budgets = {f"{limits.lds_bytes // 1024} KB, the LDS of {limits.target}": occupancy}
    if limits.lds_bytes != SPECIFICATION_LDS_BYTES:
        specification = limits.with_lds(SPECIFICATION_LDS_BYTES, _SPECIFICATION_LDS_GRANULE)
        budgets["64 KB, the budget of the specification's argument"] = replace(occupancy, limits=specification)
    return budgets


def next_steps(occupancy: Occupancy) -> tuple[Step, ...]:
    """What the next workgroup would take: of registers, of LDS, and of both where neither suffices alone."""
    one_by_one = tuple(step for step in (_register_step(occupancy), _lds_step(occupancy)) if step is not None)
    if any(step.gains for step in one_by_one):
        return one_by_one
    joint = _joint_step(occupancy)
    return (*one_by_one, joint) if joint is not None and len(one_by_one) == 2 else one_by_one


def cap_note(resources: Resources, limits: Limits) -> str | None:
    """Says so where a kernel reserves more registers than it uses, at the price of waves; None elsewhere."""
    reserved = Occupancy(limits, resources.vgprs_reserved, 0, 1)
    used = replace(reserved, vgprs=resources.vgprs)
    if used.waves_by_registers <= reserved.waves_by_registers:
        return None
    waves = reserved.waves_by_registers
    return (
        f"the code uses {resources.vgprs} vector registers but reserves {resources.vgprs_reserved}, which caps a SIMD "
        f"at {waves} wave{'' if waves == 1 else 's'}; {used.waves_by_registers} would fit: the mark of waves_per_eu"
    )


def llvm_occupancy(resources: Resources, limits: Limits, *, modern: bool) -> int:
    """The figure that LLVM prints as `; Occupancy: N`, in waves per SIMD.

    LLVM counts the reserved vector registers, in which static LDS and `waves_per_eu` are already contained, and the
    scalar registers. `modern` picks how it counts those: an LLVM of 2026, which says `amdgpu9.50` in its triple,
    divides 800 SGPRs by the wave's share, 16 for a trap handler included; before, a wave of 100 SGPRs was thought to
    leave room for 8.
    """
    registers = Occupancy(limits, resources.vgprs_reserved, 0, 1).waves_by_registers
    if modern:
        share = _round_up(max(resources.sgprs, 1) + _LLVM_TRAP_SGPRS, _LLVM_SGPR_GRANULE)
        by_sgprs = _LLVM_SGPRS // share
    else:
        by_sgprs = 8 if resources.sgprs <= 100 else 7
    return max(1, min(registers, by_sgprs))


def _register_step(occupancy: Occupancy) -> Step | None:
    target = _vgprs_for(occupancy, occupancy.admitted["registers"] + 1)
    if target is None:
        return None
    after = what_if(occupancy, vgprs=target)
    return _step(f"{_fewer_vgprs(occupancy, target)} -> {after.waves_by_registers} waves/SIMD", occupancy, after)


def _lds_step(occupancy: Occupancy) -> Step | None:
    target = _lds_for(occupancy, occupancy.admitted.get("LDS", 0) + 1)
    if target is None:
        return None
    return _step(_less_lds(occupancy, target), occupancy, what_if(occupancy, lds_bytes=target))


def _joint_step(occupancy: Occupancy) -> Step | None:
    count = occupancy.workgroups_per_cu + 1
    vgprs, lds_bytes = _vgprs_for(occupancy, count), _lds_for(occupancy, count)
    if vgprs is None or lds_bytes is None:
        return None
    text = f"{_fewer_vgprs(occupancy, vgprs)} and {_less_lds(occupancy, lds_bytes)}"
    return _step(text, occupancy, what_if(occupancy, vgprs=vgprs, lds_bytes=lds_bytes))


def _vgprs_for(occupancy: Occupancy, workgroups: int) -> int | None:
    """Most registers per lane with which the register file admits that many workgroups; None beyond the wave slots."""
    limits = occupancy.limits
    waves = -(-workgroups * occupancy.num_warps // limits.simds)
    if workgroups > occupancy.admitted["wave slots"]:
        return None
    return limits.vgprs // waves // limits.vgpr_granule * limits.vgpr_granule


def _lds_for(occupancy: Occupancy, workgroups: int) -> int | None:
    """Most LDS with which the budget admits that many workgroups; None beyond the wave slots, or without LDS."""
    limits = occupancy.limits
    if not occupancy.lds_bytes or workgroups > occupancy.admitted["wave slots"]:
        return None
    return limits.lds_bytes // limits.lds_granule // workgroups * limits.lds_granule


def _fewer_vgprs(occupancy: Occupancy, target: int) -> str:
    saved = occupancy.vgprs - target
    return f"{saved} fewer VGPR{_s(saved)} ({occupancy.vgprs} -> {target})"


def _less_lds(occupancy: Occupancy, target: int) -> str:
    return f"LDS {_kib(occupancy.lds_bytes)} -> {_kib(target)} KB"


def _step(change: str, before: Occupancy, after: Occupancy) -> Step:
    count, resources = after.workgroups_per_cu, " and ".join(after.limiters)
    if count > before.workgroups_per_cu:
        text = f"{change}: {count} workgroup{_s(count)}/CU, then limited by {resources}"
        return Step(text, after, True)
    return Step(f"{change}, but no more workgroups: limited by {resources}", after, False)


def _checked(occupancy: Occupancy) -> Occupancy:
    for name, value, minimum in (
        ("vgprs", occupancy.vgprs, 0),
        ("lds_bytes", occupancy.lds_bytes, 0),
        ("num_warps", occupancy.num_warps, 1),
    ):
        if not isinstance(value, int) or value < minimum:
            raise ProblemError(f"occupancy: {name} must be an integer >= {minimum}, got {value!r}")
    return occupancy


def _round_up(value: int, granule: int) -> int:
    return -(-value // granule) * granule


def _kib(count: int) -> str:
    return f"{count / 1024:.4g}"


def _s(count: int) -> str:
    return "" if count == 1 else "s"
