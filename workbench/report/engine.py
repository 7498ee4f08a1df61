"""The papermill engine: kernels without port races, a total time limit, progress, a clear end for a dead kernel."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import Engine, papermill_engines
from traitlets.config import Config

from workbench.records.kept import FOLDER_VARIABLE
from workbench.report.execute import kill_group
from workbench.report.progress import PROGRESS_MIME, ProgressView

ENGINE = "workbench"
START_ATTEMPTS = 3
START_TIMEOUT_S = 120
# A Unix socket's path holds 107 bytes on Linux and 103 on macOS; the socket's number is appended to the path.
_MAX_SOCKET_PATH = 95


class KernelStopped(Exception):
    """The kernel died or ran out of time; what it had done stands in the notebook."""


class ReportClient(PapermillNotebookClient):
    """Executes the cells; an execution that cannot go on leaves its reason as an error output of the cell."""

    def __init__(self, nb_man: Any, *, deadline: float | None, view: ProgressView, **options: Any) -> None:
        self.deadline = deadline
        self.view = view
        self.started = False
        super().__init__(nb_man, timeout_func=self._seconds_left, **options)

    def execute(self, **kwargs: Any) -> Any:
        self.reset_execution_trackers()
        group = None
        try:
            with self.setup_kernel(**kwargs):
                self.started = True
                group = getattr(self.km.provisioner, "pgid", None)
                self.view.kernel(group)
                # A KernelStopped has left its trace in the cell, and papermill reports it from there.
                with contextlib.suppress(KernelStopped):
                    self.papermill_execute_cells()
        finally:
            kill_group(group)
        return self.nb

    def execute_cell(self, cell: Any, cell_index: int, *args: Any, **kwargs: Any) -> Any:
        try:
            result = super().execute_cell(cell, cell_index, *args, **kwargs)
        except CellTimeoutError:
            self._stop(cell, "TimeLimit", "the report's total time limit was reached in this cell")
        except DeadKernelError:
            self._stop(cell, "KernelDied", "the kernel died in this cell (out of memory, or a crash in native code)")
        self.view.cell(cell_index + 1, len(self.nb.cells))
        return result

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        data = msg["content"].get("data") or {}
        if PROGRESS_MIME in data:
            step = data[PROGRESS_MIME]
            self.view.step(step["done"], step["total"], step["noun"], step["label"])
        return super().process_message(msg, cell, cell_index)

    def _seconds_left(self, cell: Any) -> float | None:
        return None if self.deadline is None else max(0.01, self.deadline - time.monotonic())

    def _stop(self, cell: Any, name: str, reason: str) -> None:
        cell.outputs.append(nbformat.v4.new_output("error", ename=name, evalue=reason, traceback=[f"{name}: {reason}"]))
        self.shutdown_kernel = "immediate"
        self.nb_man.cell_exception(cell)
        raise KernelStopped(reason)


class ReportEngine(Engine):
    """Starts the kernel, again on fresh sockets or ports if it does not come up, and executes the notebook."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> Any:
        for attempt in range(1, START_ATTEMPTS + 1):
            with _kernel_config(attempt) as config:
                client = ReportClient(
                    nb_man,
                    kernel_name=kernel_name,
                    config=config,
                    startup_timeout=_start_timeout(options["deadline"]),
                    deadline=options["deadline"],
                    view=options["view"],
                )
                try:
                    return client.execute(env={**os.environ, FOLDER_VARIABLE: str(options["folder"].absolute())})
                except (RuntimeError, OSError):
                    if client.started or attempt == START_ATTEMPTS:
                        raise
        return None


def _start_timeout(deadline: float | None) -> int:
    """Seconds to wait for a kernel, within the run's own limit."""
    return START_TIMEOUT_S if deadline is None else min(START_TIMEOUT_S, max(1, round(deadline - time.monotonic())))


@contextlib.contextmanager
def _kernel_config(attempt: int) -> Iterator[Config]:
    """Unix sockets in a folder of their own, which no other kernel can take; free TCP ports for the last attempt."""
    folder = Path(tempfile.mkdtemp(prefix="wb-"))
    config = Config()
    config.KernelManager.connection_file = str(folder / "k.json")
    sockets = os.name == "posix" and len(str(folder)) < _MAX_SOCKET_PATH and attempt < START_ATTEMPTS
    config.KernelManager.transport = "ipc" if sockets else "tcp"
    try:
        yield config
    finally:
        shutil.rmtree(folder, ignore_errors=True)


papermill_engines.register(ENGINE, ReportEngine)
__all__ = ["ENGINE", "CellExecutionError", "ReportClient", "ReportEngine"]
