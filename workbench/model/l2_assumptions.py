"""What the L2 model takes for granted, each as a named value that a study can change."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from workbench.errors import ModelError
from workbench.spec import DenseGeometry, DenseSpec
from workbench.spec_gfx950 import Gfx950DenseSpec

Pace = Literal["free", "phase"]

STORES_PER_LINE: dict[type[DenseGeometry], int] = {DenseSpec: 4, Gfx950DenseSpec: 8}
"""Store instructions of a wave that write one line of O, from the machine code of the dense kernels for gfx950.

A lane of the Triton kernel stores 16 bytes of a row and a lane of the Gluon kernel 8, two lanes side by side. Stores
pass the L1, so that the L2 sees each; all but the first find the line there.
"""


@dataclass(frozen=True, kw_only=True)
class L2Assumptions:
    """The free values of the model. `sentences` states them all."""

    pace: Pace = "free"
    """free: a workgroup goes on to its next item at once, as the kernel does. phase: all wait for the slowest one at
    every stride of the persistent grid, which the kernel does not do: the most that being in step could bring."""
    drift: float = 0.0
    """Spread of the workgroups' speeds: each needs 1 ± drift steps for a tile, drawn once, uniformly."""
    q_requests: int = 1
    """L2 requests for each line of Q from one workgroup; 0 leaves Q out."""
    kv_requests: int = 1
    """Likewise for each line of a K or V tile, at least 1."""
    o_requests: int | None = None
    """Likewise for each line of O; None: as many stores as the kernel of the spec writes it with (STORES_PER_LINE)."""
    workgroups_per_cu: int = 1
    """How many workgroups a compute unit holds at a time."""
    sampled_sets: int = 32
    """Sets of each XCD's cache that are simulated."""
    seed: int = 0
    """Of the sampled sets and of the drift."""

    def __post_init__(self) -> None:
        _require(self.pace in ("free", "phase"), f"pace must be 'free' or 'phase', got {self.pace!r}")
        _require(
            math.isfinite(self.drift) and 0.0 <= self.drift < 1.0,
            f"drift must be in 0 <= drift < 1, got {self.drift!r}",
        )
        for name, least in (
            ("q_requests", 0),
            ("kv_requests", 1),
            ("o_requests", 0),
            ("workgroups_per_cu", 1),
            ("sampled_sets", 1),
            ("seed", 0),
        ):
            value = getattr(self, name)
            if name == "o_requests" and value is None:
                continue
            _require(isinstance(value, int) and value >= least, f"{name} must be an integer >= {least}, got {value!r}")

    def for_spec(self, spec: DenseGeometry) -> L2Assumptions:
        """The same with `o_requests` known."""
        if self.o_requests is not None:
            return self
        return replace(self, o_requests=STORES_PER_LINE[type(spec)])

    def sentences(self) -> tuple[str, ...]:
        """The assumptions in words."""
        paces = {
            "free": "a workgroup goes on to its next work item at once",
            "phase": "all workgroups wait for the slowest at every stride of the persistent grid",
        }
        speed = "at the same speed" if self.drift == 0.0 else f"at speeds within ±{self.drift:.1%}"
        stores = "as the kernel stores it" if self.o_requests is None else self.o_requests
        return (
            "Workgroup i runs on XCD i mod the number of XCDs; each compute unit holds "
            f"{self.workgroups_per_cu} at a time.",
            f"Workgroups advance tile by tile {speed} (drift {self.drift:g}), and {paces[self.pace]} "
            f"(pace {self.pace}). Within a step they take turns in the order of their numbers.",
            "Each L2 replaces the least recently used line of a set, allocates on reads and writes, and starts empty. "
            "A request for a line that is still on its way is a hit.",
            f"Requests per line and workgroup: Q {self.q_requests}, K and V {self.kv_requests}, O {stores}. "
            "Only the first of several can miss; of a line that a wave reads in pieces, L1 is taken to serve the rest.",
            "Sinks, lengths, instruction fetches and loads ahead of a tile that is never used are left out.",
            f"{self.sampled_sets} sets of each cache are simulated line by line and scaled up.",
            "Bytes beyond the L2 may still be served by the last-level cache: HBM traffic lies between the compulsory "
            "bytes and these.",
        )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ModelError(message)
