"""One process for slow jobs, which the latest change takes over: a job that nobody waits for any more has to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.compiler import protocol

if TYPE_CHECKING:
    from collections.abc import Callable


GRACE_SECONDS = 3.0
"""How long a job may go on that keeps others waiting while nobody waits for it any more: a new process takes as long
to start."""


@dataclass(frozen=True, eq=False)
class _Job:
    owner: str
    name: str
    arguments: tuple[Any, ...]
    done: Callable[[Any], None]


class Helper:
    """Runs the jobs of `workbench.explorer.jobs`, one at a time, each owner's latest alone."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._condition = threading.Condition()
        self._waiting: dict[str, _Job] = {}
        self._running: _Job | None = None
        self._wanted: _Job | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, owner: str, name: str, arguments: tuple[Any, ...], done: Callable[[Any], None]) -> None:
        """Run a job in place of the owner's last one. `done` gets its result or a protocol.Failure, in a thread.

        Where `done` raises on a result, it gets that as a failure.
        """
        with self._condition:
            self._drop(owner)
            self._waiting[owner] = _Job(owner, name, arguments, done)
            self._hurry()
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="explorer-helper", daemon=True)
                self._thread.start()
            self._condition.notify_all()

    def cancel(self, owner: str) -> None:
        """Drop the owner's job. One that runs stands still until there is another, then it has GRACE_SECONDS to end."""
        with self._condition:
            self._drop(owner)

    def close(self) -> None:
        """Drop everything and end the process."""
        with self._condition:
            self._closed = True
            self._waiting.clear()
            self._signal(signal.SIGKILL)
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join(10)
        if self._process is not None:
            self._process.wait()
            _close_pipes(self._process)

    def _drop(self, owner: str) -> None:
        self._waiting.pop(owner, None)
        if self._wanted is not None and self._wanted.owner == owner:
            self._wanted = None
        if self._running is not None and self._wanted is None:
            self._signal(signal.SIGSTOP)
            self._hurry()

    def _hurry(self) -> None:
        """Where a job that nobody waits for keeps others waiting, let it end soon."""
        if self._waiting and self._running is not None and self._wanted is None:
            self._signal(signal.SIGCONT)
            patience = threading.Timer(GRACE_SECONDS, self._lose_patience, [self._running])
            patience.daemon = True
            patience.start()

    def _lose_patience(self, job: _Job) -> None:
        with self._condition:
            if self._running is job and self._waiting:
                self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def _serve(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._closed or self._waiting)
                if self._closed:
                    return
                job = self._waiting.pop(next(iter(self._waiting)))
                self._running = self._wanted = job
                process = self._alive()
                # It may have been stopped right after its last job.
                self._signal(signal.SIGCONT)
            result = _ask(process, job)
            with self._condition:
                is_wanted = self._wanted is job
                self._running = self._wanted = None
            if is_wanted:
                _hand_over(result, job)

    def _alive(self) -> subprocess.Popen[bytes]:
        """The process, started where there is none or the last one was killed."""
        if self._process is None or self._process.poll() is not None:
            if self._process is not None:
                _close_pipes(self._process)
            environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "workbench.explorer.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # A group of its own: an interrupt of the notebook's kernel passes it by. In its session, so that the
                # kernel's death ends it even while it is stopped.
                process_group=0,
                env=environment,
            )
        return self._process


def _ask(process: subprocess.Popen[bytes], job: _Job) -> Any:
    try:
        protocol.send(process.stdin.fileno(), (job.name, job.arguments))  # type: ignore[union-attr]
        return protocol.receive(process.stdout.fileno())  # type: ignore[union-attr]
    except (EOFError, OSError):
        process.wait()
        return protocol.Failure("the process for slow figures died")


def _hand_over(result: Any, job: _Job) -> None:
    """The thread goes on whatever becomes of one result."""
    try:
        job.done(result)
    except Exception as error:  # noqa: BLE001 - what shows a result may fail on any of them
        with suppress(Exception):
            job.done(protocol.Failure(f"{type(error).__name__}: {error}"))


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        with suppress(OSError):
            stream.close()  # type: ignore[union-attr]
