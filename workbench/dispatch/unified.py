"""Tier two: the geometry and the levers of the lane's kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from workbench.dispatch import amd, gfx950, interpreter, nvidia, tiles
from workbench.dispatch.geometry import Cohort, fit_lds
from workbench.dispatch.grid import LARGEST_BLOCK_M, smallest_block_m
from workbench.dispatch.path import LANES, admitted_lanes
from workbench.dispatch.tuned import Tuned, tuned_spec
from workbench.errors import SpecError, UnsupportedError
from workbench.spec import Unified2DSpec, Unified3DSpec, head_pad

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.problem import UnifiedAttentionProblem
    from workbench.spec_gfx950_unified import Gfx950Unified2DSpec

REDUCE_VALUES_PER_LANE = {"amd": 32, "nvidia": 128}
"""Partial outputs that a lane of the reduction sums: on an H200 one warp that has them all under way beats several."""


@dataclass(frozen=True)
class SpecChoice:
    """A spec that serves the problem, the cohort it was chosen for, and why."""

    spec: Unified2DSpec | Unified3DSpec | Gfx950Unified2DSpec
    cohort: str
    reasons: tuple[str, ...]


@lru_cache(maxsize=1024)
def select_spec(
    problem: UnifiedAttentionProblem,
    device: Device | None,
    lane: str,
    *,
    portable: bool = False,
    tuned: Tuned = True,
) -> SpecChoice:
    """Kernel, geometry and levers for `lane`, '2d' or '3d'. Without a device: a geometry that is cheap to interpret.

    A tuned spec goes before (workbench.dispatch.tuned); tuned=False leaves it out. On gfx950 the 2D cohorts of §6 get
    the Gluon kernel, unless `portable` asks for plain Triton.
    Raises SpecError for another lane and UnsupportedError for a GQA group that no tile holds.
    """
    if lane not in LANES:
        raise SpecError(f"lane must be one of {', '.join(LANES)}, got {lane!r}; select_path resolves 'auto'")
    if lane not in admitted_lanes(problem):
        raise UnsupportedError(
            f"a GQA group of {problem.group_size} query heads exceeds the largest query tile, {LARGEST_BLOCK_M} rows; "
            "split the query heads over several calls"
        )
    chosen, why_not = tuned_spec(problem, device, lane, tuned, portable=portable)
    if chosen is not None:
        return SpecChoice(chosen, "tuned", why_not)  # type: ignore[arg-type]
    choice = _by_rule(problem, device, lane, portable=portable)
    return replace(choice, reasons=(*choice.reasons, *why_not)) if why_not else choice


def _by_rule(problem: UnifiedAttentionProblem, device: Device | None, lane: str, *, portable: bool) -> SpecChoice:
    spec: Unified2DSpec | Unified3DSpec | Gfx950Unified2DSpec
    cohort = _cohort(problem, device, lane)
    gluon = None if device is None or portable or lane != "2d" else gfx950.select_gluon(problem, device, cohort)
    if gluon is not None:
        spec, why = gluon
        return SpecChoice(spec, cohort.name, (f"Cohort {cohort.name}.", *why))
    fields = _fields(problem, cohort)
    reasons = (f"Cohort {cohort.name}.", *cohort.reasons)
    if lane == "2d":
        spec = Unified2DSpec(**fields)
    else:
        segments, words = (
            interpreter.num_segments(problem, cohort.geometry)
            if device is None
            else tiles.num_segments(problem, cohort.geometry, device)
        )
        values_per_wave = REDUCE_VALUES_PER_LANE[device.vendor if device else "amd"] * (
            device.wave_size if device else 64
        )
        reduce_num_warps = min(8, max(1, segments * head_pad(problem.head_size) // values_per_wave))
        spec = Unified3DSpec(**fields, num_segments=segments, reduce_num_warps=reduce_num_warps)
        reasons = (*reasons, words)
    spec.check(problem)
    return SpecChoice(spec, cohort.name, reasons)


def _cohort(problem: UnifiedAttentionProblem, device: Device | None, lane: str) -> Cohort:
    if device is None:
        return interpreter.select_cohort(problem)
    if device.vendor == "amd":
        cohort = amd.select_cohort(problem, device, lane)
    else:
        cohort = nvidia.select_cohort(problem, device, lane)
    smallest = smallest_block_m(problem)
    if problem.dtype == "fp32":
        geometry = replace(
            cohort.geometry,
            rows=max(smallest, min(cohort.geometry.rows, tiles.FP32_ROWS)),
            tile=min(cohort.geometry.tile, tiles.FP32_TILE),
        )
        reason = f"fp32: at most {tiles.FP32_ROWS} rows and {tiles.FP32_TILE} keys, since a tile takes twice the LDS."
        cohort = replace(cohort, geometry=geometry, reasons=(*cohort.reasons, reason))
    return fit_lds(cohort, device, problem.head_size, problem.dtype, smallest)


def _fields(problem: UnifiedAttentionProblem, cohort: Cohort) -> dict[str, Any]:
    geometry = cohort.geometry
    full_attention = problem.sliding_window is None
    return {
        "block_m": geometry.rows,
        "tile_size": geometry.tile,
        "num_warps": geometry.num_warps,
        "num_stages": geometry.num_stages,
        "waves_per_eu": geometry.waves_per_eu,
        "matrix_instr_nonkdim": geometry.matrix_instr_nonkdim,
        "mask_split": geometry.mask_split,
        "early_launch": geometry.early_launch,
        "pages_ahead": geometry.pages_ahead,
        "transposed_qk": geometry.transposed_qk,
        "fp8_in_fp16": geometry.fp8_in_fp16,
        "mask_once": full_attention,
        "mask_limit": full_attention,
        "fast_paged_kv": geometry.tile % problem.block_size == 0,
    }
