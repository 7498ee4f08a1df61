"""Which compiled specs are not worth timing. Evidence: static.

    does not compile        always out
    LDS                     more than one workgroup may have
    spills                  more private memory than the dispatcher's own choice has
    occupancy               fewer resident waves per compute unit than it has SIMDs, so that some idle

Resident waves: workgroups admitted by registers, LDS and wave slots, times the waves of a workgroup. On AMD by
workbench.gfx950.occupancy; on NVIDIA a partition of a multiprocessor holds floor(registers / V) warps, V rounded up
to 8, and no more than its slots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.errors import TargetError
from workbench.gfx950.limits import limits_of
from workbench.gfx950.occupancy import Occupancy

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.tune.compiled import Compiled

REGISTER_GRANULE = 8
"""NVIDIA deals the registers of a thread out in eights."""
NVIDIA_RESERVED_LDS = 1024
"""Shared memory that the driver keeps for itself in each workgroup."""


def resident_waves(compiled: Compiled, device: Device) -> int | None:
    """Waves per compute unit; None where the compiler or the device's description does not say enough."""
    registers, simds = device.registers_per_lane, device.simds_per_cu
    slots, lds_bytes = device.max_waves_per_simd, device.lds_bytes_per_cu
    if compiled.vgprs is None or registers is None or simds is None or slots is None or lds_bytes is None:
        return None
    if not compiled.num_warps:
        return None
    if device.vendor == "amd":
        try:
            limits = limits_of(device.arch)
        except TargetError:
            return None
        return Occupancy(limits, compiled.vgprs, compiled.lds_bytes, compiled.num_warps).waves_per_cu
    allocated = -(-max(compiled.vgprs, 1) // REGISTER_GRANULE) * REGISTER_GRANULE
    workgroups = simds * min(slots, registers // allocated) // compiled.num_warps
    workgroups = min(workgroups, lds_bytes // (compiled.lds_bytes + NVIDIA_RESERVED_LDS))
    return workgroups * compiled.num_warps


def why_pruned(compiled: Compiled, own: Compiled | None, device: Device) -> str:
    """Why a spec is left out, or "". `own` is the dispatcher's choice for the same problem and lane."""
    if compiled.error:
        return compiled.error
    if compiled.lds_bytes > device.lds_bytes_per_workgroup:
        return f"pruned: {compiled.lds_bytes} bytes of LDS, of {device.lds_bytes_per_workgroup} for a workgroup"
    allowed = (own.spill_bytes or 0) if own is not None else 0
    if compiled.spill_bytes is not None and compiled.spill_bytes > allowed:
        return f"pruned: spills {compiled.spill_bytes} bytes a lane, the dispatcher's choice {allowed}"
    waves = resident_waves(compiled, device)
    if waves is not None and device.simds_per_cu is not None and waves < device.simds_per_cu:
        return f"pruned: {waves} resident waves leave some of the {device.simds_per_cu} SIMDs of a compute unit idle"
    return ""
