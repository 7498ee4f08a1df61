"""Inputs of one problem under several seeds in the same tensors, and what their outputs must be.

Every seed's values are copied into one working set: a candidate that remembers its output by the address of its inputs
gives the first seed's answer to the second. Behind the values stands a pristine copy that shows whether a candidate
wrote to its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from workbench.dtypes import bits
from workbench.poison import fill_nan, output_shape, poisoned_output
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.tolerance import Comparison, compare

if TYPE_CHECKING:
    from workbench.inputs import DenseInputs, UnifiedInputs

# Elements on either side of the output that no candidate may touch, and what stands there.
_GUARD_ELEMENTS = 4096
_GUARD_VALUE = 171.0
# Fills before the poison on a GPU: some ten milliseconds in which work on another stream runs ahead of it.
_DELAY_BYTES = 2**30
_DELAY_FILLS = 24


@dataclass(frozen=True)
class Expected:
    """What an output is held against: float64, and the eager low-precision run."""

    reference: torch.Tensor
    eager: torch.Tensor


class GuardedOutput:
    """A NaN-filled output between two guard bands."""

    def __init__(self, problem: UnifiedAttentionProblem | DenseAttentionProblem, device: torch.device) -> None:
        plain = poisoned_output(problem, device="meta")
        size = plain.numel()
        self._storage = torch.empty(size + 2 * _GUARD_ELEMENTS, dtype=plain.dtype, device=device)
        self.tensor = self._storage[_GUARD_ELEMENTS : _GUARD_ELEMENTS + size].view(output_shape(problem))

    def poison(self) -> None:
        """Refill with NaN, late: on a GPU the current stream is kept busy first.

        A candidate on the current stream writes after the poison; one on a stream of its own writes before it and is
        poisoned over, or has not finished when its output is read in the current stream's order.
        """
        if self._storage.is_cuda:
            delay = torch.empty(_DELAY_BYTES, dtype=torch.uint8, device=self._storage.device)
            for _ in range(_DELAY_FILLS):
                delay.zero_()
        self._storage.fill_(_GUARD_VALUE)
        fill_nan(self.tensor)

    def overrun(self) -> bool:
        """Whether something beside the output was written."""
        bands = (self._storage[:_GUARD_ELEMENTS], self._storage[-_GUARD_ELEMENTS:])
        return any(bool((band != _GUARD_VALUE).any()) for band in bands)


class Trials:
    """The working inputs of a problem, loaded with one seed after the other."""

    def __init__(
        self, problem: UnifiedAttentionProblem | DenseAttentionProblem, device: torch.device, seeds: tuple[int, ...]
    ) -> None:
        self.problem = problem
        self.device = device
        self.seeds = seeds
        self.inputs: UnifiedInputs | DenseInputs = self._make(seeds[0])
        self.output = GuardedOutput(problem, device)
        self._pristine = self.inputs

    def __iter__(self) -> Iterator[Expected]:
        """Load each seed in turn and give what its output must be."""
        for seed in self.seeds:
            self._pristine = self._make(seed)
            self.restore()
            yield self._expected()

    def restore(self) -> None:
        """Write the current seed's values into the working inputs again."""
        fresh = self._pristine.named_tensors()
        for name, tensor in self.inputs.named_tensors().items():
            bits(tensor).copy_(bits(fresh[name]))

    def mutated(self) -> tuple[str, ...]:
        """Names of working inputs that no longer hold the current seed's bits."""
        return self.inputs.changed_since(self._pristine)

    @property
    def held_bytes(self) -> int:
        """Bytes of one set of inputs and its output."""
        tensors = (*self.inputs.named_tensors().values(), self.output.tensor)
        return sum(tensor.untyped_storage().nbytes() for tensor in tensors)

    def copies(self, count: int) -> list[Any]:
        """Further sets of inputs with the current seed's values, each with storage of its own."""
        return [self.inputs.clone() for _ in range(count)]

    def compare(self, actual: torch.Tensor, expected: Expected) -> Comparison:
        """Hold an output to the derived tolerance."""
        return compare(actual, expected.reference, expected.eager, self.problem.dtype)

    def _make(self, seed: int) -> Any:
        from workbench.inputs import make_dense_inputs, make_unified_inputs

        if isinstance(self.problem, DenseAttentionProblem):
            return make_dense_inputs(self.problem, seed=seed, device=self.device)
        return make_unified_inputs(self.problem, seed=seed, device=self.device)

    def _expected(self) -> Expected:
        from workbench import reference

        if isinstance(self.problem, DenseAttentionProblem):
            dense_inputs: Any = self.inputs
            return Expected(
                reference.dense_reference(self.problem, dense_inputs),
                reference.dense_eager(self.problem, dense_inputs),
            )
        inputs: Any = self.inputs
        return Expected(
            reference.unified_reference(self.problem, inputs), reference.unified_eager(self.problem, inputs)
        )
