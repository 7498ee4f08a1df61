"""The figures that can be derived on each architecture: formulas, meanings and sources, from data/metrics."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.errors import ProfileError
from workbench.profile.formula import Formula
from workbench.resources import data_path

_SHARED = ("cdna", "collection")
"""Files of data/metrics that are no architecture."""
ANY_NVIDIA = "nvidia"
"""Definitions that hold for every GPU that Nsight Compute serves."""


@dataclass(frozen=True)
class Reading:
    """What a value says, up to a bound."""

    says: str
    below: float | None = None
    finding: bool = False
    """Whether it is worth the reader's first look."""


@dataclass(frozen=True)
class Definition:
    """One figure."""

    name: str
    title: str
    unit: str
    formulas: tuple[Formula, ...]
    """In order of preference: the first whose counters were collected is taken."""
    meaning: str
    source: str
    undefined: str = ""
    """What it means when the formula divides by 0."""
    readings: tuple[Reading, ...] = ()
    total: bool = False
    """Whether it adds up over launches; two profiles are compared by its value a launch."""
    one_pass: bool = False
    """Whether the counters must come from one pass."""
    most: float | None = None
    """A value above it cannot be; 100 for per cent."""
    beyond: str = "a hardware figure or a counter is wrong"
    """Why a value may be impossible."""

    def reading(self, value: float) -> Reading | None:
        """What the value says."""
        return next((each for each in self.readings if each.below is None or value < each.below), None)

    def is_impossible(self, value: float) -> bool:
        """Whether no GPU can have the value."""
        most = 100.0 if self.unit == "%" and self.most is None else self.most
        return most is not None and not 0 <= value <= most


@dataclass(frozen=True)
class Contradiction:
    """Counters that cannot all be 0 where another is positive: then they were not collected."""

    zero: tuple[str, ...]
    positive: str


@dataclass(frozen=True)
class Definitions:
    """All that is defined for one architecture."""

    architecture: str
    metrics: tuple[Definition, ...]
    constants: Mapping[str, int] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Name in a file -> the counter it is."""
    absent: tuple[str, ...] = ()
    """Counters of shared formulas that this architecture does not have."""
    never_zero: tuple[str, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()

    @property
    def counters(self) -> frozenset[str]:
        """Every counter that some formula or check uses, also by its instances and by the tool's own sum."""
        formulas = [formula for metric in self.metrics for formula in metric.formulas]
        names = {name for formula in formulas for name in (*formula.counters, *formula.optional)}
        names |= {name for each in self.contradictions for name in (*each.zero, each.positive)}
        names |= set(self.never_zero)
        return frozenset(names | {name.removesuffix("_sum") for name in names})

    def metric(self, name: str) -> Definition:
        """The figure of that name. ProfileError if there is none."""
        for metric in self.metrics:
            if metric.name == name:
                return metric
        known = ", ".join(metric.name for metric in self.metrics)
        raise ProfileError(f"{self.architecture} has no figure {name!r}; it has {known}")


def architectures() -> tuple[str, ...]:
    """Architectures with definitions."""
    return tuple(sorted(path.stem for path in data_path("metrics").glob("*.json") if path.stem not in _SHARED))


@functools.cache
def definitions(architecture: str) -> Definitions:
    """The definitions of an architecture; any sm_XX without its own gets what holds for all of them."""
    own = architecture
    if architecture not in architectures():
        if not architecture.startswith("sm_"):
            raise ProfileError(f"no figures are defined for {architecture!r}; give one of {', '.join(architectures())}")
        own = ANY_NVIDIA
    layers = _layers(own)
    merged: dict[str, dict[str, Any]] = {}
    for layer in layers:
        merged.update({entry["name"]: entry for entry in layer.get("metrics", ())})
    return Definitions(
        architecture=architecture,
        metrics=tuple(_metric(entry) for entry in merged.values()),
        constants={name: each["value"] for layer in layers for name, each in layer.get("constants", {}).items()},
        aliases={name: counter for layer in layers for name, counter in layer.get("aliases", {}).items()},
        absent=tuple(name for layer in layers for name in layer.get("absent", ())),
        never_zero=tuple(name for layer in layers for name in layer.get("never_zero", {}).get("counters", ())),
        contradictions=tuple(
            Contradiction(tuple(each["zero"]), each["positive"])
            for layer in layers
            for each in layer.get("contradictions", ())
        ),
    )


def collection(tool: str) -> Mapping[str, Any]:
    """What a run under the tool collects, and how much fits one pass."""
    content: dict[str, Any] = json.loads(data_path("metrics", "collection.json").read_text(encoding="utf-8"))
    return content[tool]


def _layers(name: str) -> list[dict[str, Any]]:
    """The file's content behind that of the files it includes."""
    content = json.loads(data_path("metrics", f"{name}.json").read_text(encoding="utf-8"))
    return [layer for included in content.get("include", ()) for layer in _layers(included)] + [content]


def _metric(entry: Mapping[str, Any]) -> Definition:
    given = dict(entry)
    return Definition(
        formulas=tuple(Formula(text) for text in given.pop("formulas")),
        readings=tuple(Reading(**each) for each in given.pop("readings", ())),
        **given,
    )
