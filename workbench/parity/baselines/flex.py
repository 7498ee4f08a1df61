"""FlexAttention, compiled: the biases and masks of specification §1 as score and mask functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from workbench.parity.baselines.base import Baseline, Prepared, Problem, refuse
from workbench.parity.baselines.contiguous import Batch, contiguous_batches, scatter
from workbench.poison import output_shape


class FlexAttention(Baseline):
    """Compiled once per pair of lengths, which takes tens of seconds; hence not among the automatic baselines."""

    name = "flex"
    note = "FlexAttention, compiled, on contiguous tensors; compilation, block masks and gathering are not timed"

    def unsupported(self, problem: Problem, lane: str) -> str | None:
        return refuse(problem, ("fp8",))

    def prepare(self, problem: Any, inputs: Any, lane: str) -> Prepared:
        # Beyond its limit of recompilations torch.compile falls back to an eager, unfused form without failing.
        torch.compiler.reset()
        batches = contiguous_batches(problem, inputs)
        calls = [_compiled(problem, inputs, batch) for batch in batches]

        def gather(outputs: list[torch.Tensor]) -> torch.Tensor:
            return scatter([output.transpose(1, 2) for output in outputs], batches, output_shape(problem))

        return Prepared(lambda: [call() for call in calls], gather)


def _compiled(problem: Any, inputs: Any, batch: Batch) -> Callable[[], torch.Tensor]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    query_len, kv_len = batch.lengths
    offset = getattr(problem, "causal_offset", kv_len - query_len)
    mask_mod = _mask_mod(problem, offset)
    block_mask = None
    if mask_mod is not None:
        block_mask = create_block_mask(mask_mod, None, None, query_len, kv_len, device=str(batch.q.device))
    score_mod = _score_mod(problem, inputs, offset)
    sinks = inputs.sinks

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        output, lse = flex_attention(
            q,
            k,
            v,
            score_mod=score_mod,
            block_mask=block_mask,
            scale=problem.softmax_scale,
            enable_gqa=problem.group_size > 1,
            return_lse=True,
        )
        if sinks is None:
            return output
        # A sink adds e^sink to the denominator: the output shrinks by sigmoid(lse - sink).
        share = torch.sigmoid(lse - sinks.float()[None, :, None])
        return (output * share[..., None]).to(output.dtype)

    compiled = torch.compile(attend, dynamic=False, fullgraph=True)
    q, k, v = (tensor.transpose(1, 2) for tensor in (batch.q, batch.k, batch.v))
    return lambda: compiled(q, k, v)


def _mask_mod(problem: Any, offset: int) -> Any:
    if not getattr(problem, "causal", True):
        return None
    window = problem.sliding_window

    def visible(_b: Any, _h: Any, row: Any, key: Any) -> Any:
        below = key <= row + offset
        return below if window is None else below & (key > row + offset - window)

    return visible


def _score_mod(problem: Any, inputs: Any, context: int) -> Any:
    softcap = getattr(problem, "softcap", 0.0)
    slopes = getattr(inputs, "alibi_slopes", None)
    bias = getattr(inputs, "qq_bias", None)
    if not softcap and slopes is None and bias is None:
        return None

    def modify(score: Any, _b: Any, h: Any, row: Any, key: Any) -> Any:
        if softcap:
            score = softcap * torch.tanh(score / softcap)
        if slopes is not None:
            score = score + slopes[h] * (key - context)
        if bias is not None:
            token = key - context
            inside = (token >= 0) & (token < bias.shape[1])
            score = score + torch.where(inside, bias[row, token.clamp(0, bias.shape[1] - 1)], 0.0)
        return score

    return modify
