"""Register and memory figures that the compilers print beside their code."""

from __future__ import annotations

import re
from dataclasses import dataclass

_AMD_FIELDS = {
    "vgprs": "vgpr_count",
    "agprs": "agpr_count",
    "sgprs": "sgpr_count",
    "vgpr_spills": "vgpr_spill_count",
    "sgpr_spills": "sgpr_spill_count",
    "scratch_bytes": "private_segment_fixed_size",
    "static_lds_bytes": "group_segment_fixed_size",
}


@dataclass(frozen=True)
class RegisterFigures:
    """Per lane (thread): registers; per wave: SGPRs and their spills. None where the compiler does not say.

    On AMD `vgprs` is the unified count, accumulation registers (`agprs`) included, as the occupancy rule needs it.
    """

    vgprs: int
    scratch_bytes: int
    """Private memory of a lane, where spills go."""
    static_lds_bytes: int
    """Without the dynamic part, which is all that Triton uses on AMD: see CompiledKernel.lds_bytes."""
    agprs: int | None = None
    sgprs: int | None = None
    vgpr_spills: int | None = None
    sgpr_spills: int | None = None

    @property
    def spills(self) -> bool:
        """Whether any register went to scratch or, on AMD, any SGPR into a VGPR's lanes."""
        return bool(self.scratch_bytes or self.vgpr_spills or self.sgpr_spills)


def amd_figures(assembly: str) -> RegisterFigures | None:
    """Figures from the `.amdgpu_metadata` block of one-kernel assembly; None when it has none."""
    _, found, metadata = assembly.partition(".amdgpu_metadata")
    values = {}
    for name, key in _AMD_FIELDS.items():
        match = re.search(rf"^[ -]*\.{key}:\s+(\d+)", metadata, re.MULTILINE)
        if match:
            values[name] = int(match.group(1))
    if not found or len(values) < len(_AMD_FIELDS):
        return None
    return RegisterFigures(**values)


def nvidia_figures(resource_usage: str) -> RegisterFigures | None:
    """Figures from `cuobjdump --dump-resource-usage` on one cubin; None when it says nothing."""
    match = re.search(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)", resource_usage)
    if match is None:
        return None
    registers, stack, shared = map(int, match.groups())
    return RegisterFigures(vgprs=registers, scratch_bytes=stack, static_lds_bytes=shared)
