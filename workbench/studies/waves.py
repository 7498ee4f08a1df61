"""waves_per_eu of the unified kernel: what the register allocator does with it, and which latency a wave more pays for.

A SIMD with W waves that each issue for C cycles an iteration and then wait L cycles for memory or for each other takes

    max(C, (C + L) / W)

cycles for an iteration of one of them: either the issue slots are full, or all waves wait together. C is the issue
budget of the machine code, L is a parameter. Evidence: registers static, cycles modelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.errors import ParameterError
from workbench.studies.unified_levers import base_spec, changed_study, cycles, paged, small_paged

if TYPE_CHECKING:
    import pandas as pd

    from workbench.scenarios import Scenario
    from workbench.studies.lever_study import LeverStudy, Progress

LEVER = "waves_per_eu"
LATENCIES = range(0, 20_000, 10)


def waves_study(
    scenario: Scenario,
    kernel: str,
    values: Sequence[int],
    *,
    emulate: bool = True,
    triton_version: str = "",
    on_step: Progress | None = None,
) -> LeverStudy:
    """The kernel that dispatch picks for the scenario (`Gluon` or `portable`) at each value."""
    problem = paged(scenario)
    return changed_study(
        problem,
        base_spec(kernel, problem),
        {f"{LEVER}={value}": {LEVER: value} for value in values},
        published=(LEVER,),
        emulated=small_paged if emulate else None,
        timing=_why_no_lever() or True,
        triton_version=triton_version,
        on_step=on_step,
    )


def _why_no_lever() -> str:
    """Why the GPU here cannot tell the values apart; nothing where it can, or where there is none."""
    from workbench.device import detect_device

    device = detect_device()
    if device is None or device.vendor == "amd":
        return ""
    return f"{device.title} has no {LEVER}: all values are one kernel there"


def register_frame(study: LeverStudy, kernel: str) -> pd.DataFrame:
    """A line per value: registers used, reserved and spilled, occupancy, and cycles of a wave for 64 keys."""
    import pandas as pd

    found = []
    for variant in study.names:
        inspection = study.outcomes[variant].inspection
        waves = study.find(variant, "waves per SIMD")
        found.append(
            {
                "kernel": kernel,
                "value": int(variant.partition("=")[2]),
                "vgprs": study.value(variant, "VGPRs"),
                "reserved": inspection.kernel.resources.vgprs_reserved if inspection else None,
                "spills": study.value(variant, "spilled VGPRs"),
                "waves": waves.value if waves else None,
                "limited_by": waves.text if waves else "",
                "workgroups": study.value(variant, "workgroups per CU"),
                "instructions": study.value(variant, "instructions per 64 keys"),
                "cycles": cycles(study, variant),
                "time": study.value(variant, "time"),
                "evidence": "static; cycles modelled",
            }
        )
    return pd.DataFrame(found)


def latency_frame(registers: pd.DataFrame, latencies: Sequence[int]) -> pd.DataFrame:
    """A line per value and latency: cycles that a SIMD takes for 64 keys of one wave. Modelled."""
    import pandas as pd

    found = [
        {
            "kernel": row.kernel,
            "value": row.value,
            "latency": latency,
            "cycles": _cycles(row, latency),
            "evidence": "modelled",
        }
        for row in registers.itertuples()
        for latency in latencies
    ]
    return pd.DataFrame(found)


def pays_from(registers: pd.DataFrame, fewer: int, more: int) -> int | None:
    """Least latency, in steps of 10 cycles, from which the larger value is faster in the model; None if it never is."""
    low, high = _rows(registers, fewer, more)
    return next((each for each in LATENCIES if _cycles(high, each) < _cycles(low, each)), None)


def implied_latency(registers: pd.DataFrame, fewer: int, more: int, speedup: float) -> int | None:
    """Least latency at which the model gives that speed-up of the larger value; None if it never does."""
    low, high = _rows(registers, fewer, more)
    return next((each for each in LATENCIES if _cycles(low, each) / _cycles(high, each) >= speedup), None)


def _rows(registers: pd.DataFrame, fewer: int, more: int) -> tuple[Any, Any]:
    by_value = {row.value: row for row in registers.itertuples()}
    for value in (fewer, more):
        if value not in by_value:
            raise ParameterError(f"{LEVER}={value} is not in the study; it has {', '.join(map(str, by_value))}")
    return by_value[fewer], by_value[more]


def _cycles(row: Any, latency: float) -> float:
    """Of a SIMD, for 64 keys of one wave."""
    return float(max(row.cycles, (row.cycles + latency) / row.waves))
