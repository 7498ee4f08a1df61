"""Compile requests, from the cache where possible, else side by side in compiler processes."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeVar

from workbench.compiler import cache
from workbench.compiler.artifact import CompiledKernel
from workbench.compiler.cache_limit import cache_limit
from workbench.compiler.pool import awaited, close_workers, worker_pool
from workbench.compiler.request import KernelRequest
from workbench.compiler.sources import source_digest, source_root
from workbench.compiler.targets import find_target
from workbench.compiler.versions import compiler_digest
from workbench.errors import CompileError

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")

DEFAULT_TIME_LIMIT = 300.0

Outcome = CompiledKernel | CompileError
Progress = Callable[[int, int, KernelRequest, object], None]
"""Called in the caller's thread after each outcome with (done, total, request, outcome)."""


def compile_kernel(request: KernelRequest, *, time_limit: float = DEFAULT_TIME_LIMIT) -> CompiledKernel:
    """Compile one kernel; CompileError when Triton refuses, dies, or exceeds `time_limit` seconds."""
    (outcome,) = compile_many([request], time_limit=time_limit)
    if isinstance(outcome, CompileError):
        raise outcome
    return outcome


def compile_many(
    requests: Sequence[KernelRequest],
    *,
    jobs: int | None = None,
    time_limit: float = DEFAULT_TIME_LIMIT,
    progress: Progress | None = None,
    gives_way: bool = False,
) -> list[Outcome]:
    """Compile many kernels; one that fails gives its CompileError in its place and disturbs no other.

    `jobs` processes work at once (None: one per CPU). `time_limit` is in seconds for each kernel. What another thread
    compiles already is waited for.
    gives_way: in processes of their own that get the time that others leave, and none while another caller waits.
    ParameterError, before anything runs, for a limit of the cache that is none.
    """
    cache_limit()
    identify = _Identifier()
    places: dict[str, list[int]] = {}
    outcomes: list[Outcome | None] = [None] * len(requests)
    done = 0

    def settle(indices: list[int], outcome: Outcome) -> None:
        nonlocal done
        for index in indices:
            outcomes[index] = outcome
            done += 1
            if progress is not None:
                progress(done, len(requests), requests[index], outcome)

    for index, request in enumerate(requests):
        try:
            places.setdefault(identify(request), []).append(index)
        except CompileError as error:
            settle([index], error)
    missing = []
    for key, indices in places.items():
        cached = cache.load(key)
        if cached is None:
            missing.append(key)
        else:
            settle(indices, cached)
    if missing:
        with _Executor(min(jobs or os.cpu_count() or 1, len(missing))) as executor:
            futures = {
                executor.submit(_compile, requests[places[key][0]], key, identify, time_limit, gives_way): key
                for key in missing
            }
            for future in as_completed(futures):
                compiled = _outcome(future)
                settle(places[futures[future]], compiled)
    return outcomes  # type: ignore[return-value]


def input_digests(
    requests: Sequence[KernelRequest],
    *,
    jobs: int | None = None,
    time_limit: float = DEFAULT_TIME_LIMIT,
    progress: Progress | None = None,
) -> list[str | CompileError]:
    """For each request a digest of all that decides its machine code, without making the code.

    It covers the compiler's own files, the target, the options and the IR that Triton's frontend makes; requests of
    equal digests have equal code. A fifth of a compilation's time.
    """
    identify = _Identifier()

    def digest(request: KernelRequest) -> str:
        root, sources = identify.sources(request)
        pool = worker_pool(request.triton_version, request.target)
        inputs = pool.compile(request, root, sources, time_limit, inputs_only=True)
        compiler = compiler_digest(request.triton_version, find_target(request.target).backend)
        return hashlib.sha256(f"{compiler} {inputs}".encode()).hexdigest()

    digests: list[str | CompileError] = [""] * len(requests)
    if requests:
        with _Executor(min(jobs or os.cpu_count() or 1, len(requests))) as executor:
            futures = {executor.submit(digest, request): index for index, request in enumerate(requests)}
            for done, future in enumerate(as_completed(futures), 1):
                index = futures[future]
                digests[index] = _outcome(future)
                if progress is not None:
                    progress(done, len(requests), requests[index], digests[index])
    return digests


def load_kernel(request: KernelRequest, processes: int, *, time_limit: float = DEFAULT_TIME_LIMIT) -> None:
    """Have that many idle compiler processes at hand, the next one to be used with the kernel read already.

    CompileError where a process does not come up or the kernel cannot be read.
    """
    root, sources = _Identifier().sources(request)
    pool = worker_pool(request.triton_version, request.target)
    pool.warm(processes)
    # One alone, so that the others stay free meanwhile; a pool hands out first what came back last.
    pool.load(request, root, sources, time_limit)


def is_cached(request: KernelRequest) -> bool:
    """Whether compiling the request would find it on disk."""
    try:
        return cache.entry_path(_Identifier()(request)).is_file()
    except CompileError:
        return False


class _Identifier:
    """Keys of requests; each source tree is read once for a whole batch."""

    def __init__(self) -> None:
        self._digests: dict[Path, str] = {}

    def __call__(self, request: KernelRequest) -> str:
        return request.key(self.sources(request)[1])

    def sources(self, request: KernelRequest) -> tuple[Path, str]:
        root = source_root(request.kernel)
        if root not in self._digests:
            self._digests[root] = source_digest(root)
        return root, self._digests[root]


class _Executor(ThreadPoolExecutor):
    """Threads that are not waited for when the caller is interrupted."""

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        if exc_type is not None:
            self.shutdown(wait=False, cancel_futures=True)
            close_workers()
        else:
            self.shutdown()


# Kernels that some thread of this process compiles, by key.
_under_way: dict[str, Future[CompiledKernel]] = {}
_under_way_lock = threading.Lock()


def _compile(
    request: KernelRequest, key: str, identify: _Identifier, time_limit: float, gives_way: bool
) -> CompiledKernel:
    """Compile, or wait for the thread that does so already; in front of all that gives way, unless this does too."""
    with _under_way_lock:
        others = _under_way.get(key)
        if others is None:
            mine = _under_way[key] = Future[CompiledKernel]()
    if others is not None:
        with nullcontext() if gives_way else awaited(key):
            return others.result()
    try:
        mine.set_result(_compile_anew(request, key, identify, time_limit, gives_way))
    except BaseException as error:
        mine.set_exception(error)
        raise
    finally:
        with _under_way_lock:
            del _under_way[key]
    return mine.result()


def _compile_anew(
    request: KernelRequest, key: str, identify: _Identifier, time_limit: float, gives_way: bool
) -> CompiledKernel:
    root, digest = identify.sources(request)
    pool = worker_pool(request.triton_version, request.target, gives_way=gives_way)
    fields = pool.compile(request, root, digest, time_limit)
    kernel = CompiledKernel(key=key, **fields)
    cache.store(kernel)
    return kernel


def _outcome(future: Future[T]) -> T | CompileError:
    try:
        return future.result()
    except CompileError as error:
        return error
