"""`workbench report NAME`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from workbench.cli.options import Lane, ReportsOption, SetOption, TimeoutOption
from workbench.errors import ParameterError

_PARAMETER_FLAGS = ("-p", "--parameter")
ParametersOption = Annotated[
    list[str] | None,
    typer.Option(*_PARAMETER_FLAGS, metavar="NAME VALUE", help="Any parameter of the notebook; repeatable."),
]


class Backend(StrEnum):
    """Devices that a report may ask for."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class ReportSize(StrEnum):
    """Sizes that a report may ask for."""

    AUTO = "auto"
    FULL = "full"
    SMALL = "small"


def report(
    name: Annotated[str, typer.Argument(help="A notebook of the workbench by name, e.g. parity, or the path of one.")],
    set_name: SetOption = None,
    lanes: Annotated[
        list[Lane] | None, typer.Option("--lane", help="Lane of the unified kernels; repeatable. Default: all.")
    ] = None,
    size: Annotated[ReportSize | None, typer.Option("--size", help="auto: small without a GPU.")] = None,
    device: Annotated[Backend | None, typer.Option("--device", help="cuda also means ROCm.")] = None,
    out: ReportsOption = None,
    parameters: ParametersOption = None,
    timeout: TimeoutOption = None,
    list_parameters: Annotated[bool, typer.Option("--list", help="List the notebook's parameters and stop.")] = False,
) -> None:
    """Run a notebook into a report: executed notebook, one HTML file, records, manifest.

    Ends with code 1 when anything in the report failed, with code 2 before anything runs when a parameter is wrong.
    """
    from workbench.parity.harness import resolve_device
    from workbench.report import find_notebook, notebook_parameters, run_report
    from workbench.scenarios import load_named

    console = Console(soft_wrap=True, highlight=False)
    if list_parameters:
        for parameter in notebook_parameters(find_notebook(name)).values():
            console.print(parameter.describe(), markup=False)
        return
    options = {"set_name": set_name, "lanes": ",".join(lanes) if lanes else None, "size": size, "device": device}
    values = {key: str(value) for key, value in options.items() if value is not None}
    if set_name is not None:
        # Refused here rather than in a cell of the report; likewise a device that is not there.
        load_named(set_name)
    if device is not None:
        resolve_device(str(device))
    result = run_report(name, values | split_parameters(parameters or ()), out, timeout=timeout)
    for failure in result.failed:
        console.print(f"failed: {failure}", style="red", markup=False)
    console.print(f"Report: {result.html}", markup=False)
    if result.failed:
        raise typer.Exit(1)


def join_parameters(arguments: Sequence[str]) -> list[str]:
    """Turn `-p NAME VALUE` into `-p NAME=VALUE`, since Typer has no repeatable option of two values.

    `-p NAME=VALUE` passes as it is. ParameterError when a value is missing.
    """
    joined = []
    rest = iter(arguments)
    for argument in rest:
        joined.append(argument)
        if argument not in _PARAMETER_FLAGS:
            continue
        name = next(rest, "")
        value = None if "=" in name else next(rest, None)
        if not name or ("=" not in name and value is None):
            raise ParameterError(f"{argument} takes a name and a value: {argument} NAME VALUE, got {name or 'nothing'}")
        joined.append(name if value is None else f"{name}={value}")
    return joined


def split_parameters(pairs: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE texts as a dictionary. ParameterError for a name that is given twice."""
    values: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if name in values:
            raise ParameterError(f"parameter {name!r} is given twice: {values[name]!r} and {value!r}; give it once")
        values[name] = value
    return values
