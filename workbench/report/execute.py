"""Run a notebook through papermill; a failure leaves the executed part, marked, and is returned as text."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.errors import ReportError
from workbench.report.progress import ProgressView

INSTALL_HINT = "install them with `pip install papermill nbconvert ipykernel`"


def require_papermill() -> None:
    """ReportError that says what to install where papermill, nbconvert or ipykernel is missing."""
    missing = []
    for module in ("papermill", "nbconvert", "ipykernel"):
        try:
            __import__(module)
        except ImportError:
            missing.append(module)
    if missing:
        raise ReportError(f"reports need {' and '.join(missing)}, which this environment lacks; {INSTALL_HINT}")


def execute_notebook(
    source: Path, output: Path, parameters: dict[str, Any], *, timeout: float | None, view: ProgressView
) -> str | None:
    """Execute source into output, whose folder takes the records that the notebook keeps.

    Returns None, or one line that says where and why it failed.
    """
    import nbformat
    import papermill
    from papermill.parameterize import parameterize_notebook

    from workbench.report.engine import ENGINE

    notebook = papermill.iorw.load_notebook_node(str(source))
    notebook = parameterize_notebook(notebook, parameters, kernel_name="python3", language="python")
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        _with_own_event_loop(
            lambda: papermill.execute_notebook(
                notebook,
                str(output),
                engine_name=ENGINE,
                kernel_name="python3",
                language="python",
                progress_bar=False,
                deadline=deadline,
                view=view,
                folder=output.parent,
            )
        )
    except papermill.PapermillExecutionError as error:
        return f"In [{error.exec_count}] failed: {error.ename}: {_first_line(error.evalue)}"
    except (RuntimeError, OSError) as error:
        if not output.exists():
            nbformat.write(notebook, str(output))
        return f"the notebook's kernel did not start: {_first_line(str(error))}"
    return None


def kill_group(group: int | None) -> None:
    """Kill what is left of a kernel's process group: a kernel that died leaves the processes that it started behind."""
    if group is not None:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)


def _with_own_event_loop(run: Callable[[], object]) -> None:
    """Jupyter's blocking calls make an event loop per thread and leave it open; this one is closed.

    Under a running loop, as in a notebook, they use a thread of their own instead.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        contextvars.Context().run(_run_and_close_loop, run)
    else:
        run()


def _run_and_close_loop(run: Callable[[], object]) -> None:
    from jupyter_core.utils import ensure_event_loop

    try:
        run()
    finally:
        ensure_event_loop().close()
        asyncio.set_event_loop(None)


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "(no message)"
