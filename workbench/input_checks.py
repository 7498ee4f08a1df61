"""Whether a problem and its tensors go together, from shapes, dtypes and devices alone: nothing is read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.dtypes import torch_dtype
from workbench.errors import TensorError
from workbench.inputs import DenseInputs, UnifiedInputs
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem, check_problem

if TYPE_CHECKING:
    import torch

    from workbench.inputs import TensorBundle


def check_kinds(problem: object, problem_kind: type, inputs: object, inputs_kind: type) -> None:
    """Raise ProblemError or TensorError for arguments that are no problem and no inputs of these kinds."""
    check_problem(problem, problem_kind)
    if not isinstance(inputs, inputs_kind):
        maker = "make_unified_inputs" if inputs_kind is UnifiedInputs else "make_dense_inputs"
        raise TensorError(f"inputs must be {inputs_kind.__name__}, as {maker} gives, got {type(inputs).__name__}")


def _check_tensor(name: str, tensor: torch.Tensor | None, shape: tuple[int, ...], dtype: str | None = None) -> None:
    if tensor is None:
        raise TensorError(f"the problem needs {name} {list(shape)}, got None")
    if tuple(tensor.shape) != shape:
        raise TensorError(f"{name} must have shape {list(shape)}, got {list(tensor.shape)}")
    if dtype is not None and tensor.dtype != torch_dtype(dtype):
        raise TensorError(f"{name} must be {torch_dtype(dtype)}, got {tensor.dtype}")


def _check_one_device(inputs: TensorBundle) -> None:
    devices = {name: str(tensor.device) for name, tensor in inputs.named_tensors().items()}
    if len(set(devices.values())) > 1:
        raise TensorError(f"all tensors must be on one device, got {devices}; use inputs.to(device)")


def check_block_table(problem: UnifiedAttentionProblem, block_table: torch.Tensor) -> None:
    """Raise TensorError unless the table has a row for each sequence, wide enough for its keys."""
    if block_table.dim() != 2 or block_table.shape[0] != problem.num_seqs:
        raise TensorError(f"block_table must be [{problem.num_seqs}, max_blocks], got {list(block_table.shape)}")
    width = block_table.shape[1]
    for index, (_, kv_len) in enumerate(problem.seq_lens):
        if kv_len > width * problem.block_size:
            needed = -(-kv_len // problem.block_size)
            raise TensorError(
                f"sequence {index} has {kv_len} keys, {needed} blocks of {problem.block_size}, "
                f"but block_table is only {width} wide; widen it to {needed} or shorten the sequence"
            )


def check_unified_inputs(problem: UnifiedAttentionProblem, inputs: UnifiedInputs) -> None:
    """Raise TensorError unless every tensor has the problem's shape and dtype and all share a device."""
    check_kinds(problem, UnifiedAttentionProblem, inputs, UnifiedInputs)
    heads = problem.num_query_heads
    cache_shape = (problem.num_blocks or 1, problem.block_size, problem.num_kv_heads, problem.head_size)
    _check_tensor("q", inputs.q, (problem.total_query_tokens, heads, problem.head_size), problem.q_dtype)
    _check_tensor("k_cache", inputs.k_cache, cache_shape, problem.kv_dtype)
    _check_tensor("v_cache", inputs.v_cache, cache_shape, problem.kv_dtype)
    _check_tensor("cu_seqlens_q", inputs.cu_seqlens_q, (problem.num_seqs + 1,))
    _check_tensor("seqused_k", inputs.seqused_k, (problem.num_seqs,))
    check_block_table(problem, inputs.block_table)
    if problem.use_alibi:
        _check_tensor("alibi_slopes", inputs.alibi_slopes, (heads,))
    if problem.use_qq_bias:
        size = problem.qq_bias_size or 1
        _check_tensor("qq_bias", inputs.qq_bias, (size, size))
    if problem.use_sinks:
        _check_tensor("sinks", inputs.sinks, (heads,))
    _check_one_device(inputs)


def check_dense_inputs(problem: DenseAttentionProblem, inputs: DenseInputs) -> None:
    """Raise TensorError unless every tensor has the problem's shape and dtype and all share a device."""
    check_kinds(problem, DenseAttentionProblem, inputs, DenseInputs)
    q_shape = (problem.batch, problem.seqlen_q, problem.num_query_heads, problem.head_size)
    kv_shape = (problem.batch, problem.seqlen_kv, problem.num_kv_heads, problem.head_size)
    _check_tensor("q", inputs.q, q_shape, problem.dtype)
    _check_tensor("k", inputs.k, kv_shape, problem.dtype)
    _check_tensor("v", inputs.v, kv_shape, problem.dtype)
    if problem.use_sinks:
        _check_tensor("sinks", inputs.sinks, (problem.num_query_heads,))
    _check_one_device(inputs)
