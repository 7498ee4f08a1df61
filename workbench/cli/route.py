"""`workbench route`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from workbench.cli.options import Lane, NamesArgument, SetOption, Size, SizeOption
from workbench.cli.select import choose


def route(
    names: NamesArgument = None,
    set_name: SetOption = None,
    size: SizeOption = Size.FULL,
    device: Annotated[
        str, typer.Option("--device", help="A GPU by name (mi355x, h200, ...) or a .json description; auto: this one.")
    ] = "auto",
    lane: Annotated[
        Lane, typer.Option("--lane", help="Ask for this lane instead of the dispatcher's choice.")
    ] = Lane.AUTO,
) -> None:
    """Print which kernel and geometry the dispatcher picks for scenarios, and why. Runs nothing."""
    from workbench.device import detect_device, load_device
    from workbench.route import route_list

    scenarios = choose(names, set_name, size)
    target = detect_device() if device == "auto" else load_device(device)
    Console(highlight=False).print(route_list(scenarios, target, lane.value))
