"""What the Gluon kernels ask of tensors beyond their shapes: 16-byte copies, and offsets of 32 bits within a tile.

Bases are 64 bits wide; an offset from a base reaches 2^31 bytes, and past that it would wrap without a sound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from workbench.plan_dense import DenseCall
    from workbench.plan_unified import UnifiedCall
    from workbench.spec_gfx950 import Gfx950DenseSpec
    from workbench.spec_gfx950_unified import Gfx950Unified2DSpec

REACH_BYTES = 2**31
ALIGNMENT = 16
"""gfx950: elements that strides, and bytes that addresses, must be multiples of: what Triton knows as divisible by
16. Tensor maps: bytes that both must be multiples of."""


def dense_obstacle(call: DenseCall, spec: Gfx950DenseSpec) -> str | None:
    """Why the dense Gluon kernel cannot read or write these tensors; None if it can."""
    for name, tensor, rows in (
        ("q", call.q, spec.block_m),
        ("out", call.out, spec.block_m),
        ("k", call.k, spec.block_n),
        ("v", call.v, spec.block_n),
    ):
        found = _too_far(name, tensor, rows * tensor.stride(-3)) or (_unaligned(name, tensor) if name in "kv" else None)
        if found:
            return found
    return None


def tensor_map_obstacle(call: DenseCall) -> str | None:
    """Why no tensor map describes these tensors; None if they have one. CUDA asks for multiples of 16 bytes."""
    for name, tensor in (("q", call.q), ("out", call.out), ("k", call.k), ("v", call.v)):
        address = 0 if tensor.device.type == "meta" else tensor.data_ptr()
        size = tensor.element_size()
        if address % ALIGNMENT or any(stride * size % ALIGNMENT for stride in tensor.stride()[:-1]):
            strides = tuple(tensor.stride())
            return f"a tensor map needs the address of {name} and its strides {strides} in multiples of 16 bytes"
    return None


def unified_obstacle(call: UnifiedCall, spec: Gfx950Unified2DSpec) -> str | None:
    """Why the unified Gluon kernel cannot read or write these tensors; None if it can."""
    for name, tensor in (("q", call.q), ("out", call.out)):
        rows = min(spec.block_m, max(tensor.shape[0], 1))
        if found := _too_far(name, tensor, rows * tensor.stride(0) + tensor.shape[1] * tensor.stride(1)):
            return found
    for name, cache in (("k", call.k), ("v", call.v)):
        if found := _too_far(name, cache, cache.shape[1] * cache.stride(1)):
            return found
        # An 8-bit cache passes through registers.
        if cache.element_size() > 1 and (found := _unaligned(name, cache)):
            return found
    bias = call.qq_bias
    return None if bias is None else _too_far("qq_bias", bias, bias.shape[0] * bias.stride(0))


def _too_far(name: str, tensor: torch.Tensor, elements: int) -> str | None:
    if elements * tensor.element_size() <= REACH_BYTES:
        return None
    strides = tuple(tensor.stride())
    return f"a tile of {name} with strides {strides} spans more than 2^31 bytes, which 32-bit offsets do not"


def _unaligned(name: str, tensor: torch.Tensor) -> str | None:
    strides = tuple(tensor.stride())
    address = 0 if tensor.device.type == "meta" else tensor.data_ptr()
    if address % ALIGNMENT == 0 and all(stride % ALIGNMENT == 0 for stride in strides[:-1]):
        return None
    return f"copies to LDS need the address of {name} and its strides {strides} in multiples of {ALIGNMENT}"
