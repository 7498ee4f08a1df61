"""`workbench report list`, `open` and `compare`."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from workbench.report.runs import Run

_COLOURS = {"ok": "green", "failed": "red"}
FolderOption = Annotated[Path, typer.Option("--out", help="Folder of the reports.")]
_REPORTS = Path("reports")


def list_reports(out: FolderOption = _REPORTS) -> None:
    """List the notebooks with their questions and parameters, and the reports that were written."""
    from workbench.report import find_notebook, known_notebooks, notebook_parameters
    from workbench.report.find import describe_notebook
    from workbench.report.runs import find_runs

    runs = find_runs(out)
    console = Console(highlight=False)
    console.print("Notebooks", style="bold")
    for name in known_notebooks():
        path = find_notebook(name)
        described = describe_notebook(path)
        console.print(Text.assemble("  ", (name, "bold"), "  ", (described.title, "dim")))
        _indented(console, described.question)
        _indented(console, "parameters: " + ", ".join(notebook_parameters(path)), style="dim")
    console.print(f"\nReports in {out}/" if runs else f"\nNo reports in {out}/ yet.", style="bold", markup=False)
    for run in runs:
        _print_run(console, run)


def _indented(console: Console, text: str, style: str = "") -> None:
    from rich.padding import Padding

    if text:
        console.print(Padding(Text(text, style), (0, 0, 0, 4)))


def _print_run(console: Console, run: Run) -> None:
    from workbench.report.words import format_duration

    failed = sum(outcome.status != "ok" for outcome in run.outcomes)
    several = f", {failed} of {len(run.outcomes)} studies failed" if failed else f", {len(run.outcomes)} studies"
    taken = "" if run.seconds is None else f", {format_duration(run.seconds)}"
    console.print(f"  [{_COLOURS.get(run.status, 'yellow')}]{run.status:10}[/] {run.label}{taken}", end="")
    console.print(several if len(run.outcomes) > 1 else "", markup=False)


def open_report(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN", help="A report's folder, its name in the folder of reports, or a notebook's name."
        ),
    ] = None,
    out: FolderOption = _REPORTS,
) -> None:
    """Open a report's index or page in the browser, the newest by default; without a browser, print its path."""
    from workbench.errors import ReportError
    from workbench.report.runs import find_run

    found = find_run(run, out)
    if found.page is None or not found.page.is_file():
        raise ReportError(
            f"{found.path} has no page: the report is {found.status}; `workbench report list` shows others"
        )
    typer.echo(found.page)
    if _has_browser():
        webbrowser.open(found.page.as_uri())


def _has_browser() -> bool:
    """Whether a browser with a window can open; one for the terminal would take it over."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def compare_reports(
    a: Annotated[str, typer.Argument(metavar="A", help="A report before: its folder, or its name.")],
    b: Annotated[str, typer.Argument(metavar="B", help="A report after.")],
    out: FolderOption = _REPORTS,
) -> None:
    """Set two reports side by side: environment, status and key figure of each study, records by problem."""
    from workbench.cli.report_tables import print_comparison
    from workbench.report.compare import compare_runs
    from workbench.report.runs import find_run

    print_comparison(compare_runs(find_run(a, out), find_run(b, out)), Console(highlight=False))
