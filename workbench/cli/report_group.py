"""`workbench report`: its sub-commands, beside which any other word is the name of a notebook."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from workbench.cli import report, report_all, report_runs

_BY_NAME = "NAME"


class _ReportGroup(TyperGroup):
    """Takes what is no sub-command for the name of a notebook."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [_BY_NAME, *args]
        return super().parse_args(ctx, args)


class _ByName(TyperCommand):
    """Its name in the help is its argument, which usage would repeat."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [self.options_metavar or ""]


group: typer.Typer = typer.Typer(
    cls=_ReportGroup, no_args_is_help=True, help="Run notebooks into reports, and look at reports."
)
group.command(_BY_NAME, cls=_ByName)(report.report)
group.command("all")(report_all.report_all)
group.command("list")(report_runs.list_reports)
group.command("open")(report_runs.open_report)
group.command("compare")(report_runs.compare_reports)
