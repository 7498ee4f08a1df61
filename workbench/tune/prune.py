"""Which compiled specs are not worth timing. Evidence: static.

    does not compile        always out
    LDS                     more than one workgroup may have
    spills                  more private memory than the dispatcher's own choice has
    occupancy               fewer resident waves per compute unit than it has SIMDs, so that some idle

Resident waves: workgroups admitted by registers, LDS and wave slots, times the waves of a workgroup. A SIMD holds
floor(registers / V) waves, V rounded up to 8, and no more than its slots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.tune.compiled import Compiled

REGISTER_GRANULE = 8
"""Registers of a lane are dealt out in eights, on gfx9-4x and on NVIDIA."""
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
    allocated = -(-max(compiled.vgprs, 1) // REGISTER_GRANULE) * REGISTER_GRANULE
    workgroups = simds * min(slots, registers // allocated) // compiled.num_warps
    used = compiled.lds_bytes + (NVIDIA_RESERVED_LDS if device.vendor == "nvidia" else 0)
    if used:
        workgroups = min(workgroups, lds_bytes // used)
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
