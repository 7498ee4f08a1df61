"""Times that studies take on a GPU; a report keeps their records, and some come with the workbench."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.parity.harness import Contestant
    from workbench.parity.timing import TimingPlan
    from workbench.records import Record
    from workbench.scenarios import Scenario


def timed_records(
    scenario: Scenario, contestants: Sequence[Contestant], *, seed: int = 0, plan: TimingPlan | None = None
) -> list[Record]:
    """A record per contestant, interleaved in one session on the GPU here, kept where a report runs the notebook."""
    from workbench.parity.harness import run_contestants
    from workbench.parity.timing import TimingPlan
    from workbench.records import keep_records

    records = run_contestants(scenario, contestants, seed=seed, plan=plan or TimingPlan())
    keep_records(records)
    return records
