"""Messages between the workbench and its compiler processes: pickles over pipes, each behind its length."""

from __future__ import annotations

import os
import pickle
import select
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.compiler.request import KernelRequest

_LENGTH = struct.Struct(">Q")
_CHUNK = 1 << 20


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


def receive(descriptor: int, time_limit: float | None = None) -> Any:
    """Read one message. EOFError when the other side is gone, TimeoutError after `time_limit` seconds.

    Only for pipes to a process that this program started: unpickling trusts the sender.
    """
    deadline = None if time_limit is None else time.monotonic() + time_limit
    (length,) = _LENGTH.unpack(_read_exactly(descriptor, _LENGTH.size, deadline))
    return pickle.loads(_read_exactly(descriptor, length, deadline))  # noqa: S301 - see the docstring


def _read_exactly(descriptor: int, count: int, deadline: float | None) -> bytes:
    parts = []
    while count:
        if deadline is not None and not _readable(descriptor, deadline):
            raise TimeoutError
        part = os.read(descriptor, min(count, _CHUNK))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _readable(descriptor: int, deadline: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
