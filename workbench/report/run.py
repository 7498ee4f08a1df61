"""run_report: a notebook and its parameters in, a folder with notebook, HTML, records and manifest out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from workbench.errors import ReportError
from workbench.report.execute import require_papermill
from workbench.report.find import find_notebook
from workbench.report.progress import progress_view
from workbench.report.study import ReportResult, plan_study, run_study

REPORTS = "reports"
"""Folder of the reports, unless another one is asked for."""


def run_report(
    name: str,
    parameters: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    *,
    progress: bool = True,
    timeout: float | None = None,
) -> ReportResult:
    """Execute a notebook by name or path and write its report into a fresh folder.

    `out` is the folder in which the report's own folder `<name>-<time>` is made (default: `reports`); nothing that
    exists is overwritten. `timeout` limits the whole run, in seconds. Parameters are checked against the notebook's
    parameters cell before anything starts; text is converted to the declared types.

    A notebook that fails still leaves its executed part, the HTML and a manifest, with status `failed`.
    Raises ParameterError for unknown or ill-typed parameters, ReportError for an unknown notebook, a missing package
    or a folder that cannot be written.
    """
    study = plan_study(find_notebook(name), parameters or {})
    require_papermill()
    folder = fresh_folder(Path(out or REPORTS), study.name)
    with progress_view(study.name, progress) as view:
        return run_study(study, folder, timeout=timeout, view=view)


def fresh_folder(parent: Path, name: str) -> Path:
    """Make a folder that did not exist; making it is what claims the name against a report started beside this one."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for number in range(1, 1000):
            folder = parent / (f"{name}-{stamp}" if number == 1 else f"{name}-{stamp}-{number}")
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            return folder.resolve()
    except OSError as error:
        raise ReportError(f"cannot write a report below {parent}: {error}; choose another folder with --out") from error
    raise ReportError(f"{parent} holds 999 reports of {name} of this second; choose another folder with --out")
