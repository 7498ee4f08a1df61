"""Which scenarios a command line means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.cli.options import Size
from workbench.errors import ParameterError

if TYPE_CHECKING:
    from workbench.scenarios import Scenario


def choose(names: list[str] | None, set_name: str | None, size: Size) -> tuple[Scenario, ...]:
    """Scenarios by name, or those of a set or a file; the default set where nothing is said."""
    from workbench.scenarios import find, load_named

    if names and set_name is not None:
        raise ParameterError("give scenarios by name, or --set, not both")
    if names:
        return tuple(find(name, size.value) for name in names)
    return load_named("default" if set_name is None else set_name, size.value)
