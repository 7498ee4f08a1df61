"""What takes part in one scenario: the kernels under test in one lane, or one baseline. Both are checked and timed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from workbench.parity.baselines import Baseline, Prepared
from workbench.parity.candidate import Candidate, Failure, guarded
from workbench.parity.trial import Expected, GuardedOutput, Trials
from workbench.poison import fill_nan
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.records.record import Backend
from workbench.spec import KernelSpec
from workbench.tolerance import Comparison

Verdict = Comparison | Failure


class Entrant(ABC):
    """Checked once per seed; if every check passes, its calls are captured and timed."""

    def __init__(self, name: str, lane: str) -> None:
        self.name = name
        self.lane = lane
        self.verdicts: list[Verdict] = []
        self.reasons: tuple[str, ...] = ()
        self.path: str | None = None
        self.backend: Backend = "none"
        self.spec: KernelSpec | None = None

    @property
    def key(self) -> str:
        """Name of its samples in a session."""
        return f"{self.name}/{self.lane}"

    @property
    def passed(self) -> bool:
        """Every check so far gave a right output."""
        return bool(self.verdicts) and all(isinstance(verdict, Comparison) and verdict.ok for verdict in self.verdicts)

    def check(self, trials: Trials, expected: Expected) -> None:
        """Run on the current seed's inputs and add the verdict. Inputs found changed are restored."""
        outcome = guarded(lambda: self._run(trials))
        changed = trials.mutated()
        if changed:
            trials.restore()
        if isinstance(outcome, Failure):
            self.verdicts.append(outcome)
        elif changed:
            self.verdicts.append(Failure("wrong", f"it wrote to its inputs: {', '.join(changed)}"))
        else:
            self.verdicts.append(self._judge(trials, expected, outcome))

    def _judge(self, trials: Trials, expected: Expected, actual: torch.Tensor) -> Verdict:
        return trials.compare(actual, expected)

    @abstractmethod
    def _run(self, trials: Trials) -> torch.Tensor:
        """The output on the current inputs, in the problem's layout."""

    @abstractmethod
    def rotate(self, copies: Sequence[Any]) -> None:
        """Get ready to be called on copies of the inputs too, in turn with the inputs that were checked."""

    @abstractmethod
    def calls(self) -> list[Callable[[], Any]]:
        """The timed part: a call for each set of inputs."""

    @abstractmethod
    def poison(self, results: Sequence[Any]) -> None:
        """NaN into what the captured calls write; `results` is what they returned."""

    @abstractmethod
    def read(self, results: Sequence[Any]) -> list[torch.Tensor]:
        """The outputs that the captured calls wrote, in the problem's layout."""


class KernelEntrant(Entrant):
    """A candidate in one lane, writing to an output between guard bands."""

    def __init__(
        self,
        candidate: Candidate,
        trials: Trials,
        *,
        name: str,
        lane: str,
        spec: KernelSpec | None,
        backend: str,
    ) -> None:
        super().__init__(name, lane)
        self._candidate = candidate
        self._problem: UnifiedAttentionProblem | DenseAttentionProblem = trials.problem
        self._inputs = trials.inputs
        self._output: GuardedOutput = trials.output
        self._copies: list[tuple[Any, torch.Tensor]] = []
        self._asked_spec = spec
        self._backend = backend

    def _run(self, trials: Trials) -> torch.Tensor:
        self._output.poison()
        result = self._attend(self._inputs, self._output.tensor)
        # Read in the current stream's order, before anything waits for other streams.
        actual = self._output.tensor.clone()
        self.path, self.backend, self.spec = result.lane, result.backend, result.spec
        self.reasons = tuple(result.reasons)
        return actual

    def _judge(self, trials: Trials, expected: Expected, actual: torch.Tensor) -> Verdict:
        if self._output.overrun():
            return Failure("wrong", "it wrote beyond the ends of its output")
        return super()._judge(trials, expected, actual)

    def _attend(self, inputs: Any, out: torch.Tensor) -> Any:
        return self._candidate(
            self._problem, inputs, lane=self.lane, spec=self._asked_spec, backend=self._backend, out=out
        )

    def rotate(self, copies: Sequence[Any]) -> None:
        self._copies = [(inputs, torch.empty_like(self._output.tensor)) for inputs in copies]

    def calls(self) -> list[Callable[[], Any]]:
        turns = [(self._inputs, self._output.tensor), *self._copies]
        return [partial(self._attend, inputs, out) for inputs, out in turns]

    def poison(self, results: Sequence[Any]) -> None:
        for _, out in self._copies:
            fill_nan(out)
        self._output.poison()

    def read(self, results: Sequence[Any]) -> list[torch.Tensor]:
        return [self._output.tensor.clone(), *(out for _, out in self._copies)]


class BaselineEntrant(Entrant):
    """A baseline; what it prepares (contiguous copies, plans) is not timed."""

    def __init__(self, baseline: Baseline, problem: Any, lane: str) -> None:
        super().__init__(baseline.name, lane)
        self._baseline = baseline
        self._problem = problem
        self._prepared: list[Prepared] = []
        self.reasons = (baseline.note,)

    def _run(self, trials: Trials) -> torch.Tensor:
        self._prepared = [self._baseline.prepare(self._problem, trials.inputs, self.lane)]
        return self._prepared[0].gather(self._prepared[0].call())

    def rotate(self, copies: Sequence[Any]) -> None:
        further = [self._baseline.prepare(self._problem, inputs, self.lane) for inputs in copies]
        self._prepared = [*self._prepared[:1], *further]

    def calls(self) -> list[Callable[[], Any]]:
        return [prepared.call for prepared in self._prepared]

    def poison(self, results: Sequence[Any]) -> None:
        for result in results:
            for tensor in result if isinstance(result, list | tuple) else [result]:
                fill_nan(tensor)

    def read(self, results: Sequence[Any]) -> list[torch.Tensor]:
        return [prepared.gather(result).clone() for prepared, result in zip(self._prepared, results, strict=True)]
