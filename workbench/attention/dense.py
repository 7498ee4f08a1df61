"""dense_attention: contiguous attention on torch tensors, rectangular or packed, by the dense kernel."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from workbench.attention.backends import AttentionResult, device_for, execute, resolve_backend
from workbench.attention.checks import (
    FLOATS,
    check_contiguous,
    check_out,
    check_scale_factor,
    check_tensor,
    check_unit_stride,
    device_of_tensor,
    operand_dtype,
)
from workbench.attention.gluon_limits import dense_obstacle, tensor_map_obstacle
from workbench.dispatch import select_dense_spec, select_work_order
from workbench.errors import SpecError, TensorError, UnsupportedError
from workbench.input_checks import check_dense_inputs
from workbench.launch import MAX_GRID_YZ
from workbench.plan_dense import DenseCall, WorkOrder, num_work_items, plan_dense
from workbench.problem import DenseAttentionProblem
from workbench.spec import DenseGeometry
from workbench.spec_gfx950 import Gfx950DenseSpec
from workbench.spec_sm90 import Sm90DenseSpec

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.gfx950.emulator import EmulatorOptions
    from workbench.inputs import DenseInputs
    from workbench.problem import CausalAlignment


def dense_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    softmax_scale: float | None = None,
    causal: bool = True,
    alignment: CausalAlignment = "bottom_right",
    sliding_window: int | None = None,
    sinks: torch.Tensor | None = None,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k: torch.Tensor | None = None,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    out: torch.Tensor | None = None,
    spec: DenseGeometry | None = None,
    backend: str = "auto",
    device: Device | None = None,
    emulator: EmulatorOptions | None = None,
) -> torch.Tensor:
    """Attention over contiguous keys and values; returns `out`, shaped like q.

    Rectangular: q [B, Sq, Hq, d]; k, v [B, Sk, Hk, d]. Packed: q [Tq, Hq, d]; k, v [Tk, Hk, d] with the running
    lengths cu_seqlens_q and cu_seqlens_k, int32 [N + 1] from 0 to Tq and Tk, and max_seqlen_q; members may be empty.
    All of one dtype (float16, bfloat16 or float32); Hq is a multiple of Hk. Head channels have stride 1, all other
    strides are free. sinks: [Hq] logits.

    Row i sees the keys up to i + Sk - Sq ('bottom_right') or up to i ('top_left'); with sliding_window only the last
    so many of them; with causal=False all keys. A row that sees no key is 0. softmax_scale None is 1 / sqrt(d).

    max_seqlen_q bounds the members' queries, max_seqlen_k their keys (only the choice of a spec asks for it). spec:
    how to build the kernel, instead of the dispatcher's choice. backend: 'gpu', 'interpreter', 'emulator', or 'auto' by
    where q lives. device: a device description to dispatch for, instead of the one that holds q. emulator: options of
    that backend. Nothing waits for the GPU.

    Raises TensorError, ProblemError, SpecError, UnsupportedError or BackendUnavailable before anything runs.
    """
    call = checked_dense_call(
        q, k, v, out, softmax_scale, causal, alignment, sliding_window, sinks, cu_seqlens_q, cu_seqlens_k, max_seqlen_q
    )
    longest_kv = k.shape[-3] if max_seqlen_k is None else max_seqlen_k
    return _run(call, _problem(call, longest_kv), spec, backend, device, emulator).out


def run_dense(
    problem: DenseAttentionProblem,
    inputs: DenseInputs,
    *,
    spec: DenseGeometry | None = None,
    backend: str = "auto",
    device: Device | None = None,
    emulator: EmulatorOptions | None = None,
    out: torch.Tensor | None = None,
) -> AttentionResult:
    """The same call on a problem and its inputs; also returns what was chosen and why."""
    check_dense_inputs(problem, inputs)
    call = checked_dense_call(
        inputs.q, inputs.k, inputs.v, out, problem.softmax_scale, problem.causal, problem.alignment,
        problem.sliding_window, inputs.sinks if problem.use_sinks else None, None, None, None,
    )  # fmt: skip
    return _run(call, problem, spec, backend, device, emulator)


def _run(
    call: DenseCall,
    problem: DenseAttentionProblem,
    spec: DenseGeometry | None,
    backend: str,
    device: Device | None,
    emulator: EmulatorOptions | None,
) -> AttentionResult:
    backend = resolve_backend(backend, call.q, emulator)
    device = device or device_for(backend, call.q)
    spec, reasons = _choose(call, problem, spec, device)
    order, num_persistent, why = _work_order(call, problem, spec, device)
    launches = plan_dense(call, spec, num_persistent, order)
    emulation = execute(launches, backend, call.q, emulator) if num_work_items(call, spec.block_m) > 0 else ()
    return AttentionResult(call.out, "dense", spec, backend, (*reasons, *why), emulation)


def _choose(
    call: DenseCall, problem: DenseAttentionProblem, spec: DenseGeometry | None, device: Device | None
) -> tuple[DenseGeometry, tuple[str, ...]]:
    if spec is None:
        choice = select_dense_spec(problem, device, portable=call.packed)
        if obstacle := _obstacle(call, choice.spec):
            choice = select_dense_spec(problem, device, portable=True)
            return choice.spec, (*choice.reasons, f"Not the Gluon kernel: {obstacle}.")
        if not call.packed or choice.spec.grid == "default":
            return choice.spec, choice.reasons
        return choice.spec.with_changes(grid="default"), (
            f"Cohort {choice.cohort}.",
            "Default grid: the members of a packed batch differ in length.",
        )
    if not isinstance(spec, DenseGeometry):
        raise SpecError(f"spec must be a DenseSpec, a Gfx950DenseSpec or an Sm90DenseSpec, got {type(spec).__name__}")
    if isinstance(spec, Gfx950DenseSpec | Sm90DenseSpec):
        spec.check_device(device)
        spec.check(problem)
        if call.packed:
            raise UnsupportedError("the Gluon dense kernels serve rectangular batches only; for packed use DenseSpec")
        if obstacle := _obstacle(call, spec):
            raise UnsupportedError(f"{obstacle}; use DenseSpec")
    if call.packed and spec.grid == "persistent":
        raise UnsupportedError(
            "the persistent grid serves rectangular batches only; for packed sequences use grid='default'"
        )
    return spec, ("The spec was given.",)


def _obstacle(call: DenseCall, spec: DenseGeometry) -> str | None:
    """Why the spec's kernel cannot take these tensors; None if it can."""
    if isinstance(spec, Gfx950DenseSpec):
        return dense_obstacle(call, spec)
    return tensor_map_obstacle(call) if isinstance(spec, Sm90DenseSpec) else None


def _work_order(
    call: DenseCall, problem: DenseAttentionProblem, spec: DenseGeometry, device: Device | None
) -> tuple[WorkOrder, int, tuple[str, ...]]:
    """The order, the programs of the persistent grid (0 for the default grid), and why."""
    if spec.grid == "persistent":
        chosen = select_work_order(problem, spec, device)
        return chosen.order, chosen.num_persistent, (chosen.reason,)
    if max(call.num_query_heads, call.batch) > MAX_GRID_YZ:
        raise UnsupportedError(
            f"the default grid holds at most {MAX_GRID_YZ} query heads and batch members, "
            f"got {call.num_query_heads} and {call.batch}; use grid='persistent' or split the batch"
        )
    return "grid", 0, ()


def _problem(call: DenseCall, longest_kv: int) -> DenseAttentionProblem:
    """The problem behind a call. For packed members the caller's bounds stand in for the lengths."""
    return DenseAttentionProblem(
        batch=call.batch,
        num_query_heads=call.num_query_heads,
        num_kv_heads=call.num_kv_heads,
        seqlen_q=call.max_seqlen_q,
        seqlen_kv=longest_kv,
        head_size=call.head_size,
        causal=call.causal,
        dtype=operand_dtype("q", call.q),  # type: ignore[arg-type]
        alignment=call.alignment,
        softmax_scale=call.softmax_scale,
        sliding_window=call.sliding_window,
        use_sinks=call.sinks is not None,
    )


def checked_dense_call(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor | None,
    softmax_scale: float | None,
    causal: bool,
    alignment: CausalAlignment,
    sliding_window: int | None,
    sinks: torch.Tensor | None,
    cu_seqlens_q: torch.Tensor | None,
    cu_seqlens_k: torch.Tensor | None,
    max_seqlen_q: int | None,
) -> DenseCall:
    """Check the tensors of dense_attention and gather the arguments; raises TensorError."""
    packed = cu_seqlens_q is not None or cu_seqlens_k is not None
    _check_operands(q, k, v, packed)
    if sinks is not None:
        check_tensor("sinks", sinks, (q.shape[-2],), FLOATS, q.device)
        check_contiguous("sinks", sinks)
    if packed:
        max_seqlen_q = _check_packing(q, k, cu_seqlens_q, cu_seqlens_k, max_seqlen_q)
    elif max_seqlen_q not in (None, q.shape[1]):
        raise TensorError(f"max_seqlen_q is for packed sequences; q has {q.shape[1]} rows, got {max_seqlen_q}")
    return DenseCall(
        q=q,
        k=k,
        v=v,
        out=check_out("out", out, q, q.dtype),
        max_seqlen_q=q.shape[1] if max_seqlen_q is None else max_seqlen_q,
        softmax_scale=check_scale_factor(
            "softmax_scale", max(q.shape[-1], 1) ** -0.5 if softmax_scale is None else softmax_scale
        ),
        causal=causal,
        alignment=alignment,
        sliding_window=sliding_window,
        sinks=sinks,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
    )


def _check_operands(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, packed: bool) -> None:
    if packed:
        check_tensor("q", q, (None, None, None), FLOATS, device_of_tensor("q", q))
        check_tensor("k", k, (None, None, q.shape[2]), (q.dtype,), q.device)
    else:
        check_tensor("q", q, (None, None, None, None), FLOATS, device_of_tensor("q", q))
        check_tensor("k", k, (q.shape[0], None, None, q.shape[3]), (q.dtype,), q.device)
    check_tensor("v", v, tuple(k.shape), (q.dtype,), q.device)
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        check_unit_stride(name, tensor)


def _check_packing(
    q: torch.Tensor,
    k: torch.Tensor,
    cu_seqlens_q: torch.Tensor | None,
    cu_seqlens_k: torch.Tensor | None,
    max_seqlen_q: int | None,
) -> int:
    """The longest query, from the caller; on the CPU the running lengths are checked too, which costs nothing there."""
    if cu_seqlens_q is None or cu_seqlens_k is None or max_seqlen_q is None:
        raise TensorError("packed sequences need all of cu_seqlens_q, cu_seqlens_k and max_seqlen_q")
    check_tensor("cu_seqlens_q", cu_seqlens_q, (None,), (torch.int32,), q.device)
    check_tensor("cu_seqlens_k", cu_seqlens_k, (cu_seqlens_q.shape[0],), (torch.int32,), q.device)
    if cu_seqlens_q.shape[0] < 2:
        raise TensorError(f"cu_seqlens_q must hold N + 1 running lengths, N >= 1, got {cu_seqlens_q.shape[0]}")
    check_contiguous("cu_seqlens_q", cu_seqlens_q)
    check_contiguous("cu_seqlens_k", cu_seqlens_k)
    if q.device.type == "cpu":
        longest = _longest("cu_seqlens_q", cu_seqlens_q, q.shape[0])
        _longest("cu_seqlens_k", cu_seqlens_k, k.shape[0])
        if max_seqlen_q < longest:
            raise TensorError(f"max_seqlen_q is {max_seqlen_q}, but a member has {longest} query rows")
    if max_seqlen_q < 1 <= q.shape[0]:
        raise TensorError(f"max_seqlen_q must be at least 1 for {q.shape[0]} query rows, got {max_seqlen_q}")
    return max_seqlen_q


def _longest(name: str, cu_seqlens: torch.Tensor, total: int) -> int:
    ends = cu_seqlens.tolist()
    if ends[0] != 0 or ends[-1] != total or ends != sorted(ends):
        raise TensorError(f"{name} must rise from 0 to the number of tokens, {total}; got {ends}")
    return max(end - start for start, end in pairwise(ends))
