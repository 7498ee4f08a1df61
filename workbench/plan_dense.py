"""Launch plan of the dense kernel, from tensors (meta tensors will do: nothing is read)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from workbench.errors import SpecError
from workbench.launch import KernelLaunch, TensorMap
from workbench.spec import DenseGeometry, DenseSpec, head_pad
from workbench.spec_gfx950 import PART_N, Gfx950DenseSpec
from workbench.spec_sm90 import ROWS_PER_WARPGROUP, Sm90DenseSpec

if TYPE_CHECKING:
    import torch

    from workbench.problem import CausalAlignment

WorkOrder = Literal["grid", "qb_major", "hkv_major", "gqa_pair", "gqa_pair_2phase"]
"""How work items find their programs: the default grid, or an order in which the persistent grid strides over them."""


@dataclass(frozen=True)
class DenseCall:
    """The checked arguments of one dense attention call. Shapes as in workbench.attention.dense_attention."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out: torch.Tensor
    max_seqlen_q: int
    """Query rows of the longest member."""
    softmax_scale: float
    causal: bool
    alignment: CausalAlignment
    sliding_window: int | None
    sinks: torch.Tensor | None = None
    cu_seqlens_q: torch.Tensor | None = None
    cu_seqlens_k: torch.Tensor | None = None

    @property
    def packed(self) -> bool:
        """Tensors are [tokens, heads, d] with running lengths, not [batch, tokens, heads, d]."""
        return self.cu_seqlens_q is not None

    @property
    def batch(self) -> int:
        return self.cu_seqlens_q.shape[0] - 1 if self.cu_seqlens_q is not None else self.q.shape[0]

    @property
    def num_query_heads(self) -> int:
        return self.q.shape[-2]

    @property
    def num_kv_heads(self) -> int:
        return self.k.shape[-2]

    @property
    def head_size(self) -> int:
        return self.q.shape[-1]


def num_query_blocks(call: DenseCall, block_m: int) -> int:
    """NQB: query blocks of the longest member."""
    return -(-call.max_seqlen_q // block_m)


def num_work_items(call: DenseCall, block_m: int) -> int:
    """W = NQB * Hq * B (specification §8.2)."""
    return num_query_blocks(call, block_m) * call.num_query_heads * call.batch


def _strides(name: str, tensor: torch.Tensor) -> dict[str, int]:
    """Outer, token and head stride in elements; the tokens of a packed tensor are its outer axis too."""
    return {
        f"stride_{name}_outer": tensor.stride(0),
        f"stride_{name}_token": tensor.stride(-3),
        f"stride_{name}_head": tensor.stride(-2),
    }


def _constants(call: DenseCall, spec: DenseSpec, order: WorkOrder) -> dict[str, Any]:
    return {
        "BLOCK_M": spec.block_m,
        "BLOCK_N": spec.block_n,
        "GROUP": call.num_query_heads // call.num_kv_heads,
        "HEAD_SIZE": call.head_size,
        "HEAD_PAD": head_pad(call.head_size),
        "CAUSAL": call.causal,
        "TOP_LEFT": call.alignment == "top_left",
        "WINDOW": call.sliding_window or 0,
        "TRANSPOSED": spec.transposed_qk,
        "MASK_SPLIT": spec.mask_split,
        "LAZY": spec.lazy_rescale,
        "ORDER": order,
    }


def _gfx950_constants(call: DenseCall, spec: Gfx950DenseSpec, order: WorkOrder) -> dict[str, Any]:
    return {
        "BLOCK_M": spec.block_m,
        "BLOCK_N": spec.block_n,
        "GROUP": call.num_query_heads // call.num_kv_heads,
        "HEAD_SIZE": call.head_size,
        "CAUSAL": call.causal,
        "TOP_LEFT": call.alignment == "top_left",
        "RAGGED": spec.is_ragged(call.max_seqlen_q, call.k.shape[1]),
        "MASK_SPLIT": spec.mask_split,
        "LAZY": spec.lazy_rescale,
        "K_PAD": spec.lds_k_pad,
        "V_PAD": spec.lds_v_pad,
        "WIDE": spec.wide_lds_dma,
        "NUM_BUFFERS": spec.num_buffers,
        "PREFETCH": spec.prefetch,
        "PART_N": PART_N,
        "STEP_PARTS": min(2, spec.block_n // PART_N),
        "CLUSTER": spec.cluster,
        "EXP2_FAST": spec.exp2_fast,
        "SETPRIO": spec.setprio,
        "P_WIDTH": 4 if spec.transposed_pv else 8,
        "ORDER": order,
    }


def _sm90_constants(call: DenseCall, spec: Sm90DenseSpec, order: WorkOrder) -> dict[str, Any]:
    return {
        "BLOCK_N": spec.block_n,
        "GROUP": call.num_query_heads // call.num_kv_heads,
        "HEAD_SIZE": call.head_size,
        "CAUSAL": call.causal,
        "TOP_LEFT": call.alignment == "top_left",
        "MASK_SPLIT": spec.mask_split,
        "OVERLAP": spec.overlap,
        "NUM_BUFFERS": spec.num_buffers,
        "ORDER": order,
    }


def _sm90_maps(call: DenseCall, spec: Sm90DenseSpec) -> dict[str, TensorMap]:
    rows, keys = (1, ROWS_PER_WARPGROUP, 1, call.head_size), (1, spec.block_n, 1, call.head_size)
    return {
        "d_out": TensorMap(call.out, rows),
        "d_q": TensorMap(call.q, rows),
        "d_k": TensorMap(call.k, keys),
        "d_v": TensorMap(call.v, keys),
    }


def plan_dense(call: DenseCall, spec: DenseGeometry, num_persistent: int, order: WorkOrder) -> list[KernelLaunch]:
    """One launch: grid (query blocks, query heads, batch), or at most num_persistent programs in a row.

    num_persistent is without effect when order is "grid"; a program without a work item is not launched.
    """
    blocks = num_query_blocks(call, spec.block_m)
    if order == "grid":
        grid = (blocks, call.num_query_heads, call.batch)
    else:
        grid = (min(num_persistent, num_work_items(call, spec.block_m)), 1, 1)
    args: dict[str, Any] = {"p_out": call.out, "p_q": call.q, "p_k": call.k, "p_v": call.v, "p_sinks": call.sinks}
    lengths = {"seqlen_q": call.max_seqlen_q, "seqlen_kv": 0 if call.packed else call.k.shape[1]}
    counts = {"num_q_blocks": blocks, "num_heads": call.num_query_heads, "batch": call.batch}
    strides = _strides("out", call.out) | _strides("q", call.q) | _strides("k", call.k) | _strides("v", call.v)
    if isinstance(spec, Gfx950DenseSpec):
        args |= {"softmax_scale": call.softmax_scale} | lengths | counts | strides
        constants, module = _gfx950_constants(call, spec, order), "gfx950.dense"
    elif isinstance(spec, Sm90DenseSpec):
        args = {
            **_sm90_maps(call, spec),
            "p_sinks": call.sinks,
            "softmax_scale": call.softmax_scale,
            **lengths,
            **counts,
        }
        constants, module = _sm90_constants(call, spec, order), "sm90.dense"
    elif isinstance(spec, DenseSpec):
        args |= {"p_cu_seqlens_q": call.cu_seqlens_q, "p_cu_seqlens_k": call.cu_seqlens_k}
        args |= {"softmax_scale": call.softmax_scale} | lengths | counts | strides
        constants, module = _constants(call, spec, order), "dense"
    else:
        raise SpecError(f"no dense kernel is built from a {type(spec).__name__}")
    return [
        KernelLaunch(module=module, kernel="dense_attention", grid=grid, args=args, constexprs=constants, spec=spec)
    ]
