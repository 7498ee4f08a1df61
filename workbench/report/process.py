"""A study in a process of its own, whose death or standstill is a failed study and nothing worse."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from workbench.environment import environment_facts
from workbench.report.execute import kill_group
from workbench.report.manifest import MANIFEST
from workbench.report.progress import ProgressView
from workbench.report.study import ReportResult, Study, finish_study, read_result

GRACE_S = 60
"""What a process may take beyond the study's own limit, to start and to write its page."""


class StudyProcess:
    """One study's process. `stop` may be called from another thread, and before `run`."""

    def __init__(self, study: Study, folder: Path, *, timeout: float | None, threads: int) -> None:
        self.study = study
        self.folder = folder
        self.timeout = timeout
        self.threads = threads
        self._process: subprocess.Popen[str] | None = None
        self._kernel_group: int | None = None
        self._stopped = ""
        self._lock = threading.Lock()

    def run(self, view: ProgressView) -> ReportResult:
        """Run to the end, whatever that is. The folder then holds page and manifest."""
        started = datetime.now(UTC)
        with tempfile.TemporaryFile() as log:
            code = self._execute(view, log)
            if code == 0 and not self._stopped and (self.folder / MANIFEST).exists():
                return read_result(self.folder, self.study.name)
            error = self._stopped or f"the study's process died: {_reason(code, log)}"
        self._clear_unfinished()
        return finish_study(self.study, self.folder, started, error)

    def stop(self, reason: str) -> None:
        """Kill the process and its kernel. The reason becomes the study's failure."""
        with self._lock:
            self._stopped = self._stopped or reason
            if self._process is not None:
                self._process.kill()
            kill_group(self._kernel_group)

    def _clear_unfinished(self) -> None:
        """The process may have died while it wrote any of its files."""
        for name in (f"{self.study.name}.html", MANIFEST):
            (self.folder / name).unlink(missing_ok=True)
        notebook = self.folder / f"{self.study.name}.ipynb"
        try:
            json.loads(notebook.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            notebook.unlink(missing_ok=True)

    def _execute(self, view: ProgressView, log: IO[bytes]) -> int:
        with self._lock:
            if self._stopped:
                return 0
            self._process = process = subprocess.Popen(  # noqa: S603 - this program itself
                [sys.executable, "-m", "workbench.report.child", json.dumps(self._job())],
                # Nothing is written there: its end tells the study that this process is gone.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                encoding="utf-8",
                env=self._environment(),
                # An interrupt from the keyboard reaches this process alone, which then stops the study.
                start_new_session=True,
            )
        watchdog = threading.Timer((self.timeout or 0) + GRACE_S, self.stop, ["it did not end within its time limit"])
        watchdog.daemon = True
        if self.timeout is not None:
            watchdog.start()
        try:
            with process:
                self._follow(process, view)
                return process.wait()
        finally:
            watchdog.cancel()
            with self._lock:
                self._process = self._kernel_group = None

    def _follow(self, process: subprocess.Popen[str], view: ProgressView) -> None:
        """Pass on what the process tells, until it ends."""
        for line in process.stdout or ():
            if not line.endswith("\n"):  # killed while it wrote
                return
            kind, *values = json.loads(line)
            if kind == "kernel":
                with self._lock:
                    self._kernel_group = values[0]
            getattr(view, kind)(*values)

    def _job(self) -> dict[str, Any]:
        return {
            "source": str(self.study.source),
            "values": dict(self.study.values),
            "writes_records": self.study.writes_records,
            "index": self.study.index,
            "environment": environment_facts(),
            "folder": str(self.folder),
            "timeout": self.timeout,
        }

    def _environment(self) -> dict[str, str]:
        return {"OMP_NUM_THREADS": str(self.threads), **os.environ}


def _reason(code: int, log: IO[bytes]) -> str:
    """Signal or exit code, and the last line that the process wrote."""
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    said = f": {lines[-1].strip()}" if lines else ""
    if code < 0:
        return f"signal {signal.Signals(-code).name}{said}"
    return f"exit code {code}{said}"
