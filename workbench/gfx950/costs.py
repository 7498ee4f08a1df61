"""Issue costs per instruction class, from data/gfx950/costs.json, where every row names its source."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from workbench.errors import TargetError
from workbench.gfx950.isa import InstructionClass
from workbench.resources import data_path


@dataclass(frozen=True)
class Cost:
    """What one instruction of a class takes."""

    family: str
    detail: str
    """Pattern of the class's detail."""
    cycles: int
    """Of one wave, on its SIMD; of LDS classes the SIMD's share while all four SIMDs are busy."""
    kind: str
    """published: somebody measured or documented it; derived: from such a figure; assumed: neither."""
    source: str


@dataclass(frozen=True)
class CostTable:
    """Costs of one target."""

    target: str
    rows: tuple[Cost, ...]
    read_phase: int
    """Cycles at the start of an MFMA in which no vector instruction can issue beside it."""

    def cost(self, kind: InstructionClass) -> Cost | None:
        """The first row that fits the class; None when no cost is known."""
        return next((r for r in self.rows if r.family == kind.family and fnmatchcase(kind.detail, r.detail)), None)


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(data_path("gfx950", "costs.json").read_text())
    return document


@lru_cache(maxsize=4)
def costs_of(target: str) -> CostTable:
    """The cost table of a target; TargetError lists the known ones."""
    document = _document()
    known = [name for name in document if name.startswith("gfx")]
    if target not in known:
        raise TargetError(f"no issue costs are known for target {target!r}; known: {', '.join(known)}")
    return CostTable(target, tuple(Cost(**row) for row in document[target]), document["mfma_read_phase"]["cycles"])
