"""Jobs on any concurrent.futures-style executor: a bounded number at once, each result as it comes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def run_jobs(
    executor: Executor, function: Callable[[Job], Result], jobs: Iterable[Job], width: int
) -> Iterator[tuple[Job, Result | Exception]]:
    """Each job with its result, or with the exception that it or its worker ended with; `width` jobs at once."""
    waiting = deque(jobs)
    running: dict[Future[Result], Job] = {}
    try:
        while waiting or running:
            while waiting and len(running) < width:
                job = waiting.popleft()
                running[executor.submit(function, job)] = job
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                job = running.pop(future)
                error = future.exception()
                if error is not None and not isinstance(error, Exception):
                    raise error
                yield job, future.result() if error is None else error
    finally:
        for future in running:
            future.cancel()


class LocalPool(Executor):
    """Processes of this machine, started anew once one of them has died."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As concurrent.futures has it."""
        for _ in range(2):
            if self._pool is None:
                # Fresh processes, not forks: neither CUDA nor PyTorch's threads survive a fork.
                self._pool = ProcessPoolExecutor(self.workers, mp_context=get_context("spawn"))
            try:
                return self._pool.submit(function, *args, **kwargs)
            except BrokenProcessPool:
                self._pool.shutdown(wait=False)
                self._pool = None
        raise BrokenProcessPool("the worker processes die as soon as they start")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As concurrent.futures has it."""
        if self._pool is not None:
            self._pool.shutdown(wait, cancel_futures=cancel_futures)
            self._pool = None
