"""What is chosen on one side of the explorer. Values are text, as `--spec` of the command line takes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

Pairs = tuple[tuple[str, str], ...]
"""(field, value) in the order in which they were set."""

AUTO = "auto"
"""The kernel that dispatch picks."""


@dataclass(frozen=True)
class State:
    """One configuration."""

    scenario: str
    size: str = "full"
    edits: Pairs = ()
    """Changed fields of the scenario's problem."""
    kernel: str = AUTO
    """`auto`, or a kernel of the lever registry."""
    changes: Pairs = ()
    """Changed fields of the spec that dispatch picks."""
    target: str = "gfx950"
    triton: str = ""
    """Triton's version; empty: the installed one."""

    def with_choice(self, **choice: Any) -> State:
        """Another scenario, size, kernel, target or Triton version. Another scenario drops the edits of the last."""
        changed = replace(self, **choice)
        return changed if changed.scenario == self.scenario else replace(changed, edits=())

    def with_edits(self, edits: Mapping[str, str | None]) -> State:
        """Fields of the problem set; None takes the scenario's value again."""
        return replace(self, edits=_merged(self.edits, edits))

    def with_changes(self, changes: Mapping[str, str | None]) -> State:
        """Fields of the spec set; None takes the value of dispatch again."""
        return replace(self, changes=_merged(self.changes, changes))


def _merged(pairs: Pairs, changes: Mapping[str, str | None]) -> Pairs:
    merged: dict[str, str | None] = {**dict(pairs), **changes}
    return tuple((name, value) for name, value in merged.items() if value is not None)
