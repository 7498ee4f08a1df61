"""The options by which several sub-commands choose scenarios."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from workbench.scenarios import Scenario


class Size(StrEnum):
    """Sizes of a scenario."""

    FULL = "full"
    SMALL = "small"


SizeOption = Annotated[Size, typer.Option("--size", help="Full size, or scaled down for the CPU.")]
NamesOption = Annotated[list[str] | None, typer.Argument(metavar="SCENARIO", help="Scenarios by name.")]
SetOption = Annotated[str | None, typer.Option("--set", help="A whole set, or all; default: the default set.")]
FileOption = Annotated[Path | None, typer.Option("--file", help="Scenario file of your own.")]


def load(set_name: str | None, file: Path | None, size: Size) -> tuple[Scenario, ...]:
    """Scenarios of a set that the workbench brings, or of the user's file."""
    from workbench.scenarios import load_file, load_set

    if file is None:
        return load_set(set_name or "default", size.value)
    return load_file(file, size.value) if set_name is None else load_set(set_name, size.value, file)


def choose(names: list[str] | None, set_name: str | None, file: Path | None, size: Size) -> tuple[Scenario, ...]:
    """Scenarios by name, or those of a set or a file; the default set where nothing is said."""
    from workbench.errors import ParameterError
    from workbench.scenarios import find, load_all

    if names and (set_name or file):
        raise ParameterError("give scenarios by name, or --set or --file, not both")
    if names:
        return tuple(find(name, size.value) for name in names)
    return load_all(size.value) if set_name == "all" and file is None else load(set_name, file, size)
