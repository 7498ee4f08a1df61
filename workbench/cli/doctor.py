"""`workbench doctor`."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text


def doctor() -> None:
    """Say what this machine can run, and why not the rest.

    Ends with code 1 when reports cannot be made here.
    """
    from workbench.doctor import checks

    console = Console()
    table = Table()
    for heading in ("what", "", "detail", "what to do"):
        table.add_column(heading, overflow="fold")
    missing = []
    for check in checks():
        with console.status(check.what):
            finding = check.run()
        no = "[red]no[/]" if check.required else "[yellow]no[/]"
        table.add_row(check.what, "[green]yes[/]" if finding.ok else no, Text(finding.detail), Text(finding.action))
        if check.required and not finding.ok:
            missing.append(check.what)
    console.print(table)
    if missing:
        console.print(f"Reports cannot be made here without: {', '.join(missing)}", style="red")
        raise typer.Exit(1)
