"""What a kernel takes: registers, spills, LDS, scratch. Put together from directives, metadata and LLVM's comments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# VCC, FLAT_SCRATCH and XNACK_MASK take two SGPRs each on top of the numbered ones.
_EXTRA_SGPRS = 6
DEFAULT_WORKGROUP_SIZE = 1024


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Figures of one kernel. Evidence kind: static. None where the file does not say."""

    vgprs: int
    """Vector registers that the code uses, per lane; accumulation registers included (the file is unified)."""
    vgprs_reserved: int
    """Vector registers that the kernel's descriptor asks for, before rounding up to the granule. LLVM asks for more
    than it uses where `waves_per_eu` or static LDS caps the waves anyway."""
    agprs: int = 0
    sgprs: int = 0
    """Scalar registers of a wave, VCC, FLAT_SCRATCH and XNACK_MASK included."""
    vgpr_spills: int | None = None
    """Registers, not bytes or instructions."""
    sgpr_spills: int | None = None
    scratch_bytes: int = 0
    """Private memory of a lane."""
    lds_bytes: int = 0
    """Static LDS of a workgroup; Triton's is dynamic, so it reads 0 there."""
    max_workgroup_size: int = DEFAULT_WORKGROUP_SIZE
    """Threads; the largest workgroup that the kernel may be launched with."""
    workgroup_size_known: bool = False
    """Whether max_workgroup_size was in the file or is the hardware's limit."""
    code_bytes: int | None = None
    llvm_occupancy: int | None = None
    """The `; Occupancy: N` that LLVM printed, in waves per SIMD."""

    @property
    def spills(self) -> bool:
        """Whether any register was spilled."""
        return bool(self.vgpr_spills or self.sgpr_spills)


def resources_of(
    directives: Mapping[str, str], metadata: Mapping[str, object], comments: Mapping[str, str]
) -> Resources:
    """Combine an .amdhsa_kernel block, a metadata entry and LLVM's `; Kernel info` figures; the first to say it wins.

    Directives hold what the hardware is told, metadata what the code uses.
    """

    def directive(key: str) -> int | None:
        value = directives.get(key, "")
        return int(value, 0) if value.removeprefix("0x").isalnum() and value[:1].isdigit() else None

    def entry(key: str) -> int | None:
        value = metadata.get(f".{key}")
        return value if isinstance(value, int) else None

    def comment(key: str) -> int | None:
        return int(comments[key]) if key in comments else None

    used = _first(entry("vgpr_count"), comment("TotalNumVgprs"), directive("next_free_vgpr"))
    reserved = _first(directive("next_free_vgpr"), comment("NumVGPRsForWavesPerEU"), used)
    workgroup = entry("max_flat_workgroup_size")
    next_free_sgpr = directive("next_free_sgpr")
    return Resources(
        vgprs=used or 0,
        vgprs_reserved=reserved or 0,
        agprs=_first(
            entry("agpr_count"), comment("NumAgprs"), _agprs(directive("accum_offset"), directive("next_free_vgpr"))
        )
        or 0,
        sgprs=_first(entry("sgpr_count"), comment("TotalNumSgprs"), next_free_sgpr and next_free_sgpr + _EXTRA_SGPRS)
        or 0,
        vgpr_spills=entry("vgpr_spill_count"),
        sgpr_spills=entry("sgpr_spill_count"),
        scratch_bytes=_first(directive("private_segment_fixed_size"), entry("private_segment_fixed_size")) or 0,
        lds_bytes=_first(directive("group_segment_fixed_size"), entry("group_segment_fixed_size")) or 0,
        max_workgroup_size=workgroup or DEFAULT_WORKGROUP_SIZE,
        workgroup_size_known=workgroup is not None,
        code_bytes=comment("codeLenInByte"),
        llvm_occupancy=comment("Occupancy"),
    )


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _agprs(offset: int | None, total: int | None) -> int | None:
    return max(total - offset, 0) if offset is not None and total is not None else None
