"""What is to be computed: shapes, dtypes, masks and biases, frozen and validated.

A problem says nothing about how a kernel is built (that is a spec) or where it runs (a device).
Axis names are the specification's: query heads Hq, KV heads Hk, head size d, block size b, group g = Hq / Hk.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace
from typing import Literal

from workbench.errors import ProblemError
from workbench.field_types import check_field_names, check_field_types

Dtype = Literal["fp16", "bf16", "fp32", "fp8_e4m3"]
CausalAlignment = Literal["bottom_right", "top_left"]

DTYPE_BYTES: dict[str, int] = {"fp16": 2, "bf16": 2, "fp32": 4, "fp8_e4m3": 1}
COMPUTE_DTYPES = ("fp16", "bf16", "fp32")
BLOCK_SIZES = (16, 32, 64, 128)
MAX_HEAD_SIZE = 256

# A 32-bit buffer offset reaches this many bytes (specification §7.2).
MAX_I32_CACHE_BYTES = 2**31


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ProblemError(message)


LONGEST_LENGTH = 2**31 - 1


def check_problem(problem: object, kind: type) -> None:
    """Raise ProblemError for what is no problem of that kind."""
    if not isinstance(problem, kind):
        raise ProblemError(f"problem must be a {kind.__name__}, got {type(problem).__name__}")


def _check_int(name: str, value: object, minimum: int) -> None:
    _require(
        isinstance(value, int) and not isinstance(value, bool) and value >= minimum,
        f"{name} must be an integer >= {minimum}, got {value!r}",
    )


def _check_heads(num_query_heads: int, num_kv_heads: int, head_size: int) -> None:
    _check_int("num_query_heads", num_query_heads, 1)
    _check_int("num_kv_heads", num_kv_heads, 1)
    _check_int("head_size", head_size, 1)
    _require(
        num_query_heads % num_kv_heads == 0,
        f"num_query_heads must be a multiple of num_kv_heads, got {num_query_heads} and {num_kv_heads}",
    )
    _require(head_size <= MAX_HEAD_SIZE, f"head_size must be at most {MAX_HEAD_SIZE}, got {head_size}")


def _check_scale(value: float | None) -> None:
    _require(
        value is not None and 0.0 < value < math.inf,
        f"softmax_scale must be a finite number greater than 0, got {value!r}",
    )


def _check_dtype(name: str, value: str | None, accepted: tuple[str, ...]) -> None:
    _require(value in accepted, f"{name} must be one of {', '.join(accepted)}, got {value!r}")


@dataclass(frozen=True)
class UnifiedAttentionProblem:
    """Paged, varlen attention over a block-table KV cache (specification §0, §1). Always causal.

    Row i of a sequence with query length n and context c = kv_len - n stands at position c + i.
    """

    seq_lens: tuple[tuple[int, int], ...]
    """(query_len, kv_len) of each sequence; kv_len counts the query tokens too."""
    num_query_heads: int
    num_kv_heads: int
    head_size: int
    block_size: int
    """Tokens in one cache block."""
    dtype: Dtype = "bf16"
    """Compute dtype: of the output, and of q and the cache unless the next two fields say otherwise."""
    q_dtype: Dtype | None = None
    kv_dtype: Dtype | None = None
    softmax_scale: float | None = None
    """tau; None means 1 / sqrt(head_size)."""
    softcap: float = 0.0
    """c of c * tanh(s / c); 0 turns it off."""
    sliding_window: int | None = None
    """Number of keys a row sees, its own included. The specification's W counts the keys before it: W + 1 here."""
    use_alibi: bool = False
    use_qq_bias: bool = False
    use_sinks: bool = False
    qq_bias_size: int | None = None
    """Extent of the square QQ-bias; None means the longest query."""
    num_blocks: int | None = None
    """Blocks in the cache; None means just enough for the sequences."""

    def __post_init__(self) -> None:
        check_field_types(self, ProblemError, (bool, float))
        _check_heads(self.num_query_heads, self.num_kv_heads, self.head_size)
        _require(
            self.block_size in BLOCK_SIZES,
            f"block_size must be one of {', '.join(map(str, BLOCK_SIZES))}, got {self.block_size!r}",
        )
        _check_dtype("dtype", self.dtype, COMPUTE_DTYPES)
        object.__setattr__(self, "q_dtype", self.q_dtype or self.dtype)
        object.__setattr__(self, "kv_dtype", self.kv_dtype or self.dtype)
        _check_dtype("q_dtype", self.q_dtype, (self.dtype, "fp8_e4m3"))
        _check_dtype("kv_dtype", self.kv_dtype, (self.dtype, "fp8_e4m3"))
        self._check_seq_lens()
        if self.softmax_scale is None:
            object.__setattr__(self, "softmax_scale", self.head_size**-0.5)
        _check_scale(self.softmax_scale)
        _require(
            0.0 <= self.softcap < math.inf, f"softcap must be finite and >= 0 (0 turns it off), got {self.softcap!r}"
        )
        if self.sliding_window is not None:
            _check_int("sliding_window", self.sliding_window, 1)
        self._check_qq_bias()
        if self.num_blocks is None:
            object.__setattr__(self, "num_blocks", max(self.blocks_needed, 1))
        _check_int("num_blocks", self.num_blocks, 1)

    def _check_seq_lens(self) -> None:
        try:
            seq_lens = tuple((operator.index(query_len), operator.index(kv_len)) for query_len, kv_len in self.seq_lens)
        except (TypeError, ValueError):
            raise ProblemError(
                f"seq_lens must be pairs of integers (query_len, kv_len), got {self.seq_lens!r}"
            ) from None
        _require(len(seq_lens) > 0, "seq_lens must hold at least one (query_len, kv_len)")
        for index, (query_len, kv_len) in enumerate(seq_lens):
            _require(
                0 <= query_len <= kv_len,
                f"sequence {index}: need 0 <= query_len <= kv_len, got query_len {query_len} and kv_len {kv_len}",
            )
            _require(
                kv_len <= LONGEST_LENGTH,
                f"sequence {index}: kv_len must be at most {LONGEST_LENGTH}, got {kv_len}: lengths are int32",
            )
        object.__setattr__(self, "seq_lens", seq_lens)

    def _check_qq_bias(self) -> None:
        if not self.use_qq_bias:
            _require(self.qq_bias_size is None, "qq_bias_size is given but use_qq_bias is off")
            return
        if self.qq_bias_size is None:
            object.__setattr__(self, "qq_bias_size", max(self.max_query_len, 1))
        _check_int("qq_bias_size", self.qq_bias_size, 1)
        _require(
            self.qq_bias_size >= self.max_query_len,  # type: ignore[operator]
            f"qq_bias_size must cover the longest query ({self.max_query_len}), got {self.qq_bias_size}",
        )

    @property
    def num_seqs(self) -> int:
        return len(self.seq_lens)

    @property
    def total_query_tokens(self) -> int:
        return sum(query_len for query_len, _ in self.seq_lens)

    @property
    def max_query_len(self) -> int:
        return max(query_len for query_len, _ in self.seq_lens)

    @property
    def max_kv_len(self) -> int:
        return max(kv_len for _, kv_len in self.seq_lens)

    @property
    def group_size(self) -> int:
        """g: query heads per KV head."""
        return self.num_query_heads // self.num_kv_heads

    @property
    def blocks_needed(self) -> int:
        return sum(-(-kv_len // self.block_size) for _, kv_len in self.seq_lens)

    @property
    def cache_bytes(self) -> int:
        """Bytes of the key cache alone: num_blocks * block_size * num_kv_heads * head_size * element size."""
        elements = self.num_blocks * self.block_size * self.num_kv_heads * self.head_size  # type: ignore[operator]
        return elements * DTYPE_BYTES[self.kv_dtype]  # type: ignore[index]

    @property
    def needs_i64_addressing(self) -> bool:
        """True once the key cache exceeds 2 GiB (specification §7.2)."""
        return self.cache_bytes > MAX_I32_CACHE_BYTES

    def with_changes(self, **changes: object) -> UnifiedAttentionProblem:
        """A copy with some fields changed, validated again. Derived defaults stay as they are."""
        check_field_names(self, ProblemError, changes)
        return replace(self, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class DenseAttentionProblem:
    """Contiguous [B, S, H, d] attention (specification §8)."""

    batch: int
    num_query_heads: int
    num_kv_heads: int
    seqlen_q: int
    seqlen_kv: int
    head_size: int
    causal: bool = True
    dtype: Dtype = "bf16"
    alignment: CausalAlignment = "bottom_right"
    """Where the causal diagonal ends when seqlen_q != seqlen_kv; also the origin of the sliding window."""
    softmax_scale: float | None = None
    sliding_window: int | None = None
    """Number of keys a row sees, its own position included; needs causal."""
    use_sinks: bool = False

    def __post_init__(self) -> None:
        check_field_types(self, ProblemError, (bool, float))
        _check_int("batch", self.batch, 1)
        _check_heads(self.num_query_heads, self.num_kv_heads, self.head_size)
        _check_int("seqlen_q", self.seqlen_q, 0)
        _check_int("seqlen_kv", self.seqlen_kv, 0)
        longest = max(self.seqlen_q, self.seqlen_kv)
        _require(
            longest <= LONGEST_LENGTH,
            f"a sequence has at most {LONGEST_LENGTH} tokens, got {longest}: lengths are int32",
        )
        _check_dtype("dtype", self.dtype, COMPUTE_DTYPES)
        _require(
            self.alignment in ("bottom_right", "top_left"),
            f"alignment must be 'bottom_right' or 'top_left', got {self.alignment!r}",
        )
        if self.softmax_scale is None:
            object.__setattr__(self, "softmax_scale", self.head_size**-0.5)
        _check_scale(self.softmax_scale)
        if self.sliding_window is not None:
            _check_int("sliding_window", self.sliding_window, 1)
            _require(self.causal, "sliding_window needs causal=True")

    @property
    def group_size(self) -> int:
        """g: query heads per KV head."""
        return self.num_query_heads // self.num_kv_heads

    @property
    def causal_offset(self) -> int:
        """Row i sees keys up to i + causal_offset."""
        return self.seqlen_kv - self.seqlen_q if self.alignment == "bottom_right" else 0

    def with_changes(self, **changes: object) -> DenseAttentionProblem:
        """A copy with some fields changed, validated again."""
        check_field_names(self, ProblemError, changes)
        return replace(self, **changes)  # type: ignore[arg-type]
