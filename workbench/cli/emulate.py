"""`workbench emulate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from workbench.cli.given import refuse_given
from workbench.cli.options import (
    LARGEST_SEED,
    CodeKernelOption,
    Lane,
    LdsOption,
    SeedOption,
    Size,
    SpecOption,
    TritonOption,
)
from workbench.errors import ParameterError

if TYPE_CHECKING:
    from workbench.attention import AttentionResult
    from workbench.gfx950.emulator import EmulationResult
    from workbench.scenarios import Scenario
    from workbench.tolerance import Comparison

TARGET = "gfx950"


def emulate(
    name: Annotated[
        str, typer.Argument(metavar="SCENARIO|FILE", help="Scenario by name, or an .amdgcn or .hsaco file.")
    ],
    lane: Annotated[Lane | None, typer.Option("--lane", help="Lane of a unified scenario; default: auto.")] = None,
    size: Annotated[Size | None, typer.Option("--size", help="Size of the scenario; default: small.")] = None,
    triton: TritonOption = None,
    changes: SpecOption = None,
    grid: Annotated[str | None, typer.Option("--grid", help="Of a FILE: workgroups, such as 4,1,1.")] = None,
    args: Annotated[
        list[str] | None,
        typer.Option(
            "--arg",
            metavar="NAME=VALUE",
            help="Of a FILE, in the kernel's order: null, 4, 0.5, f32:2, q.npy, q.pt, or a tensor that is made, such "
            "as zeros:bf16:64x128 (kinds randn, zeros, ones, arange, nan); repeatable.",
        ),
    ] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option("--out", metavar="NAME=FILE", help="Of a FILE: save a tensor to a new .npy or .pt; repeatable."),
    ] = None,
    kernel: CodeKernelOption = None,
    lds: LdsOption = None,
    seed: SeedOption = 0,
    order_seed: Annotated[
        int | None,
        typer.Option(
            "--order-seed",
            min=0,
            max=LARGEST_SEED,
            help="Random order of waves and loads; default: loads as late as allowed.",
        ),
    ] = None,
    no_races: Annotated[bool, typer.Option("--no-races", help="Do not look for LDS races, which is faster.")] = False,
    csv: Annotated[
        Path | None,
        typer.Option("--csv", metavar="NEWFILE", help="Write the counters to this new file, as rocprofv3."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="NEWFILE",
            help="Write every L2 request to this new .parquet or .csv, a row a cache line.",
        ),
    ] = None,
) -> None:
    """Execute gfx950 machine code on the CPU and print counters and hazards. Needs no GPU.

    A scenario is compiled and its output checked; a file runs on the arguments given. Ends with code 1 when the output
    is wrong or the code has a fault.
    """
    from workbench.gfx950.emulator.foreign import SUFFIXES

    run = _Run(order_seed, not no_races, _new(csv, (".csv",)), _new(trace, None))
    if Path(name).suffix.lower() in SUFFIXES:
        refuse_given(
            {"--lane": lane, "--size": size, "--triton": triton, "--spec": changes},
            f"for scenarios; {name} is a file, which runs as it is",
        )
        if grid is None:
            raise ParameterError(f"{name} is a file: say on how many workgroups to run it, such as --grid 4,1,1")
        _emulate_file(run, Path(name), grid, args or (), outputs=outputs or (), kernel=kernel, lds_bytes=lds, seed=seed)
    else:
        refuse_given(
            {"--grid": grid, "--arg": args, "--out": outputs, "--kernel": kernel, "--lds": lds},
            f"for a file of machine code; {name} is taken for a scenario, since it does not end in .amdgcn or the like",
        )
        _emulate_scenario(run, name, lane or Lane.AUTO, size or Size.SMALL, triton or "", changes or (), seed)


@dataclass(frozen=True)
class _Run:
    """What scenarios and files have in common: how to emulate, and what to keep."""

    order_seed: int | None
    check_races: bool
    csv: Path | None
    trace: Path | None

    def options(self) -> dict[str, Any]:
        return {"seed": self.order_seed, "check_races": self.check_races, "trace": self.trace is not None}

    def finish(self, results: Sequence[EmulationResult]) -> None:
        """Print and write; code 1 on a certain fault."""
        from workbench.gfx950.emulator import write_counter_csv
        from workbench.gfx950.emulator.trace_file import write_trace

        _show(results)
        if self.csv is not None:
            write_counter_csv(results, self.csv)
        if self.trace is not None:
            Console().print(f"Trace: {write_trace(results, self.trace):,} requests in {self.trace}", highlight=False)
        if any(finding.certain for result in results for finding in result.findings):
            raise typer.Exit(1)


def _new(path: Path | None, suffixes: Sequence[str] | None) -> Path | None:
    from workbench.gfx950.emulator.foreign import new_file
    from workbench.gfx950.emulator.trace_file import TRACE_SUFFIXES

    return None if path is None else new_file(path, suffixes or TRACE_SUFFIXES)


def _emulate_file(run: _Run, path: Path, grid: str, args: Sequence[str], **options: Any) -> None:
    from workbench.gfx950.emulator.foreign import foreign_launch

    launch = foreign_launch(path, grid, args, **options)
    result = launch.run(**run.options())
    for name, file in launch.outputs:
        Console().print(f"{name}: {file}", highlight=False)
    run.finish([result])


def _emulate_scenario(
    run: _Run, name: str, lane: Lane, size: Size, triton: str, changes: Sequence[str], seed: int
) -> None:
    from workbench.gfx950.emulator import EmulatorOptions
    from workbench.scenarios import find
    from workbench.studies.compile_study import base_spec

    scenario = find(name, size.value)
    spec = base_spec(scenario, lane.value, TARGET, changes)
    emulator = EmulatorOptions(triton_version=triton, strict=False, **run.options())
    with Console(stderr=True).status(f"Emulating {name}"):
        result, comparison = _attend(scenario, spec, seed, emulator)
    Console().print(f"lane {result.lane}, {result.spec.describe()}", highlight=False)
    Console().print(comparison.describe(), highlight=False)
    run.finish(result.emulation)
    if not comparison.ok:
        raise typer.Exit(1)


def _attend(scenario: Scenario, spec: Any, seed: int, emulator: Any) -> tuple[AttentionResult, Comparison]:
    from workbench.attention import run_dense, run_unified
    from workbench.inputs import make_dense_inputs, make_unified_inputs
    from workbench.poison import poisoned_output
    from workbench.problem import UnifiedAttentionProblem
    from workbench.reference import dense_eager, dense_reference, unified_eager, unified_reference
    from workbench.tolerance import compare

    problem = scenario.problem
    out = poisoned_output(problem)
    options: dict[str, Any] = {"spec": spec, "backend": "emulator", "emulator": emulator, "out": out}
    if isinstance(problem, UnifiedAttentionProblem):
        paged = make_unified_inputs(problem, seed=seed)
        result = run_unified(problem, paged, **options)
        return result, compare(out, unified_reference(problem, paged), unified_eager(problem, paged), problem.dtype)
    inputs = make_dense_inputs(problem, seed=seed)
    result = run_dense(problem, inputs, **options)
    return result, compare(out, dense_reference(problem, inputs), dense_eager(problem, inputs), problem.dtype)


def _show(results: Sequence[EmulationResult]) -> None:
    console = Console()
    table = Table(title="Counters (emulated)")
    table.add_column("counter")
    for launch in results:
        table.add_column(launch.program.name, justify="right")
    for name in results[0].counters if results else ():
        table.add_row(name, *(f"{launch.counters[name]:,}" for launch in results))
    console.print(table)
    for launch in results:
        console.print(launch.describe(), highlight=False, markup=False)
