"""`python -m workbench.report.child JOB`: one study in a process of its own.

The job is JSON. Tells on standard output, one JSON line each, how far it is; everything else that this process or a
kernel writes there goes to standard error. Ends, and its kernel with it, when standard input does: whoever started it
is gone then.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import TextIO

from workbench.report.execute import kill_group
from workbench.report.study import Study, run_study


class PipeProgress:
    """Writes one line for each message; `workbench.report.process` reads them."""

    def __init__(self, channel: TextIO) -> None:
        self.channel = channel
        self.kernel_group: int | None = None

    def kernel(self, group: int | None) -> None:
        self.kernel_group = group
        self._tell("kernel", group)

    def cell(self, done: int, total: int) -> None:
        self._tell("cell", done, total)

    def step(self, done: int, total: int, noun: str, label: str) -> None:
        self._tell("step", done, total, noun, label)

    def _tell(self, *message: object) -> None:
        self.channel.write(json.dumps(message) + "\n")
        self.channel.flush()


def main() -> None:
    """Run the job; what comes of it stands in the folder's manifest."""
    job = json.loads(sys.argv[1])
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as channel:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        view = PipeProgress(channel)
        threading.Thread(target=_end_with_standard_input, args=[view], daemon=True).start()
        study = Study(Path(job["source"]), job["values"], job["writes_records"], job["index"], job["environment"])
        run_study(study, Path(job["folder"]), timeout=job["timeout"], view=view)


def _end_with_standard_input(view: PipeProgress) -> None:
    sys.stdin.read()
    kill_group(view.kernel_group)
    os._exit(1)


if __name__ == "__main__":
    main()
