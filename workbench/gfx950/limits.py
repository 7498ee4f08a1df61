"""What a compute unit of each target offers: the device's figures, and how they are handed out.

How they are handed out stands in data/gfx950/limits.json with its sources.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from workbench.device import load_device
from workbench.errors import TargetError
from workbench.resources import data_path


@dataclass(frozen=True)
class Limits:
    """Resources of one compute unit (CU)."""

    target: str
    simds: int
    waves_per_simd: int
    """Wave slots of a SIMD."""
    vgprs: int
    """Vector registers of a lane of a SIMD, shared by its waves; VGPRs and AGPRs lie in one file."""
    vgpr_granule: int
    lds_bytes: int
    lds_granule: int
    """Bytes; LDS is handed to a workgroup in multiples of this."""
    workgroups: int
    """Workgroups of more than one wave at once. Those of one wave need no barrier and are not counted."""

    @property
    def wave_slots(self) -> int:
        """Of the whole CU."""
        return self.simds * self.waves_per_simd

    def with_lds(self, lds_bytes: int, lds_granule: int | None = None) -> Limits:
        """The same unit with another LDS budget."""
        return replace(self, lds_bytes=lds_bytes, lds_granule=lds_granule or self.lds_granule)


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = json.loads(data_path("gfx950", "limits.json").read_text())
    return {target: row for target, row in table.items() if target != "sources"}


@lru_cache(maxsize=8)
def limits_of(target: str) -> Limits:
    """Limits of a target; TargetError lists the known ones."""
    table = _table()
    if target not in table:
        raise TargetError(f"no occupancy limits are known for target {target!r}; known: {', '.join(table)}")
    row = table[target]
    device = load_device(row["device"])
    return Limits(
        target,
        simds=int(device.simds_per_cu or 0),
        waves_per_simd=int(device.max_waves_per_simd or 0),
        vgprs=int(device.registers_per_lane or 0),
        vgpr_granule=row["vgpr_granule"],
        lds_bytes=int(device.lds_bytes_per_cu or 0),
        lds_granule=row["lds_granule"],
        workgroups=row["workgroups"],
    )
