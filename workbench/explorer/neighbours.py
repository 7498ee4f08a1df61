"""What a reader may ask for next: each lever of the registry at another of its values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.explorer.plan import make_plan
from workbench.explorer.problem_edits import spell_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.compiler import KernelRequest
    from workbench.explorer.plan import Plan


def neighbours(plan: Plan) -> Iterator[KernelRequest]:
    """The main kernel of the plan with one lever changed: switches first, then values in the registry's order."""
    if plan.kernel is None or plan.spec is None:
        return
    levers = sorted(plan.kernel.levers, key=lambda lever: not all(isinstance(each, bool) for each in lever.values))
    for lever in levers:
        for value in lever.values:
            if value != getattr(plan.spec, lever.field):
                yield from make_plan(plan.state.with_changes({lever.field: spell_value(value)})).requests[:1]
