"""Inputs on which attention kernels elsewhere went wrong, each with its right value, worked out by hand.

Unless a case says otherwise: one query head on one KV head, head size 64, softmax scale 1, block size 16, K all zero
(every visible key weighs the same) and V[pos] = pos in every channel, so that the output is the mean of the visible
positions. Cache blocks and slots that hold no key are NaN. Each entry of the tables at the end builds a case for a
compute dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

import torch

from workbench.dtypes import torch_dtype
from workbench.inputs import DenseInputs, UnifiedInputs
from workbench.poison import fill_nan
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem

NAN, INF = math.nan, math.inf
LIMITS = {"fp32": (0.0, 1e-5), "fp16": (1e-3, 1e-6), "bf16": (1e-2, 1e-6)}  # relative, absolute


@dataclass(frozen=True)
class EdgeCase:
    """expected has the output's shape without its last axis: every channel holds the same value."""

    problem: UnifiedAttentionProblem
    inputs: UnifiedInputs
    expected: torch.Tensor
    exact: bool = False


@dataclass(frozen=True)
class DenseCase:
    """The same for a dense problem."""

    problem: DenseAttentionProblem
    inputs: DenseInputs
    expected: torch.Tensor
    exact: bool = False


@dataclass(frozen=True)
class VarlenCase:
    """Packed dense sequences, q [Tq, 1, 64], k and v [Tk, 1, 64]."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    cu_seqlens_q: torch.Tensor
    cu_seqlens_k: torch.Tensor
    expected: torch.Tensor
    exact: bool = False


def assert_right(case: EdgeCase | DenseCase | VarlenCase, out: torch.Tensor, dtype: str) -> None:
    """Every channel of every row holds the expected value, within the dtype's limit."""
    expected = case.expected[..., None].expand(out.shape)
    relative, absolute = (0.0, 0.0) if case.exact else LIMITS[dtype]
    torch.testing.assert_close(out.cpu().double(), expected, rtol=relative, atol=absolute)


def problem_of(seq_lens: list[tuple[int, int]], dtype: str, **changes: object) -> UnifiedAttentionProblem:
    """The common problem of these cases with some fields changed."""
    common = {"num_query_heads": 1, "num_kv_heads": 1, "head_size": 64, "block_size": 16, "softmax_scale": 1.0}
    return UnifiedAttentionProblem(seq_lens=tuple(seq_lens), dtype=dtype, **(common | changes))


def positions(kv_len: int) -> torch.Tensor:
    """V[pos] = pos: [kv_len, 1, 64]."""
    return torch.arange(kv_len, dtype=torch.float32)[:, None, None].expand(kv_len, 1, 64)


def first_channel(values: list[float]) -> torch.Tensor:
    """[len(values), 1, 64]: each value in channel 0, the rest 0."""
    rows = torch.zeros(len(values), 1, 64)
    rows[:, 0, 0] = torch.tensor(values)
    return rows


def every_channel(values: list[float]) -> torch.Tensor:
    """[len(values), 1, 64]: each value in all channels."""
    return torch.tensor(values)[:, None, None].expand(len(values), 1, 64)


def paged(
    problem: UnifiedAttentionProblem,
    *,
    k: list[torch.Tensor] | None = None,
    v: list[torch.Tensor] | None = None,
    q: torch.Tensor | None = None,
    table: list[list[int]] | None = None,
    **rest: torch.Tensor,
) -> UnifiedInputs:
    """Write each sequence's k and v [kv_len, Hk, d] through the block table into caches that hold NaN elsewhere."""
    b = problem.block_size
    shape = (problem.num_blocks, b, problem.num_kv_heads, problem.head_size)
    dtype = torch_dtype(problem.kv_dtype)
    caches = [fill_nan(torch.empty(shape, dtype=dtype)) for _ in range(2)]
    table = table or _descending_table(problem)
    for index, (_, kv_len) in enumerate(problem.seq_lens):
        rows_k = k[index] if k else torch.zeros(kv_len, *shape[2:])
        rows_v = v[index] if v else positions(kv_len).expand(kv_len, *shape[2:])
        for cache, rows in zip(caches, (rows_k, rows_v), strict=True):
            for first in range(0, kv_len, b):
                part = rows[first : first + b]
                cache[table[index][first // b], : len(part)] = part.to(dtype)
    lengths = [query_len for query_len, _ in problem.seq_lens]
    q_shape = (problem.total_query_tokens, problem.num_query_heads, problem.head_size)
    return UnifiedInputs(
        q=(torch.ones(q_shape) if q is None else q.expand(q_shape)).to(torch_dtype(problem.q_dtype)),
        k_cache=caches[0],
        v_cache=caches[1],
        block_table=torch.tensor(table, dtype=torch.int32),
        cu_seqlens_q=torch.tensor(list(accumulate(lengths, initial=0)), dtype=torch.int32),
        seqused_k=torch.tensor([kv_len for _, kv_len in problem.seq_lens], dtype=torch.int32),
        **rest,
    )


def _descending_table(problem: UnifiedAttentionProblem) -> list[list[int]]:
    """Blocks from the last down, so that no block id equals its place; -1 past a sequence's end."""
    width = max(1, -(-problem.max_kv_len // problem.block_size))
    ids = iter(range(problem.num_blocks - 1, -1, -1))
    counts = [-(-kv_len // problem.block_size) for _, kv_len in problem.seq_lens]
    return [[next(ids) for _ in range(count)] + [-1] * (width - count) for count in counts]


def column(*values: float) -> torch.Tensor:
    """Expected values of single-head rows: [rows, 1]."""
    return torch.tensor(values, dtype=torch.float64)[:, None]


def freed_blocks_before_window(dtype: str, query_len: int) -> EdgeCase:
    """Blocks in front of the window hold NaN; a tile there may be masked but must not be multiplied."""
    problem = problem_of([(query_len, 40)], dtype, sliding_window=4, num_blocks=8)
    inputs = paged(problem, table=[[7, 3, 5]])
    for cache in (inputs.k_cache, inputs.v_cache):
        cache[[7, 3]] = NAN
        cache[5, :2] = NAN
    return EdgeCase(problem, inputs, column(37.5) if query_len == 1 else column(35.5, 36.5, 37.5))


def unwritten_slots(dtype: str, query_len: int, v_slots: float, k_slots: float) -> EdgeCase:
    """The slots after the sequence's end in its last block are not finite."""
    problem = problem_of([(query_len, 17)], dtype)
    inputs = paged(problem)
    last = inputs.block_table[0, 1].item()
    inputs.k_cache[last, 1:] = k_slots
    inputs.v_cache[last, 1:] = v_slots
    return EdgeCase(problem, inputs, column(*(row / 2 for row in range(17 - query_len, 17))))


def window_empties_segments(dtype: str) -> EdgeCase:
    """With any number of segments, most of them have no key to see."""
    problem = problem_of([(1, 100)], dtype, sliding_window=4)
    return EdgeCase(problem, paged(problem), column(97.5))


def softcap_saturates(dtype: str) -> EdgeCase:
    """Scores of +200 and -200 under a cap of 1: weights e and 1/e."""
    problem = problem_of([(1, 2)], dtype, softcap=1.0)
    q = first_channel([1.0])
    inputs = paged(problem, q=q, k=[first_channel([200.0, -200.0])], v=[every_channel([1.0, 0.0])])
    return EdgeCase(problem, inputs, column(0.880797))


def softcap_before_mask(dtype: str) -> EdgeCase:
    """Capped after the mask, the future key would come back with a score of -1."""
    problem = problem_of([(2, 2)], dtype, softcap=1.0)
    return EdgeCase(problem, paged(problem), column(0.0, 0.5))


def alibi_distance(dtype: str, with_sink: bool) -> EdgeCase:
    """Slopes ln 2 and ln 4 make the weights powers of 2 and 4; a sink in the denominator shows their scale."""
    problem = problem_of([(1, 3)], dtype, num_query_heads=2, use_alibi=True, use_sinks=with_sink)
    rest = {"alibi_slopes": torch.tensor([2.0, 4.0]).log()}
    if with_sink:
        rest["sinks"] = torch.tensor([0.0, -INF]).to(torch_dtype(dtype))
    expected = torch.tensor([[0.909091 if with_sink else 1.428571, 1.714286]], dtype=torch.float64)
    return EdgeCase(problem, paged(problem, **rest), expected)


def odd_group(dtype: str, group: int) -> EdgeCase:
    """A group that is no power of two pads the query tile; the padding must reach no neighbour."""
    problem = problem_of([(7, 7), (1, 33)], dtype, num_query_heads=2 * group, num_kv_heads=2)
    v = [torch.tensor([1.0, 2.0])[None, :, None].expand(kv_len, 2, 64) for _, kv_len in problem.seq_lens]
    expected = torch.tensor([1.0] * group + [2.0] * group, dtype=torch.float64).expand(8, -1)
    return EdgeCase(problem, paged(problem, v=v), expected)


def entries_past_the_end(dtype: str, kv_len: int, row: list[int], expected: float) -> EdgeCase:
    """Table entries past the sequence's end are no block ids."""
    problem = problem_of([(1, kv_len)], dtype, num_blocks=4)
    return EdgeCase(problem, paged(problem, table=[row]), column(expected))


def table_too_narrow(dtype: str) -> EdgeCase:
    """40 keys need three blocks, the table has two columns: an error, so nothing is expected."""
    problem = problem_of([(1, 40)], dtype)
    whole = paged(problem)
    return EdgeCase(problem, replace(whole, block_table=whole.block_table[:, :2]), column())


def _values_by_sequence(seq_lens: list[tuple[int, int]], dtype: str, expected: torch.Tensor) -> EdgeCase:
    """V of sequence i is i."""
    problem = problem_of(seq_lens, dtype)
    v = [torch.full((kv_len, 1, 64), float(index)) for index, (_, kv_len) in enumerate(seq_lens)]
    inputs = paged(problem, v=v)
    num_ends = inputs.cu_seqlens_q.numel()
    followed = torch.cat([inputs.cu_seqlens_q, torch.full((8,), 2**30, dtype=torch.int32)])
    return EdgeCase(problem, replace(inputs, cu_seqlens_q=followed[:num_ends]), expected, exact=True)


def queries_of_length_zero(dtype: str) -> EdgeCase:
    """The search for a program's sequence meets repeated ends, and 2^30 after the last."""
    seq_lens = list(zip([0, 3, 0, 0, 1, 0], [9, 3, 5, 1, 17, 8], strict=True))
    case = _values_by_sequence(seq_lens, dtype, column(1, 1, 1, 4))
    return replace(case, exact=False)


def thousand_sequences(dtype: str) -> EdgeCase:
    """1025 sequences of which every other one has a query."""
    return _values_by_sequence([(index % 2, 1) for index in range(1025)], dtype, column(*range(1, 1025, 2)))


def fp8_scales(dtype: str, q_dtype: str | None, softcap: float, expected: float) -> EdgeCase:
    """The key scale multiplies the score before the cap, the value scale the output."""
    problem = problem_of([(1, 2)], dtype, q_dtype=q_dtype, kv_dtype="fp8_e4m3", softcap=softcap)
    inputs = paged(
        problem,
        q=first_channel([1.0]),
        k=[first_channel([1.0, 0.0])],
        v=[every_channel([1.0, 0.0])],
        k_scale=torch.tensor(2.0),
        v_scale=torch.tensor(0.5),
    )
    return EdgeCase(problem, inputs, column(expected))


def block_beyond_2_gib(dtype: str, kv_dtype: str | None, block_id: int) -> EdgeCase:
    """Block id times block stride passes 2^30 and 2^31 elements. Pages never written take no memory on a CPU."""
    problem = problem_of(
        [(1, 16)],
        dtype,
        kv_dtype=kv_dtype,
        num_query_heads=8,
        num_kv_heads=8,
        head_size=128,
        num_blocks=131_073,
    )
    one_block = paged(problem.with_changes(num_blocks=1), v=[torch.ones(16, 8, 128)], k=[torch.ones(16, 8, 128)])
    caches = {}
    for name in ("k_cache", "v_cache"):
        small = getattr(one_block, name)
        caches[name] = torch.empty((131_073, *small.shape[1:]), dtype=small.dtype)
        caches[name][block_id] = small[0]
    table = torch.tensor([[block_id]], dtype=torch.int32)
    expected = torch.ones(1, 8, dtype=torch.float64)
    return EdgeCase(problem, replace(one_block, block_table=table, **caches), expected, exact=True)


def equal_scores_of_64(dtype: str) -> EdgeCase:
    """Q = K = 1: a product that reads bf16 as raw bits shows here."""
    problem = problem_of([(1, 17)], dtype)
    return EdgeCase(problem, paged(problem, k=[torch.ones(17, 1, 64)]), column(8.0))


def short_window(dtype: str) -> EdgeCase:
    """The last four of 17 positions."""
    problem = problem_of([(1, 17)], dtype, sliding_window=4)
    return EdgeCase(problem, paged(problem), column(14.5))


def dense_window_past_keys(dtype: str, alignment: str) -> DenseCase:
    """40 rows, 8 keys, window 4: rows before the first key, or with a window past the last one, see nothing."""
    problem = DenseAttentionProblem(
        batch=1,
        num_query_heads=1,
        num_kv_heads=1,
        seqlen_q=40,
        seqlen_kv=8,
        head_size=64,
        alignment=alignment,
        softmax_scale=1.0,
        sliding_window=4,
        dtype=dtype,
    )
    if alignment == "bottom_right":
        rows = [0.0] * 32 + [0.0, 0.5, 1.0, 1.5, 2.5, 3.5, 4.5, 5.5]
    else:
        rows = [0.0, 0.5, 1.0, 1.5, 2.5, 3.5, 4.5, 5.5, 6.0, 6.5, 7.0] + [0.0] * 29
    kind = torch_dtype(dtype)
    inputs = DenseInputs(
        q=torch.ones(1, 40, 1, 64, dtype=kind),
        k=torch.zeros(1, 8, 1, 64, dtype=kind),
        v=positions(8)[None].to(kind).contiguous(),
    )
    return DenseCase(problem, inputs, torch.tensor(rows, dtype=torch.float64)[None, :, None])


def packed(dtype: str, query_lens: list[int], kv_lens: list[int], expected: list[float]) -> VarlenCase:
    """Packed sequences, some of length zero; a query without keys gives 0."""
    kind = torch_dtype(dtype)
    return VarlenCase(
        q=torch.ones(sum(query_lens), 1, 64, dtype=kind),
        k=torch.zeros(sum(kv_lens), 1, 64, dtype=kind),
        v=torch.cat([positions(kv_len) for kv_len in kv_lens]).to(kind),
        cu_seqlens_q=torch.tensor(list(accumulate(query_lens, initial=0)), dtype=torch.int32),
        cu_seqlens_k=torch.tensor(list(accumulate(kv_lens, initial=0)), dtype=torch.int32),
        expected=column(*expected),
    )


UNIFIED_CASES: dict[str, Callable[[str], EdgeCase]] = {
    "freed blocks before the window, q=1": partial(freed_blocks_before_window, query_len=1),
    "freed blocks before the window, q=3": partial(freed_blocks_before_window, query_len=3),
    **{
        f"unwritten slots, V {v_slots}, K {k_slots}, q={query_len}": partial(
            unwritten_slots, query_len=query_len, v_slots=v_slots, k_slots=k_slots
        )
        for query_len in (1, 17)
        for v_slots, k_slots in ((NAN, 0.0), (INF, 0.0), (INF, NAN))
    },
    "window empties segments": window_empties_segments,
    "softcap saturates": softcap_saturates,
    "softcap before mask": softcap_before_mask,
    "ALiBi distance": partial(alibi_distance, with_sink=False),
    "ALiBi distance with a sink": partial(alibi_distance, with_sink=True),
    **{f"group of {group}": partial(odd_group, group=group) for group in (5, 6, 3, 7)},
    "table entries past one block": partial(entries_past_the_end, kv_len=16, row=[3, -1, 2**31 - 1], expected=7.5),
    "table entries past two blocks": partial(entries_past_the_end, kv_len=17, row=[3, 0, -1], expected=8.0),
    "queries of length zero": queries_of_length_zero,
    "fp8 cache": partial(fp8_scales, q_dtype=None, softcap=0.0, expected=0.440399),
    "fp8 cache, softcap": partial(fp8_scales, q_dtype=None, softcap=1.0, expected=0.361964),
    "fp8 cache and query": partial(fp8_scales, q_dtype="fp8_e4m3", softcap=0.0, expected=0.440399),
    "fp8 cache and query, softcap": partial(fp8_scales, q_dtype="fp8_e4m3", softcap=1.0, expected=0.361964),
    "equal scores of 64": equal_scores_of_64,
    "short window": short_window,
}
MANY_SEQUENCES = thousand_sequences  # for fp32: too many programs to repeat per dtype
HUGE_CASES: dict[str, Callable[[str], EdgeCase]] = {
    f"{kv_dtype or 'compute dtype'} cache, block {block_id}": partial(
        block_beyond_2_gib, kv_dtype=kv_dtype, block_id=block_id
    )
    for kv_dtype in ("fp8_e4m3", None)
    for block_id in (65_535, 65_536, 131_071, 131_072)
}
DENSE_CASES: dict[str, Callable[[str], DenseCase]] = {
    "window past the keys, bottom right": partial(dense_window_past_keys, alignment="bottom_right"),
    "window past the keys, top left": partial(dense_window_past_keys, alignment="top_left"),
}
VARLEN_CASES: dict[str, Callable[[str], VarlenCase]] = {
    "members of length zero": partial(packed, query_lens=[0, 1, 0, 1], kv_lens=[0, 3, 0, 5], expected=[1.0, 2.0]),
    "queries without keys": partial(packed, query_lens=[2, 1], kv_lens=[0, 3], expected=[0.0, 0.0, 1.0]),
}
