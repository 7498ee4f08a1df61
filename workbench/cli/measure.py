"""`workbench measure`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from workbench.cli.given import names
from workbench.cli.options import DryRunOption, OnlyOption, SkipOption


def measure(
    expect: Annotated[
        str | None,
        typer.Option("--expect", metavar="DEVICE", help="Stop unless the GPU is of this device's architecture."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The folder; one that is there goes on. Default: a new one in reports/."),
    ] = None,
    only: OnlyOption = None,
    skip: SkipOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Measure this GPU: tests, all scenario sets, profiles, a sweep of specs, every report. Takes hours.

    A step that fails stops no other; the same command with --out goes on with what is not done.

    Ends with code 1 when any step failed.
    """
    from workbench.campaign import check_gpu, choose, plan_campaign, read_outcomes, run_campaign
    from workbench.device import load_device
    from workbench.report.run import REPORTS, fresh_folder

    console = Console(soft_wrap=True, highlight=False)
    wanted, unwanted = names(only), names(skip)
    if expect is not None:
        load_device(expect)
    if out is not None:
        read_outcomes(out)
    if dry_run:
        for step in choose(plan_campaign(out or Path(REPORTS, "measured-" + (expect or "gpu"))), wanted, unwanted):
            console.print(shlex.join(step.command), markup=False)
        return
    choose(plan_campaign(Path()), wanted, unwanted)
    device = check_gpu(expect)
    folder = out.resolve() if out else fresh_folder(Path(REPORTS), f"measured-{device.name}")
    console.print(f"{device.title}. To go on after a stop: --out {folder}", markup=False)
    steps = choose(plan_campaign(folder), wanted, unwanted)
    outcomes = run_campaign(steps, folder, lambda text: console.print(text, markup=False))
    failed = [outcome.name for outcome in outcomes if outcome.code]
    console.print(f"{len(outcomes) - len(failed)} of {len(outcomes)} steps ok: {folder}", markup=False)
    if failed:
        console.print(f"failed: {', '.join(failed)}", style="red", markup=False)
        raise typer.Exit(1)
