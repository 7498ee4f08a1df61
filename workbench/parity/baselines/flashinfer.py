"""FlashInfer's batch prefill on the same paged cache; its planning is not timed."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import torch

from workbench.parity.baselines.base import Baseline, Prepared, Problem, imported, refuse, why_missing
from workbench.problem import DenseAttentionProblem

_MODULES = ("flashinfer",)
_WORKSPACE_BYTES = 256 * 2**20


class FlashInfer(Baseline):
    """The prefill wrapper serves decode too: a decode step is a prefill of one token."""

    name = "flashinfer"
    note = "FlashInfer BatchPrefillWithPagedKVCacheWrapper on the same paged tensors; plan() is not timed"

    def missing(self, device: torch.device) -> str | None:
        return super().missing(device) or why_missing(_MODULES, "BatchPrefillWithPagedKVCacheWrapper")

    def unsupported(self, problem: Problem, lane: str) -> str | None:
        if isinstance(problem, DenseAttentionProblem):
            return "it is run on paged problems only"
        return refuse(problem, ("fp8", "alibi", "qq_bias", "sinks"))

    def prepare(self, problem: Any, inputs: Any, lane: str) -> Prepared:
        wrapper_class = imported(_MODULES, "BatchPrefillWithPagedKVCacheWrapper")
        device = inputs.q.device
        wrapper = wrapper_class(torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device=device), "NHD")
        counts = [-(-kv_len // problem.block_size) for _, kv_len in problem.seq_lens]
        last = [
            kv_len - (count - 1) * problem.block_size
            for count, (_, kv_len) in zip(counts, problem.seq_lens, strict=True)
        ]
        pages = torch.cat([row[:count] for row, count in zip(inputs.block_table, counts, strict=True)])
        wrapper.plan(
            inputs.cu_seqlens_q.clone(),
            torch.tensor(list(accumulate(counts, initial=0)), dtype=torch.int32, device=device),
            pages.int(),
            torch.tensor(last, dtype=torch.int32, device=device),
            problem.num_query_heads,
            problem.num_kv_heads,
            problem.head_size,
            problem.block_size,
            causal=True,
            sm_scale=problem.softmax_scale,
            window_left=-1 if problem.sliding_window is None else problem.sliding_window - 1,
            logits_soft_cap=problem.softcap or None,
            q_data_type=inputs.q.dtype,
            kv_data_type=inputs.k_cache.dtype,
        )
        cache = (inputs.k_cache, inputs.v_cache)
        return Prepared(lambda: wrapper.run(inputs.q, cache), lambda written: written)
