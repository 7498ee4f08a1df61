"""Spec of the dense prefill kernel in Gluon for Hopper, whose copies and products overlap as chosen here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.errors import SpecError
from workbench.spec import DenseGeometry, require

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.problem import DenseAttentionProblem

ARCH = "sm_90"
SHARED_BYTES = 232_448
"""Shared memory that one workgroup may have."""
ROWS_PER_WARPGROUP = 64
"""Query rows of a warpgroup: the M of one warpgroup product."""
BLOCK_M = 128
"""Rows of a work item: two warpgroups."""
HEAD_SIZES = (64, 128)
_BARRIERS_BYTES = 1024
"""Room for the barriers and their alignment."""


@dataclass(frozen=True, kw_only=True)
class Sm90DenseSpec(DenseGeometry):
    """The dense prefill kernel in Gluon: a copying warp and two warpgroups of 64 query rows each."""

    block_n: int = 128
    lazy_rescale: bool = False
    """Not in this kernel: a vote would hold up the warpgroup that it is to speed up."""
    num_buffers: int = 2
    """K and V tiles in shared memory: how far the copying warp runs ahead."""
    overlap: bool = True
    """The QK product of the next tile and the PV product of the last one run beneath the softmax of a tile."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.block_m == BLOCK_M, f"block_m must be {BLOCK_M}, two warpgroups of 64 rows, got {self.block_m}")
        require(self.block_n in (64, 128), f"block_n must be 64 or 128, got {self.block_n}")
        require(2 <= self.num_buffers <= 8, f"num_buffers must be 2..8, got {self.num_buffers}")
        require(not self.lazy_rescale, "the sm_90 dense kernel has no lazy_rescale; use DenseSpec")
        require(self.waves_per_eu == 0, "waves_per_eu is for AMD; leave it 0")

    def compiler_options(self, vendor: str) -> dict[str, Any]:
        # Of the first warpgroup; warp specialisation adds the other warps.
        return {"num_warps": 4}

    def shared_bytes(self, head_size: int) -> int:
        """Shared memory of a workgroup: Q, and the K and V tiles; 16-bit elements."""
        return 2 * head_size * (self.block_m + 2 * self.num_buffers * self.block_n) + _BARRIERS_BYTES

    def check_device(self, device: Device | None) -> None:
        """Raise SpecError unless the device is a Hopper GPU."""
        if device is None or device.arch != ARCH:
            raise SpecError(
                f"Sm90DenseSpec is for {ARCH}, not for {'the interpreter' if device is None else device.arch}; "
                "use a portable spec, DenseSpec"
            )

    def check(self, problem: DenseAttentionProblem) -> None:
        """Raise SpecError unless a kernel of this spec can serve the problem."""
        require(
            problem.head_size in HEAD_SIZES,
            f"the sm_90 dense kernel has head sizes {HEAD_SIZES}, got {problem.head_size}; use DenseSpec",
        )
        require(problem.dtype in ("bf16", "fp16"), f"the sm_90 dense kernel is bf16 or fp16, got {problem.dtype}")
        require(problem.sliding_window is None, "the sm_90 dense kernel has no sliding window; use DenseSpec")
        require(problem.seqlen_kv > 0, "the sm_90 dense kernel needs a key: tensor maps have no empty axis")
        needed = self.shared_bytes(problem.head_size)
        require(
            needed <= SHARED_BYTES,
            f"{self.num_buffers} buffers of {self.block_n} keys take {needed} bytes of shared memory, "
            f"of {SHARED_BYTES}; use fewer buffers or a smaller block_n",
        )
