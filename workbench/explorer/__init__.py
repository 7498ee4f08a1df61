"""An explorer of kernels: choose a problem, a kernel and its levers, and read what the machine code costs at once.

`state` says what is chosen, `plan` and `answer` what follows from it, `session` answers in the background; none of them
knows a widget. `controls`, `side` and `panel` are the views, and alone import ipywidgets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.explorer.state import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.explorer.panel import Panel

__all__ = ["State", "explore"]


def explore(
    scenario: str = "dense_headline",
    *,
    size: str = "full",
    kernel: str = "auto",
    target: str = "gfx950",
    triton: str = "",
    changes: Mapping[str, str] | None = None,
    against: Mapping[str, str] | None = None,
    ahead: bool = True,
) -> Panel:
    """The explorer's panel for a notebook, with side A as given.

    changes: fields of the spec that dispatch picks, as text. against: shows side B too, with these fields changed
    beyond A's. ahead: whether idle time is spent on compiling the neighbours of what is shown.
    """
    from workbench.explorer.panel import Panel

    first = State(scenario, size, kernel=kernel, target=target, triton=triton).with_changes(changes or {})
    second = None if against is None else first.with_changes(against)
    return Panel(first, second, ahead=ahead)
