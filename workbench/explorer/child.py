"""The process for slow figures: `python -m workbench.explorer.child`. Reads jobs from standard input until it ends.

What a job prints goes to standard error.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from workbench.compiler import protocol
from workbench.explorer.jobs import find_job


def main() -> None:
    """Serve jobs (name, arguments) until standard input ends."""
    replies = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        while True:
            name, arguments = protocol.receive(sys.stdin.fileno())
            protocol.send(replies, answer(name, arguments))
    except (EOFError, BrokenPipeError):
        return


def answer(name: str, arguments: tuple[Any, ...]) -> Any:
    """Run one job; whatever it raises belongs to it alone."""
    try:
        return find_job(name)(*arguments)
    except Exception as error:  # noqa: BLE001 - a job runs kernels with any lever, on a GPU too
        return protocol.Failure(f"{type(error).__name__}: {error}".strip())


if __name__ == "__main__":
    main()
