"""flash-attn's variable-length function on packed contiguous keys and values."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import torch

from workbench.parity.baselines.base import Baseline, Prepared, Problem, imported, refuse, why_missing
from workbench.parity.baselines.contiguous import keys_of
from workbench.problem import DenseAttentionProblem

_MODULES = ("flash_attn",)


class FlashAttn(Baseline):
    """Its ALiBi differs from the specification's by a constant per row, which the softmax cancels."""

    name = "flash_attn"
    note = "flash_attn_varlen_func on packed contiguous keys; gathering the pages is not timed"

    def missing(self, device: torch.device) -> str | None:
        return super().missing(device) or why_missing(_MODULES, "flash_attn_varlen_func")

    def unsupported(self, problem: Problem, lane: str) -> str | None:
        if isinstance(problem, DenseAttentionProblem):
            bottom_right = problem.causal_offset == problem.seqlen_kv - problem.seqlen_q
            if problem.causal and not bottom_right:
                return "its causal mask is bottom-right"
        return refuse(problem, ("fp8", "qq_bias", "sinks"))

    def prepare(self, problem: Any, inputs: Any, lane: str) -> Prepared:
        function = imported(_MODULES, "flash_attn_varlen_func")
        if isinstance(problem, DenseAttentionProblem):
            lengths = [(problem.seqlen_q, problem.seqlen_kv)] * problem.batch
            q, k, v = (tensor.flatten(0, 1) for tensor in (inputs.q, inputs.k, inputs.v))
        else:
            lengths, q = list(problem.seq_lens), inputs.q
            k, v = (_packed(problem, inputs, cache) for cache in (inputs.k_cache, inputs.v_cache))
        window = problem.sliding_window
        arguments = {
            "cu_seqlens_q": _ends([query for query, _ in lengths], q.device),
            "cu_seqlens_k": _ends([kv for _, kv in lengths], q.device),
            "max_seqlen_q": max(query for query, _ in lengths),
            "max_seqlen_k": max(kv for _, kv in lengths),
            "softmax_scale": problem.softmax_scale,
            "causal": getattr(problem, "causal", True),
            "window_size": (-1, -1) if window is None else (window - 1, 0),
            "softcap": getattr(problem, "softcap", 0.0),
            "alibi_slopes": getattr(inputs, "alibi_slopes", None),
        }
        return Prepared(lambda: function(q, k, v, **arguments), lambda written: written.view(inputs.q.shape))


def _packed(problem: Any, inputs: Any, cache: torch.Tensor) -> torch.Tensor:
    """Keys or values of all sequences, [sum of kv_len, Hk, d]."""
    ends = enumerate(kv_len for _, kv_len in problem.seq_lens)
    return torch.cat([keys_of(problem, inputs, cache, index, 0, kv_len) for index, kv_len in ends])


def _ends(lengths: list[int], device: torch.device) -> torch.Tensor:
    return torch.tensor(list(accumulate(lengths, initial=0)), dtype=torch.int32, device=device)
