"""Public attention calls on torch tensors; the only place that launches kernels."""

from workbench.attention.backends import BACKENDS, AttentionResult
from workbench.attention.dense import dense_attention, run_dense
from workbench.attention.unified import run_unified, unified_attention

__all__ = ["BACKENDS", "AttentionResult", "dense_attention", "run_dense", "run_unified", "unified_attention"]
