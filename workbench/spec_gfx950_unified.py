"""Spec of the unified paged kernel in Gluon: the transposed 32x32 "combo" of specification §4. gfx950 only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.problem import DTYPE_BYTES
from workbench.spec import require
from workbench.spec_gfx950 import HEAD_SIZES, ROWS_PER_WAVE, Gfx950Spec

if TYPE_CHECKING:
    from workbench.problem import UnifiedAttentionProblem

BLOCK_SIZES = (16, 32, 64)
NUM_WARPS = (1, 2, 4)
TILE_SIZES = (32, 64, 128)
FP8 = "fp8_e4m3"


@dataclass(frozen=True, kw_only=True)
class Gfx950Unified2DSpec(Gfx950Spec):
    """One workgroup walks all keys of 32 * num_warps query rows: S^T = K Q^T and O^T = V^T P^T on 32x32 MFMA."""

    num_warps: int = 4
    tile_size: int = 64
    """Keys per step of the KV loop."""
    transposed_qk_32x32: bool = True
    """S^T = K Q^T. The other form is the portable kernel's: its scores, state and P lie otherwise throughout."""
    transposed_scalar_state: bool = True
    """Maxima and denominators stay with the rows of the scores; otherwise two rows to a lane between tiles."""
    transposed_mask_once: bool = False
    """One comparison per score: the causal limit stands for the sequence's end too. Full attention only."""
    transposed_mask_limit: bool = False
    """The tile's place goes into each row's limit, and keys are compared as constants. Full attention only."""
    transposed_half_local_pv: bool = True
    """P feeds the PV product as the QK product left it; otherwise it is moved across lanes first."""
    q_in_registers: bool = True
    """Q^T stays in registers; otherwise in LDS, read for every tile."""
    fast_paged_kv_desc: bool = True
    """One scalar base address for each page of a tile; otherwise one 32-bit offset for each key."""
    k_single_buffer: bool = False
    """One K tile in LDS: the next one is copied once no wave reads the current one, behind the wait for V."""
    v_double_buffer: bool = False
    """Two V tiles in LDS, of which one is copied a tile ahead."""
    current_v_first: bool = True
    """V is copied before the next K (specification §7.1), whose copy then stays under way behind the wait for V."""
    mask_split: bool = False
    """Mask-free loop over the tiles that every row sees whole; otherwise one loop, which costs less code."""
    lazy_rescale: bool = True
    """Re-anchor the running maximum only when a tile exceeds it by more than 8 (log2)."""
    cluster: bool = False
    """The exponentials of one half of the tile are issued among the PV products of the other."""
    lds_swizzle: bool = True
    """The place of channels in LDS is XORed with the key, which frees reads of conflicts without padding."""
    wide_lds_dma: bool = True
    """16 bytes a lane from HBM to LDS instead of 4, where a page has as much for every lane of the workgroup."""
    fp8_native_qk: bool = False
    """fp8 Q and fp8 K multiply without conversion; otherwise fp8 tiles become bf16 or fp16 on their way to LDS."""
    i64_addressing: bool | None = None
    """64-bit block bases; None follows the cache's size (specification §7.2)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.num_warps in NUM_WARPS, f"num_warps must be 1, 2 or 4, got {self.num_warps}")
        require(self.tile_size in TILE_SIZES, f"tile_size must be 32, 64 or 128, got {self.tile_size}")
        require(
            self.transposed_qk_32x32,
            "transposed_qk_32x32=False is the portable kernel, which keeps rows in registers; use Unified2DSpec",
        )
        require(
            not self.cluster or self.tile_size >= 64,
            f"cluster halves the tile and needs tile_size 64 or more, got {self.tile_size}",
        )
        require(
            self.current_v_first or not self.k_single_buffer,
            "current_v_first=False needs two K buffers: one is free for the next K only behind the wait for V; "
            "set k_single_buffer=False",
        )
        require(
            self.transposed_scalar_state or not self.v_double_buffer,
            "transposed_scalar_state=False with v_double_buffer=True races in LDS: Triton 3.9 puts no barrier between "
            "the moves of the state in two tiles; change one of them",
        )
        require(
            self.fast_paged_kv_desc or not self.i64_addressing,
            "i64_addressing needs the block bases of fast_paged_kv_desc: offsets of single keys have 32 bits",
        )

    @property
    def block_m(self) -> int:
        """Rows of a query block."""
        return ROWS_PER_WAVE * self.num_warps

    def check(self, problem: UnifiedAttentionProblem) -> None:
        """Raise SpecError unless a kernel of this spec can serve the problem."""
        require(
            not self.v_double_buffer or problem.kv_dtype != "fp8_e4m3",
            "v_double_buffer copies V a tile ahead; a dequantised fp8 cache passes through registers, so there is no "
            "copy to start; set v_double_buffer=False",
        )
        require(
            problem.head_size in HEAD_SIZES,
            f"the gfx950 unified kernel has head sizes {HEAD_SIZES}, got {problem.head_size}; use Unified2DSpec",
        )
        require(
            problem.block_size in BLOCK_SIZES,
            f"the gfx950 unified kernel has block sizes {BLOCK_SIZES}, got {problem.block_size}; use Unified2DSpec",
        )
        require(
            problem.dtype in ("bf16", "fp16"),
            f"the gfx950 unified kernel computes in bf16 or fp16, got {problem.dtype}; use Unified2DSpec",
        )
        require(
            self.block_m >= problem.group_size,
            f"a query block must hold one whole GQA group: {problem.group_size} query heads per KV head, got "
            f"{self.block_m} rows; use num_warps={-(-problem.group_size // ROWS_PER_WAVE)} or more, or Unified2DSpec",
        )
        if problem.sliding_window is not None:
            for name in ("transposed_mask_once", "transposed_mask_limit"):
                require(not getattr(self, name), f"{name} is for full attention only; this problem has a window")
        require(
            not (self.i64_addressing is False and problem.needs_i64_addressing),
            f"i64_addressing=False would wrap: the key cache has {problem.cache_bytes} bytes, over 2^31; "
            "leave it None or set it True",
        )
        require(
            self.fast_paged_kv_desc or not problem.needs_i64_addressing,
            f"fast_paged_kv_desc=False reaches 2^31 bytes; the key cache has {problem.cache_bytes}; set it True",
        )
        require(
            not self.fp8_native_qk or problem.q_dtype == problem.kv_dtype == FP8,
            f"fp8_native_qk needs q and the cache in {FP8}, got {problem.q_dtype} and {problem.kv_dtype}",
        )

    def uses_i64(self, problem: UnifiedAttentionProblem) -> bool:
        """Whether block bases are computed in 64 bits for this problem."""
        return problem.needs_i64_addressing if self.i64_addressing is None else self.i64_addressing

    def lds_bytes(self, head_size: int, dtype: str, qk_dtype: str) -> int:
        """LDS of a workgroup: K and V tiles, and Q where it is held there."""
        k_rows = self.tile_size * (1 if self.k_single_buffer else 2) + (0 if self.q_in_registers else self.block_m)
        v_rows = self.tile_size * (2 if self.v_double_buffer else 1)
        return head_size * (k_rows * DTYPE_BYTES[qk_dtype] + v_rows * DTYPE_BYTES[dtype])
