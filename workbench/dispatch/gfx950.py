"""The cohorts of specification §6 that the unified Gluon kernel of gfx950 serves, and its levers for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.errors import SpecError
from workbench.spec_gfx950 import ARCH
from workbench.spec_gfx950_unified import Gfx950Unified2DSpec

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.dispatch.geometry import Cohort
    from workbench.problem import UnifiedAttentionProblem

LEVERS: dict[str, dict[str, Any]] = {
    "single-batch-d128-prefill": {"num_warps": 2, "k_single_buffer": True, "cluster": True, "waves_per_eu": 2},
    "single-batch-d64-prefill": {"num_warps": 4, "cluster": True, "waves_per_eu": 3},
    "d64-b32-gqa8-serving": {"num_warps": 4, "waves_per_eu": 4},
    "d64-b32-gqa8-serving-window": {"num_warps": 2, "waves_per_eu": 3},
    "d64-b32-gqa8-serving-window-fp8": {"num_warps": 4, "waves_per_eu": 4},
}
OWN_REASONS = {
    "d64-b32-gqa8-serving": "d64, 32-token pages, group 8, full attention: limited by registers, so as many waves a "
    "SIMD as spill nothing."
}
"""Where the portable kernel's reason names its own number of waves."""
WAVES_OF_FP8 = 3
"""With an fp8 cache a tile of 64 keys passes through registers: one wave less fits."""


def select_gluon(
    problem: UnifiedAttentionProblem, device: Device, cohort: Cohort
) -> tuple[Gfx950Unified2DSpec, tuple[str, ...]] | None:
    """The Gluon kernel's spec for a problem of the cohort, and why; None where the portable kernel serves it."""
    if device.arch != ARCH or cohort.name not in LEVERS:
        return None
    levers = LEVERS[cohort.name] | {"tile_size": cohort.geometry.tile}
    full = problem.sliding_window is None
    if full and problem.kv_dtype == "fp8_e4m3":
        levers["waves_per_eu"] = min(levers["waves_per_eu"], WAVES_OF_FP8)
    try:
        spec = Gfx950Unified2DSpec(transposed_mask_once=full, transposed_mask_limit=full, **levers)
        spec.check(problem)
    except SpecError:
        return None
    lds_kib = spec.lds_bytes(problem.head_size, problem.dtype, problem.dtype) // 1024
    why = f"{spec.block_m} rows over {spec.num_warps} waves, waves_per_eu {spec.waves_per_eu}, {lds_kib} KiB of LDS."
    own = OWN_REASONS.get(cohort.name)
    return spec, (*((own,) if own else cohort.reasons), f"Gluon kernel: S^T = K Q^T on 32x32 MFMA, {why}")
