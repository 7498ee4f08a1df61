"""The streaming softmax of one query block in float64, tile by tile, and how far a kernel may stray from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from workbench.errors import EmulationError
from workbench.tolerance import FLOAT32_TERM

if TYPE_CHECKING:
    from workbench.gfx950.emulator.state import Array
    from workbench.inputs import UnifiedInputs
    from workbench.problem import UnifiedAttentionProblem

LOG2_E = math.log2(math.e)
BF16_UNIT = 2.0**-8
"""Unit roundoff of bfloat16, which P is rounded to before the second product."""


@dataclass(frozen=True)
class TileState:
    """The recurrence before and after one tile of N keys, for M rows; log2 domain. All float64, keys first."""

    first_key: int
    k: torch.Tensor
    """[N, d] bf16, as in the cache."""
    v: torch.Tensor
    scores: torch.Tensor
    """[N, M] q . k, not scaled."""
    m: torch.Tensor
    """[M] running maximum of the scaled scores, times log2 e."""
    alpha: torch.Tensor
    """[M] 2^(m before - m)."""
    p: torch.Tensor
    """[N, M] 2^(scaled scores - m)."""
    denominator: torch.Tensor
    """[M] running sum of P."""
    rescaled: torch.Tensor
    """[d, M] alpha times the output before."""
    o: torch.Tensor
    """[d, M] rescaled + V^T P."""
    magnitude: torch.Tensor
    """[d, M] the same recurrence on |V|: what errors of P are measured by."""

    def of_rows(self, rows: slice) -> TileState:
        """The state of some of the rows, which are the last axis of all but K and V."""
        shared = ("first_key", "k", "v")
        own = {field.name: getattr(self, field.name)[..., rows] for field in fields(self) if field.name not in shared}
        return replace(self, **own)


def query_rows(problem: UnifiedAttentionProblem, inputs: UnifiedInputs) -> torch.Tensor:
    """[M, d] rows of the block of KV head 0: row r is position r // group and query head r % group."""
    group = problem.num_query_heads // problem.num_kv_heads
    return inputs.q[:, :group].reshape(-1, problem.head_size)


def cached(cache: torch.Tensor, inputs: UnifiedInputs, kv_len: int) -> torch.Tensor:
    """[kv_len, d] of sequence 0 and KV head 0, gathered through the block table."""
    blocks = cache[inputs.block_table[0].long()]
    return blocks[:, :, 0].reshape(-1, cache.shape[-1])[:kv_len]


def streaming_softmax(
    problem: UnifiedAttentionProblem, inputs: UnifiedInputs, tile_size: int, tiles: int
) -> list[TileState]:
    """States of the first `tiles` tiles, all of whose keys every row must see (no mask is applied)."""
    kv_len = problem.seq_lens[0][1]
    k, v = (cached(cache, inputs, kv_len) for cache in (inputs.k_cache, inputs.v_cache))
    q = query_rows(problem, inputs).double()
    scale = (problem.softmax_scale or problem.head_size**-0.5) * LOG2_E
    m = torch.full((len(q),), -torch.inf, dtype=torch.float64)
    denominator = torch.zeros(len(q), dtype=torch.float64)
    o = magnitude = torch.zeros((problem.head_size, len(q)), dtype=torch.float64)
    states = []
    for first in range(0, tiles * tile_size, tile_size):
        k_tile, v_tile = k[first : first + tile_size], v[first : first + tile_size]
        scores = k_tile.double() @ q.T
        m_new = torch.maximum(m, scores.amax(0) * scale)
        alpha, p = torch.exp2(m - m_new), torch.exp2(scores * scale - m_new)
        m, denominator = m_new, alpha * denominator + p.sum(0)
        rescaled = alpha * o
        o = rescaled + v_tile.double().T @ p
        magnitude = alpha * magnitude + v_tile.double().T.abs() @ p
        states.append(TileState(first, k_tile, v_tile, scores, m, alpha, p, denominator, rescaled, o, magnitude))
    return states


@dataclass(frozen=True)
class Check:
    """One quantity of the emulated kernel held against the float64 recurrence."""

    name: str
    max_abs: float
    worst: float
    """Largest error as a share of what is allowed; over 1 is wrong."""
    rule: str
    """What is allowed, and why."""

    @property
    def ok(self) -> bool:
        return self.worst <= 1.0


def check(name: str, actual: Array, expected: torch.Tensor, allowed: torch.Tensor, rule: str) -> Check:
    """Hold an emulated array to |actual - expected| <= allowed, elementwise; NaN is never within."""
    error = (torch.from_numpy(np.asarray(actual, np.float64)) - expected).abs().nan_to_num(nan=torch.inf)
    return Check(name, float(error.max()), float((error / allowed).max()), rule)


def check_scores(name: str, actual: Array, state: TileState, q: torch.Tensor) -> Check:
    """S against q . k: products of bf16 are exact in float32, so only the sum of d products is rounded."""
    magnitude = state.k.double().abs() @ q.double().abs().T
    return check(name, actual, state.scores, FLOAT32_TERM * magnitude, "64 · 2⁻²⁴ of Σ |q k|: float32 sums")


def check_vector(name: str, actual: Array, expected: torch.Tensor) -> Check:
    """m, l and alpha are float32 throughout."""
    allowed = FLOAT32_TERM * expected.abs().clamp_min(1.0)
    return check(name, actual, expected, allowed, "64 · 2⁻²⁴ of max(|x|, 1): float32")


def check_probabilities(name: str, actual: Array, state: TileState) -> Check:
    """P as the second product reads it."""
    allowed = (BF16_UNIT + FLOAT32_TERM) * state.p + 2.0**-126
    return check(name, actual, state.p, allowed, "2⁻⁸ of P: rounded to bf16")


def check_output(name: str, actual: Array, expected: torch.Tensor, magnitude: torch.Tensor) -> Check:
    """O transposed: each P is off by at most 2^-8 of itself, so O by at most 2^-8 of the sum of |V| P."""
    return check(name, actual, expected, (BF16_UNIT + FLOAT32_TERM) * magnitude, "2⁻⁸ of Σ |v| p: P is bf16")


@dataclass(frozen=True)
class Place:
    """Where a block lies in a matrix, and how far its content is from the matrix there."""

    row: int
    column: int
    max_abs: float


def place_of(block: Array, whole: torch.Tensor) -> Place:
    """The aligned place in `whole` [rows, columns] that the square block's content is nearest to."""
    extent = len(block)
    rows, columns = (size // extent for size in whole.shape)
    parts = whole.reshape(rows, extent, columns, extent).transpose(1, 2)
    errors = (parts - torch.from_numpy(np.asarray(block, np.float64))).abs().amax((2, 3))
    best = int(errors.argmin())
    return Place(best // columns * extent, best % columns * extent, float(errors.flatten()[best]))


def order_of(rows: Array, expected: torch.Tensor) -> Array:
    """For each row, the row of `expected` that it holds. EmulationError unless each is held exactly once."""
    actual = torch.from_numpy(np.asarray(rows, np.float64))
    order = (actual[:, None] - expected[None]).abs().amax(2).argmin(1).numpy()
    if sorted(order) != list(range(len(expected))):
        raise EmulationError("the operand does not hold each key of the tile once: this is not the tile's P")
    return order


def find_in_lds(words: Array, tile: torch.Tensor) -> Array:
    """Byte offset of each 8-byte piece of a bf16 tile [N, d] in LDS, [N, d / 4]; -1 where LDS does not hold it."""
    memory = words[: len(words) // 2 * 2].view(np.int64)
    pieces = tile.contiguous().view(torch.int16).numpy().view(np.int64)
    order = np.argsort(memory, kind="stable")
    place = order[np.searchsorted(memory, pieces, sorter=order).clip(max=len(memory) - 1)]
    return np.where(memory[place] == pieces, 8 * place, -1)
