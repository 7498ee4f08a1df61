"""unified_attention: paged, varlen attention on torch tensors, by the 2D or the 3D kernel."""

from __future__ import annotations

import operator
from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from workbench.attention.backends import AttentionResult, device_for, execute, resolve_backend
from workbench.attention.checks import (
    FLOATS,
    FP8,
    as_length,
    as_number,
    check_contiguous,
    check_out,
    check_scale_factor,
    check_tensor,
    check_unit_stride,
    device_of_tensor,
    operand_dtype,
    scale_tensor,
    span_bytes,
)
from workbench.attention.gluon_limits import unified_obstacle
from workbench.dispatch import select_path, select_spec
from workbench.dtypes import TORCH_DTYPES, dtype_name
from workbench.errors import SpecError, TensorError, UnsupportedError
from workbench.input_checks import check_kinds, check_unified_inputs
from workbench.inputs import UnifiedInputs
from workbench.plan_unified import UnifiedCall, plan_2d, plan_3d
from workbench.plan_unified_gfx950 import plan_2d_gfx950
from workbench.problem import COMPUTE_DTYPES, MAX_I32_CACHE_BYTES, UnifiedAttentionProblem
from workbench.spec import Unified2DSpec, Unified3DSpec, require
from workbench.spec_gfx950_unified import Gfx950Unified2DSpec

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.gfx950.emulator import EmulatorOptions
    from workbench.launch import KernelLaunch

LANES = ("auto", "2d", "3d")
UnifiedSpecs = Unified2DSpec | Unified3DSpec | Gfx950Unified2DSpec
MAX_I32_OFFSET = 2**31
"""Elements that a signed 32-bit offset reaches."""


def unified_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor | None = None,
    cu_seqlens_q: torch.Tensor | None = None,
    max_seqlen_q: int = 0,
    seqused_k: torch.Tensor | None = None,
    max_seqlen_k: int = 0,
    softmax_scale: float | None = None,
    causal: bool = True,
    window_size: tuple[int, int] = (-1, -1),
    block_table: torch.Tensor | None = None,
    softcap: float = 0.0,
    q_descale: torch.Tensor | float | None = None,
    k_descale: torch.Tensor | float | None = None,
    v_descale: torch.Tensor | float | None = None,
    alibi_slopes: torch.Tensor | None = None,
    output_scale: torch.Tensor | None = None,
    qq_bias: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    *,
    lane: str = "auto",
    spec: UnifiedSpecs | None = None,
    backend: str = "auto",
    device: Device | None = None,
    emulator: EmulatorOptions | None = None,
) -> torch.Tensor:
    """Causal attention of packed queries over a paged cache; returns `out`, [total_q, Hq, d].

    The argument names are those of AITER's and vLLM's unified_attention. Nothing waits for the GPU, so a call can be
    captured in a graph. Shapes: q [total_q, Hq, d]; k, v [num_blocks, block_size, Hk, d]; cu_seqlens_q [N + 1] and
    seqused_k [N], int32; block_table [N, max_blocks], int32; alibi_slopes, sinks [Hq]; qq_bias [R, R] with
    R >= max_seqlen_q. The last axis of every tensor has stride 1; the other strides of q, k, v, out, block_table and
    qq_bias are free.

    window_size is (keys to the left of a row's own, 0), or (-1, -1) for none. softmax_scale None is 1 / sqrt(d).
    The descales multiply fp8 q, k, v and are single values. q in fp8 needs `out` for its dtype.

    lane: 'auto' follows workbench.dispatch.select_path, '2d' and '3d' force a kernel. spec: how to build it, instead
    of the dispatcher's choice. backend: 'gpu', 'interpreter', 'emulator' (gfx950 code on CPU tensors), or 'auto' by
    where q lives. device: a device description to dispatch for, instead of the one that holds q. emulator: options of
    that backend.

    Raises TensorError, ProblemError, SpecError, UnsupportedError or BackendUnavailable before anything runs.
    """
    if output_scale is not None:
        raise UnsupportedError("output_scale (quantised output) is not supported; pass None and quantise afterwards")
    if not causal:
        raise UnsupportedError("unified attention is causal; for causal=False use workbench.dense_attention")
    call = checked_call(
        q, k, v, out, cu_seqlens_q, max_seqlen_q, seqused_k, max_seqlen_k, softmax_scale, window_size, block_table,
        softcap, q_descale, k_descale, v_descale, alibi_slopes, qq_bias, sinks,
    )  # fmt: skip
    return _run(call, _problem(call), lane, spec, backend, device, emulator).out


def run_unified(
    problem: UnifiedAttentionProblem,
    inputs: UnifiedInputs,
    *,
    lane: str = "auto",
    spec: UnifiedSpecs | None = None,
    backend: str = "auto",
    device: Device | None = None,
    emulator: EmulatorOptions | None = None,
    out: torch.Tensor | None = None,
) -> AttentionResult:
    """The same call on a problem and its inputs; also returns what was chosen and why."""
    check_kinds(problem, UnifiedAttentionProblem, inputs, UnifiedInputs)
    window = problem.sliding_window
    if out is None:
        out = torch.empty(inputs.q.shape, dtype=TORCH_DTYPES[problem.dtype], device=inputs.q.device)
    call = checked_call(
        inputs.q, inputs.k_cache, inputs.v_cache, out, inputs.cu_seqlens_q, problem.max_query_len, inputs.seqused_k,
        problem.max_kv_len, problem.softmax_scale, (-1, -1) if window is None else (window - 1, 0),
        inputs.block_table, problem.softcap, inputs.q_scale, inputs.k_scale, inputs.v_scale,
        inputs.alibi_slopes if problem.use_alibi else None, inputs.qq_bias if problem.use_qq_bias else None,
        inputs.sinks if problem.use_sinks else None,
    )  # fmt: skip
    check_unified_inputs(problem, inputs)
    return _run(call, problem, lane, spec, backend, device, emulator)


def plan_unified(
    call: UnifiedCall, problem: UnifiedAttentionProblem, spec: UnifiedSpecs, *, i64: bool | None = None
) -> list[KernelLaunch]:
    """The launches of a checked call; raises SpecError if the spec does not fit the problem."""
    spec.check(problem)
    span = max(span_bytes(call.k), span_bytes(call.v))
    too_far = span > MAX_I32_CACHE_BYTES
    if too_far and spec.i64_addressing is False:
        raise SpecError("i64_addressing=False would wrap: the cache view spans over 2^31 bytes; leave it None")
    if i64 is None:
        i64 = too_far or spec.uses_i64(problem)
    if isinstance(spec, Unified3DSpec):
        return plan_3d(call, spec, i64=i64)
    if isinstance(spec, Gfx950Unified2DSpec):
        require(
            spec.fast_paged_kv_desc or span < MAX_I32_CACHE_BYTES,
            "fast_paged_kv_desc=False reaches less than 2^31 bytes, and the cache view spans as many; set it True",
        )
        return plan_2d_gfx950(call, spec, i64=i64)
    return plan_2d(call, spec, i64=i64)


def _run(
    call: UnifiedCall,
    problem: UnifiedAttentionProblem,
    lane: str,
    spec: UnifiedSpecs | None,
    backend: str,
    device: Device | None,
    emulator: EmulatorOptions | None,
) -> AttentionResult:
    backend = resolve_backend(backend, call.q, emulator)
    device = device or device_for(backend, call.q)
    given = spec is not None
    lane, spec, reasons = _choose(problem, lane, spec, device)
    if isinstance(spec, Gfx950Unified2DSpec) and (obstacle := unified_obstacle(call, spec)):
        if given:
            raise UnsupportedError(f"{obstacle}; use Unified2DSpec")
        choice = select_spec(problem, device, lane, portable=True)
        spec, reasons = choice.spec, (*choice.reasons, f"Not the Gluon kernel: {obstacle}.")
    launches = plan_unified(call, problem, spec)
    emulation = execute(launches, backend, call.q, emulator) if call.q.shape[0] > 0 else ()
    return AttentionResult(call.out, lane, spec, backend, reasons, emulation)


def _choose(
    problem: UnifiedAttentionProblem, lane: str, spec: UnifiedSpecs | None, device: Device | None
) -> tuple[str, UnifiedSpecs, tuple[str, ...]]:
    if lane not in LANES:
        raise SpecError(f"lane must be one of {', '.join(LANES)}, got {lane!r}")
    if spec is not None:
        if not isinstance(spec, UnifiedSpecs):
            raise SpecError(
                f"spec must be a Unified2DSpec, a Unified3DSpec or a Gfx950Unified2DSpec, got {type(spec).__name__}"
            )
        if isinstance(spec, Gfx950Unified2DSpec | Unified3DSpec):
            spec.check_device(device)
        spec_lane = "3d" if isinstance(spec, Unified3DSpec) else "2d"
        if lane not in ("auto", spec_lane):
            raise SpecError(f"lane {lane!r} and a {type(spec).__name__} contradict each other; drop one of them")
        return spec_lane, spec, ("The spec was given.",)
    reasons: tuple[str, ...] = ("The lane was given.",)
    if lane == "auto":
        path = select_path(problem, device)
        lane, reasons = path.lane, path.reasons
    choice = select_spec(problem, device, lane)
    return lane, choice.spec, reasons + choice.reasons


def _problem(call: UnifiedCall) -> UnifiedAttentionProblem:
    """The problem behind a call. On a GPU the lengths stay unread: the caller's bounds stand in for them."""
    if call.q.device.type == "cpu":
        starts = call.cu_seqlens_q.tolist()
        query_lens = [end - start for start, end in pairwise(starts)]
        seq_lens = tuple(zip(query_lens, call.seqused_k.tolist(), strict=True))
    else:
        seq_lens = _bounded_seq_lens(call)
    return UnifiedAttentionProblem(
        seq_lens=seq_lens,
        num_query_heads=call.num_query_heads,
        num_kv_heads=call.num_kv_heads,
        head_size=call.head_size,
        block_size=call.k.shape[1],
        dtype=call.compute_dtype,  # type: ignore[arg-type]
        q_dtype=dtype_name(call.q.dtype),  # type: ignore[arg-type]
        kv_dtype=dtype_name(call.k.dtype),  # type: ignore[arg-type]
        softmax_scale=call.softmax_scale,
        softcap=call.softcap,
        sliding_window=call.sliding_window,
        use_alibi=call.alibi_slopes is not None,
        use_qq_bias=call.qq_bias is not None,
        use_sinks=call.sinks is not None,
        qq_bias_size=call.qq_bias.shape[0] if call.qq_bias is not None else None,
        num_blocks=call.k.shape[0],
    )


def _bounded_seq_lens(call: UnifiedCall) -> tuple[tuple[int, int], ...]:
    """Lengths with the call's totals: as many queries of the longest length as fit, every key length the longest."""
    left = call.q.shape[0]
    seq_lens = []
    for _ in range(call.num_seqs):
        query_len = min(left, call.max_query_len)
        left -= query_len
        seq_lens.append((query_len, call.max_kv_len))
    return tuple(seq_lens)


def checked_call(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor | None,
    cu_seqlens_q: torch.Tensor | None,
    max_seqlen_q: int,
    seqused_k: torch.Tensor | None,
    max_seqlen_k: int,
    softmax_scale: float | None,
    window_size: tuple[int, int],
    block_table: torch.Tensor | None,
    softcap: float,
    q_scale: torch.Tensor | float | None,
    k_scale: torch.Tensor | float | None,
    v_scale: torch.Tensor | float | None,
    alibi_slopes: torch.Tensor | None,
    qq_bias: torch.Tensor | None,
    sinks: torch.Tensor | None,
) -> UnifiedCall:
    """Check every argument of unified_attention and gather them; raises TensorError."""
    operands = (torch.float8_e4m3fn, *FLOATS)
    check_tensor("q", q, (None, None, None), operands, device_of_tensor("q", q))
    check_tensor("k", k, (None, None, None, q.shape[2]), operands, q.device)
    check_tensor("v", v, tuple(k.shape), (k.dtype,), q.device)
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        check_unit_stride(name, tensor)
    q_dtype, kv_dtype = operand_dtype("q", q), operand_dtype("k", k)
    compute = _compute_dtype(q_dtype, kv_dtype, out)
    if seqused_k is None or cu_seqlens_q is None or block_table is None:
        raise TensorError("cu_seqlens_q, seqused_k and block_table are needed: the cache is paged and varlen")
    check_tensor("seqused_k", seqused_k, (None,), (torch.int32,), q.device)
    num_seqs = seqused_k.shape[0]
    check_tensor("cu_seqlens_q", cu_seqlens_q, (num_seqs + 1,), (torch.int32,), q.device)
    check_tensor("block_table", block_table, (num_seqs, None), (torch.int32,), q.device)
    check_contiguous("seqused_k", seqused_k)
    check_contiguous("cu_seqlens_q", cu_seqlens_q)
    check_unit_stride("block_table", block_table)
    max_seqlen_q, max_seqlen_k = as_length("max_seqlen_q", max_seqlen_q), as_length("max_seqlen_k", max_seqlen_k)
    sliding_window = _sliding_window(window_size)
    _check_vectors(q, alibi_slopes, qq_bias, sinks, max_seqlen_q)
    _check_lengths(q, k, cu_seqlens_q, seqused_k, block_table, max_seqlen_q, max_seqlen_k)
    if q.device.type == "cpu":
        _check_block_ids(k, cu_seqlens_q, seqused_k, block_table, sliding_window)
    out = check_out("out", out, q, TORCH_DTYPES[compute])
    _check_offsets(q, out, qq_bias, min(max_seqlen_q, q.shape[0]))
    return UnifiedCall(
        q=q,
        k=k,
        v=v,
        out=out,
        cu_seqlens_q=cu_seqlens_q,
        seqused_k=seqused_k,
        block_table=block_table,
        max_query_len=max_seqlen_q,
        max_kv_len=max_seqlen_k,
        softmax_scale=check_scale_factor(
            "softmax_scale", max(q.shape[2], 1) ** -0.5 if softmax_scale is None else softmax_scale
        ),
        softcap=as_number("softcap", softcap or 0.0),
        sliding_window=sliding_window,
        compute_dtype=compute,
        alibi_slopes=alibi_slopes,
        qq_bias=qq_bias,
        sinks=sinks,
        q_scale=scale_tensor("q_descale", q_scale, q, q_dtype),
        k_scale=scale_tensor("k_descale", k_scale, k, kv_dtype),
        v_scale=scale_tensor("v_descale", v_scale, v, kv_dtype),
    )


def _compute_dtype(q_dtype: str, kv_dtype: str, out: torch.Tensor | None) -> str:
    """q's dtype, or the output's where q is fp8."""
    if q_dtype != FP8:
        compute = q_dtype
    elif out is not None:
        compute = operand_dtype("out", out)
    else:
        raise TensorError("q is fp8, so the output's dtype is open: pass out= in float16 or bfloat16")
    if compute not in COMPUTE_DTYPES:
        raise TensorError(f"out must be one of {', '.join(COMPUTE_DTYPES)}, got {compute}")
    if kv_dtype not in (compute, FP8):
        raise TensorError(f"the cache must be {compute} like q, or {FP8}; got {kv_dtype}")
    return compute


def _check_vectors(
    q: torch.Tensor,
    alibi_slopes: torch.Tensor | None,
    qq_bias: torch.Tensor | None,
    sinks: torch.Tensor | None,
    max_query_len: int,
) -> None:
    heads = (q.shape[1],)
    if alibi_slopes is not None:
        check_tensor("alibi_slopes", alibi_slopes, heads, (torch.float32,), q.device)
    if sinks is not None:
        check_tensor("sinks", sinks, heads, FLOATS, q.device)
    for name, vector in (("alibi_slopes", alibi_slopes), ("sinks", sinks)):
        if vector is not None:
            check_contiguous(name, vector)
    if qq_bias is not None:
        check_tensor("qq_bias", qq_bias, (None, None), (torch.float32,), q.device)
        check_unit_stride("qq_bias", qq_bias)
        if qq_bias.shape[0] != qq_bias.shape[1] or qq_bias.shape[0] < max_query_len:
            raise TensorError(
                f"qq_bias must be square and cover max_seqlen_q {max_query_len}, got {list(qq_bias.shape)}"
            )


def _check_lengths(
    q: torch.Tensor,
    k: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    seqused_k: torch.Tensor,
    block_table: torch.Tensor,
    max_query_len: int,
    max_kv_len: int,
) -> None:
    """Bounds that the host knows; on the CPU also the lengths themselves, which cost nothing to read."""
    if q.shape[1] % max(k.shape[2], 1):
        raise TensorError(f"query heads must be a multiple of KV heads, got {q.shape[1]} and {k.shape[2]}")
    width, block_size = block_table.shape[1], k.shape[1]
    capacity = width * block_size
    if seqused_k.device.type == "cpu" and seqused_k.numel():
        longest = int(seqused_k.argmax())
        kv_len = int(seqused_k[longest])
        if kv_len > capacity:
            raise TensorError(
                f"sequence {longest} has {kv_len} keys, but its block-table row of width {width} holds {capacity} "
                f"({block_size} per block); widen block_table"
            )
        first, last = int(cu_seqlens_q[0]), int(cu_seqlens_q[-1])
        if first != 0 or last > q.shape[0]:
            raise TensorError(
                f"cu_seqlens_q must start at 0 and end at no more than the {q.shape[0]} query tokens, "
                f"got {first} and {last}"
            )
        query_len = int((cu_seqlens_q[1:] - cu_seqlens_q[:-1]).max())
        for name, given, actual in (("max_seqlen_q", max_query_len, query_len), ("max_seqlen_k", max_kv_len, kv_len)):
            if given < actual:
                raise TensorError(f"{name} is {given}, but a sequence has length {actual}")
    if max_kv_len > capacity:
        raise TensorError(
            f"max_seqlen_k {max_kv_len} exceeds the {capacity} keys of a block-table row of width {width} "
            f"({block_size} per block); widen block_table or correct max_seqlen_k"
        )
    if max_query_len < 1 <= q.shape[0]:
        raise TensorError(f"max_seqlen_q must be at least 1 for {q.shape[0]} query tokens, got {max_query_len}")


def _check_block_ids(
    k: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    seqused_k: torch.Tensor,
    block_table: torch.Tensor,
    sliding_window: int | None,
) -> None:
    """The blocks that are read lie in the cache; what stands beside them in the table may be anything."""
    lens, queries = seqused_k.long(), (cu_seqlens_q[1:] - cu_seqlens_q[:-1]).long()
    first_key = torch.zeros_like(lens)
    if sliding_window is not None:
        first_key = (lens - queries + 1 - sliding_window).clamp(min=0)
    keys = torch.arange(block_table.shape[1]) * k.shape[1]
    is_read = (keys + k.shape[1] > first_key[:, None]) & (keys < lens[:, None]) & (queries > 0)[:, None]
    outside = is_read & ((block_table < 0) | (block_table >= k.shape[0]))
    if bool(outside.any()):
        sequence, entry = (int(index) for index in outside.nonzero()[0])
        raise TensorError(
            f"block_table[{sequence}, {entry}] is {int(block_table[sequence, entry])}, but the cache has blocks 0 to "
            f"{k.shape[0] - 1}"
        )


def _check_offsets(q: torch.Tensor, out: torch.Tensor, qq_bias: torch.Tensor | None, longest: int) -> None:
    """The kernels reach a row from its sequence's first one in 32 bits."""
    for name, tensor in (("q", q), ("out", out), ("qq_bias", qq_bias)):
        if tensor is not None and longest * tensor.stride(0) > MAX_I32_OFFSET:
            raise UnsupportedError(
                f"a query of {longest} tokens spans over 2^31 elements of {name} (token stride {tensor.stride(0)}); "
                "split it into chunks over several calls"
            )


def _sliding_window(window_size: tuple[int, int]) -> int | None:
    try:
        left, right = map(operator.index, window_size)
    except (TypeError, ValueError):
        raise TensorError(
            f"window_size must be two integers: (-1, -1), or (left, 0) with left >= 0; got {window_size!r}"
        ) from None
    if (left, right) == (-1, -1):
        return None
    if left < 0 or right > 0:
        raise UnsupportedError(
            f"window_size must be (-1, -1), or (left, 0) with left >= 0 keys before a row's own; got {window_size}"
        )
    return left + 1
