"""What takes part in one scenario: the kernels under test in one lane, or one baseline. Both are checked and timed."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
    """Checked once per seed; if every check passes, `call` is captured and timed."""

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
    def call(self) -> Any:
        """The timed part."""

    @abstractmethod
    def poison(self, result: Any) -> None:
        """NaN into what a captured call writes."""

    @abstractmethod
    def read(self, result: Any) -> torch.Tensor:
        """The output that a captured call wrote, in the problem's layout."""


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
        self._asked_spec = spec
        self._backend = backend

    def _run(self, trials: Trials) -> torch.Tensor:
        self._output.poison()
        result = self.call()
        # Read in the current stream's order, before anything waits for other streams.
        actual = self._output.tensor.clone()
        self.path, self.backend, self.spec = result.lane, result.backend, result.spec
        self.reasons = tuple(result.reasons)
        return actual

    def _judge(self, trials: Trials, expected: Expected, actual: torch.Tensor) -> Verdict:
        if self._output.overrun():
            return Failure("wrong", "it wrote beyond the ends of its output")
        return super()._judge(trials, expected, actual)

    def call(self) -> Any:
        return self._candidate(
            self._problem,
            self._inputs,
            lane=self.lane,
            spec=self._asked_spec,
            backend=self._backend,
            out=self._output.tensor,
        )

    def poison(self, result: Any) -> None:
        self._output.poison()

    def read(self, result: Any) -> torch.Tensor:
        return self._output.tensor.clone()


class BaselineEntrant(Entrant):
    """A baseline; what it prepares (contiguous copies, plans) is not timed."""

    def __init__(self, baseline: Baseline, problem: Any, lane: str) -> None:
        super().__init__(baseline.name, lane)
        self._baseline = baseline
        self._problem = problem
        self._prepared: Prepared | None = None
        self.reasons = (baseline.note,)

    def _run(self, trials: Trials) -> torch.Tensor:
        self._prepared = self._baseline.prepare(self._problem, trials.inputs, self.lane)
        return self._prepared.gather(self._prepared.call())

    def call(self) -> Any:
        if self._prepared is None:
            raise RuntimeError(f"{self.name} is timed before it was checked")
        return self._prepared.call()

    def poison(self, result: Any) -> None:
        for tensor in result if isinstance(result, list | tuple) else [result]:
            fill_nan(tensor)

    def read(self, result: Any) -> torch.Tensor:
        if self._prepared is None:
            raise RuntimeError(f"{self.name} is read before it was checked")
        return self._prepared.gather(result).clone()
