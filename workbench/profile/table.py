"""The table that every profiler's file becomes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from workbench.errors import ProfileError

if TYPE_CHECKING:
    import pandas as pd

    from workbench.profile.agents import Agent
    from workbench.records.record import Evidence


class Row(NamedTuple):
    """One counter of one dispatch in one pass, before passes are put together."""

    dispatch: int
    kernel: str
    grid: str
    """Work-items on AMD, blocks on NVIDIA, as their tools count; extents joined by x where the file has them."""
    workgroup: str
    vgpr: int | None
    agpr: int | None
    """Accumulation registers; to be added to vgpr on gfx90a and later."""
    sgpr: int | None
    lds: int | None
    """Bytes a workgroup."""
    scratch: int | None
    """Bytes a work-item."""
    counter: str | None
    """None where the file holds dispatches without counters."""
    value: float
    """Summed over instances; NaN where it was not collected."""
    unit: str
    duration_ns: float
    """NaN where the file holds no usable time."""
    agent: str
    process: str
    run: str = ""
    """The pass inside the file, where a file holds several."""


@dataclass
class Part:
    """What one file holds."""

    tool: str
    rows: list[Row] = field(default_factory=list)
    agents: dict[str, Agent] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    architectures: dict[str, str] = field(default_factory=dict)
    """Agent -> architecture, where the file says it of a dispatch itself."""
    evidence: Evidence = "measured"


@dataclass(frozen=True, eq=False)
class Profile:
    """Everything that was counted in one profiling of one program.

    `table` has one row a dispatch, counter and pass; its columns are those of Row with `launch` (equal for one dispatch
    in all passes), `architecture`, `pass` and `source` instead of `run`. `dispatches` has one row a launch.
    """

    table: pd.DataFrame
    dispatches: pd.DataFrame
    sources: tuple[str, ...]
    problems: tuple[str, ...]
    agents: Mapping[str, Agent]
    evidence: Evidence
    tool: str

    @property
    def architectures(self) -> tuple[str, ...]:
        """Architectures of the dispatches, as far as the files tell."""
        return tuple(sorted(name for name in self.dispatches["architecture"].unique() if name))

    def only(self, kernel: str) -> Profile:
        """The part whose kernel names the regular expression finds. ProfileError if it finds none."""
        pattern = kernel_pattern(kernel)
        names = [name for name in self.dispatches["kernel"].unique() if pattern.search(name)]
        if not names:
            known = ", ".join(short_name(name, 60) for name in self.dispatches["kernel"].unique()[:8])
            raise ProfileError(f"no kernel matches {kernel!r}; the profile has {known}")
        table, dispatches = (frame[frame["kernel"].isin(names)] for frame in (self.table, self.dispatches))
        return replace(self, table=table, dispatches=dispatches)


def kernel_pattern(text: str) -> re.Pattern[str]:
    """The regular expression that chooses kernels. ProfileError for a text that is none."""
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ProfileError(f"{text!r} is no regular expression: {error}") from None


def clean_name(name: str) -> str:
    """A kernel's name without the endings that some tools add to it."""
    return re.sub(r"(\s*\[clone \.kd\]|\s*\(\.kd\)|\.kd)$", "", name.strip())


def short_name(name: str, width: int = 48) -> str:
    """A kernel's name that fits a table: without return type, arguments and the tail of a long template."""
    bare = re.sub(r"^void ", "", name)
    bare = re.sub(r"\(anonymous namespace\)::", "", bare)
    head = re.split(r"\((?!\()", bare, maxsplit=1)[0] or bare
    return head if len(head) <= width else f"{head[: width - 1]}…"


def unique(problems: Sequence[str]) -> tuple[str, ...]:
    """The problems without repetitions, in order."""
    return tuple(dict.fromkeys(problems))
