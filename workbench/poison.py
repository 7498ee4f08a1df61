"""NaN in everything that must not be read or must be written, so that a wrong access shows in the result."""

from __future__ import annotations

import torch

from workbench.dtypes import bits, nan_bits, torch_dtype
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem


def fill_nan(tensor: torch.Tensor) -> torch.Tensor:
    """Overwrite a floating tensor with NaN, fp8 included, and return it."""
    bits(tensor).fill_(nan_bits(tensor.dtype))
    return tensor


def poisoned_like(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A new NaN-filled tensor of the same shape and device."""
    return fill_nan(torch.empty_like(tensor, dtype=dtype))


def output_shape(problem: UnifiedAttentionProblem | DenseAttentionProblem) -> tuple[int, ...]:
    """[total_q, Hq, d] for a unified problem, [B, Sq, Hq, d] for a dense one."""
    if isinstance(problem, UnifiedAttentionProblem):
        return (problem.total_query_tokens, problem.num_query_heads, problem.head_size)
    return (problem.batch, problem.seqlen_q, problem.num_query_heads, problem.head_size)


def poisoned_output(
    problem: UnifiedAttentionProblem | DenseAttentionProblem, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """A NaN-filled output tensor of the problem's shape and compute dtype."""
    return fill_nan(torch.empty(output_shape(problem), dtype=torch_dtype(problem.dtype), device=device))
