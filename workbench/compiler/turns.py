"""Whose turn it is: compilations that give way are stopped while somebody waits for another one.

A low priority does not suffice: two processes on one physical core, or on one memory bus, slow each other down.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator


class Stoppable(Protocol):
    """A process."""

    def stop(self) -> None: ...

    def resume(self) -> None: ...


class Turns:
    """Threads may share it."""

    def __init__(self) -> None:
        """Nobody waits, nobody works."""
        self._lock = threading.Lock()
        self._awaited: Counter[Hashable] = Counter()
        self._giving_way: dict[Stoppable, Hashable] = {}

    @contextmanager
    def awaited(self, task: Hashable) -> Iterator[None]:
        """Inside, somebody waits for the task: what gives way stands still, unless it works on that very task."""
        with self._lock:
            self._awaited[task] += 1
            self._settle()
        try:
            yield
        finally:
            with self._lock:
                self._awaited -= Counter({task: 1})
                self._settle()

    @contextmanager
    def giving_way(self, process: Stoppable, task: Hashable) -> Iterator[None]:
        """Inside, the process works on the task whenever nobody waits for another one."""
        with self._lock:
            self._giving_way[process] = task
            self._settle()
        try:
            yield
        finally:
            with self._lock:
                del self._giving_way[process]
                process.resume()

    def _settle(self) -> None:
        for process, task in self._giving_way.items():
            if self._awaited and task not in self._awaited:
                process.stop()
            else:
                process.resume()
