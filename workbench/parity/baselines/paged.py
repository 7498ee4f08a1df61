"""AITER's and vLLM's Triton unified attention: the same paged tensors, the same argument names."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from workbench.dtypes import torch_dtype
from workbench.parity.baselines.base import Baseline, Prepared, Problem, imported, why_missing
from workbench.poison import poisoned_output
from workbench.problem import DenseAttentionProblem


class PagedBaseline(Baseline):
    """A unified_attention function found under one of several module names."""

    modules: Sequence[str]
    knows_lanes = True

    def missing(self, device: torch.device) -> str | None:
        return super().missing(device) or why_missing(self.modules, "unified_attention")

    def unsupported(self, problem: Problem, lane: str) -> str | None:
        return "it has no dense kernel" if isinstance(problem, DenseAttentionProblem) else None

    def prepare(self, problem: Any, inputs: Any, lane: str) -> Prepared:
        function = imported(self.modules, "unified_attention")
        out = poisoned_output(problem, inputs.q.device)
        known = inspect.signature(function).parameters
        # What the problem needs and this version does not know stays in, so that the call itself complains.
        arguments = {name: v for name, v in _arguments(problem, inputs, out).items() if name in known or v is not None}
        arguments |= {name: v for name, v in self.extras(problem, inputs, lane).items() if name in known}

        def call() -> torch.Tensor:
            with self.forced(function, lane):
                function(**arguments)
            return out

        return Prepared(call, lambda written: written)

    def extras(self, problem: Any, inputs: Any, lane: str) -> dict[str, Any]:
        """Arguments beyond the common ones."""
        return {}

    @contextmanager
    def forced(self, function: Callable[..., Any], lane: str) -> Any:
        """Make the function take the lane during the call."""
        yield


class Aiter(PagedBaseline):
    """AITER chooses its path in a function of its module; a forced lane replaces that function during the call."""

    name = "aiter"
    note = "AITER's Triton unified_attention on the same paged tensors"
    modules = ("aiter.ops.triton.attention.unified_attention", "aiter.ops.triton.unified_attention")

    @contextmanager
    def forced(self, function: Callable[..., Any], lane: str) -> Any:
        module: Any = sys.modules[function.__module__]
        if lane == "auto":
            yield
            return
        chooser = module.use_2d_kernel
        module.use_2d_kernel = lambda *args, **kwargs: lane == "2d"
        try:
            yield
        finally:
            module.use_2d_kernel = chooser


class Vllm(PagedBaseline):
    """vLLM takes its 3D path for decode when it is given a workspace, and never without one."""

    name = "vllm"
    note = "vLLM's Triton unified_attention on the same paged tensors"
    modules = ("vllm.v1.attention.ops.triton_unified_attention", "vllm.attention.ops.triton_unified_attention")
    segments = 16

    def unsupported(self, problem: Problem, lane: str) -> str | None:
        if lane == "3d" and getattr(problem, "max_query_len", 0) > 1:
            return "its 3D path is for single-token queries only"
        return super().unsupported(problem, lane)

    def extras(self, problem: Any, inputs: Any, lane: str) -> dict[str, Any]:
        quantised = _per_tensor_scales(inputs)
        if lane == "2d":
            return quantised
        padded = 1 << (problem.head_size - 1).bit_length()
        shape = (problem.total_query_tokens, problem.num_query_heads, self.segments)
        workspace = {"dtype": torch.float32, "device": inputs.q.device}
        return quantised | {
            "seq_threshold_3D": max(problem.num_seqs, 1),
            "num_par_softmax_segments": self.segments,
            "softmax_segm_output": torch.empty((*shape, padded), **workspace),
            "softmax_segm_max": torch.empty(shape, **workspace),
            "softmax_segm_expsum": torch.empty(shape, **workspace),
        }


FP8_PER_TENSOR = 1
"""vLLM's KVQuantMode for a cache with one scale per tensor; with its default of 0 the scales are not applied."""


def _per_tensor_scales(inputs: Any) -> dict[str, Any]:
    return {} if inputs.k_scale is None else {"kv_quant_mode": FP8_PER_TENSOR}


def _arguments(problem: Any, inputs: Any, out: torch.Tensor) -> dict[str, Any]:
    window = problem.sliding_window
    return {
        "q": inputs.q,
        "k": inputs.k_cache,
        "v": inputs.v_cache,
        "out": out,
        "cu_seqlens_q": inputs.cu_seqlens_q,
        "max_seqlen_q": problem.max_query_len,
        "seqused_k": inputs.seqused_k,
        "max_seqlen_k": problem.max_kv_len,
        "softmax_scale": problem.softmax_scale,
        "causal": True,
        "window_size": (-1, -1) if window is None else (window - 1, 0),
        "block_table": inputs.block_table,
        "softcap": problem.softcap,
        "q_descale": inputs.q_scale,
        "k_descale": inputs.k_scale,
        "v_descale": inputs.v_scale,
        "alibi_slopes": inputs.alibi_slopes,
        "qq_bias": inputs.qq_bias,
        "sinks": None if inputs.sinks is None else inputs.sinks.to(torch_dtype(problem.dtype)),
    }
