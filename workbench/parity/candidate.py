"""What the harness runs: a callable that computes a problem's attention into a given output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from workbench.errors import BackendUnavailable, CompileError, UnsupportedError
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.records.record import Status
from workbench.spec import KernelSpec

if TYPE_CHECKING:
    import torch

    from workbench.attention import AttentionResult


class Candidate(Protocol):
    """Computes the problem on the inputs into `out`, on the current stream, and says what it ran."""

    def __call__(
        self,
        problem: UnifiedAttentionProblem | DenseAttentionProblem,
        inputs: Any,
        *,
        lane: str,
        spec: KernelSpec | None,
        backend: str,
        out: torch.Tensor,
    ) -> AttentionResult: ...


def workbench_kernels(
    problem: UnifiedAttentionProblem | DenseAttentionProblem,
    inputs: Any,
    *,
    lane: str,
    spec: KernelSpec | None,
    backend: str,
    out: torch.Tensor,
) -> AttentionResult:
    """The workbench's own kernels, through its public calls."""
    from workbench.attention import run_dense, run_unified

    chosen: Any = spec
    if isinstance(problem, DenseAttentionProblem):
        return run_dense(problem, inputs, spec=chosen, backend=backend, out=out)
    return run_unified(problem, inputs, lane=lane, spec=chosen, backend=backend, out=out)


@dataclass(frozen=True)
class Failure:
    """Why a candidate gave no usable output."""

    status: Status
    message: str


def guarded(call: Callable[[], Any]) -> Any | Failure:
    """The call's result, or the Failure that its exception stands for.

    BackendUnavailable passes through: it says that nothing at all can be run as it was asked for.
    """
    try:
        return call()
    except BackendUnavailable:
        raise
    except UnsupportedError as error:
        return Failure("unsupported", str(error))
    except Exception as error:  # noqa: BLE001 - whatever a kernel raises is its result; the others still have theirs to give
        return Failure("compile_error" if in_compiler(error) else "runtime_error", f"{type(error).__name__}: {error}")


def in_compiler(error: BaseException) -> bool:
    """Whether Triton's compiler refused, as opposed to what runs its result."""
    return isinstance(error, CompileError) or type(error).__module__.startswith("triton.compiler")
