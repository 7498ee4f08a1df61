"""The dense prefill kernel: geometry, grid, and the order in which a persistent grid hands out its work (§8.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from workbench import spec_gfx950, spec_sm90
from workbench.dispatch.geometry import Cohort, Geometry, fit_lds, rows_of_32
from workbench.dispatch.grid import grid_dense
from workbench.dispatch.tiles import FP32_ROWS, FP32_TILE
from workbench.dispatch.tuned import Tuned, tuned_spec
from workbench.dispatch.work_order import (
    INTERPRETER_PROGRAMS,
    is_even_by_head,
    num_persistent_programs,
    select_work_order,
)
from workbench.errors import SpecError
from workbench.spec import MIN_DOT_EXTENT, DenseGeometry, DenseSpec, ceil_power_of_two, head_pad
from workbench.spec_gfx950 import Gfx950DenseSpec
from workbench.spec_sm90 import ROWS_PER_WARPGROUP, Sm90DenseSpec

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.problem import DenseAttentionProblem

SHORTEST_FOR_GLUON = 65
"""Query rows under which the Gluon kernel's 128-row tile would be half empty."""


@dataclass(frozen=True)
class DenseChoice:
    """A dense spec, the cohort it was chosen for, and why."""

    spec: DenseGeometry
    cohort: str
    reasons: tuple[str, ...]


def select_dense_spec(
    problem: DenseAttentionProblem, device: Device | None = None, *, portable: bool = False, tuned: Tuned = True
) -> DenseChoice:
    """Kernel, geometry, grid and levers. Without a device: a geometry that is cheap to interpret.

    A tuned spec goes before (workbench.dispatch.tuned); tuned=False leaves it out.
    gfx950 and sm_90 get their Gluon kernels where those serve the problem, unless `portable` asks for plain Triton.
    AMD gets the persistent grid, one program per compute unit; NVIDIA the default grid for plain Triton.
    """
    chosen: Any
    chosen, why_tuned = tuned_spec(problem, device, "dense", tuned, portable=portable)
    if chosen is not None:
        spec, cohort, reasons = chosen, "tuned", why_tuned
    else:
        gluon = None if device is None or portable else _gluon(problem, device)
        spec, cohort, reasons = gluon or _portable(problem, device)
        reasons = (*reasons, *why_tuned)
    items = prod(grid_dense(problem, spec.block_m))
    if spec.grid == "persistent":
        programs = select_work_order(problem, spec, device).num_persistent
        why = f"Persistent grid: {programs} programs share {items} work items and start up once each."
    else:
        why = f"Default grid: one program for each of {items} work items."
    return DenseChoice(spec, cohort, (f"Cohort {cohort}.", *reasons, why))


def _gluon(problem: DenseAttentionProblem, device: Device) -> tuple[DenseGeometry, str, tuple[str, ...]] | None:
    """The architecture's own kernel with its cohort and reason; None where it has none for the problem."""
    if problem.seqlen_q < SHORTEST_FOR_GLUON:
        return None
    if device.arch == spec_gfx950.ARCH and _serves(Gfx950DenseSpec(), problem):
        return _gfx950_gluon(problem)
    if device.arch == spec_sm90.ARCH and problem.head_size == 128 and _serves(Sm90DenseSpec(), problem):
        return _sm90_gluon(problem, device)
    return None


def _serves(spec: Gfx950DenseSpec | Sm90DenseSpec, problem: DenseAttentionProblem) -> bool:
    try:
        spec.check(problem)
    except SpecError:
        return False
    return True


def _sm90_gluon(problem: DenseAttentionProblem, device: Device) -> tuple[DenseGeometry, str, tuple[str, ...]]:
    """Geometry and grid as an H200 likes them: data/measured/h200/dense.parquet.

    Heads that share K and V meet in L2 under qb_major; heads that do not would fill it, and go one after the other.
    """
    alone = problem.group_size == 1
    spec = Sm90DenseSpec(persist_decode="hkv_major" if alone else "qb_major")
    programs = num_persistent_programs(spec, device)
    if alone and problem.causal and not is_even_by_head(problem, spec, programs):
        spec = Sm90DenseSpec(grid="default")
    reason = (
        f"Gluon kernel: two warpgroups of {ROWS_PER_WARPGROUP} query rows and a copying warp, "
        f"{spec.num_buffers} K and V tiles of {spec.block_n} keys; each softmax runs beside two products."
    )
    return spec, "dense-sm90-gluon", (reason,)


def _gfx950_gluon(problem: DenseAttentionProblem) -> tuple[DenseGeometry, str, tuple[str, ...]]:
    rows = 256 if problem.seqlen_q > 128 else 128
    wide = problem.head_size == 128
    spec = Gfx950DenseSpec(block_m=rows, wide_lds_dma=wide)
    ragged = "ranges checked" if spec.is_ragged(problem.seqlen_q, problem.seqlen_kv) else "whole tiles"
    reason = (
        f"Gluon kernel: S^T = K Q^T on 32x32x16 MFMA, {rows} query rows over {spec.num_warps} waves, {ragged}; "
        f"{'16' if wide else '4'} bytes a lane copied to LDS, {spec.num_buffers} K and V tiles of {spec.block_n} keys."
    )
    return spec, "dense-gfx950-gluon", (reason,)


def _portable(problem: DenseAttentionProblem, device: Device | None) -> tuple[DenseGeometry, str, tuple[str, ...]]:
    cohort = _cohort(problem, device)
    geometry = cohort.geometry
    persistent = device is None or device.vendor == "amd"
    spec = DenseSpec(
        block_m=geometry.rows,
        block_n=geometry.tile,
        num_warps=geometry.num_warps,
        num_stages=geometry.num_stages,
        waves_per_eu=geometry.waves_per_eu,
        matrix_instr_nonkdim=geometry.matrix_instr_nonkdim,
        lazy_rescale=_has_room_for_a_branch(problem, device),
        grid="persistent" if persistent else "default",
        num_persistent=INTERPRETER_PROGRAMS if device is None else None,
    )
    return spec, cohort.name, cohort.reasons


def _has_room_for_a_branch(problem: DenseAttentionProblem, device: Device | None) -> bool:
    """Whether the lazy rescale's branch pays: up to 64 channels, over them on NVIDIA.

    Over 64 channels AMD's loop has no register left for it; NVIDIA's products of up to 64 are as short as the branch.
    """
    small = head_pad(problem.head_size) <= 64
    return device is None or small == (device.vendor == "amd")


def _cohort(problem: DenseAttentionProblem, device: Device | None) -> Cohort:
    longest = max(MIN_DOT_EXTENT, ceil_power_of_two(max(1, problem.seqlen_q)))
    if device is None:
        keys = max(MIN_DOT_EXTENT, ceil_power_of_two(max(1, problem.seqlen_kv)))
        reason = "No device: large tiles keep the interpreter's operations few."
        return Cohort("interpreter", Geometry(min(64, longest), min(128, keys), 4, 1), (reason,))
    cohort = _amd(problem, device) if device.vendor == "amd" else _nvidia(problem)
    geometry = replace(cohort.geometry, rows=min(cohort.geometry.rows, longest))
    if problem.dtype == "fp32":
        geometry = replace(geometry, rows=min(geometry.rows, FP32_ROWS), tile=min(geometry.tile, FP32_TILE))
    cohort = replace(cohort, geometry=geometry)
    return fit_lds(cohort, device, problem.head_size, problem.dtype, MIN_DOT_EXTENT)


def _amd(problem: DenseAttentionProblem, device: Device) -> Cohort:
    pad = head_pad(problem.head_size)
    tile = 64 if pad <= 128 else 32
    if device.arch != "gfx950":
        reason = "128 query rows over 4 waves, 32 each: LDS and registers hold no more."
        return Cohort("dense-amd", rows_of_32(128, tile, num_stages=2), (reason,))
    # Tiles in flight cost registers: over d64 a second pair spills around the persistent loop.
    num_stages = 2 if pad <= 64 else 1
    staging = f"{num_stages} stage{'s' if num_stages > 1 else ''} of K and V, the most that spills nothing."
    if pad > 128:
        reason = f"128 query rows over 4 waves, 32 each; {staging}"
        return Cohort("dense-gfx950", rows_of_32(128, tile, num_stages), (reason,))
    reason = (
        "256 query rows over 8 waves, 32 each; the plain product, whose operands Triton swaps by itself, "
        f"so that a lane holds keys of one row; {staging}"
    )
    return Cohort("dense-gfx950", rows_of_32(256, tile, num_stages, waves_per_eu=2), (reason,))


def _nvidia(problem: DenseAttentionProblem) -> Cohort:
    pad = head_pad(problem.head_size)
    if pad > 128:
        return Cohort("dense-nvidia", Geometry(64, 64, 4, 2), ("Head sizes over 128: 64 rows keep the registers.",))
    return Cohort("dense-nvidia", Geometry(128, 64, 8, 3), ("128 query rows over 8 warps, 3 stages in flight.",))
