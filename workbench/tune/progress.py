"""How far a sweep is and how long it will take: live bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

SECONDS_BETWEEN_LINES = 10.0
WORDS = {"compile": "compiling", "measure": "checking and timing", "final": "finals"}


class SweepProgress:
    """Takes a sweep's steps; used as a context."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._started: dict[str, tuple[float, int]] = {}
        self._told = -SECONDS_BETWEEN_LINES

    def __enter__(self) -> SweepProgress:
        if self._console.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bars = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=self._console,
            )
            self._bars.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, phase: str, done: int, total: int, label: str) -> None:
        """One step: `done` of `total` jobs of a phase."""
        if self._bars is None:
            self._line(phase, done, total, label)
            return
        if phase not in self._tasks:
            self._tasks[phase] = self._bars.add_task(WORDS.get(phase, phase), total=total)
        self._bars.update(self._tasks[phase], completed=done, total=total)

    def _line(self, phase: str, done: int, total: int, label: str) -> None:
        now = time.monotonic()
        # What was there already when the phase began took no time and says nothing about the rest.
        started, already = self._started.setdefault(phase, (now, done))
        if done < total and now - self._told < SECONDS_BETWEEN_LINES:
            return
        self._told = now
        text = f"{WORDS.get(phase, phase)}: {done} of {total}"
        if already < done < total:
            text += f", {(now - started) / (done - already) * (total - done):.0f} s left"
        self._console.print(text + (f", last {label}" if label else ""), markup=False, highlight=False, soft_wrap=True)
