"""The compiler as the explorer uses it: processes that are ready before they are asked."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from workbench.compiler import compile_many, installed_triton_version, warm_workers
from workbench.compiler.service import load_kernel
from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from workbench.compiler import KernelRequest
    from workbench.compiler.service import Outcome

_AT_HAND = 2
"""Processes that wait: one for each side, or for the change that comes while the last one still compiles."""


class Compiler(Protocol):
    """What compiles for a session."""

    def compile(self, requests: Sequence[KernelRequest], *, gives_way: bool = False) -> list[Outcome]:
        """As `workbench.compiler.compile_many`."""

    def start(self, triton: str, target: str) -> None:
        """Make ready for a Triton version (empty: the installed one) and a target. Takes a second, once."""

    def load(self, request: KernelRequest) -> None:
        """Make ready for other variants of a kernel. Takes half a second, once."""


class WarmCompiler:
    """Compiler processes that have imported Triton, and read the kernel once it was loaded. Threads may share it."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._lock = threading.Lock()
        self._done: set[Hashable] = set()

    def compile(self, requests: Sequence[KernelRequest], *, gives_way: bool = False) -> list[Outcome]:
        """As `workbench.compiler.compile_many`."""
        return compile_many(requests, gives_way=gives_way)

    def start(self, triton: str, target: str) -> None:
        """See Compiler. What cannot be started fails, and is explained, where it is asked to compile."""
        version = triton or installed_triton_version()
        self._do_once((version, target), warm_workers, version, target, 1)

    def load(self, request: KernelRequest) -> None:
        """See Compiler."""
        key = (request.triton_version, request.target, request.kernel)
        self._do_once(key, load_kernel, request, _AT_HAND)

    def _do_once(self, key: Hashable, prepare: Callable[..., None], *arguments: Any) -> None:
        """What fails is tried again the next time."""
        with self._lock:
            if key in self._done:
                return
            self._done.add(key)
        with suppress(WorkbenchError):
            try:
                prepare(*arguments)
            except BaseException:
                with self._lock:
                    self._done.remove(key)
                raise
