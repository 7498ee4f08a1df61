"""Which counters fit together, and the commands that collect them. Pure: nothing is run here."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workbench.errors import ProfileError
from workbench.profile.definitions import collection, definitions
from workbench.profile.formula import DURATION

Tool = Literal["rocprofv3", "ncu"]
TOOLS: tuple[Tool, ...] = ("rocprofv3", "ncu")
OWN_KERNELS = "unified_attention_2d|unified_attention_3d|reduce_segments|dense_attention"
"""Names of the workbench's kernels, as a regular expression."""
WARM_UPS = 1
"""Calls before the profiled ones: they compile."""


@dataclass(frozen=True)
class Target:
    """What runs under the profiler: workbench.profile.target with these arguments."""

    scenario: str
    lane: str = "auto"
    size: str = "full"
    launches: int = 3
    """Profiled calls."""

    def command(self) -> list[str]:
        """The command line."""
        options = {"--scenario": self.scenario, "--lane": self.lane, "--size": self.size, "--launches": self.launches}
        flat = [str(part) for option in options.items() for part in option]
        return [sys.executable, "-m", "workbench.profile.target", *flat]


@dataclass(frozen=True)
class Command:
    """One run of the profiler."""

    name: str
    """Of its folder or file below the run's folder."""
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.arguments)


def wanted_counters(architecture: str) -> list[tuple[str, ...]]:
    """The counters of each figure that a run under rocprofv3 is for, by the figure's first formula."""
    known = definitions(architecture)
    groups = []
    for name in collection("rocprofv3")["metrics"]:
        formula = known.metric(name).formulas[0]
        optional = (name for name in formula.optional if name not in known.absent)
        counters = dict.fromkeys((*formula.counters, *optional))
        counters.pop(DURATION, None)
        if counters:
            groups.append(tuple(counters))
    return groups


def plan_passes(groups: Iterable[Sequence[str]], limits: dict[str, int]) -> list[tuple[str, ...]]:
    """Passes that collect every group of counters, none beyond what a block counts at once.

    A group's counters stay in one pass where they fit one, since a ratio of two passes mixes two runs; each goes into
    the first pass with room. ProfileError for a counter of an unknown block.
    """
    passes: list[dict[str, None]] = []
    for group in groups:
        for part in _split(group, limits):
            room = next((each for each in passes if _fits({**each, **dict.fromkeys(part)}, limits)), None)
            if room is None:
                room = {}
                passes.append(room)
            room.update(dict.fromkeys(part))
    return [tuple(each) for each in passes]


def block_of(counter: str, limits: dict[str, int]) -> str:
    """The hardware block that counts it: what its name begins with."""
    block = counter.partition("_")[0]
    if block not in limits:
        raise ProfileError(f"{counter}: no block {block!r} is known; known are {', '.join(limits)}")
    return block


def rocprofv3_commands(architecture: str, target: Target, folder: Path, kernels: str) -> list[Command]:
    """One command a pass; the application runs anew in each. The first launch of each kernel is not counted."""
    first = WARM_UPS + 1
    passes = plan_passes(wanted_counters(architecture), collection("rocprofv3")["limits"]["counters"])
    return [
        Command(
            f"pass_{number}",
            (
                "rocprofv3", "--pmc", *counters, "--kernel-include-regex", kernels,
                "--kernel-iteration-range", f"[{first}-{WARM_UPS + target.launches}]",
                "--output-format", "csv", "-d", str(folder / f"pass_{number}"), "-o", "run", "--", *target.command(),
            ),
        )
        for number, counters in enumerate(passes, 1)
    ]  # fmt: skip


def ncu_command(target: Target, folder: Path, kernels: str, architecture: str = "sm_90") -> Command:
    """One command: Nsight Compute replays each kernel for its own passes. The target switches profiling on and off."""
    wanted, known = collection("ncu"), definitions(architecture)
    names = dict.fromkeys(
        name
        for metric in wanted["metrics"]
        for formula in known.metric(metric).formulas
        if not formula.text.startswith("single(")
        for name in formula.counters
    )
    metrics = ",".join((*names, *wanted["extra"]))
    return Command(
        "ncu.csv",
        (
            "ncu", "--csv", "--page", "raw", "--print-units", "base", "--metrics", metrics,
            "--kernel-name", f"regex:{kernels}", "--profile-from-start", "off", "--target-processes", "all",
            "--log-file", str(folder / "ncu.csv"), *target.command(),
        ),
    )  # fmt: skip


def plan_commands(
    tool: Tool, architecture: str, target: Target, folder: Path, kernels: str = OWN_KERNELS
) -> list[Command]:
    """All commands of one profiling. ProfileError if the tool does not serve the architecture."""
    if tool == "ncu":
        if not architecture.startswith("sm_"):
            raise ProfileError(f"ncu profiles NVIDIA GPUs, not {architecture}; give --tool rocprofv3, or --arch sm_90")
        return [ncu_command(target, folder, kernels, architecture)]
    if not architecture.startswith("gfx"):
        raise ProfileError(f"rocprofv3 profiles AMD GPUs, not {architecture}; give --tool ncu, or --arch gfx950")
    return rocprofv3_commands(architecture, target, folder, kernels)


def _fits(counters: Iterable[str], limits: dict[str, int]) -> bool:
    used = Counter(block_of(counter, limits) for counter in counters)
    return all(count <= limits[block] for block, count in used.items())


def _split(group: Sequence[str], limits: dict[str, int]) -> list[list[str]]:
    """The group in parts that each fit one pass: itself, where it fits."""
    parts: list[list[str]] = [[]]
    for counter in group:
        if not _fits([*parts[-1], counter], limits):
            parts.append([])
        parts[-1].append(counter)
    return parts
