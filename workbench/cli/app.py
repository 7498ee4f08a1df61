"""The command's entry point: sub-commands, the version option, and how errors end it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated

import typer
from rich.console import Console

from workbench import __version__
from workbench.cli import (
    bench,
    compare,
    doctor,
    emulate,
    golden,
    inspect,
    levers,
    measure,
    profile,
    report,
    report_group,
    route,
    scenarios,
    tune,
)
from workbench.cli.given import refuse_empty
from workbench.errors import WorkbenchError

EXIT_USER_ERROR = 2

app = typer.Typer(
    name="workbench",
    help="A research workbench for unified paged attention and dense prefill on AMD gfx950.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("doctor")(doctor.doctor)
app.command("scenarios")(scenarios.scenarios)
app.command("route")(route.route)
app.command("bench")(bench.bench)
app.command("compare")(compare.compare)
app.command("tune")(tune.tune)
app.command("measure")(measure.measure)
app.command("inspect")(inspect.inspect)
app.command("emulate")(emulate.emulate)
app.add_typer(golden.golden, name="golden")
app.add_typer(levers.levers, name="levers")
app.add_typer(profile.profile, name="profile")
app.add_typer(report_group.group, name="report")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"workbench {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command. A WorkbenchError is printed without a traceback and ends it with code 2.

    WORKBENCH_DEBUG=1 lets the traceback through.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        # A terminal that lacks a character shows its code; rich would end with a traceback.
        sys.stdout.reconfigure(errors="backslashreplace")
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        arguments = report.join_parameters(given)
        refuse_empty(arguments)
        app(args=arguments, prog_name="workbench")
    except WorkbenchError as error:
        if os.environ.get("WORKBENCH_DEBUG") == "1":
            raise
        console = Console(stderr=True, soft_wrap=True, highlight=False)
        console.print(f"error: {error}", style="red", markup=False)
        raise SystemExit(EXIT_USER_ERROR) from None
