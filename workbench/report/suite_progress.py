"""Progress of several studies at once: one bar for each on a terminal, a line at start and end elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

from workbench.report.outcome import Outcome
from workbench.report.progress import NoProgress, ProgressView


class SuiteView(Protocol):
    """What a run of several studies reports to; from several threads."""

    def study(self, name: str) -> AbstractContextManager[ProgressView]:
        """The view of one study while it runs."""

    def done(self, outcome: Outcome) -> None:
        """A study has ended."""


class NoSuiteProgress:
    """Shows nothing."""

    def study(self, name: str) -> AbstractContextManager[ProgressView]:
        return nullcontext(NoProgress())

    def done(self, outcome: Outcome) -> None:
        pass


class LineSuiteProgress(NoSuiteProgress):
    """A line on standard error for each start and each end."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.ended = 0
        self._lock = threading.Lock()

    def study(self, name: str) -> AbstractContextManager[ProgressView]:
        self._write(f"{name}: started")
        return nullcontext(NoProgress())

    def done(self, outcome: Outcome) -> None:
        with self._lock:
            self.ended += 1
            self._write(
                f"{outcome.name}: {outcome.status} after {outcome.seconds:.0f} s, {self.ended} of {self.total} done"
            )

    def _write(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


class BarSuiteProgress(NoSuiteProgress):
    """Live bars on a terminal: the whole run, and the cells of each study that runs."""

    def __init__(self, total: int, console: Any) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[step]}", style="dim"),
            console=console,
        )
        self._whole = self._progress.add_task("studies", total=total, step="")

    @contextmanager
    def study(self, name: str) -> Iterator[ProgressView]:
        task = self._progress.add_task(f"  {name}", total=None, step="")
        try:
            yield _StudyBar(self._progress, task)
        finally:
            self._progress.remove_task(task)

    def done(self, outcome: Outcome) -> None:
        style = "green" if outcome.status == "ok" else "red"
        self._progress.console.print(f"[{style}]{outcome.status:7}[/] {outcome.name}, {outcome.seconds:.0f} s")
        self._progress.advance(self._whole)

    def __enter__(self) -> BarSuiteProgress:
        self._progress.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._progress.stop()


class _StudyBar(NoProgress):
    def __init__(self, progress: Any, task: Any) -> None:
        self._progress = progress
        self._task = task

    def cell(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total, step="")

    def step(self, done: int, total: int, noun: str, label: str) -> None:
        self._progress.update(self._task, step=f"{done} of {total} {noun} {label}".rstrip())


def suite_view(total: int, shown: bool) -> AbstractContextManager[SuiteView]:
    """Live bars on a terminal, lines elsewhere, nothing if not wanted."""
    if not shown:
        return nullcontext(NoSuiteProgress())
    from rich.console import Console

    console = Console(stderr=True)
    return BarSuiteProgress(total, console) if console.is_terminal else nullcontext(LineSuiteProgress(total))
