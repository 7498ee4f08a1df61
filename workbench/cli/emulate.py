"""`workbench emulate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from workbench.cli.route import Lane
from workbench.cli.select import Size, SizeOption
from workbench.errors import EmulationError

if TYPE_CHECKING:
    from workbench.attention import AttentionResult
    from workbench.scenarios import Scenario
    from workbench.tolerance import Comparison


def emulate(
    name: Annotated[str, typer.Argument(metavar="SCENARIO", help="Scenario by name.")],
    lane: Annotated[Lane, typer.Option("--lane", help="Lane of a unified scenario.")] = Lane.AUTO,
    size: SizeOption = Size.SMALL,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the random inputs.")] = 0,
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Write the counters to this new file, as rocprofv3.")
    ] = None,
) -> None:
    """Compile what serves a scenario for gfx950, execute it on the CPU, check the output, print the counters."""
    from workbench.gfx950.emulator import write_counter_csv
    from workbench.scenarios import find

    if csv is not None and csv.exists():
        raise EmulationError(f"{csv} exists; give a new file name")
    result, comparison = _run(find(name, size.value), lane.value, seed)
    _show(result, comparison)
    if csv is not None:
        write_counter_csv(result.emulation, csv)
    if not comparison.ok:
        raise typer.Exit(1)


def _run(scenario: Scenario, lane: str, seed: int) -> tuple[AttentionResult, Comparison]:
    from workbench.attention import run_dense, run_unified
    from workbench.inputs import make_dense_inputs, make_unified_inputs
    from workbench.poison import poisoned_output
    from workbench.problem import UnifiedAttentionProblem
    from workbench.reference import dense_eager, dense_reference, unified_eager, unified_reference
    from workbench.tolerance import compare

    problem = scenario.problem
    out = poisoned_output(problem)
    if isinstance(problem, UnifiedAttentionProblem):
        paged = make_unified_inputs(problem, seed=seed)
        result = run_unified(problem, paged, lane=lane, backend="emulator", out=out)
        return result, compare(out, unified_reference(problem, paged), unified_eager(problem, paged), problem.dtype)
    inputs = make_dense_inputs(problem, seed=seed)
    result = run_dense(problem, inputs, backend="emulator", out=out)
    return result, compare(out, dense_reference(problem, inputs), dense_eager(problem, inputs), problem.dtype)


def _show(result: AttentionResult, comparison: Comparison) -> None:
    console = Console()
    console.print(f"lane {result.lane}, {result.spec.describe()}", highlight=False)
    console.print(comparison.describe(), highlight=False)
    table = Table(title="Counters (emulated)")
    table.add_column("counter")
    for launch in result.emulation:
        table.add_column(launch.program.name, justify="right")
    for name in result.emulation[0].counters if result.emulation else ():
        table.add_row(name, *(f"{launch.counters[name]:,}" for launch in result.emulation))
    console.print(table)
    for launch in result.emulation:
        console.print(launch.describe(), highlight=False)
