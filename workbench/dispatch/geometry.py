"""What a geometry tier decides, and how it is made to fit the device's LDS."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workbench.errors import SpecError
from workbench.problem import DTYPE_BYTES
from workbench.spec import MIN_DOT_EXTENT, head_pad

if TYPE_CHECKING:
    from workbench.device import Device

MFMA_ROWS = 32
"""Rows and columns of AMD's larger matrix instruction."""


@dataclass(frozen=True)
class Geometry:
    """The fields of a spec that a tier chooses; `rows` and `tile` are block_m and tile_size or block_n."""

    rows: int
    tile: int
    num_warps: int
    num_stages: int
    waves_per_eu: int = 0
    matrix_instr_nonkdim: int = 0
    mask_split: bool = True
    early_launch: bool = False
    pages_ahead: bool = False
    transposed_qk: bool = False
    fp8_in_fp16: bool = False


@dataclass(frozen=True)
class Cohort:
    """A named class of problems and the geometry it gets."""

    name: str
    geometry: Geometry
    reasons: tuple[str, ...]


def rows_of_32(rows: int, tile: int, num_stages: int, *, waves_per_eu: int = 0, mask_split: bool = True) -> Geometry:
    """On AMD: 32 query rows for each wave, one 32x32 matrix instruction."""
    return Geometry(
        rows,
        tile,
        num_warps=rows // MFMA_ROWS,
        num_stages=num_stages,
        waves_per_eu=waves_per_eu,
        matrix_instr_nonkdim=MFMA_ROWS,
        mask_split=mask_split,
    )


def estimate_lds_bytes(geometry: Geometry, head_size: int, dtype: str) -> int:
    """Upper bound on a workgroup's LDS: num_stages K and V tiles and the query tile, in the compute dtype.

    An fp8 cache counts in the compute dtype too, since it is dequantised before the multiplication (§7.3).
    """
    rows = geometry.num_stages * 2 * geometry.tile + geometry.rows
    return rows * head_pad(head_size) * DTYPE_BYTES[dtype]


def fit_lds(cohort: Cohort, device: Device, head_size: int, dtype: str, smallest_rows: int) -> Cohort:
    """Shrink stages, then the KV tile, then the query tile until the estimate fits one workgroup's LDS.

    NVIDIA keeps two stages as long as the tile can shrink instead: one stage has no copy in flight there.
    Raises SpecError where even the smallest geometry does not fit.
    """
    budget = device.lds_bytes_per_workgroup
    wanted = estimate_lds_bytes(cohort.geometry, head_size, dtype)
    geometry = cohort.geometry
    while estimate_lds_bytes(geometry, head_size, dtype) > budget:
        geometry = _smaller(geometry, stages_kept=2 if device.vendor == "nvidia" else 1, smallest_rows=smallest_rows)
    if geometry == cohort.geometry:
        return cohort
    reason = (
        f"Shrunk from {wanted} to {estimate_lds_bytes(geometry, head_size, dtype)} bytes of LDS, of {budget}: "
        f"{geometry.num_stages} stages, KV tile {geometry.tile}, query tile {geometry.rows}."
    )
    return replace(cohort, geometry=geometry, reasons=(*cohort.reasons, reason))


def _smaller(geometry: Geometry, stages_kept: int, smallest_rows: int) -> Geometry:
    if geometry.num_stages > stages_kept:
        return replace(geometry, num_stages=geometry.num_stages - 1)
    if geometry.tile > MIN_DOT_EXTENT:
        return replace(geometry, tile=geometry.tile // 2)
    if geometry.num_stages > 1:
        return replace(geometry, num_stages=geometry.num_stages - 1)
    if geometry.rows > smallest_rows:
        return replace(geometry, rows=geometry.rows // 2)
    raise SpecError(
        f"no geometry fits the LDS: {geometry.rows} query rows and {geometry.tile} keys are the least; "
        "give a spec of your own or another device"
    )
