"""Launch plans of a problem on tensors that have shapes but no storage (PyTorch's `meta` device)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.errors import SpecError
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.spec import DenseGeometry, KernelSpec, Unified2DSpec, Unified3DSpec
from workbench.spec_gfx950 import Gfx950DenseSpec
from workbench.spec_gfx950_unified import Gfx950Unified2DSpec
from workbench.spec_sm90 import Sm90DenseSpec

if TYPE_CHECKING:
    import torch

    from workbench.device import Device
    from workbench.launch import KernelLaunch
    from workbench.plan_dense import DenseCall
    from workbench.plan_unified import UnifiedCall


def plan_without_storage(
    problem: UnifiedAttentionProblem | DenseAttentionProblem, spec: KernelSpec, device: Device
) -> list[KernelLaunch]:
    """The launches that serve the problem under this spec on this device; SpecError if the two do not go together."""
    from workbench.dispatch import select_work_order
    from workbench.plan_dense import plan_dense
    from workbench.plan_unified import plan_2d, plan_3d
    from workbench.plan_unified_gfx950 import plan_2d_gfx950

    if isinstance(problem, UnifiedAttentionProblem) and isinstance(
        spec, Unified2DSpec | Unified3DSpec | Gfx950Unified2DSpec
    ):
        spec.check(problem)
        call, i64 = unified_call(problem), spec.uses_i64(problem)
        if isinstance(spec, Gfx950Unified2DSpec | Unified3DSpec):
            spec.check_device(device)
        if isinstance(spec, Gfx950Unified2DSpec):
            return plan_2d_gfx950(call, spec, i64=i64)
        return plan_2d(call, spec, i64=i64) if isinstance(spec, Unified2DSpec) else plan_3d(call, spec, i64=i64)
    if isinstance(problem, DenseAttentionProblem) and isinstance(spec, DenseGeometry):
        if isinstance(spec, Gfx950DenseSpec | Sm90DenseSpec):
            spec.check_device(device)
            spec.check(problem)
        if spec.grid == "default":
            return plan_dense(dense_call(problem), spec, 0, "grid")
        chosen = select_work_order(problem, spec, device)
        return plan_dense(dense_call(problem), spec, chosen.num_persistent, chosen.order)
    raise SpecError(f"a {type(spec).__name__} does not serve a {type(problem).__name__}")


def unified_call(problem: UnifiedAttentionProblem) -> UnifiedCall:
    """The call of a unified problem."""
    from workbench.plan_unified import UnifiedCall

    def scale(dtype: str | None) -> torch.Tensor | None:
        return _empty(1, dtype="fp32") if dtype == "fp8_e4m3" else None

    heads, tokens = problem.num_query_heads, problem.total_query_tokens
    cache = (problem.num_blocks or 1, problem.block_size, problem.num_kv_heads, problem.head_size)
    size = problem.qq_bias_size
    return UnifiedCall(
        q=_empty(tokens, heads, problem.head_size, dtype=problem.q_dtype or problem.dtype),
        k=_empty(*cache, dtype=problem.kv_dtype or problem.dtype),
        v=_empty(*cache, dtype=problem.kv_dtype or problem.dtype),
        out=_empty(tokens, heads, problem.head_size, dtype=problem.dtype),
        cu_seqlens_q=_integers(problem.num_seqs + 1),
        seqused_k=_integers(problem.num_seqs),
        block_table=_integers(problem.num_seqs, -(-problem.max_kv_len // problem.block_size)),
        max_query_len=problem.max_query_len,
        max_kv_len=problem.max_kv_len,
        softmax_scale=problem.softmax_scale or 0.0,
        softcap=problem.softcap,
        sliding_window=problem.sliding_window,
        compute_dtype=problem.dtype,
        alibi_slopes=_empty(heads, dtype="fp32") if problem.use_alibi else None,
        qq_bias=_empty(size, size, dtype="fp32") if size is not None else None,
        sinks=_empty(heads, dtype=problem.dtype) if problem.use_sinks else None,
        q_scale=scale(problem.q_dtype),
        k_scale=scale(problem.kv_dtype),
        v_scale=scale(problem.kv_dtype),
    )


def dense_call(problem: DenseAttentionProblem) -> DenseCall:
    """The call of a dense problem."""
    from workbench.plan_dense import DenseCall

    query = (problem.batch, problem.seqlen_q, problem.num_query_heads, problem.head_size)
    keys = (problem.batch, problem.seqlen_kv, problem.num_kv_heads, problem.head_size)
    return DenseCall(
        q=_empty(*query, dtype=problem.dtype),
        k=_empty(*keys, dtype=problem.dtype),
        v=_empty(*keys, dtype=problem.dtype),
        out=_empty(*query, dtype=problem.dtype),
        max_seqlen_q=problem.seqlen_q,
        softmax_scale=problem.softmax_scale or 0.0,
        causal=problem.causal,
        alignment=problem.alignment,
        sliding_window=problem.sliding_window,
        sinks=_empty(problem.num_query_heads, dtype=problem.dtype) if problem.use_sinks else None,
    )


def _empty(*shape: int, dtype: str) -> torch.Tensor:
    import torch

    from workbench.dtypes import torch_dtype

    return torch.empty(shape, dtype=torch_dtype(dtype), device="meta")


def _integers(*shape: int) -> torch.Tensor:
    import torch

    return torch.empty(shape, dtype=torch.int32, device="meta")
