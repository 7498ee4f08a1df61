"""Named problems in sets, from the workbench's own data or a user's file, at full or small size."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from workbench.errors import ScenarioError
from workbench.problem import UnifiedAttentionProblem
from workbench.resources import data_path
from workbench.scenario_files import Problem, ScenarioFile, read_scenario_file
from workbench.scenario_sizes import small_dense, small_unified

Size = Literal["full", "small"]
SIZES: tuple[Size, ...] = ("full", "small")


@dataclass(frozen=True)
class Scenario:
    """A named problem at one size."""

    name: str
    set: str
    problem: Problem
    size: Size = "full"
    scaled_from: Problem | None = None
    """The full-size problem where the small one differs from it."""

    @property
    def kind(self) -> str:
        """unified or dense."""
        return "unified" if isinstance(self.problem, UnifiedAttentionProblem) else "dense"


def set_names() -> tuple[str, ...]:
    """Sets that the workbench brings: default first, then by name."""
    names = sorted(path.stem for path in data_path("scenarios").glob("*.json"))
    return tuple(sorted(names, key=lambda name: name != "default"))


def set_description(name: str) -> str:
    """What one of the workbench's own sets is for."""
    return _own_file(name).description


def load_set(name: str, size: Size = "full") -> tuple[Scenario, ...]:
    """The scenarios of one of `set_names()`. ScenarioError if the set or size is unknown."""
    return _scenarios(_own_file(name), size)


def load_file(path: str | Path, size: Size = "full") -> tuple[Scenario, ...]:
    """The scenarios of a user's file, whatever its set is called."""
    return _scenarios(read_scenario_file(Path(path)), size)


def load_all(size: Size = "full") -> tuple[Scenario, ...]:
    """The scenarios of all sets that the workbench brings."""
    return tuple(scenario for name in set_names() for scenario in load_set(name, size))


def load_named(name: str, size: Size = "full") -> tuple[Scenario, ...]:
    """The scenarios that a command or a notebook calls so: a set by its name, `all`, or a user's file ending in .json.

    ScenarioError if there is no such set or file, or if it is malformed.
    """
    if name.endswith(".json"):
        return load_file(name, size)
    return load_all(size) if name == "all" else load_set(name, size)


def find(name: str, size: Size = "full") -> Scenario:
    """The scenario of that name in the workbench's own sets; ScenarioError suggests the nearest names."""
    by_name = {scenario.name: scenario for scenario in load_all(size)}
    if name not in by_name:
        nearest = difflib.get_close_matches(name, by_name, n=3)
        hint = f"did you mean {', '.join(nearest)}?" if nearest else "`workbench scenarios` lists them all"
        raise ScenarioError(f"there is no scenario {name!r}; {hint}")
    return by_name[name]


@lru_cache
def _own_file(name: str) -> ScenarioFile:
    if name not in set_names():
        raise ScenarioError(
            f"there is no scenario set {name!r}; the sets are {', '.join(set_names())}, "
            "and a file of your own is given by its path, which ends in .json"
        )
    return read_scenario_file(data_path("scenarios", f"{name}.json"))


def _scenarios(file: ScenarioFile, size: Size) -> tuple[Scenario, ...]:
    if size not in SIZES:
        raise ScenarioError(f"size must be one of {', '.join(SIZES)}, got {size!r}")
    return tuple(_scenario(file.set, name, problem, size) for name, problem in file.problems.items())


def _scenario(set_name: str, name: str, full: Problem, size: Size) -> Scenario:
    if size == "full":
        return Scenario(name, set_name, full)
    small = small_unified(full) if isinstance(full, UnifiedAttentionProblem) else small_dense(full)
    return Scenario(name, set_name, small, size, scaled_from=full if small != full else None)
