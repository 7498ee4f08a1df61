"""The registry of levers, read from data/levers: a file per kernel, and shared ones that they include."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from workbench.errors import ParameterError
from workbench.resources import data_path

if TYPE_CHECKING:
    from workbench.spec import KernelSpec

Setting = bool | int | str | None
"""A value of a spec's field, as a lever sets it."""

INSTRUMENTS = {
    "inspect": "static inspection",
    "emulate": "emulator counters",
    "budget": "issue budget",
    "l2": "L2 model",
    "gpu": "GPU timing",
}
"""Key in the files -> instrument."""


@dataclass(frozen=True)
class Limit:
    """Where something cannot be used, or has no effect, and why."""

    where: str
    why: str


@dataclass(frozen=True)
class Lever:
    """One named change to a spec."""

    name: str
    field: str
    """Field of the kernel's spec."""
    values: tuple[Setting, ...]
    """Settings to compare; the first is the one without the lever."""
    changes: str
    """What it changes in the machine code."""
    instruments: tuple[str, ...]
    """Keys of INSTRUMENTS that can see it."""
    published: tuple[str, ...]
    """Topics of data/published.csv."""
    unavailable: tuple[Limit, ...]


@dataclass(frozen=True)
class KernelLevers:
    """A kernel with its levers."""

    kernel: str
    title: str
    spec: str
    """Full name of the spec's class."""
    lane: str
    """`dense`, `2d` or `3d`."""
    scenario: str
    """What a table of it compiles unless told otherwise."""
    geometry: tuple[str, ...]
    """Fields of the spec that are extents or counts, not levers."""
    levers: tuple[Lever, ...]
    unavailable: tuple[Limit, ...]
    """Targets that the kernel as a whole is not for."""

    @property
    def spec_class(self) -> type[KernelSpec]:
        module, _, name = self.spec.rpartition(".")
        found: type[KernelSpec] = getattr(import_module(module), name)
        return found

    def lever(self, name: str) -> Lever:
        """The lever of that field; ParameterError lists the fields."""
        for lever in self.levers:
            if lever.field == name:
                return lever
        raise ParameterError(
            f"{self.kernel} has no lever {name!r}; it has {', '.join(lever.field for lever in self.levers)}"
        )


@cache
def load_kernels() -> tuple[KernelLevers, ...]:
    """Every kernel of data/levers, by name."""
    return tuple(_kernel(_read(path.stem)) for path in sorted(data_path("levers").glob("*.json")))


def find_kernel(name: str) -> KernelLevers:
    """The kernel of that name; ParameterError lists the names."""
    kernels = {kernel.kernel: kernel for kernel in load_kernels()}
    if name not in kernels:
        raise ParameterError(f"there is no kernel {name!r}; choose one of {', '.join(kernels)}")
    return kernels[name]


def _read(*parts: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(data_path("levers", *parts).with_suffix(".json").read_text())
    return document


def _kernel(document: dict[str, Any]) -> KernelLevers:
    own = [_lever(entry) for entry in document["levers"]]
    shared = [_lever(entry) for name in document["includes"] for entry in _read("shared", name)["levers"]]
    return KernelLevers(
        kernel=document["kernel"],
        title=document["title"],
        spec=document["spec"],
        lane=document["lane"],
        scenario=document["scenario"],
        geometry=tuple(document["geometry"]),
        levers=(*own, *shared),
        unavailable=_limits(document),
    )


def _lever(entry: dict[str, Any]) -> Lever:
    texts = {name: tuple(entry[name]) for name in ("values", "instruments", "published")}
    return Lever(
        name=entry["name"], field=entry["field"], changes=entry["changes"], unavailable=_limits(entry), **texts
    )


def _limits(entry: dict[str, Any]) -> tuple[Limit, ...]:
    return tuple(Limit(**limit) for limit in entry["unavailable"])
