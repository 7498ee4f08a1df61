"""One K tile in LDS or two: workgroups per compute unit under the LDS of gfx950 and under that of gfx942.

Evidence: registers, LDS and occupancy static; times measured where a gfx950 is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.gfx950.limits import limits_of
from workbench.gfx950.occupancy import Occupancy
from workbench.studies.unified_levers import base_spec, changed_study, paged, small_paged

if TYPE_CHECKING:
    import pandas as pd

    from workbench.scenarios import Scenario
    from workbench.studies.lever_study import LeverStudy, Progress

TARGETS = ("gfx950", "gfx942")
"""Whose LDS budgets are compared: 160 KiB and 64 KiB of a compute unit."""
BUFFERS = {
    "K double, V single": {"k_single_buffer": False, "v_double_buffer": False},
    "K single, V single": {"k_single_buffer": True, "v_double_buffer": False},
    "K single, V double": {"k_single_buffer": True, "v_double_buffer": True},
    "K double, V double": {"k_single_buffer": False, "v_double_buffer": True},
}


def buffer_study(
    scenario: Scenario, *, emulate: bool = True, triton_version: str = "", on_step: Progress | None = None
) -> LeverStudy:
    """The Gluon kernel that dispatch picks for the scenario, with each number of buffers."""
    problem = paged(scenario)
    return changed_study(
        problem,
        base_spec("Gluon", problem),
        BUFFERS,
        published=("num_stages",),
        emulated=small_paged if emulate else None,
        triton_version=triton_version,
        on_step=on_step,
    )


def budget_frame(study: LeverStudy) -> pd.DataFrame:
    """A line per variant and target's LDS: workgroups that LDS and registers admit, and what limits. Static."""
    import pandas as pd

    found = []
    for variant in study.names:
        inspection = study.outcomes[variant].inspection
        if inspection is None or inspection.occupancy is None:
            continue
        own = inspection.occupancy
        for target in TARGETS:
            held = Occupancy(limits_of(target), own.vgprs, own.lds_bytes, own.num_warps)
            found.append(
                {
                    "variant": variant,
                    "budget": target,
                    "budget_bytes": held.limits.lds_bytes,
                    "lds": own.lds_bytes,
                    "allocated": held.allocated_lds,
                    "vgprs": own.vgprs,
                    "by_lds": held.admitted["LDS"],
                    "by_registers": held.admitted["registers"],
                    "workgroups": held.workgroups_per_cu,
                    "limited_by": " and ".join(held.limiters),
                    "evidence": "static",
                }
            )
    return pd.DataFrame(found)
