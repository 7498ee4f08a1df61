"""How a kernel is built: geometry, compiler options and lever flags. Every flag is compile-time.

A spec is independent of the problem; a unified spec's `check` says whether the two go together.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from workbench.errors import SpecError
from workbench.field_types import check_field_names, check_field_types
from workbench.problem import UnifiedAttentionProblem

if TYPE_CHECKING:
    from workbench.device import Device

PersistDecode = Literal["qb_major", "hkv_major", "gqa_pair", "gqa_pair_2phase", "auto"]
Grid = Literal["default", "persistent"]
SCHEDULE_HINTS = ("none", "attention", "memory-bound-attention")
MIN_DOT_EXTENT = 16  # tl.dot's smallest extent
TRANSPOSED_BLOCK_M = 8  # of the query rows on NVIDIA, where they are the product's columns


def require(condition: bool, message: str) -> None:
    """Raise SpecError with `message` unless the condition holds."""
    if not condition:
        raise SpecError(message)


def is_power_of_two(value: int) -> bool:
    """Whether value is 1, 2, 4, ..."""
    return value > 0 and value & (value - 1) == 0


def ceil_power_of_two(value: int) -> int:
    """Smallest power of two >= value >= 1."""
    return 1 << (value - 1).bit_length()


def head_pad(head_size: int) -> int:
    """Head channels that a tile carries: the next power of two, at least tl.dot's smallest extent."""
    return max(MIN_DOT_EXTENT, ceil_power_of_two(head_size))


@dataclass(frozen=True, kw_only=True)
class KernelSpec:
    """What every spec has, whatever its kernel is written in."""

    waves_per_eu: int = 0
    """AMD: waves per SIMD the register allocator aims at; 0 leaves it to the compiler."""

    def __post_init__(self) -> None:
        check_field_types(self, SpecError, (bool, int))
        require(0 <= self.waves_per_eu <= 8, f"waves_per_eu must be 0..8, got {self.waves_per_eu}")

    def compiler_options(self, vendor: str) -> dict[str, Any]:
        """Options of the Triton compiler for `vendor` ('amd' or 'nvidia'), by Triton's names."""
        raise TypeError(f"{type(self).__name__} belongs to no kernel")

    def compiler_knobs(self) -> dict[str, bool]:
        """Triton's process-wide AMD knobs that this spec sets, by Triton's names."""
        return {}

    def with_changes(self, **changes: Any) -> Self:
        """A copy with some fields changed; an unknown field is an error that lists the known ones."""
        check_field_names(self, SpecError, changes)
        return replace(self, **changes)

    def describe(self) -> str:
        """The fields that differ from their defaults, as `name=value` pairs."""
        changed = [
            f"{field.name}={getattr(self, field.name)}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        ]
        return " ".join(changed) or "defaults"


@dataclass(frozen=True, kw_only=True)
class TritonSpec(KernelSpec):
    """What the kernels in plain Triton share. None leaves an AMD knob at Triton's default for the target."""

    num_warps: int = 4
    num_stages: int = 2
    """Software-pipeline depth: copies of each K and V tile in flight."""
    matrix_instr_nonkdim: int = 0
    """AMD: 16 or 32 picks the MFMA's M = N extent; 0 leaves it to the compiler."""
    schedule_hint: str = "none"
    """AMD, Triton 3.6: instruction scheduling variant of the dots."""
    flush_denormals: bool = True
    """AMD: denormal float32 results may be flushed, which lets exp2 be one instruction."""
    async_copy: bool | None = None
    """AMD: global loads go straight to LDS."""
    block_pingpong: bool | None = None
    """AMD: two waves of a SIMD alternate between matrix and memory phases."""
    buffer_ops: bool | None = None
    """AMD: range-checked buffer loads with 32-bit offsets instead of flat global loads."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(is_power_of_two(self.num_warps), f"num_warps must be a power of two, got {self.num_warps}")
        require(self.num_warps <= 16, f"num_warps must be at most 16, got {self.num_warps}")
        require(1 <= self.num_stages <= 8, f"num_stages must be 1..8, got {self.num_stages}")
        require(
            self.matrix_instr_nonkdim in (0, 16, 32),
            f"matrix_instr_nonkdim must be 0, 16 or 32, got {self.matrix_instr_nonkdim}",
        )
        require(
            self.schedule_hint in SCHEDULE_HINTS,
            f"schedule_hint must be one of {', '.join(SCHEDULE_HINTS)}, got {self.schedule_hint!r}",
        )

    def compiler_options(self, vendor: str) -> dict[str, Any]:
        options: dict[str, Any] = {"num_warps": self.num_warps, "num_stages": self.num_stages}
        if vendor == "amd":
            options["waves_per_eu"] = self.waves_per_eu
            options["matrix_instr_nonkdim"] = self.matrix_instr_nonkdim
            options["schedule_hint"] = self.schedule_hint
            options["allow_flush_denorm"] = self.flush_denormals
        return options

    def compiler_knobs(self) -> dict[str, bool]:
        values = {
            "use_async_copy": self.async_copy,
            "use_block_pingpong": self.block_pingpong,
            "use_buffer_ops": self.buffer_ops,
        }
        return {knob: value for knob, value in values.items() if value is not None}


def keys_of_tile(spec: KernelSpec) -> int | None:
    """Keys of a KV tile: of one iteration of the hot loop. None where a spec has no tiles."""
    return getattr(spec, "block_n", None) or getattr(spec, "tile_size", None)


def check_tile(name: str, value: int, minimum: int, maximum: int) -> None:
    """Raise SpecError unless the extent is a power of two in minimum..maximum."""
    require(
        is_power_of_two(value) and minimum <= value <= maximum,
        f"{name} must be a power of two in {minimum}..{maximum}, got {value}",
    )


@dataclass(frozen=True, kw_only=True)
class UnifiedSpec(TritonSpec):
    """What the 2D and 3D unified kernels share. Lever names follow specification §4."""

    block_m: int = 16
    """Rows of the query tile: (query position, query head of the group) pairs."""
    tile_size: int = 64
    """Keys per step of the KV loop."""
    transposed_qk: bool = False
    """S^T = K Q^T and O^T = V^T P^T: keys run along the accumulator's rows."""
    mask_once: bool = False
    """One combined mask per tile instead of one select per condition. Full attention only."""
    mask_limit: bool = False
    """The causal limit of each row is folded into one threshold before the loop. Full attention only."""
    mask_split: bool = True
    """Mask-free loop over the tiles that every row sees whole, masked loops over the rest."""
    fast_paged_kv: bool = True
    """One block-table entry per page, not per key, where a tile is whole pages."""
    lazy_rescale: bool = False
    """Re-anchor the running maximum only when a tile exceeds it by more than 8 (log2)."""
    pages_ahead: bool = False
    """Block-table entries are read a tile ahead, so that every pipeline stage holds a K and V tile; where tiles are
    whole pages, or pages whole tiles."""
    late_sum: bool = False
    """Each lane carries its part of the denominator; the sum over the keys is taken once, behind the loop."""
    fp8_in_fp16: bool = False
    """Under bf16, an fp8 cache multiplies in fp16: rows of Q are scaled by powers of two, P reaches 2^8."""
    fp8_native_qk: bool = False
    """fp8 Q and fp8 K multiply without conversion; needs both in fp8."""
    early_launch: bool = False
    """NVIDIA: kernels are launched while the one before them ends, and wait for it on the device before they read
    (programmatic dependent launch). Without effect on AMD and in the interpreter."""
    i64_addressing: bool | None = None
    """64-bit cache offsets; None follows the cache's size (specification §7.2)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.transposed_qk:
            check_tile("block_m", self.block_m, TRANSPOSED_BLOCK_M, 256)
        else:
            check_tile("block_m without transposed_qk", self.block_m, MIN_DOT_EXTENT, 256)
        require(not (self.fp8_in_fp16 and self.fp8_native_qk), "fp8_in_fp16 and fp8_native_qk exclude each other")
        check_tile("tile_size", self.tile_size, MIN_DOT_EXTENT, 256)

    def compiler_options(self, vendor: str) -> dict[str, Any]:
        require(
            vendor != "amd" or self.block_m >= MIN_DOT_EXTENT,
            f"block_m={self.block_m} is for NVIDIA, whose matrix instruction has a side of 8; AMD's smallest is "
            f"{MIN_DOT_EXTENT}: use block_m={MIN_DOT_EXTENT}",
        )
        return super().compiler_options(vendor)

    def check(self, problem: UnifiedAttentionProblem) -> None:
        """Raise SpecError unless a kernel of this spec can serve the problem."""
        smallest = max(MIN_DOT_EXTENT, ceil_power_of_two(problem.group_size))
        require(
            self.block_m >= problem.group_size,
            f"block_m must hold one whole GQA group: {problem.group_size} query heads per KV head, "
            f"got block_m {self.block_m}; use block_m={smallest} or more",
        )
        if problem.sliding_window is not None:
            for name in ("mask_once", "mask_limit"):
                require(not getattr(self, name), f"{name} is for full attention only; this problem has a window")
        require(
            not (self.i64_addressing is False and problem.needs_i64_addressing),
            f"i64_addressing=False would wrap: the key cache has {problem.cache_bytes} bytes, over 2^31; "
            "leave it None or set it True",
        )
        require(
            not self.fp8_native_qk or problem.q_dtype == problem.kv_dtype == "fp8_e4m3",
            f"fp8_native_qk needs q and the cache in fp8_e4m3, got {problem.q_dtype} and {problem.kv_dtype}",
        )
        require(
            not self.fp8_in_fp16 or (problem.kv_dtype == "fp8_e4m3" and problem.dtype == "bf16"),
            f"fp8_in_fp16 needs an fp8_e4m3 cache under bf16, got {problem.kv_dtype} under {problem.dtype}",
        )

    def uses_i64(self, problem: UnifiedAttentionProblem) -> bool:
        """Whether cache offsets are computed in 64 bits for this problem."""
        return problem.needs_i64_addressing if self.i64_addressing is None else self.i64_addressing


@dataclass(frozen=True, kw_only=True)
class Unified2DSpec(UnifiedSpec):
    """One workgroup walks all keys of a query block (specification §4)."""


@dataclass(frozen=True, kw_only=True)
class Unified3DSpec(UnifiedSpec):
    """The keys of a query block are split into segments, merged exactly afterwards (specification §5)."""

    num_segments: int = 16
    reduce_num_warps: int = 1
    fused_reduce: bool = False
    """The last segment of a query block to finish merges them, in the same launch; reduce_num_warps has no use then."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tile("num_segments", self.num_segments, 1, 256)
        check_tile("reduce_num_warps", self.reduce_num_warps, 1, 16)

    def check_device(self, device: Device | None) -> None:
        """Raise SpecError for the fused reduction on RDNA: its stores are not among those that `vmcnt` counts there."""
        if self.fused_reduce and device is not None and device.vendor == "amd":
            require(
                device.arch.startswith("gfx9"),
                f"fused_reduce waits for stores as gfx9 GPUs (CDNA) count them, and this one is {device.arch}; "
                "use fused_reduce=False",
            )


@dataclass(frozen=True, kw_only=True)
class DenseGeometry(KernelSpec):
    """What every contiguous prefill kernel has (specification §8): its tiles and how its work is handed out."""

    block_m: int = 128
    block_n: int = 64
    grid: Grid = "persistent"
    num_persistent: int | None = None
    """Programs of the persistent grid; None means one per compute unit, or as many as a paired order is for."""
    persist_decode: PersistDecode = "auto"
    """Order in which work items are handed out: see workbench.dispatch.select_work_order."""
    mask_split: bool = True
    """Diagonal-only masking: a mask-free loop below the diagonal and a masked tail."""
    lazy_rescale: bool = True
    """Re-anchor the running maximum only when a tile exceeds it by more than 8 (log2)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tile("block_m", self.block_m, MIN_DOT_EXTENT, 256)
        check_tile("block_n", self.block_n, MIN_DOT_EXTENT, 256)
        for name, value, accepted in (
            ("grid", self.grid, get_args(Grid)),
            ("persist_decode", self.persist_decode, get_args(PersistDecode)),
        ):
            require(value in accepted, f"{name} must be one of {', '.join(accepted)}, got {value!r}")
        require(
            self.num_persistent is None or self.num_persistent >= 1,
            f"num_persistent must be >= 1, got {self.num_persistent}",
        )


@dataclass(frozen=True, kw_only=True)
class DenseSpec(DenseGeometry, TritonSpec):
    """The contiguous prefill kernel in plain Triton."""

    transposed_qk: bool = False
