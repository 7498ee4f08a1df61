"""Specs of the Gluon kernels, whose layouts, LDS and waits are chosen here and not by the compiler. gfx950 only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.errors import SpecError
from workbench.spec import DenseGeometry, KernelSpec, require

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.problem import DenseAttentionProblem

ARCH = "gfx950"
LDS_BYTES = 163_840
"""LDS of a compute unit, all of which one workgroup may have."""
ROWS_PER_WAVE = 32
"""Query rows of a wave: the columns of one 32x32 MFMA."""
HEAD_SIZES = (64, 128)
PART_N = 32
"""Keys of one QK and one PV product. A step of the recurrence takes two of them: more would not fit the registers."""
PADS = (0, 8, 16, 32)
"""Halves of padding between LDS rows: none, or a power of two that keeps 16-byte alignment."""


@dataclass(frozen=True, kw_only=True)
class Gfx950Spec(KernelSpec):
    """Levers that the Gluon kernels share."""

    waves_per_eu: int = 2
    exp2_fast: bool = True
    """2^x as one v_exp_f32; otherwise guarded against denormal results."""
    setprio: bool = True
    """s_setprio raises a wave while it issues the PV product."""
    prefetch: bool = True
    """Waits drain the oldest copy only, so that the newest stays in flight; otherwise every wait drains all."""

    @property
    def num_warps(self) -> int:
        """Waves of a workgroup."""
        raise TypeError(f"{type(self).__name__} belongs to no kernel")

    def compiler_options(self, vendor: str) -> dict[str, Any]:
        return {
            "num_warps": self.num_warps,
            "waves_per_eu": self.waves_per_eu,
            "allow_flush_denorm": self.exp2_fast,
            # Accumulators in AGPRs would be moved to and fro by the softmax, and spill. Triton 3.6 has no such option
            # and uses none by itself.
            "llvm_fn_attrs": "amdgpu-agpr-alloc=0",
        }

    def check_device(self, device: Device | None) -> None:
        """Raise SpecError unless the device is a gfx950."""
        if device is None or device.arch != ARCH:
            raise SpecError(
                f"{type(self).__name__} is for {ARCH}, not for "
                f"{'the interpreter' if device is None else device.arch}; use backend='emulator' or a portable spec"
            )


@dataclass(frozen=True, kw_only=True)
class Gfx950DenseSpec(DenseGeometry, Gfx950Spec):
    """The dense prefill kernel in Gluon (specification §8): S^T = K Q^T on 32x32x16 MFMA, 32 query rows to a wave."""

    waves_per_eu: int = 2  # the two bases differ in it
    block_m: int = 256
    transposed_pv: bool = True
    """P feeds the PV product as the QK product left it; otherwise it is moved across lanes first."""
    cluster: bool = True
    """The exponentials of one half of the tile are issued among the PV products of the other."""
    wide_lds_dma: bool = False
    """16 bytes a lane from HBM to LDS instead of 4; padding then follows every 512 elements."""
    lds_k_pad: int = 8
    """Halves between the rows of K in LDS."""
    lds_v_pad: int = 32
    """Halves between the rows of V in LDS."""
    num_buffers: int = 2
    """K and V tiles that LDS holds."""
    ragged: bool | None = None
    """Range-checked loads and stores for lengths that are no multiple of the tiles; None follows the problem."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("lds_k_pad", "lds_v_pad"):
            value = getattr(self, name)
            require(value in PADS, f"{name} must be one of {', '.join(map(str, PADS))}, got {value}")
        require(self.block_m in (128, 256), f"block_m must be 128 or 256, got {self.block_m}")
        require(self.block_n in (32, 64, 128), f"block_n must be 32, 64 or 128, got {self.block_n}")
        require(self.num_buffers in (2, 3), f"num_buffers must be 2 or 3, got {self.num_buffers}")
        require(
            not self.cluster or self.block_n >= 64,
            f"cluster halves the tile and needs block_n 64 or more, got {self.block_n}",
        )

    @property
    def num_warps(self) -> int:
        return self.block_m // ROWS_PER_WAVE

    def lds_bytes(self, head_size: int) -> int:
        """LDS of a workgroup: K and V tiles with their pads, 16-bit elements."""
        stretch = 512 if self.wide_lds_dma else 128
        elements = self.num_buffers * self.block_n * head_size
        return 2 * sum(elements + elements // stretch * pad for pad in (self.lds_k_pad, self.lds_v_pad))

    def is_ragged(self, seqlen_q: int, seqlen_kv: int) -> bool:
        """Whether the kernel for these lengths checks ranges."""
        return self._uneven(seqlen_q, seqlen_kv) if self.ragged is None else self.ragged

    def _uneven(self, seqlen_q: int, seqlen_kv: int) -> bool:
        # Without keys there is no tile that could be copied unchecked.
        return bool(seqlen_q % self.block_m or seqlen_kv % self.block_n or seqlen_kv == 0)

    def check(self, problem: DenseAttentionProblem) -> None:
        """Raise SpecError unless a kernel of this spec can serve the problem."""
        require(
            problem.head_size in HEAD_SIZES,
            f"the gfx950 dense kernel has head sizes {HEAD_SIZES}, got {problem.head_size}; use DenseSpec",
        )
        require(problem.dtype in ("bf16", "fp16"), f"the gfx950 dense kernel is bf16 or fp16, got {problem.dtype}")
        lds_bytes = self.lds_bytes(problem.head_size)
        require(
            lds_bytes <= LDS_BYTES,
            f"{self.num_buffers} buffers of {self.block_n} keys take {lds_bytes} bytes of LDS, of {LDS_BYTES}; "
            "use fewer buffers, a smaller block_n, or wide_lds_dma",
        )
        require(problem.sliding_window is None, "the gfx950 dense kernel has no sliding window; use DenseSpec")
        require(
            not self.wide_lds_dma or problem.head_size == 128,
            "wide_lds_dma is for head size 128; 64 packs two rows into one narrow copy",
        )
        require(
            self.ragged is not False or not self._uneven(problem.seqlen_q, problem.seqlen_kv),
            f"ragged=False needs lengths that are multiples of block_m {self.block_m} and block_n {self.block_n}, "
            f"got {problem.seqlen_q} and {problem.seqlen_kv}; leave it None",
        )
