"""Attention of one sequence in eager PyTorch: the seven steps of specification §1 in their order.

Nothing here streams or tiles the softmax: a chunk of query rows meets all of its keys at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

_SCORE_ELEMENTS = 2**24  # scores of one chunk of rows: 128 MiB in float64


@dataclass(frozen=True)
class Precision:
    """Where values are rounded."""

    arithmetic: torch.dtype
    """Of scores, softmax and sums."""
    operand: torch.dtype
    """To which both operands of each matrix product are rounded before it."""
    output: torch.dtype

    @classmethod
    def exact(cls, dtype: torch.dtype) -> Precision:
        """One dtype throughout."""
        return cls(arithmetic=dtype, operand=dtype, output=dtype)

    @classmethod
    def low(cls, dtype: torch.dtype) -> Precision:
        """Operands and output in `dtype`, the rest in float32."""
        return cls(arithmetic=torch.float32, operand=dtype, output=dtype)

    def rounded(self, values: torch.Tensor) -> torch.Tensor:
        """As a product sees them; the product itself is carried out, and accumulated, in `arithmetic`."""
        return values.to(self.operand).to(self.arithmetic)

    def dequantised(self, stored: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
        """Stored values times their scale, rounded."""
        values = stored.to(self.arithmetic)
        return self.rounded(values if scale is None else values * scale.to(self.arithmetic))


@dataclass(frozen=True)
class Rules:
    """What happens to a score between the two products."""

    scale: float
    causal: bool = True
    window: int | None = None
    """Keys that a row sees, the one at its own position included."""
    softcap: float = 0.0
    alibi_slopes: torch.Tensor | None = None
    """[Hq]"""
    qq_bias: torch.Tensor | None = None
    """[R, R]"""
    sinks: torch.Tensor | None = None
    """[Hq]"""

    def visible_keys(self, first_position: int, last_position: int, num_keys: int) -> tuple[int, int]:
        """Keys start .. stop - 1 that some row between the two positions sees; start == stop if there is none."""
        if not self.causal:
            return 0, num_keys
        start = max(0, first_position - self.window + 1) if self.window is not None else 0
        stop = min(num_keys, last_position + 1)
        return start, max(start, stop)


@dataclass(frozen=True)
class Sequence:
    """Operands of one sequence, rounded. Row i stands at position i + offset, k[j] at position first_key + j."""

    q: torch.Tensor
    """[n, Hq, d]"""
    k: torch.Tensor
    """[m, Hk, d]"""
    v: torch.Tensor
    """[m, Hk, d]"""
    offset: int
    """Context length: the position of row 0. Negative where the first rows stand before the first key."""
    first_key: int = 0


@contextmanager
def ieee_float32() -> Iterator[None]:
    """No TF32 in float32 products, whatever the caller's setting."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def attend(sequence: Sequence, rules: Rules, precision: Precision, out: torch.Tensor) -> None:
    """Write the sequence's attention to out [n, Hq, d]. A row that sees no key becomes 0, with sinks too."""
    num_rows, num_heads, _ = sequence.q.shape
    num_keys = sequence.k.shape[0]
    chunk = max(1, _SCORE_ELEMENTS // max(1, num_heads * num_keys))
    finite_v = bool(torch.isfinite(sequence.v).all())
    for first in range(0, num_rows, chunk):
        _attend_rows(sequence, rules, precision, first, min(first + chunk, num_rows), finite_v, out)


def _attend_rows(
    sequence: Sequence, rules: Rules, precision: Precision, first: int, stop: int, finite_v: bool, out: torch.Tensor
) -> None:
    """Rows first .. stop - 1, against the keys that some of them see."""
    num_keys = sequence.first_key + sequence.k.shape[0]
    key_start, key_stop = rules.visible_keys(first + sequence.offset, stop - 1 + sequence.offset, num_keys)
    if key_start == key_stop:
        out[first:stop] = 0
        return
    held = slice(key_start - sequence.first_key, key_stop - sequence.first_key)
    v = sequence.v[held]
    if not finite_v and stop - first > 1 and not bool(torch.isfinite(v).all()):
        # 0 x NaN is NaN: rows that do not see such a value must not meet it. One row meets only what it sees.
        middle = (first + stop) // 2
        _attend_rows(sequence, rules, precision, first, middle, finite_v, out)
        _attend_rows(sequence, rules, precision, middle, stop, finite_v, out)
        return
    q = sequence.q[first:stop]
    rows = torch.arange(first, stop, device=q.device)
    positions = torch.arange(key_start, key_stop, device=q.device)
    scores = _scores(q, sequence.k[held], rows, positions, sequence.offset, rules)
    weights = _softmax(scores, rules.sinks)
    # [Hk, g * rows, keys] x [Hk, keys, d]
    values = precision.rounded(weights).flatten(1, 2) @ v.permute(1, 0, 2)
    values = values.unflatten(1, weights.shape[1:3]).permute(2, 0, 1, 3)
    out[first:stop] = values.reshape(q.shape).to(out.dtype)


def _scores(
    q: torch.Tensor, k: torch.Tensor, rows: torch.Tensor, positions: torch.Tensor, context: int, rules: Rules
) -> torch.Tensor:
    """Steps 1 to 6: [Hk, g, rows, keys], -inf where a row does not see a key."""
    num_rows, num_heads, head_size = q.shape
    num_kv_heads = k.shape[1]
    group = num_heads // num_kv_heads
    grouped_q = q.reshape(num_rows, num_kv_heads, group, head_size).permute(1, 2, 0, 3)
    # [Hk, g * rows, d] x [Hk, d, keys]: the heads of a group share their keys without a copy of them.
    products = grouped_q.flatten(1, 2) @ k.permute(1, 2, 0)
    scores = rules.scale * products.unflatten(1, (group, num_rows))
    if rules.softcap > 0:
        scores = rules.softcap * torch.tanh(scores / rules.softcap)
    if rules.alibi_slopes is not None:
        slopes = rules.alibi_slopes.to(scores.dtype).view(num_kv_heads, -1, 1, 1)
        scores = scores + slopes * (positions - context)
    if rules.qq_bias is not None:
        scores = scores + _qq_bias(rules.qq_bias.to(scores.dtype), rows, positions - context)
    if rules.causal:
        distance = (rows + context)[:, None] - positions[None, :]
        visible = distance >= 0
        if rules.window is not None:
            visible &= distance < rules.window
        scores = scores.masked_fill(~visible, -torch.inf)
    return scores


def _qq_bias(bias: torch.Tensor, rows: torch.Tensor, key_tokens: torch.Tensor) -> torch.Tensor:
    """[rows, keys]: bias[row, key token] inside the query section, 0 in the context before it."""
    size = bias.shape[1]
    inside = (key_tokens >= 0) & (key_tokens < size)
    return bias[rows][:, key_tokens.clamp(0, size - 1)].masked_fill(~inside, 0)


def _softmax(scores: torch.Tensor, sinks: torch.Tensor | None) -> torch.Tensor:
    """Step 7 and the softmax; a sink adds to the denominator alone. All zeros for a row without a visible key."""
    highest = scores.amax(-1, keepdim=True)
    if sinks is not None:
        logits = sinks.to(scores.dtype).view(*scores.shape[:2], 1, 1)
        highest = torch.maximum(highest, logits)
    highest = highest.masked_fill(highest == -torch.inf, 0)
    weights = torch.exp(scores - highest)
    total = weights.sum(-1, keepdim=True)
    if sinks is not None:
        total = total + torch.exp(logits - highest)
    return weights / total.masked_fill(total == 0, 1)
