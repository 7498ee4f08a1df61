"""A paged problem as batches of contiguous sequences, for baselines that know no pages. Not timed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch

from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem

if TYPE_CHECKING:
    from workbench.inputs import UnifiedInputs


@dataclass(frozen=True)
class Batch:
    """Sequences of equal lengths, contiguous."""

    q: torch.Tensor
    """[n, Sq, Hq, d]"""
    k: torch.Tensor
    """[n, Skv, Hk, d]"""
    v: torch.Tensor
    rows: torch.Tensor | None
    """[n * Sq] rows of the packed output; None for a dense problem, whose output has this layout already."""

    @property
    def lengths(self) -> tuple[int, int]:
        """(Sq, Skv)."""
        return self.q.shape[1], self.k.shape[1]


def contiguous_batches(problem: UnifiedAttentionProblem | DenseAttentionProblem, inputs: Any) -> list[Batch]:
    """One batch per distinct (query_len, kv_len). Keys that a single query's window hides are left out."""
    if isinstance(problem, DenseAttentionProblem):
        return [Batch(inputs.q.contiguous(), inputs.k.contiguous(), inputs.v.contiguous(), None)]
    starts = list(accumulate((query_len for query_len, _ in problem.seq_lens), initial=0))
    members: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, lengths in enumerate(problem.seq_lens):
        if lengths[0] > 0:
            members[lengths].append(index)
    batches = []
    for (query_len, kv_len), sequences in members.items():
        first = max(kv_len - problem.sliding_window, 0) if problem.sliding_window and query_len == 1 else 0
        rows = torch.cat([torch.arange(starts[i], starts[i] + query_len, device=inputs.q.device) for i in sequences])
        batches.append(
            Batch(
                inputs.q[rows].unflatten(0, (len(sequences), query_len)),
                torch.stack([keys_of(problem, inputs, inputs.k_cache, i, first, kv_len) for i in sequences]),
                torch.stack([keys_of(problem, inputs, inputs.v_cache, i, first, kv_len) for i in sequences]),
                rows,
            )
        )
    return batches


def scatter(outputs: list[torch.Tensor], batches: list[Batch], shape: tuple[int, ...]) -> torch.Tensor:
    """Outputs [n, Sq, Hq, d] of the batches, in the problem's output layout."""
    if batches[0].rows is None:
        return outputs[0]
    packed = torch.full(shape, float("nan"), dtype=outputs[0].dtype, device=outputs[0].device)
    for output, batch in zip(outputs, batches, strict=True):
        packed[batch.rows] = output.flatten(0, 1)
    return packed


def keys_of(
    problem: UnifiedAttentionProblem,
    inputs: UnifiedInputs,
    cache: torch.Tensor,
    sequence: int,
    first: int,
    kv_len: int,
) -> torch.Tensor:
    """Positions first .. kv_len - 1 of one sequence's keys or values: [kv_len - first, Hk, d]."""
    blocks = inputs.block_table[sequence, : -(-kv_len // problem.block_size)].long()
    return cache[blocks].flatten(0, 1)[first:kv_len].contiguous()
