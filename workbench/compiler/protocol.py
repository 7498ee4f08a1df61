"""Messages between the workbench and its compiler processes: pickles over pipes, each behind its length."""

from __future__ import annotations

import math
import os
import pickle
import select
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.compiler.request import KernelRequest

_LENGTH = struct.Struct(">Q")
_CHUNK = 1 << 20
_LEAST_WAIT_SECONDS = 0.05


@dataclass(frozen=True)
class Failure:
    """Reply to a request that Triton refused."""

    reason: str


@dataclass(frozen=True)
class InputsOf:
    """Asks for the digest of what Triton's passes would be given for a request, instead of for the code."""

    request: KernelRequest


def send(descriptor: int, message: Any) -> None:
    """Write one message whole."""
    body = pickle.dumps(message)
    view = memoryview(_LENGTH.pack(len(body)) + body)
    while view:
        view = view[os.write(descriptor, view) :]


def receive(descriptor: int, time_limit: float | None = None, stood_still: Callable[[], float] = lambda: 0.0) -> Any:
    """Read one message. EOFError when the other side is gone, TimeoutError after `time_limit` seconds.

    Seconds for which the other side stood still do not count; `stood_still` says how many there were so far.
    Only for pipes to a process that this program started: unpickling trusts the sender.
    """
    start = time.monotonic() - stood_still()

    def seconds_left() -> float:
        return math.inf if time_limit is None else start + time_limit + stood_still() - time.monotonic()

    (length,) = _LENGTH.unpack(_read_exactly(descriptor, _LENGTH.size, seconds_left))
    return pickle.loads(_read_exactly(descriptor, length, seconds_left))  # noqa: S301 - see the docstring


def _read_exactly(descriptor: int, count: int, seconds_left: Callable[[], float]) -> bytes:
    parts = []
    while count:
        _await_readable(descriptor, seconds_left)
        part = os.read(descriptor, min(count, _CHUNK))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _await_readable(descriptor: int, seconds_left: Callable[[], float]) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while True:
        # More may be left after the wait than before it: the other side may have stood still.
        left = seconds_left()
        if poll.poll(None if left == math.inf else max(_LEAST_WAIT_SECONDS, left) * 1000):
            return
        if left <= 0:
            raise TimeoutError
