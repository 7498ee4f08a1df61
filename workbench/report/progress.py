"""Progress of a running notebook: told by the kernel as a display message, shown on the terminal that waits for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

PROGRESS_MIME = "application/vnd.workbench.progress+json"


def notebook_progress(noun: str) -> Callable[[int, int, str], None]:
    """For use inside a notebook: a callable (done, total, label) that shows one line, updated in place.

    The same message tells a waiting `workbench report` how far the notebook is.
    """
    from IPython.display import display

    started = time.monotonic()
    handle: Any = None

    def show(done: int, total: int, label: str) -> None:
        nonlocal handle
        elapsed = time.monotonic() - started
        text = f"{done} of {total} {noun} done, {elapsed:.0f} s"
        data = {PROGRESS_MIME: {"done": done, "total": total, "label": label, "noun": noun}, "text/plain": text}
        if handle is None:
            handle = display(data, raw=True, display_id=True)
        else:
            handle.update(data, raw=True)

    return show


class ProgressView(Protocol):
    """What the executor of a notebook reports to."""

    def kernel(self, group: int | None) -> None:
        """The kernel runs, in this process group where the system has such."""

    def cell(self, done: int, total: int) -> None:
        """So many of the notebook's cells are done."""

    def step(self, done: int, total: int, noun: str, label: str) -> None:
        """The running cell is so far."""


class NoProgress:
    """Shows nothing."""

    def kernel(self, group: int | None) -> None:
        pass

    def cell(self, done: int, total: int) -> None:
        pass

    def step(self, done: int, total: int, noun: str, label: str) -> None:
        pass

    def __enter__(self) -> NoProgress:
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass


class LineProgress(NoProgress):
    """One line per step on standard error, for logs and pipes."""

    def __init__(self, title: str) -> None:
        self.title = title

    def cell(self, done: int, total: int) -> None:
        self._write(f"cell {done} of {total}")

    def step(self, done: int, total: int, noun: str, label: str) -> None:
        self._write(f"{done} of {total} {noun} done" + (f", {label}" if label else ""))

    def _write(self, text: str) -> None:
        sys.stderr.write(f"{self.title}: {text}\n")
        sys.stderr.flush()


class BarProgress(NoProgress):
    """Two live bars on a terminal: cells, and the steps of the running cell with the time left."""

    def __init__(self, title: str, console: Any) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console
        )
        self._cells = self._progress.add_task(f"{title}: cells", total=None)
        self._steps: Any = None

    def cell(self, done: int, total: int) -> None:
        self._progress.update(self._cells, completed=done, total=total)

    def step(self, done: int, total: int, noun: str, label: str) -> None:
        description = f"{noun} {label}".rstrip()
        if self._steps is None:
            self._steps = self._progress.add_task(description, total=total)
        self._progress.update(self._steps, completed=done, total=total, description=description)

    def __enter__(self) -> BarProgress:
        self._progress.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._progress.stop()


def progress_view(title: str, shown: bool) -> AbstractContextManager[ProgressView]:
    """Live bars on a terminal, lines elsewhere, nothing if not wanted."""
    if not shown:
        return NoProgress()
    from rich.console import Console

    console = Console(stderr=True)
    return BarProgress(title, console) if console.is_terminal else LineProgress(title)
