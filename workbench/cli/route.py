"""`workbench route`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from workbench.cli.select import FileOption, Size, SizeOption, load


class Lane(StrEnum):
    """Lanes of the unified kernels."""

    AUTO = "auto"
    TWO_D = "2d"
    THREE_D = "3d"


def route(
    names: Annotated[list[str] | None, typer.Argument(metavar="SCENARIO", help="Scenarios by name.")] = None,
    set_name: Annotated[str | None, typer.Option("--set", help="A whole set; default: the default set.")] = None,
    file: FileOption = None,
    size: SizeOption = Size.FULL,
    device: Annotated[
        str, typer.Option("--device", help="A GPU by name (mi355x, h200, ...); auto: the one here.")
    ] = "auto",
    lane: Annotated[
        Lane, typer.Option("--lane", help="Ask for this lane instead of the dispatcher's choice.")
    ] = Lane.AUTO,
) -> None:
    """Print which kernel and geometry the dispatcher picks for scenarios, and why. Runs nothing."""
    from workbench.device import detect_device, load_device
    from workbench.route import route_table
    from workbench.scenarios import find

    target = detect_device() if device == "auto" else load_device(device)
    if names and (set_name or file):
        raise typer.BadParameter("give scenarios by name, or --set or --file, not both")
    chosen = tuple(find(name, size.value) for name in names) if names else load(set_name, file, size)
    Console().print(route_table(chosen, target, lane.value))
