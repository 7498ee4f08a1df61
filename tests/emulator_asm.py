"""Hand-written gfx950 kernels for the emulator's tests: a body between a fixed head and tail."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from workbench.gfx950.emulator import EmulationResult, KernelImage, emulate

_TEXT = """\t.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
\t.text
\t.globl\tbody
\t.type\tbody,@function
body:
{body}
\ts_endpgm
.Lfunc_end0:
\t.size\tbody, .Lfunc_end0-body
\t.amdhsa_kernel body
\t\t.amdhsa_group_segment_fixed_size 0
\t\t.amdhsa_private_segment_fixed_size {scratch}
\t\t.amdhsa_kernarg_size {bytes}
\t\t.amdhsa_user_sgpr_count 2
\t\t.amdhsa_user_sgpr_kernarg_segment_ptr 1
\t\t.amdhsa_system_sgpr_workgroup_id_x 1
\t\t.amdhsa_next_free_vgpr 64
\t\t.amdhsa_next_free_sgpr 32
\t\t.amdhsa_accum_offset 64
\t\t.amdhsa_float_denorm_mode_32 {denormals}
\t.end_amdhsa_kernel
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
{args}
    .kernarg_segment_size: {bytes}
    .max_flat_workgroup_size: {threads}
    .name: body
    .symbol: body.kd
    .vgpr_count: 64
amdhsa.target: amdgcn-amd-amdhsa--gfx950
...
\t.end_amdgpu_metadata
"""


def kernel(
    body: Sequence[str], *, pointers: int, lds: int = 0, threads: int = 64, denormals: int = 3, scratch: int = 0
) -> KernelImage:
    """A kernel whose arguments are pointers, found through s[0:1]; s2 is the workgroup's number, v0 the work-item's.

    lds: bytes of a workgroup. scratch: bytes of a lane.
    """
    slots = [f"      - .offset: {8 * i}\n        .size: 8\n        .value_kind: global_buffer" for i in range(pointers)]
    code = "\n".join(line if line.endswith(":") else f"\t{line}" for line in body)
    text = _TEXT.format(
        body=code, bytes=8 * pointers, args="\n".join(slots), threads=threads, denormals=denormals, scratch=scratch
    )
    return KernelImage(text, lds)


HEAD = (
    "s_load_dwordx8 s[4:11], s[0:1], 0x0",
    "s_waitcnt lgkmcnt(0)",
    "v_lshlrev_b32_e32 v1, 3, v0",
    "global_load_dwordx2 v[2:3], v1, s[4:5]",
    "global_load_dwordx2 v[4:5], v1, s[6:7]",
    "global_load_dwordx2 v[6:7], v1, s[8:9]",
    "v_mov_b32_e32 v8, 0",
    "v_mov_b32_e32 v9, 0",
    "s_waitcnt vmcnt(0)",
)
"""Lane l's 64-bit sources in v[2:3], v[4:5], v[6:7]; its result is taken from v[8:9]."""
TAIL = ("global_store_dwordx2 v1, v[8:9], s[10:11]",)


def run_lanes(body: Sequence[str], *sources: np.ndarray, denormals: int = 3) -> np.ndarray:
    """Run a body on up to three uint64 [64] sources, one element a lane; returns v[8:9] of each lane, uint64 [64]."""
    tensors = [torch.zeros(64, dtype=torch.int64) for _ in range(4)]
    for tensor, source in zip(tensors, sources, strict=False):
        tensor.copy_(torch.from_numpy(source.astype(np.uint64).view(np.int64)))
    image = kernel([*HEAD, *body, *TAIL], pointers=4, lds=4096, denormals=denormals)
    emulate(image, (1,), tensors, strict=True)
    return tensors[3].numpy().view(np.uint64).copy()


def run_body(
    body: Sequence[str], tensors: Sequence[torch.Tensor], *, strict: bool = False, **options: int
) -> EmulationResult:
    """Run a body with pointers to the tensors in s[4:5], s[6:7], ..."""
    loads = [f"s_load_dwordx2 s[{4 + 2 * i}:{5 + 2 * i}], s[0:1], {8 * i:#x}" for i in range(len(tensors))]
    head = [*loads, "s_waitcnt lgkmcnt(0)"]
    return emulate(kernel([*head, *body], pointers=len(tensors), **options), (1,), tensors, strict=strict)
