"""Arguments and options that several sub-commands take, each spelt once, and the values that they may have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

LARGEST_SEED = 2**31 - 1
MOST_ROUNDS = 100_000
LONGEST_TIMEOUT = 1e7


class Size(StrEnum):
    """Sizes of a scenario."""

    FULL = "full"
    SMALL = "small"


class Lane(StrEnum):
    """Lanes of the unified kernels."""

    AUTO = "auto"
    TWO_D = "2d"
    THREE_D = "3d"


class Cache(StrEnum):
    """State of the caches before a timed call."""

    WARM = "warm"
    COLD = "cold"


NamesArgument = Annotated[list[str] | None, typer.Argument(metavar="SCENARIO", help="Scenarios by name.")]
SetOption = Annotated[
    str | None,
    typer.Option(
        "--set",
        metavar="SET|FILE",
        help="A whole set by its name, all, or a .json file of your own; default: the default set.",
    ),
]
SizeOption = Annotated[Size, typer.Option("--size", help="Full size, or scaled down for the CPU.")]
LaneOption = Annotated[Lane, typer.Option("--lane", help="Lane of a unified scenario.")]
TritonOption = Annotated[
    str | None, typer.Option("--triton", metavar="VERSION", help="Compile with it; default: the installed one.")
]
SpecOption = Annotated[
    list[str] | None,
    typer.Option("--spec", metavar="FIELD=VALUE,...", help="Change the spec that dispatch picks; repeatable."),
]
CodeKernelOption = Annotated[
    str | None, typer.Option("--kernel", help="Of a FILE: one kernel, where it holds several.")
]
LdsOption = Annotated[
    int | None,
    typer.Option(
        "--lds", min=0, max=160 * 1024, metavar="BYTES", help="Of a FILE: LDS of a workgroup, where it does not say."
    ),
]
CacheOption = Annotated[Cache, typer.Option("--cache", help="State of the caches before a call.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, max=LARGEST_SEED, help="Seed of the random inputs.")]
TimeoutOption = Annotated[
    float | None,
    typer.Option("--timeout", min=1, max=LONGEST_TIMEOUT, metavar="SECONDS", help="Stop each notebook after so long."),
]
ReportsOption = Annotated[
    Path | None, typer.Option("--out", help="Folder in which the run's own folder is made; default: reports.")
]
CsvOption = Annotated[Path | None, typer.Option("--csv", metavar="NEWFILE", help="Write the rows to this new file.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the commands and run nothing.")]
OnlyOption = Annotated[str | None, typer.Option("--only", metavar="A,B", help="Only these, by name.")]
SkipOption = Annotated[str | None, typer.Option("--skip", metavar="C", help="Not these.")]
