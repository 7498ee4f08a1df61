"""`workbench levers`: the registry, the table of what each lever does, and schedules as strips."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from workbench.cli.given import check_new
from workbench.cli.options import CsvOption, Size, SizeOption, SpecOption, TritonOption

if TYPE_CHECKING:
    from workbench.levers import KernelLevers
    from workbench.levers.emulated import Problem
    from workbench.spec import KernelSpec

levers = typer.Typer(help="Every optimisation lever: list them, compare their machine code, draw schedules.")

KernelOption = Annotated[str, typer.Option("--kernel", help="Kernel by name; `workbench levers` lists them.")]
ScenarioOption = Annotated[
    str | None, typer.Option("--scenario", help="What to compile; default: the kernel's own choice.")
]
DEFAULT_KERNEL = "gfx950-dense"


@levers.callback(invoke_without_command=True)
def list_levers(
    context: typer.Context,
    kernel: Annotated[str | None, typer.Option("--kernel", help="Only the levers of this kernel.")] = None,
    csv: CsvOption = None,
) -> None:
    """List every lever: its field, what it changes in the machine code, what sees it, what was published."""
    if context.invoked_subcommand is not None:
        return
    from workbench.levers import find_kernel, load_kernels
    from workbench.levers.show import registry_list, registry_row, write_csv

    check_new(csv)
    kernels = load_kernels() if kernel is None else (find_kernel(kernel),)
    for each in kernels:
        Console().print(registry_list(each), highlight=False)
    if csv is not None:
        write_csv([registry_row(lever, each) for each in kernels for lever in each.levers], csv)


@levers.command("table")
def table(
    kernel: KernelOption = DEFAULT_KERNEL,
    triton: Annotated[
        list[str] | None,
        typer.Option("--triton", metavar="VERSION", help="Compile with it; repeatable. Default: all at hand."),
    ] = None,
    scenario: ScenarioOption = None,
    size: SizeOption = Size.FULL,
    changes: SpecOption = None,
    lever: Annotated[
        list[str] | None, typer.Option("--lever", metavar="FIELD", help="Only this lever; repeatable. Default: all.")
    ] = None,
    no_emulate: Annotated[
        bool, typer.Option("--no-emulate", help="Leave out the emulated LDS conflicts, which is faster.")
    ] = False,
    csv: CsvOption = None,
) -> None:
    """Compile each lever both ways, or each value of a sweep, and set the facts of the hot loop side by side.

    LDS conflicts are emulated on a small problem of the same form. Needs no GPU.
    """
    from workbench.compiler import triton_versions
    from workbench.levers import find_kernel
    from workbench.levers.emulated import describe, small_problem
    from workbench.levers.show import csv_rows, fact_table, write_csv
    from workbench.levers.table import lever_table

    check_new(csv)
    found = find_kernel(kernel)
    problem, base = _base(found, scenario, size, changes)
    with Console(stderr=True).status(f"Levers of {kernel}") as status:
        rows = lever_table(
            found,
            problem,
            triton or list(triton_versions()),
            base=base,
            levers=lever or (),
            beside=_beside(found, problem),
            emulate=not no_emulate,
            on_step=status.update,
        )
    title = f"{found.title}: {scenario or found.scenario}, base: {base.describe()}"
    if not no_emulate:
        title += f"\nLDS conflicts emulated on {describe(small_problem(problem))}"
    shown = fact_table(rows, title)
    console = Console()
    width = Console(width=10_000).measure(shown).maximum
    Console(width=max(console.width, width)).print(shown, crop=False)
    if csv is not None:
        write_csv(csv_rows(rows), csv)


@levers.command("strip")
def strip(
    kernel: KernelOption = DEFAULT_KERNEL,
    triton: TritonOption = None,
    scenario: ScenarioOption = None,
    size: SizeOption = Size.FULL,
    changes: SpecOption = None,
) -> None:
    """Show the hot loop's schedule, one character per instruction, in program order."""
    from workbench.inspection import inspect_spec
    from workbench.inspection.schedule import legend, schedule, strip_text
    from workbench.levers import find_kernel

    problem, spec = _base(find_kernel(kernel), scenario, size, changes)
    with Console(stderr=True).status(f"Compiling {kernel}"):
        inspection = inspect_spec(problem, spec, triton_version=triton or "")[0]
    slots = schedule(inspection)
    console = Console(highlight=False, soft_wrap=True)
    console.print(inspection.title, style="bold", markup=False)
    for line in strip_text(slots, max(20, console.width - 4)):
        console.print(line, markup=False)
    console.print(f"{len(slots)} instructions (static): {legend(slots)}", markup=False)
    if inspection.voted_away:
        console.print("In parentheses: blocks that a wave branches around when no lane needs them.", markup=False)


def _base(
    kernel: KernelLevers, scenario: str | None, size: Size, changes: list[str] | None
) -> tuple[Problem, KernelSpec]:
    from workbench.levers.table import base_of
    from workbench.scenarios import find
    from workbench.spec_changes import change_spec

    problem = find(scenario or kernel.scenario, size.value).problem
    return problem, change_spec(base_of(kernel, problem), changes or [])


def _beside(kernel: KernelLevers, problem: Problem) -> dict[str, KernelSpec]:
    """The portable kernel's spec beside a Gluon kernel's."""
    from workbench.levers import find_kernel
    from workbench.levers.table import base_of

    portable = {"gfx950-dense": "dense", "gfx950-unified-2d": "unified-2d"}.get(kernel.kernel)
    return {"portable kernel": base_of(find_kernel(portable), problem)} if portable else {}
