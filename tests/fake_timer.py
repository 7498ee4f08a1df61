"""A test double for the GPU's timer: calls run, but their times are made up."""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.parity.recording import AGAIN
from workbench.parity.rotation import Rotation
from workbench.parity.timing import TimedCall, Timer


@dataclass
class FakeTimer(Timer):
    """Every round of a call lasts what `times` says for its key (name/lane), in microseconds; unknown keys last 100."""

    times: dict[str, float] = field(default_factory=dict)
    jitter: float = 0.002
    timed: list[str] = field(default_factory=list)

    def check(self, device):
        pass

    def rotation(self, touched, held):
        return Rotation(2, covers=True)

    def capture(self, calls, plan, *, flush=False):
        return TimedCall(lambda: [call() for call in calls], len(calls), None, captured=False, flush=flush)

    def interleave(self, calls, plan):
        self.timed += list(calls)
        first = next(iter(calls))
        return {
            key: self._series(first if key == AGAIN else key, index, plan.rounds) for index, key in enumerate(calls)
        }

    def _series(self, key, index, rounds):
        return tuple(
            self.times.get(key, 100.0) * (1 + self.jitter * ((turn * 7 + index * 3) % 5 - 2)) for turn in range(rounds)
        )
