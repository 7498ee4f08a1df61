"""`workbench report all`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from workbench.cli.given import names
from workbench.cli.options import OnlyOption, ReportsOption, Size, SkipOption, TimeoutOption
from workbench.cli.report import ParametersOption, split_parameters

if TYPE_CHECKING:
    from workbench.report import SuiteResult

INTERRUPTED = 130


def report_all(
    size: Annotated[
        Size | None, typer.Option("--size", help="For each notebook with a size; default: as each declares.")
    ] = None,
    only: OnlyOption = None,
    skip: SkipOption = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, metavar="N", help="Studies at once; default: one per core.")
    ] = None,
    timeout: TimeoutOption = None,
    out: ReportsOption = None,
    parameters: ParametersOption = None,
) -> None:
    """Run every notebook into one folder with an index page; a study that fails stops no other.

    A parameter goes to each notebook that has it, NOTEBOOK.NAME to that one alone. On a GPU, studies that measure run
    one at a time with nothing beside them.

    Ends with code 1 when any study failed, with code 2 before anything runs when a name or a parameter is wrong.
    """
    from workbench.report import run_all
    from workbench.report.suite_plan import STUDY_LIMIT_S

    result = run_all(
        split_parameters(parameters or ()),
        out,
        size=None if size is None else size.value,
        only=names(only),
        skip=names(skip),
        jobs=jobs,
        timeout=STUDY_LIMIT_S if timeout is None else timeout,
    )
    _print(result)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)
    if result.status != "ok":
        raise typer.Exit(1)


def _print(result: SuiteResult) -> None:
    """Each study in a line or two, failures last so that they stand at the prompt, then where the index is."""
    from workbench.report.words import format_duration

    console = Console(soft_wrap=True, highlight=False)
    for outcome in sorted(result.outcomes, key=lambda each: each.status != "ok"):
        console.print(f"{outcome.name}: {outcome.status}", style="green" if outcome.status == "ok" else "red")
        for said in outcome.headlines:
            console.print(f"  {said.sentence} [{said.evidence}]", markup=False)
        for failure in outcome.failed:
            console.print(f"  {failure}", style="red", markup=False)
    bad = sum(outcome.status != "ok" for outcome in result.outcomes)
    counts = f"{bad} of {len(result.outcomes)} studies failed" if bad else f"{len(result.outcomes)} studies, all ok"
    console.print(f"{counts}. Total time {format_duration(result.seconds)}.", markup=False)
    console.print(f"Report: {result.index}", markup=False)
