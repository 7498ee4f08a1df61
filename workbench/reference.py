"""What the kernels are held against: eager PyTorch on any device, and the same run in low precision.

The two differ only in where values are rounded. `*_reference` computes in one wide dtype on the tensors as stored;
`*_eager` rounds as a plain low-precision implementation does: operands of both products and the output in the
problem's dtype, scores and softmax in float32. The gap between them is what tolerance.compare calls the eager error.
Lengths come from the problem, so inputs must have been made for it; TensorError says where they do not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from workbench.dtypes import bits, torch_dtype
from workbench.eager import Precision, Rules, Sequence, attend, ieee_float32
from workbench.errors import TensorError
from workbench.input_checks import check_dense_inputs, check_unified_inputs

if TYPE_CHECKING:
    from workbench.inputs import DenseInputs, UnifiedInputs
    from workbench.problem import CausalAlignment, DenseAttentionProblem, UnifiedAttentionProblem


def unified_reference(
    problem: UnifiedAttentionProblem, inputs: UnifiedInputs, *, dtype: torch.dtype = torch.float64
) -> torch.Tensor:
    """Paged varlen attention in float64 or float32: [total_q, Hq, d] on the inputs' device."""
    return _unified(problem, inputs, Precision.exact(_wide(dtype)))


def unified_eager(problem: UnifiedAttentionProblem, inputs: UnifiedInputs) -> torch.Tensor:
    """Paged varlen attention rounded to the compute dtype: [total_q, Hq, d] on the inputs' device."""
    return _unified(problem, inputs, Precision.low(torch_dtype(problem.dtype)))


def dense_reference(
    problem: DenseAttentionProblem, inputs: DenseInputs, *, dtype: torch.dtype = torch.float64
) -> torch.Tensor:
    """Contiguous attention in float64 or float32: [B, Sq, Hq, d] on the inputs' device."""
    return _dense(problem, inputs, Precision.exact(_wide(dtype)))


def dense_eager(problem: DenseAttentionProblem, inputs: DenseInputs) -> torch.Tensor:
    """Contiguous attention rounded to the compute dtype: [B, Sq, Hq, d] on the inputs' device."""
    return _dense(problem, inputs, Precision.low(torch_dtype(problem.dtype)))


def dense_reference_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    softmax_scale: float | None = None,
    causal: bool = True,
    alignment: CausalAlignment = "bottom_right",
    sliding_window: int | None = None,
    sinks: torch.Tensor | None = None,
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """Packed contiguous sequences in float64 or float32: [Tq, Hq, d].

    q [Tq, Hq, d]; k and v [Tk, Hk, d]; cu_seqlens_q and cu_seqlens_k [N + 1], running sums from 0. Lengths may be 0.
    """
    query_ends, key_ends = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    for name, ends, total in (("cu_seqlens_q", query_ends, q.shape[0]), ("cu_seqlens_k", key_ends, k.shape[0])):
        if ends[0] != 0 or ends[-1] != total or ends != sorted(ends):
            raise TensorError(f"{name} must rise from 0 to {total} tokens, got {ends}")
    if len(query_ends) != len(key_ends):
        raise TensorError(f"cu_seqlens_q and cu_seqlens_k must be equally long, got {len(query_ends)}, {len(key_ends)}")
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    rules = Rules(scale=scale, causal=causal, window=sliding_window, sinks=sinks)
    precision = Precision.exact(_wide(dtype))
    out = torch.empty(q.shape, dtype=precision.output, device=q.device)
    for index in range(len(query_ends) - 1):
        rows = slice(query_ends[index], query_ends[index + 1])
        keys = slice(key_ends[index], key_ends[index + 1])
        offset = (keys.stop - keys.start) - (rows.stop - rows.start) if alignment == "bottom_right" else 0
        _attend_contiguous(q[rows], k[keys], v[keys], offset, rules, precision, out[rows])
    return out


def _wide(dtype: torch.dtype) -> torch.dtype:
    if dtype not in (torch.float32, torch.float64):
        raise TensorError(f"the reference computes in torch.float32 or torch.float64, got {dtype}")
    return dtype


def _unified(problem: UnifiedAttentionProblem, inputs: UnifiedInputs, precision: Precision) -> torch.Tensor:
    check_unified_inputs(problem, inputs)
    rules = Rules(
        scale=problem.softmax_scale or 0.0,
        window=problem.sliding_window,
        softcap=problem.softcap,
        alibi_slopes=inputs.alibi_slopes if problem.use_alibi else None,
        qq_bias=inputs.qq_bias if problem.use_qq_bias else None,
        sinks=inputs.sinks if problem.use_sinks else None,
    )
    out = torch.empty(inputs.q.shape, dtype=precision.output, device=inputs.q.device)
    first_row = 0
    for index, (query_len, kv_len) in enumerate(problem.seq_lens):
        if query_len == 0:
            continue
        rows = slice(first_row, first_row + query_len)
        first_row += query_len
        context = kv_len - query_len
        first_key, _ = rules.visible_keys(context, kv_len - 1, kv_len)
        blocks = inputs.block_table[index]
        sequence = Sequence(
            q=precision.dequantised(inputs.q[rows], inputs.q_scale),
            k=precision.dequantised(_gather(inputs.k_cache, blocks, first_key, kv_len), inputs.k_scale),
            v=precision.dequantised(_gather(inputs.v_cache, blocks, first_key, kv_len), inputs.v_scale),
            offset=context,
            first_key=first_key,
        )
        with ieee_float32():
            attend(sequence, rules, precision, out[rows])
    return out


def _gather(cache: torch.Tensor, blocks: torch.Tensor, first_key: int, kv_len: int) -> torch.Tensor:
    """Positions first_key .. kv_len - 1 of one sequence, [keys, Hk, d]; no other block or slot is touched."""
    block_size = cache.shape[1]
    first_block = first_key // block_size
    ids = blocks[first_block : -(-kv_len // block_size)].long()
    gathered = bits(cache)[ids].flatten(0, 1).view(cache.dtype)
    return gathered[first_key - first_block * block_size : kv_len - first_block * block_size]


def _dense(problem: DenseAttentionProblem, inputs: DenseInputs, precision: Precision) -> torch.Tensor:
    check_dense_inputs(problem, inputs)
    rules = Rules(
        scale=problem.softmax_scale or 0.0,
        causal=problem.causal,
        window=problem.sliding_window,
        sinks=inputs.sinks if problem.use_sinks else None,
    )
    out = torch.empty(inputs.q.shape, dtype=precision.output, device=inputs.q.device)
    for q, k, v, out_of_one in zip(inputs.q, inputs.k, inputs.v, out, strict=True):
        _attend_contiguous(q, k, v, problem.causal_offset, rules, precision, out_of_one)
    return out


def _attend_contiguous(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    offset: int,
    rules: Rules,
    precision: Precision,
    out: torch.Tensor,
) -> None:
    sequence = Sequence(q=precision.rounded(q), k=precision.rounded(k), v=precision.rounded(v), offset=offset)
    with ieee_float32():
        attend(sequence, rules, precision, out)
