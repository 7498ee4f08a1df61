"""Compiler processes, one Triton version each, kept warm between calls.

Triton decides at import whether it interprets, so that a process that interprets kernels cannot compile them; and one
process holds one Triton.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.compiler import protocol
from workbench.compiler.turns import Turns
from workbench.compiler.versions import find_triton
from workbench.errors import CompileError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from workbench.compiler.request import KernelRef, KernelRequest

START_LIMIT_SECONDS = 120.0
_STDERR_TAIL = 2000
# Enough to let what somebody looks at go first, and not so much that a busy machine leaves nothing.
_NICENESS = 5
# Settings by which a user's environment would change the code without changing the request.
_STEERING_PREFIXES = ("TRITON_", "AMDGCN_", "LLVM_", "MLIR_", "DISABLE_LLVM_OPT", "DISABLE_PTXAS_OPT", "PTXAS_OPTIONS")
_STEERING_NAMES = ("USE_IR_LOC", "PYTHONPATH", "PYTHONHOME")
_turns = Turns()


class Worker:
    """One compiler process. Not for use by two threads at once."""

    def __init__(self, version: str, *, gives_way: bool = False, task: str | None = None) -> None:
        """Start the process; CompileError when it does not come up with that Triton.

        gives_way: its start stands still while somebody waits for another kernel than that of the key `task`.
        """
        self._version = version
        self._loaded: dict[Path, str] = {}
        self._kernels: set[KernelRef] = set()
        self._standstill: tuple[float, float | None] = (0.0, None)
        triton_directory = find_triton(version)
        # Triton insists on a disk cache of its own; ours is keyed by more, so that one stays empty and private.
        self._scratch = tempfile.TemporaryDirectory(prefix="workbench-triton-")
        # Appending, so that reading what the process printed does not move its write position.
        self._stderr = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "workbench.compiler.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            # Its own group: an interrupt at the terminal passes it by, and close() ends what it started (ptxas).
            # Not detached from the parent's terminal session (setsid), whose end wakes and ends it if it is stopped.
            process_group=0,
            env=worker_environment(triton_directory, self._scratch.name),
        )
        with _turns.giving_way(self, task) if gives_way else nullcontext():
            started = self._exchange(None, START_LIMIT_SECONDS)
        if started != version:
            self.close()
            raise CompileError(f"asked for Triton {version}, but its compiler process imported {started}")

    def is_fresh(self, root: Path, digest: str) -> bool:
        """Whether the process has not imported another state of these sources."""
        return self._loaded.get(root, digest) == digest

    def compile(
        self, request: KernelRequest, root: Path, digest: str, time_limit: float, *, inputs_only: bool = False
    ) -> Any:
        """Fields of the CompiledKernel; CompileError when Triton refuses, dies or exceeds the limit in seconds.

        The time for which it is stopped does not count.
        inputs_only: the digest that protocol.InputsOf asks for, instead.
        """
        self._loaded[root] = digest
        self._kernels.add(request.kernel)
        self._stderr.seek(0, os.SEEK_END)
        printed_before = self._stderr.tell()
        reply = self._exchange(request, time_limit, protocol.InputsOf(request) if inputs_only else request)
        if isinstance(reply, protocol.Failure):
            raise CompileError(
                f"Triton {self._version} cannot compile {request.title} for {request.target}: {reply.reason}"
                f"{self._tail(printed_before)}"
            )
        return reply

    def has_read(self, kernel: KernelRef) -> bool:
        """Whether it was asked for that kernel before."""
        return kernel in self._kernels

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Let it stand still until `resume`."""
        before, since = self._standstill
        self._standstill = (before, time.monotonic() if since is None else since)
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._standstill = (self._stood_still(), None)
        self._signal(signal.SIGCONT)

    def _stood_still(self) -> float:
        # One read of both: the thread that waits for the process is not the one that stops it.
        before, since = self._standstill
        return before if since is None else before + time.monotonic() - since

    def lower_priority(self) -> None:
        """Leave other processes the first turn from now on."""
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICENESS)

    def _signal(self, number: signal.Signals) -> None:
        if self.alive:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def close(self) -> None:
        """End the process and delete its scratch."""
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._stderr.close()
        self._scratch.cleanup()

    def _exchange(self, request: KernelRequest | None, time_limit: float, message: Any = None) -> Any:
        title = request.title if request else "its start"
        try:
            if request is not None:
                protocol.send(self._process.stdin.fileno(), message)  # type: ignore[union-attr]
            return protocol.receive(self._process.stdout.fileno(), time_limit, self._stood_still)  # type: ignore[union-attr]
        except TimeoutError:
            self.close()
            raise CompileError(
                f"Triton {self._version} did not finish {title} in {time_limit:g} s; "
                "pass a larger time_limit if the kernel is worth the wait"
            ) from None
        except (EOFError, BrokenPipeError):
            code = self._process.wait()
            tail = self._tail(0)
            self.close()
            raise CompileError(
                f"the Triton {self._version} process died ({_exit_cause(code)}) on {title}{tail}"
            ) from None

    def _tail(self, start: int) -> str:
        end = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(start, end - _STDERR_TAIL))
        text = self._stderr.read().decode(errors="replace").strip()
        return f"\nIt printed:\n{text}" if text else ""


class WorkerPool:
    """Idle processes of one Triton version that have compiled for one target alone."""

    def __init__(self, version: str, *, lender: WorkerPool | None = None) -> None:
        """Start nothing yet. With a lender it gives way, and takes over idle processes that the lender can spare."""
        self._version = version
        self._lender = lender
        self._idle: list[Worker] = []
        self._at_hand = 1
        self._lock = threading.Lock()

    def compile(
        self,
        request: KernelRequest,
        root: Path,
        digest: str,
        time_limit: float,
        *,
        inputs_only: bool = False,
        gives_way: bool = False,
    ) -> Any:
        """As Worker.compile, in an idle process, or in a new one where none is idle or each has older sources.

        Processes that give way stand still meanwhile, in all pools, unless this is to give way too.
        """
        gives_way, task = gives_way or self._lender is not None, request.key(digest)
        with nullcontext() if gives_way else _turns.awaited(task):
            worker = self._take(root, digest, task, gives_way)
            try:
                with _turns.giving_way(worker, task) if gives_way else nullcontext():
                    return worker.compile(request, root, digest, time_limit, inputs_only=inputs_only)
            except BaseException as error:
                if not isinstance(error, CompileError):
                    worker.close()
                raise
            finally:
                if worker.alive:
                    with self._lock:
                        self._idle.append(worker)

    def warm(self, count: int) -> None:
        """Have that many idle processes at hand, and lend none of them. CompileError when one does not come up."""
        self._at_hand = max(self._at_hand, count)
        while len(self._idle) < count:
            worker = Worker(self._version, gives_way=True)
            with self._lock:
                # Those that have compiled before are quicker, and the last is taken first.
                self._idle.insert(0, worker)

    def load(self, request: KernelRequest, root: Path, digest: str, time_limit: float) -> None:
        """Have the kernel read by the idle process that is taken next. CompileError when it cannot be read.

        Gives way, since nobody waits for it.
        """
        with self._lock:
            is_ready = bool(self._idle) and self._idle[-1].has_read(request.kernel)
        if not is_ready:
            self.compile(request, root, digest, time_limit, inputs_only=True, gives_way=True)

    def lend(self) -> Worker | None:
        """Give away an idle process for good, but never the last one, nor one that `warm` has put at hand."""
        with self._lock:
            return self._idle.pop(0) if len(self._idle) > self._at_hand else None

    def _take(self, root: Path, digest: str, task: str, gives_way: bool) -> Worker:
        while True:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            if worker is None and self._lender is not None:
                worker = self._lender.lend() or Worker(self._version, gives_way=True, task=task)
                worker.lower_priority()
            if worker is None:
                return Worker(self._version, gives_way=gives_way, task=task)
            if worker.alive and worker.is_fresh(root, digest):
                return worker
            worker.close()

    def close(self) -> None:
        """End the idle processes."""
        with self._lock:
            workers, self._idle = self._idle, []
        for worker in workers:
            worker.close()


def awaited(task: str) -> AbstractContextManager[None]:
    """Inside, somebody waits for the kernel of that key, or for something else that has a name.

    Processes that give way stand still, unless they compile it.
    """
    return _turns.awaited(task)


# By process too: a forked child must not talk through its parent's pipes. By target, because Triton 3.6 keeps the fp8
# conversions of the first AMD target that a process compiles for, and emits gfx950 instructions for gfx942 after it.
_pools: dict[tuple[int, str, str, bool], WorkerPool] = {}
_pools_lock = threading.Lock()


def worker_pool(version: str, target: str, *, gives_way: bool = False) -> WorkerPool:
    """The pool of this process for a Triton version and a target: for what is awaited, or for what gives way to it."""
    with _pools_lock:
        lender = _pools.setdefault((os.getpid(), version, target, False), WorkerPool(version))
        if not gives_way:
            return lender
        return _pools.setdefault((os.getpid(), version, target, True), WorkerPool(version, lender=lender))


def warm_workers(version: str, target: str, count: int) -> None:
    """Start idle compiler processes until there are `count`, so that a later compilation waits for none to start."""
    worker_pool(version, target).warm(count)


def close_workers() -> None:
    """End all idle compiler processes of this process; the next compilation starts new ones."""
    for (process_id, *_), pool in list(_pools.items()):
        if process_id == os.getpid():
            pool.close()


atexit.register(close_workers)


def worker_environment(triton_directory: Path | None, scratch: str) -> dict[str, str]:
    """The current environment less what steers Triton, with the chosen Triton first on the import path."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_STEERING_PREFIXES) and name not in _STEERING_NAMES
    }
    import_path = [str(triton_directory)] if triton_directory else []
    import_path += [str(Path(entry).resolve()) for entry in sys.path if entry]
    return environment | {
        "PYTHONPATH": os.pathsep.join(import_path),
        "TRITON_CACHE_DIR": scratch,
        "TRITON_ALWAYS_COMPILE": "1",
    }


def _exit_cause(code: int) -> str:
    if code < 0:
        with suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit code {code}"
