"""`workbench tune`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from workbench.cli.options import (
    LARGEST_SEED,
    MOST_ROUNDS,
    Cache,
    CacheOption,
    NamesArgument,
    SetOption,
    Size,
    SizeOption,
)
from workbench.cli.select import choose
from workbench.errors import BackendUnavailable, ParameterError

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.tune.scheduler import Workers
    from workbench.tune.sweep import Outcome, Plan


def tune(
    names: NamesArgument = None,
    set_name: SetOption = None,
    size: SizeOption = Size.FULL,
    kernels: Annotated[
        list[str] | None, typer.Option("--kernel", help="Only this kernel's space; repeatable. Default: all that fit.")
    ] = None,
    spaces: Annotated[
        list[Path] | None,
        typer.Option("--space", help="Spaces of your own instead, as data/tune_spaces has them; repeatable."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Try so many specs of each space, chosen at random.")
    ] = None,
    cache: CacheOption = Cache.WARM,
    rounds: Annotated[
        int, typer.Option("--rounds", min=3, max=MOST_ROUNDS, help="Samples of each spec; finals take three times.")
    ] = 20,
    seed: Annotated[int, typer.Option("--seed", min=0, max=LARGEST_SEED, help="Of the inputs and of --limit.")] = 0,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Compiling processes; default: one per CPU.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", metavar="ADDRESS", help="Run on this Dask cluster, as tcp://host:8786.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--records", help="Folder of the records; a sweep that stopped goes on from it. Default: reports/."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="File of the winners; default: data/tuned/<device>.json, where dispatch looks."),
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Replace entries that the file of winners has.")] = False,
    static: Annotated[
        bool, typer.Option("--static", help="Compile and prune only, for --target. Needs no GPU, finds no winners.")
    ] = False,
    target: Annotated[
        str | None, typer.Option("--target", help="Of --static: gfx950 (default), gfx942, sm_90 or sm_100.")
    ] = None,
    triton: Annotated[
        str | None, typer.Option("--triton", metavar="VERSION", help="Of --static; default: the installed one.")
    ] = None,
) -> None:
    """Sweep the declared spaces of specs: compile, prune, check, time, and keep what beats the dispatcher's choice.

    Needs a GPU, or --static. Every spec that is tried is a record with what became of it.
    """
    if static and (scheduler or out or update):
        raise ParameterError("--static finds no winners and compiles here: leave --scheduler, --out and --update out")
    if not static and (target or triton):
        raise ParameterError(
            "--target and --triton go with --static; a sweep with times is for the GPU that it runs on"
        )
    from workbench.parity.timing import TimingPlan
    from workbench.tune.space import load_spaces
    from workbench.tune.sweep import Plan

    scenarios = choose(names, set_name, size)
    timing = TimingPlan(rounds=rounds, cache=cache.value)

    def plan(device: Device, version: str, target: str = "") -> Plan:
        chosen = load_spaces(device, kernels or (), spaces or ())
        return Plan(scenarios, chosen, device, version, timing, seed, limit, target)

    if static:
        _static(plan, target or "gfx950", triton or "", folder, jobs)
        return
    with _workers(scheduler, jobs) as workers:
        if workers.device is None:
            raise BackendUnavailable(
                "tuning needs a GPU, and PyTorch sees none; `workbench tune --static --target gfx950` ranks specs by "
                "what the compiler says, and --scheduler takes a Dask cluster whose workers have GPUs"
            )
        _timed(plan(workers.device, workers.triton), workers, folder, out, update=update)


def _workers(scheduler: str | None, jobs: int | None) -> AbstractContextManager[Workers]:
    from workbench.tune.scheduler import dask_workers, local_workers

    return local_workers(jobs) if scheduler is None else dask_workers(scheduler)


def _timed(plan: Plan, workers: Workers, folder: Path | None, out: Path | None, *, update: bool) -> None:
    from workbench.tune.progress import SweepProgress
    from workbench.tune.store import Store
    from workbench.tune.sweep import run_sweep
    from workbench.tune.winners import check_free, default_path, write_winners

    path = out or default_path(plan.device.name)
    check_free(path, plan.device.name, plan.triton, list(plan.keys), update=update)
    store = Store(folder or Path("reports") / f"tune-{path.stem}-{plan.triton}")
    errors = Console(stderr=True)
    errors.print(f"Records: {store.folder}; the same command goes on from there.", markup=False, soft_wrap=True)
    with SweepProgress(errors) as progress:
        outcome = run_sweep(
            plan,
            workers.compiling,
            store,
            measuring=workers.measuring,
            width=workers.width,
            measuring_width=workers.measuring_width,
            on_step=progress,
        )
    _show(outcome)
    facts = next((record.environment for record in outcome.records if record.samples), None)
    if facts is None:
        raise BackendUnavailable("nothing could be timed; the records say why, by candidate")
    write_winners(path, plan.device.name, plan.triton, outcome.winners, facts, update=update)
    Console().print(f"Winners: {path}", markup=False, soft_wrap=True)


def _static(
    plan_for: Callable[[Device, str, str], Plan], target: str, triton: str, folder: Path | None, jobs: int | None
) -> None:
    from workbench.cli.bench import new_record_file
    from workbench.compiler import find_target, installed_triton_version
    from workbench.compiler.versions import find_triton
    from workbench.device import load_device
    from workbench.records import write_records
    from workbench.tune.progress import SweepProgress
    from workbench.tune.sweep import rank_statically
    from workbench.tune.table import static_table, tally

    version = triton or installed_triton_version()
    find_triton(version)
    plan = plan_for(load_device(find_target(target).device), version, target)
    path = new_record_file(
        None if folder is None else folder / f"static-{target}-{version}.parquet", f"static-{target}"
    )
    with SweepProgress(Console(stderr=True)) as progress:
        records = rank_statically(plan, jobs, progress)
    write_records(records, path)
    console = Console()
    console.print(tally(records), markup=False)
    console.print(static_table(records))
    console.print(f"Records: {path}", markup=False, soft_wrap=True)


def _show(outcome: Outcome) -> None:
    from workbench.tune.table import tally, winner_table

    console = Console()
    console.print(tally(outcome.records), markup=False)
    console.print(winner_table(outcome.winners))
