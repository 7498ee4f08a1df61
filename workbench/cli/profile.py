"""`workbench profile explain` and `workbench profile run`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from workbench.cli.given import check_new
from workbench.cli.options import CsvOption, DryRunOption, Lane, LaneOption, Size, SizeOption
from workbench.errors import ParameterError

if TYPE_CHECKING:
    from workbench.profile import Derivation, Profile
    from workbench.profile.plan import Command, Tool

profile = typer.Typer(
    help="Read profilers' files, or run a scenario under a profiler, and explain.", no_args_is_help=True
)

ArchOption = Annotated[
    str | None, typer.Option("--arch", help="gfx90a, gfx942, gfx950 or sm_XX, where the files do not say.")
]
DeviceOption = Annotated[
    str | None,
    typer.Option("--device", help="The GPU by name (mi355x, ...), for CUs and XCDs where the files do not say."),
]


class By(StrEnum):
    """What a group of figures is about."""

    KERNEL = "kernel"
    DISPATCH = "dispatch"


class ProfilerName(StrEnum):
    """Profilers that a run may use."""

    AUTO = "auto"
    ROCPROFV3 = "rocprofv3"
    NCU = "ncu"


@profile.command("explain")
def explain(
    path: Annotated[Path, typer.Argument(help="A profiler's file, or a folder of passes.")],
    against: Annotated[Path | None, typer.Option("--against", help="Set this profile beside it, by kernel.")] = None,
    arch: ArchOption = None,
    device: DeviceOption = None,
    kernel: Annotated[
        str | None, typer.Option("--kernel", help="Only kernels that this regular expression finds.")
    ] = None,
    by: Annotated[By, typer.Option("--by", help="Pool the dispatches of a kernel, or show each.")] = By.KERNEL,
    csv: CsvOption = None,
) -> None:
    """Say what a profile means, findings first. Reads rocprofv3, rocpd, rocprof, rocprof-compute and Nsight Compute.

    Needs no GPU. With --csv and --against, the file holds both profiles' figures.
    """
    from workbench.profile.show import show_comparison, show_profile

    check_new(csv)
    first = _derived(path, arch, device, kernel, by)
    console = Console()
    if against is None:
        console.print(show_profile(first, str(path), every=kernel is not None or by is By.DISPATCH))
        _write(csv, [(str(path), first)])
        return
    second = _derived(against, arch, device, kernel, by)
    console.print(show_comparison(first, second, (str(path), str(against))))
    _write(csv, [(str(path), first), (str(against), second)])


@profile.command("run")
def run(
    scenario: Annotated[str, typer.Option("--scenario", help="Scenario by name.")],
    lane: LaneOption = Lane.AUTO,
    size: SizeOption = Size.FULL,
    tool: Annotated[ProfilerName, typer.Option("--tool", help="auto: what fits the GPU here.")] = ProfilerName.AUTO,
    kernel: Annotated[
        str | None,
        typer.Option("--kernel", help="Kernels to profile, a regular expression; default: the workbench's own."),
    ] = None,
    launches: Annotated[int, typer.Option("--launches", min=1, help="Profiled calls.")] = 3,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="NEWFOLDER", help="Folder of the raw files; default: a new one in reports/."),
    ] = None,
    arch: Annotated[str | None, typer.Option("--arch", help="Architecture; default: that of the GPU here.")] = None,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", help="Stop a pass after so long; default: half an hour."),
    ] = None,
    dry_run: DryRunOption = False,
    csv: CsvOption = None,
) -> None:
    """Profile a scenario's kernels with rocprofv3 or ncu and explain the result. Needs the GPU and the profiler.

    The raw files stay in a new folder, with the commands that made them.
    """
    from workbench.profile.plan import OWN_KERNELS, Target, plan_commands
    from workbench.profile.run import SECONDS_A_PASS, check_timeout, new_folder, run_commands
    from workbench.profile.table import kernel_pattern
    from workbench.scenarios import find

    check_new(csv)
    if find(scenario, size.value).kind == "dense" and lane is not Lane.AUTO:
        raise ParameterError(f"{scenario} is a dense scenario and has no lanes; leave --lane out")
    chosen, architecture = _tool_and_architecture(tool, arch)
    wanted, limit = kernel or OWN_KERNELS, SECONDS_A_PASS if timeout is None else timeout
    kernel_pattern(wanted)
    check_timeout(limit)
    target = Target(scenario, lane.value, size.value, launches)
    folder = new_folder(target, out)
    commands = plan_commands(chosen, architecture, target, folder, wanted)
    if dry_run:
        for command in commands:
            typer.echo(str(command))
        return
    console = Console()
    with Console(stderr=True).status(f"Profiling {scenario}") as status:

        def tell(command: Command) -> None:
            status.update(f"Profiling {scenario}: {command.name} of {len(commands)}")

        result = run_commands(chosen, commands, folder, tell, limit)
    _explain_run(console, result, wanted, architecture, folder, csv)


def _explain_run(
    console: Console, result: Profile, wanted: str, architecture: str, folder: Path, csv: Path | None
) -> None:
    from workbench.profile import derive
    from workbench.profile.show import show_profile

    derived = derive(result.only(wanted), None if result.architectures else architecture)
    console.print(show_profile(derived, str(folder), every=True))
    console.print(f"Raw files: {folder}", markup=False, soft_wrap=True)
    _write(csv, [(str(folder), derived)])


def _derived(path: Path, arch: str | None, device: str | None, kernel: str | None, by: By) -> Derivation:
    from workbench.profile import derive, read

    found = read(path)
    return derive(found if kernel is None else found.only(kernel), arch, by.value, device)


def _tool_and_architecture(tool: ProfilerName, arch: str | None) -> tuple[Tool, str]:
    """The profiler and the architecture that were asked for, else those of the GPU here."""
    from workbench.device import DEFAULT_DEVICE, detect_device, load_device

    here = detect_device()
    if tool is ProfilerName.AUTO and here is None and arch is None:
        raise ParameterError("PyTorch sees no GPU here; say --tool rocprofv3 or --tool ncu (with --dry-run to look)")
    if tool is not ProfilerName.AUTO:
        nvidia = tool is ProfilerName.NCU
    else:
        nvidia = arch.startswith("sm_") if arch else here is not None and here.vendor == "nvidia"
    chosen: Tool = "ncu" if nvidia else "rocprofv3"
    if arch is None:
        fits = here is not None and here.vendor == ("nvidia" if nvidia else "amd")
        arch = here.arch if here is not None and fits else load_device("h200" if nvidia else DEFAULT_DEVICE).arch
    return chosen, arch


def _write(csv: Path | None, derivations: list[tuple[str, Derivation]]) -> None:
    if csv is None:
        return
    import pandas as pd

    frames = [derived.to_frame().assign(profile=name) for name, derived in derivations]
    pd.concat(frames, ignore_index=True).to_csv(csv, index=False)
