"""The kernel descriptor of a code object: 64 bytes that tell the hardware how a wave starts."""

from __future__ import annotations

import struct

DESCRIPTOR_BYTES = 64

# Field -> (byte of its 32-bit or 16-bit word, lowest bit, bits): "Kernel Descriptor" in LLVM's "User Guide for AMDGPU
# Backend". Names are those of the assembler's .amdhsa_ directives.
_FIELDS = {
    "group_segment_fixed_size": (0, 0, 32),
    "private_segment_fixed_size": (4, 0, 32),
    "kernarg_size": (8, 0, 32),
    "tg_split": (44, 16, 1),
    "float_round_mode_32": (48, 12, 2),
    "float_round_mode_16_64": (48, 14, 2),
    "float_denorm_mode_32": (48, 16, 2),
    "float_denorm_mode_16_64": (48, 18, 2),
    "dx10_clamp": (48, 21, 1),
    "ieee_mode": (48, 23, 1),
    "fp16_overflow": (48, 26, 1),
    "enable_private_segment": (52, 0, 1),
    "user_sgpr_count": (52, 1, 5),
    "system_sgpr_workgroup_id_x": (52, 7, 1),
    "system_sgpr_workgroup_id_y": (52, 8, 1),
    "system_sgpr_workgroup_id_z": (52, 9, 1),
    "system_sgpr_workgroup_info": (52, 10, 1),
    "system_vgpr_workitem_id": (52, 11, 2),
    "user_sgpr_dispatch_ptr": (56, 1, 1),
    "user_sgpr_queue_ptr": (56, 2, 1),
    "user_sgpr_kernarg_segment_ptr": (56, 3, 1),
    "user_sgpr_dispatch_id": (56, 4, 1),
    "user_sgpr_private_segment_size": (56, 6, 1),
    "user_sgpr_kernarg_preload_length": (56, 16, 7),
    "user_sgpr_kernarg_preload_offset": (56, 23, 9),
}
_ACCUM_OFFSET_BYTE, _ACCUM_GRANULE = 44, 4


def descriptor_fields(data: bytes) -> dict[str, int]:
    """The fields of a descriptor (64 bytes) under the names of the .amdhsa_ directives that would make it.

    struct.error when it is shorter.
    """
    fields = {}
    for name, (byte, first, bits) in _FIELDS.items():
        (word,) = struct.unpack_from("<I", data, byte)
        fields[name] = word >> first & (1 << bits) - 1
    (rsrc3,) = struct.unpack_from("<I", data, _ACCUM_OFFSET_BYTE)
    return fields | {"accum_offset": ((rsrc3 & 0x3F) + 1) * _ACCUM_GRANULE}
