"""Cache offsets in 32 and in 64 bits: where a product of block id and block stride wraps, what it then reads, the cost.

A 32-bit product of elements is exact below 2^31 elements. A 32-bit byte offset of a buffer instruction reaches 2^31
bytes, and what lies past its range reads as 0. Evidence: offsets static, outcomes emulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from workbench.errors import EmulationError
from workbench.problem import DTYPE_BYTES, UnifiedAttentionProblem
from workbench.spec import KernelSpec, Unified2DSpec
from workbench.spec_gfx950_unified import Gfx950Unified2DSpec

if TYPE_CHECKING:
    import pandas as pd

    from workbench.inputs import UnifiedInputs
    from workbench.studies.lever_study import Variant

REACH = 2**31
SPECS: dict[str, KernelSpec] = {
    "portable": Unified2DSpec(block_m=16, tile_size=32, num_warps=2),
    "Gluon, a base a page": Gfx950Unified2DSpec(num_warps=1, tile_size=32),
    "Gluon, an offset a key": Gfx950Unified2DSpec(num_warps=1, tile_size=32, fast_paged_kv_desc=False),
}
"""The kernels whose addresses are let wrap."""


@dataclass(frozen=True, kw_only=True)
class Cache:
    """A layout of cache blocks."""

    num_kv_heads: int = 8
    head_size: int = 128
    block_size: int = 16
    dtype: str = "fp8_e4m3"

    @property
    def stride(self) -> int:
        """Elements of a block."""
        return self.block_size * self.num_kv_heads * self.head_size

    @property
    def blocks_to_wrap(self) -> int:
        """Blocks before the product of id and stride leaves 32 bits."""
        return REACH // self.stride

    @property
    def blocks_of_reach(self) -> int:
        """Blocks in 2^31 bytes."""
        return REACH // (self.stride * DTYPE_BYTES[self.dtype])

    def problem(self, num_blocks: int) -> UnifiedAttentionProblem:
        """One query token on the keys of one block."""
        return UnifiedAttentionProblem(
            ((1, self.block_size),),
            num_query_heads=self.num_kv_heads,
            num_kv_heads=self.num_kv_heads,
            head_size=self.head_size,
            block_size=self.block_size,
            kv_dtype=self.dtype,  # type: ignore[arg-type]
            num_blocks=num_blocks,
        )


def as_int32(value: int) -> int:
    """The value as 32 bits hold it, signed."""
    return (value + REACH) % (2 * REACH) - REACH


def offset_frame(cache: Cache, ids: Sequence[int]) -> pd.DataFrame:
    """Byte offset of each block, and what 32 bits make of it: of a product of elements, and of bytes. Static."""
    import pandas as pd

    size = DTYPE_BYTES[cache.dtype]
    found = []
    for block in ids:
        elements = block * cache.stride
        found.append(
            {
                "block": block,
                "offset": elements * size,
                "elements_in_32": as_int32(elements) * size,
                "bytes_in_32": as_int32(elements * size),
                "lands_on": as_int32(elements) // cache.stride,
                "evidence": "static",
            }
        )
    return pd.DataFrame(found)


def garbage_frame(
    cache: Cache, ids: Sequence[int], specs: Sequence[str] = tuple(SPECS), *, triton_version: str = "", seed: int = 0
) -> pd.DataFrame:
    """The emulated code with 32-bit and with 64-bit products: largest error, and in words what was read.

    The cache is laid behind as much memory of another layer (`behind another`) or at the start of its allocation. A
    page that nothing is written to takes no memory.
    """
    import pandas as pd

    found = []
    for name in specs:
        for i64 in (False, True):
            if i64 and "offset a key" in name:
                continue
            for behind in (True, False):
                for block in ids if behind else ids[-1:]:
                    inputs, exact, other = _laid_out(cache, block, behind, seed)
                    out, fault = _emulated(cache, inputs, SPECS[name], i64, triton_version)
                    found.append(
                        {
                            "kernel": name,
                            "product": "64 bits" if i64 else "32 bits",
                            "block": block,
                            "cache lies": "behind another layer's" if behind else "at its allocation's start",
                            "error": None if out is None else float((out.double() - exact).abs().max()),
                            "read": fault or _words(out, exact, other),
                            "evidence": "emulated",
                        }
                    )
    return pd.DataFrame(found)


def static_variants(problem: UnifiedAttentionProblem, large_blocks: int) -> list[Variant]:
    """Both kernels with 32-bit and 64-bit products on a small cache, and on one of `large_blocks`."""
    from workbench.device import load_device
    from workbench.dispatch import select_spec
    from workbench.studies.lever_study import Variant

    device, large = load_device("mi355x"), problem.with_changes(num_blocks=large_blocks)
    found = []
    for kernel, portable in (("portable", True), ("Gluon", False)):
        spec = select_spec(problem, device, "2d", portable=portable).spec
        found += [
            Variant(f"{kernel}, 32 bits", problem, spec),
            Variant(f"{kernel}, 64 bits", problem, spec.with_changes(i64_addressing=True)),
            Variant(f"{kernel}, large cache", large, spec),
        ]
    return found


def _laid_out(
    cache: Cache, block: int, behind: bool, seed: int
) -> tuple[UnifiedInputs, torch.Tensor, torch.Tensor | None]:
    """Inputs whose one sequence lies in that block, the right output, and the output of the block that a wrap reads."""
    from dataclasses import replace

    from workbench.dtypes import bits
    from workbench.inputs import make_unified_inputs
    from workbench.reference import unified_reference

    alone = cache.problem(1)
    small, wrong = (make_unified_inputs(alone, seed=seed + step, poison=False) for step in (0, 1))
    before = cache.blocks_to_wrap if behind else 0
    storage = torch.empty((before + block + 1, *small.k_cache.shape[1:]), dtype=small.k_cache.dtype)
    held = storage[before:]
    # K and V share the memory, so that half of it does.
    small = replace(small, v_cache=small.k_cache, v_scale=small.k_scale)
    bits(held)[block] = bits(small.k_cache)[0]
    other = None
    landing = before + as_int32(block * cache.stride) // cache.stride
    if landing != before + block and landing >= 0:
        bits(storage)[landing] = bits(wrong.k_cache)[0]
        stray = replace(small, k_cache=wrong.k_cache, v_cache=wrong.k_cache)
        other = unified_reference(alone, stray)
    table = torch.tensor([[block]], dtype=torch.int32)
    large = replace(small, k_cache=held, v_cache=held, block_table=table)
    return large, unified_reference(alone, small), other


def _emulated(
    cache: Cache, inputs: UnifiedInputs, spec: Any, i64: bool, triton_version: str
) -> tuple[torch.Tensor | None, str]:
    """The output, or the fault in words. The plan is made past the checks that would refuse it."""
    from workbench.attention.unified import checked_call
    from workbench.gfx950.emulator import EmulatorOptions
    from workbench.gfx950.emulator.plan import emulate_plan
    from workbench.plan_unified import plan_2d
    from workbench.plan_unified_gfx950 import plan_2d_gfx950

    problem = cache.problem(inputs.k_cache.shape[0])
    out = torch.full(inputs.q.shape, torch.nan, dtype=inputs.q.dtype)
    call = checked_call(
        inputs.q, inputs.k_cache, inputs.v_cache, out, inputs.cu_seqlens_q, 1, inputs.seqused_k, cache.block_size,
        problem.softmax_scale, (-1, -1), inputs.block_table, 0.0, inputs.q_scale, inputs.k_scale, inputs.v_scale,
        None, None, None,
    )  # fmt: skip
    gluon = isinstance(spec, Gfx950Unified2DSpec)
    launches = plan_2d_gfx950(call, spec, i64=i64) if gluon else plan_2d(call, spec, i64=i64)
    options = EmulatorOptions(triton_version=triton_version, strict=False, check_races=False)
    try:
        emulate_plan(launches, options)
    except EmulationError as error:
        # The emulator tells instruction and address, then how far that is from the next tensor.
        text = str(error).splitlines()[0]
        return None, f"fault: an address {text.rpartition('is ')[2]}"
    return out, ""


def _words(out: torch.Tensor | None, exact: torch.Tensor, other: torch.Tensor | None) -> str:
    if out is None:
        return ""
    if torch.allclose(out.double(), exact, rtol=2e-2, atol=1e-3):
        return "its own keys"
    if other is not None and torch.allclose(out.double(), other, rtol=2e-2, atol=1e-3):
        return "another layer's keys, silently"
    return "zeros, silently" if not out.any() else "something else, silently"
