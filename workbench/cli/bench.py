"""`workbench bench`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from workbench.cli.options import (
    MOST_ROUNDS,
    Cache,
    CacheOption,
    Lane,
    NamesArgument,
    SeedOption,
    SetOption,
    Size,
    SizeOption,
)
from workbench.cli.select import choose
from workbench.errors import ParameterError

if TYPE_CHECKING:
    from workbench.records import Record


def bench(
    names: NamesArgument = None,
    set_name: SetOption = None,
    size: SizeOption = Size.FULL,
    lanes: Annotated[
        list[Lane] | None, typer.Option("--lane", help="Lane of the unified kernels; repeatable. Default: auto.")
    ] = None,
    specs: Annotated[
        list[str] | None,
        typer.Option(
            "--spec",
            metavar="FIELD=VALUE,...",
            help="A candidate: the dispatcher's spec with these fields changed; among them `portable` starts from the "
            "plain Triton kernel, `untuned` from the heuristics' choice. Repeatable, one candidate each.",
        ),
    ] = None,
    baselines: Annotated[
        list[str] | None,
        typer.Option("--baseline", help="sdpa, aiter, ...; auto: all that are here. Repeatable. Default: none."),
    ] = None,
    cache: CacheOption = Cache.WARM,
    rounds: Annotated[int, typer.Option("--rounds", min=3, max=MOST_ROUNDS, help="Samples of each candidate.")] = 30,
    seed: SeedOption = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="NEWFILE", help="Records with all samples; default: a new file in reports/."),
    ] = None,
) -> None:
    """Time candidates and baselines side by side on the GPU, each checked against the reference first.

    The first candidate is the dispatcher's choice in the first lane; all others are held against it, round by round.
    Ends with code 1 when anything that ran is wrong.
    """
    from workbench.bench import bench_scenarios
    from workbench.bench.table import BENCH_CAPTION, bench_messages, bench_tables, bench_title
    from workbench.parity.timing import TimingPlan
    from workbench.records import write_records

    path = new_record_file(out, "bench")
    scenarios = choose(names, set_name, size)
    console = Console()
    with Console(stderr=True).status("Starting") as status:
        records = bench_scenarios(
            scenarios,
            [lane.value for lane in lanes or (Lane.AUTO,)],
            specs or (),
            baselines=baselines or (),
            plan=TimingPlan(rounds=rounds, cache=cache.value),
            seed=seed,
            on_done=lambda done, total, name: status.update(f"{done} of {total} scenarios timed, last {name}"),
        )
    write_records(records, path)
    console.print(bench_title(records), style="bold", markup=False, highlight=False)
    for table in bench_tables(records):
        console.print(table)
    for message in bench_messages(records):
        console.print(message, style="yellow", markup=False, highlight=False)
    console.print(BENCH_CAPTION, style="dim", markup=False, highlight=False)
    console.print(f"Records: {path}", markup=False, soft_wrap=True)
    _end(records)


def new_record_file(out: Path | None, command: str) -> Path:
    """The file that was asked for, or a new one in reports/ with the time in its name.

    ParameterError for another kind of file, RecordError if it exists or cannot be made: nothing is measured that could
    not be kept.
    """
    from workbench.records import check_new_file

    path = out or Path("reports") / f"{command}-{datetime.now(UTC):%Y%m%d-%H%M%S}.parquet"
    if path.suffix != ".parquet":
        raise ParameterError(f"{path}: records are Parquet; give a file name that ends in .parquet")
    check_new_file(path)
    return path


def _end(records: list[Record]) -> None:
    if any(record.failed for record in records):
        raise typer.Exit(1)
