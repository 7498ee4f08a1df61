"""`workbench compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="Records before: a .parquet file, or a folder of them.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Records after.")],
    fail_on: Annotated[
        str | None,
        typer.Option(
            "--fail-on",
            metavar="CONDITION",
            help="End with code 1 where it holds for any problem, or where B fails what A passed. Of ratio (A's time "
            "over B's), low and high (the ends of its interval): 'ratio<0.97', 'high<1'.",
        ),
    ] = None,
) -> None:
    """Hold two record sets side by side by problem, candidate and lane, deltas with intervals. Needs no GPU."""
    from workbench.bench import compare_sets, load_record_set
    from workbench.bench.compare import failing, parse_condition
    from workbench.bench.table import compare_table

    if fail_on is not None:
        parse_condition(fail_on)
    comparison = compare_sets(load_record_set(a), load_record_set(b), f"A: {a}, B: {b}")
    console = Console(soft_wrap=True, highlight=False)
    Console().print(compare_table(comparison))
    if comparison.geomean is not None:
        console.print(f"Geometric mean of the ratios: {comparison.geomean:.3f} over {len(comparison.deltas)}.")
    for style, lines in (
        ("yellow", [f"warning: {line}" for line in comparison.warnings]),
        ("dim", comparison.notes),
        ("dim", comparison.unmatched),
        ("red", [f"fails in B: {line}" for line in comparison.broken]),
    ):
        for line in lines:
            console.print(line, style=style, markup=False)
    failures = failing(comparison, fail_on) if fail_on is not None else []
    for line in failures:
        console.print(f"failed: {line}", style="red", markup=False)
    if failures:
        raise typer.Exit(1)
