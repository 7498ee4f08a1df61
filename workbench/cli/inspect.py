"""`workbench inspect`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from workbench.cli.given import check_new, refuse_given
from workbench.cli.options import CodeKernelOption, Lane, LdsOption, Size, SpecOption, TritonOption
from workbench.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.inspection import Inspection


class Listing(StrEnum):
    """How much assembly is printed."""

    NONE = "none"
    HOT = "hot"
    ALL = "all"


def inspect(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Machine code: .amdgcn, .s or .hsaco.")
    ] = None,
    kernel: CodeKernelOption = None,
    lds: LdsOption = None,
    warps: Annotated[
        int | None,
        typer.Option("--warps", min=1, max=16, help="Of a FILE: waves of a workgroup, where it does not say."),
    ] = None,
    scenario: Annotated[str | None, typer.Option("--scenario", help="Compile and inspect what serves this.")] = None,
    lane: Annotated[Lane | None, typer.Option("--lane", help="Lane of a unified scenario; default: auto.")] = None,
    size: Annotated[Size | None, typer.Option("--size", help="Size of the scenario; default: full.")] = None,
    target: Annotated[str | None, typer.Option("--target", help="Of a scenario: gfx950 (default) or gfx942.")] = None,
    triton: TritonOption = None,
    changes: SpecOption = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against", metavar="FIELD=VALUE,...", help="Set beside it the spec changed like this; repeatable."
        ),
    ] = None,
    assembly: Annotated[
        Listing, typer.Option("--assembly", help="Print the assembly too, source lines beside it.")
    ] = Listing.NONE,
    html: Annotated[Path | None, typer.Option("--html", help="Write one self-contained page to this new file.")] = None,
) -> None:
    """Say what machine code costs and what limits it. Needs no GPU.

    One kernel is shown whole, two are set side by side. `--spec` changes both sides, `--against` the second alone.
    """
    if bool(files) == (scenario is not None):
        raise ParameterError("give machine-code files, or --scenario NAME; `workbench scenarios` lists the names")
    check_new(html)
    of_scenarios = {"--lane": lane, "--size": size, "--target": target, "--triton": triton, "--spec": changes}
    if files:
        refuse_given(of_scenarios | {"--against": against}, "for a --scenario; files are inspected as they are")
        sides = _inspect_files(files, kernel, lds, warps)
    else:
        refuse_given({"--kernel": kernel, "--lds": lds, "--warps": warps}, "for machine-code files, not a --scenario")
        sides = _inspect_scenario(
            scenario or "",
            size or Size.FULL,
            lane or Lane.AUTO,
            target or "gfx950",
            triton or "",
            changes or (),
            against,
        )
    _show(sides, assembly, html)


def _inspect_files(
    files: Sequence[Path], kernel: str | None, lds: int | None, warps: int | None
) -> list[list[Inspection]]:
    from workbench.inspection import inspect_file

    return [inspect_file(path, kernel, lds_bytes=lds, num_warps=warps) for path in files]


def _inspect_scenario(
    name: str, size: Size, lane: Lane, target: str, triton: str, changes: Sequence[str], against: Sequence[str] | None
) -> list[list[Inspection]]:
    from workbench.inspection import inspect_spec
    from workbench.scenarios import find
    from workbench.spec_changes import change_spec
    from workbench.studies.compile_study import base_spec

    chosen = find(name, size.value)
    spec = base_spec(chosen, lane.value, target, changes)
    specs = [spec] if against is None else [spec, change_spec(spec, against)]
    with Console(stderr=True).status(f"Compiling {name} for {target}"):
        return [inspect_spec(chosen.problem, each, target=target, triton_version=triton) for each in specs]


def _show(sides: list[list[Inspection]], assembly: Listing, html: Path | None) -> None:
    from workbench.inspection import Comparison
    from workbench.inspection.html import inspection_body, page, write_page
    from workbench.inspection.listing import listing
    from workbench.inspection.text import render_listing

    console = Console()
    inspections = [inspection for side in sides for inspection in side]
    comparisons: list[Comparison] = []
    if len(sides) == 2 and len(sides[0]) == len(sides[1]):
        comparisons = [Comparison(*pair) for pair in zip(*sides, strict=True)]
    for shown in comparisons or inspections:
        console.print(shown)
    if assembly is not Listing.NONE:
        for inspection in inspections:
            console.print(f"\n{inspection.title}", style="bold", markup=False)
            console.print(render_listing(listing(inspection, hot_only=assembly is Listing.HOT)))
    if html is not None:
        bodies = [comparison._repr_html_() for comparison in comparisons]
        bodies += [inspection_body(inspection) for inspection in inspections]
        write_page(page(inspections[0].title, "".join(bodies)), html)
        console.print(f"Page: {html}", markup=False)
