"""What a baseline is to the harness."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem

Problem = UnifiedAttentionProblem | DenseAttentionProblem


@dataclass(frozen=True)
class Prepared:
    """A baseline with its untimed set-up done for one set of inputs."""

    call: Callable[[], Any]
    """The timed part; returns the tensor or tensors that it writes."""
    gather: Callable[[Any], torch.Tensor]
    """From what `call` returned to the problem's output layout; not timed."""


class Baseline(ABC):
    """Somebody else's attention."""

    name: str
    note: str
    """How it is run: on which layout, and what is left out of its time."""

    knows_lanes = False
    """Whether it has a 2D and a 3D path of its own to set against the same lane."""

    def lanes(self, requested: Sequence[str]) -> Sequence[str]:
        """Lanes in which it takes part; one that knows no lanes takes part once."""
        return requested if self.knows_lanes else requested[:1]

    def missing(self, device: torch.device) -> str | None:
        """Why it cannot run in this process, or None."""
        return None if device.type == "cuda" else f"{self.name} needs a GPU"

    @abstractmethod
    def unsupported(self, problem: Problem, lane: str) -> str | None:
        """Why it does not do this problem, or None."""

    @abstractmethod
    def prepare(self, problem: Any, inputs: Any, lane: str) -> Prepared:
        """Do the set-up that is not timed."""


def imported(modules: Sequence[str], attribute: str) -> Any:
    """The attribute from the first module that imports; ImportError says in one line why none does."""
    reasons = []
    for module in modules:
        try:
            return getattr(import_module(module), attribute)
        except Exception as error:  # noqa: BLE001 - a broken installation of another project may raise anything on import
            reasons.append(f"{type(error).__name__}: {error}".splitlines()[0])
    raise ImportError(f"{attribute} cannot be imported from {' or '.join(modules)} ({reasons[0]})")


def why_missing(modules: Sequence[str], attribute: str) -> str | None:
    """Why `imported` would fail, or None."""
    try:
        imported(modules, attribute)
    except ImportError as error:
        return str(error)
    return None


def refuse(problem: Problem, features: Sequence[str]) -> str | None:
    """Names the first of the features that the problem uses: fp8, softcap, alibi, qq_bias, sinks, window."""
    used = {
        "fp8": "fp8_e4m3" in (getattr(problem, "q_dtype", ""), getattr(problem, "kv_dtype", "")),
        "softcap": getattr(problem, "softcap", 0.0) > 0.0,
        "alibi": getattr(problem, "use_alibi", False),
        "qq_bias": getattr(problem, "use_qq_bias", False),
        "sinks": problem.use_sinks,
        "window": problem.sliding_window is not None,
    }
    found = next((feature for feature in features if used[feature]), None)
    return None if found is None else f"it has no {found}"
