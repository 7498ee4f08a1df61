"""Random inputs for a problem: query, paged cache, block table, biases. Values depend on the seed and device type."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from numbers import Integral
from typing import Self

import torch

from workbench.dtypes import FP8_MAX, bits, nan_bits, torch_dtype
from workbench.errors import ParameterError, ProblemError
from workbench.poison import fill_nan
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem, check_problem

_DRAW_ELEMENTS = 2**24  # float32 elements drawn at once: 64 MiB whatever the cache's size
_BEYOND_TABLE = (-1, 2**31 - 1)  # block ids that fault, or fail a bounds check, when dereferenced
_BEYOND_LENGTHS = 2**30
_SPARE = 3  # odd, so that a poisoned table's row stride is not its used width


@dataclass(frozen=True, eq=False)
class TensorBundle:
    """Tensors that travel together; an absent one is None."""

    def named_tensors(self) -> dict[str, torch.Tensor]:
        """The tensors present, by field name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def to(self, device: torch.device | str) -> Self:
        """The same values on another device."""
        return replace(self, **{name: tensor.to(device) for name, tensor in self.named_tensors().items()})

    def clone(self) -> Self:
        """A copy that shares no storage, to hold against `changed_since` later."""
        return replace(self, **{name: tensor.clone() for name, tensor in self.named_tensors().items()})

    def changed_since(self, before: Self) -> tuple[str, ...]:
        """Names of the tensors whose bits differ from an earlier clone's; a NaN equals itself."""
        earlier = before.named_tensors()
        return tuple(
            name
            for name, tensor in self.named_tensors().items()
            if name not in earlier or not torch.equal(bits(tensor), bits(earlier[name]))
        )


@dataclass(frozen=True, eq=False)
class UnifiedInputs(TensorBundle):
    """Operands of a unified paged problem. A stored fp8 value x stands for x * scale."""

    q: torch.Tensor
    """[total_q, Hq, d]"""
    k_cache: torch.Tensor
    """[num_blocks, block_size, Hk, d]"""
    v_cache: torch.Tensor
    """[num_blocks, block_size, Hk, d]"""
    block_table: torch.Tensor
    """[num_seqs, max_blocks] int32"""
    cu_seqlens_q: torch.Tensor
    """[num_seqs + 1] int32, running sum of the query lengths from 0."""
    seqused_k: torch.Tensor
    """[num_seqs] int32, keys of each sequence."""
    alibi_slopes: torch.Tensor | None = None
    """[Hq] float32"""
    qq_bias: torch.Tensor | None = None
    """[R, R] float32: query token, key token, both counted from the context's end."""
    sinks: torch.Tensor | None = None
    """[Hq] logits in the compute dtype."""
    q_scale: torch.Tensor | None = None
    """[] float32; None stands for 1, as for the next two."""
    k_scale: torch.Tensor | None = None
    v_scale: torch.Tensor | None = None


@dataclass(frozen=True, eq=False)
class DenseInputs(TensorBundle):
    """Operands of a dense problem."""

    q: torch.Tensor
    """[B, Sq, Hq, d]"""
    k: torch.Tensor
    """[B, Skv, Hk, d]"""
    v: torch.Tensor
    """[B, Skv, Hk, d]"""
    sinks: torch.Tensor | None = None
    """[Hq] logits in the compute dtype."""


LARGEST_SEED = 2**63 - 1


def _checked(seed: object) -> int:
    """The seed as PyTorch's generators take it."""
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= int(seed) <= LARGEST_SEED:
        raise ParameterError(f"seed must be an integer in 0 .. {LARGEST_SEED}, got {seed!r}")
    return int(seed)


class _Draw:
    """Random values made on the device that will hold them."""

    def __init__(self, seed: int, device: torch.device | str) -> None:
        self.device = torch.device(device)
        self.generator = torch.Generator(self.device).manual_seed(_checked(seed))

    def normal(
        self, shape: tuple[int, ...], dtype: torch.dtype, *, std: float = 1.0, mean: float = 0.0
    ) -> torch.Tensor:
        """Normal values drawn in float32 and rounded; fp8 saturates."""
        values = torch.randn(shape, generator=self.generator, device=self.device) * std + mean
        return (values.clamp(-FP8_MAX, FP8_MAX) if dtype == torch.float8_e4m3fn else values).to(dtype)

    def scale(self) -> torch.Tensor:
        """A float32 scalar in 0.5 .. 0.8 or 1.25 .. 2: a scale that is left out must show."""
        size, side = torch.rand(2, generator=self.generator, device=self.device)
        return torch.exp2((0.32 + 0.68 * size) * torch.where(side < 0.5, -1.0, 1.0))


def _query_std(problem: UnifiedAttentionProblem | DenseAttentionProblem, softcap: float) -> float:
    """Spread of q against standard normal keys: scores of spread 1, or an eighth of the softcap so that it bites."""
    unit = abs(problem.softmax_scale or 0.0) * math.sqrt(problem.head_size)
    return max(1.0, softcap / 8) / unit if unit else 1.0


def _sinks(draw: _Draw, num_heads: int, dtype: str, visible_keys: float) -> torch.Tensor:
    """Logits near log(visible keys): a sink then takes about half of the mass, and a missing one shows."""
    return draw.normal((num_heads,), torch_dtype(dtype), mean=math.log(max(visible_keys, 1.0)))


def _lengths(values: list[int], device: torch.device, poison: bool) -> torch.Tensor:
    """int32 vector; when poisoned, the start of a longer storage whose rest a correct kernel never reads."""
    spare = [_BEYOND_LENGTHS] * _SPARE if poison else []
    return torch.tensor(values + spare, dtype=torch.int32, device=device)[: len(values)]


def table_width(problem: UnifiedAttentionProblem, *, poison: bool = True) -> int:
    """Entries of a row of the block table, which is also its row stride."""
    return max(1, -(-problem.max_kv_len // problem.block_size)) + (_SPARE if poison else 0)


def _block_table(problem: UnifiedAttentionProblem, block_ids: torch.Tensor, poison: bool) -> torch.Tensor:
    """[num_seqs, max_blocks] int32 on the CPU; the sequences take consecutive runs of block_ids."""
    counts = [-(-kv_len // problem.block_size) for _, kv_len in problem.seq_lens]
    table = torch.zeros((problem.num_seqs, table_width(problem, poison=poison)), dtype=torch.int32)
    if poison:
        table[:, 0::2], table[:, 1::2] = _BEYOND_TABLE
    for row, ids in zip(table, block_ids.split(counts), strict=True):
        row[: len(ids)] = ids
    return table


def _fill_blocks(cache: torch.Tensor, block_ids: torch.Tensor, draw: _Draw, scale: torch.Tensor | None) -> None:
    """Standard normal values in the used blocks: what is stored times the scale has spread 1."""
    std = 1.0 if scale is None else 1.0 / scale.item()
    block_shape = cache.shape[1:]
    for ids in block_ids.split(max(1, _DRAW_ELEMENTS // block_shape.numel())):
        bits(cache)[ids] = bits(draw.normal((len(ids), *block_shape), cache.dtype, std=std))


def _poison_tails(problem: UnifiedAttentionProblem, cache: torch.Tensor, block_table: torch.Tensor) -> None:
    """NaN in the slots past each sequence's end in its last block."""
    b = problem.block_size
    tails = [
        (int(row[kv_len // b]), kv_len % b)
        for row, (_, kv_len) in zip(block_table, problem.seq_lens, strict=True)
        if kv_len % b
    ]
    if not tails:
        return
    ids, used = torch.tensor(tails, device=cache.device).unbind(1)
    unused = torch.arange(b, device=cache.device)[None, :] >= used[:, None]
    blocks = bits(cache)[ids]
    blocks[unused] = nan_bits(cache.dtype)
    bits(cache)[ids] = blocks


def _cache(
    problem: UnifiedAttentionProblem, draw: _Draw, block_ids: torch.Tensor, table: torch.Tensor, poison: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """One cache [num_blocks, block_size, Hk, d] and its scale. Not poisoned: zeros, which a CPU commits lazily."""
    dtype = torch_dtype(problem.kv_dtype or problem.dtype)
    shape = (problem.num_blocks or 1, problem.block_size, problem.num_kv_heads, problem.head_size)
    if poison:
        cache = fill_nan(torch.empty(shape, dtype=dtype, device=draw.device))
    else:
        cache = torch.zeros(shape, dtype=dtype, device=draw.device)
    scale = draw.scale() if problem.kv_dtype == "fp8_e4m3" else None
    _fill_blocks(cache, block_ids, draw, scale)
    if poison:
        _poison_tails(problem, cache, table)
    return cache, scale


def make_unified_inputs(
    problem: UnifiedAttentionProblem, *, seed: int = 0, device: torch.device | str = "cpu", poison: bool = True
) -> UnifiedInputs:
    """Random operands for a unified problem; each sequence has blocks of its own, scattered over the cache.

    With `poison`, what a kernel must not use is unusable: NaN in the blocks that no sequence holds and in the slots
    past a sequence's end, ids outside the cache in the table entries past it, and huge values after the last length.
    fp8 tensors come with a scale of 0.5 .. 2, away from 1. Raises ProblemError if the cache is too small for all keys.
    """
    check_problem(problem, UnifiedAttentionProblem)
    num_blocks = problem.num_blocks or 1
    if problem.blocks_needed > num_blocks:
        raise ProblemError(
            f"the sequences need {problem.blocks_needed} blocks of {problem.block_size} tokens, "
            f"num_blocks is {num_blocks}; raise num_blocks or leave it None"
        )
    draw = _Draw(seed, device)
    order = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(_checked(seed)))
    block_ids = order[: problem.blocks_needed]
    table = _block_table(problem, block_ids, poison)

    q_scale = draw.scale() if problem.q_dtype == "fp8_e4m3" else None
    q_std = _query_std(problem, problem.softcap) / (1.0 if q_scale is None else q_scale.item())
    q_shape = (problem.total_query_tokens, problem.num_query_heads, problem.head_size)
    q = draw.normal(q_shape, torch_dtype(problem.q_dtype or problem.dtype), std=q_std)
    k_cache, k_scale = _cache(problem, draw, block_ids.to(device), table, poison)
    v_cache, v_scale = _cache(problem, draw, block_ids.to(device), table, poison)
    query_ends = accumulate((query_len for query_len, _ in problem.seq_lens), initial=0)
    return UnifiedInputs(
        q=q,
        k_cache=k_cache,
        v_cache=v_cache,
        block_table=table.to(device),
        cu_seqlens_q=_lengths(list(query_ends), draw.device, poison),
        seqused_k=_lengths([kv_len for _, kv_len in problem.seq_lens], draw.device, poison),
        q_scale=q_scale,
        k_scale=k_scale,
        v_scale=v_scale,
        **_biases(problem, draw),
    )


def _biases(problem: UnifiedAttentionProblem, draw: _Draw) -> dict[str, torch.Tensor]:
    biases = {}
    if problem.use_alibi:
        biases["alibi_slopes"] = alibi_slopes(problem.num_query_heads).to(draw.device)
    if problem.use_qq_bias:
        size = problem.qq_bias_size or 1
        biases["qq_bias"] = draw.normal((size, size), torch.float32)
    if problem.use_sinks:
        window = problem.sliding_window or math.inf
        visible = sum(min(window, kv_len) for _, kv_len in problem.seq_lens) / problem.num_seqs
        biases["sinks"] = _sinks(draw, problem.num_query_heads, problem.dtype, visible)
    return biases


def alibi_slopes(num_heads: int) -> torch.Tensor:
    """[num_heads] float32: the geometric slopes 2^(-8 (h + 1) / H) of the ALiBi paper (arXiv 2108.12409, section 3)."""
    return torch.exp2(-8.0 * torch.arange(1, num_heads + 1, dtype=torch.float32) / num_heads)


def make_dense_inputs(
    problem: DenseAttentionProblem, *, seed: int = 0, device: torch.device | str = "cpu", poison: bool = True
) -> DenseInputs:
    """Random operands for a dense problem. With `poison`, NaN follows the last row of q, k and v in their storage."""
    check_problem(problem, DenseAttentionProblem)
    draw = _Draw(seed, device)
    dtype = torch_dtype(problem.dtype)
    q_std = _query_std(problem, 0.0)

    def operand(seqlen: int, num_heads: int, std: float) -> torch.Tensor:
        shape = (problem.batch, seqlen, num_heads, problem.head_size)
        values = draw.normal(shape, dtype, std=std)
        if not poison:
            return values
        guard = problem.batch * num_heads * problem.head_size
        longer = fill_nan(torch.empty(values.numel() + guard, dtype=dtype, device=draw.device))
        held = longer[: values.numel()].view(shape)
        return held.copy_(values)

    sinks = None
    q = operand(problem.seqlen_q, problem.num_query_heads, q_std)
    k = operand(problem.seqlen_kv, problem.num_kv_heads, 1.0)
    v = operand(problem.seqlen_kv, problem.num_kv_heads, 1.0)
    if problem.use_sinks:
        visible = min(problem.sliding_window or math.inf, problem.seqlen_kv)
        sinks = _sinks(draw, problem.num_query_heads, problem.dtype, visible)
    return DenseInputs(q=q, k=k, v=v, sinks=sinks)
