"""run_report: a notebook and its parameters in, a folder with notebook, HTML, records and manifest out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from workbench.environment import environment_facts
from workbench.errors import ParameterError, RecordError, ReportError
from workbench.report.execute import execute_notebook, require_papermill
from workbench.report.find import find_notebook
from workbench.report.html import ReportHeader, external_references, write_html
from workbench.report.manifest import write_manifest
from workbench.report.parameters import bind_parameters, notebook_parameters
from workbench.report.progress import progress_view

OUT_DIR = "out_dir"
RECORDS = "records.parquet"
_VERSIONED = ("papermill", "nbclient", "nbconvert", "nbformat", "ipykernel", "matplotlib")
_LISTED_FAILURES = 20


@dataclass(frozen=True)
class ReportResult:
    """What a run left behind."""

    path: Path
    """The report's folder."""
    notebook: Path
    html: Path
    records: Path | None
    """records.parquet, or None if the notebook wrote none."""
    failed: tuple[str, ...]
    """One line per failure: a cell, a wrong scenario, an empty measurement. Empty when status is ok."""
    status: Literal["ok", "failed"]


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
    source = find_notebook(name)
    values, declared_out_dir = _checked(source, parameters or {})
    require_papermill()
    started = datetime.now(UTC)
    folder = _fresh_folder(Path(out or "reports"), source.stem, started)
    if declared_out_dir:
        values[OUT_DIR] = str(folder)
    notebook, html = folder / f"{source.stem}.ipynb", folder / f"{source.stem}.html"
    with progress_view(source.stem, progress) as view:
        error = execute_notebook(source, notebook, values, timeout=timeout, view=view)
    failed = [error] if error else []
    records = folder / RECORDS if (folder / RECORDS).exists() else None
    failed += _record_failures(records, expected=declared_out_dir and not error)
    facts = _facts(source.stem, values, started)
    write_html(notebook, html, _header(facts, failed))
    failed += [f"the HTML is not self-contained: {found}" for found in _external(html)]
    status: Literal["ok", "failed"] = "failed" if failed else "ok"
    ended = datetime.now(UTC).isoformat(timespec="seconds")
    write_manifest(folder, {**facts, "ended": ended, "status": status, "failed": failed})
    return ReportResult(folder, notebook, html, records, tuple(failed), status)


def _checked(source: Path, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    declared = notebook_parameters(source)
    takes_out_dir = declared.pop(OUT_DIR, None) is not None
    if takes_out_dir and OUT_DIR in parameters:
        raise ParameterError(f"{OUT_DIR} is the report's own folder; choose where it is made with --out (out=...)")
    return bind_parameters(declared, parameters, f"notebook {source.stem}"), takes_out_dir


def _fresh_folder(parent: Path, name: str, started: datetime) -> Path:
    """Make a folder that did not exist; making it is what claims the name against a report started beside this one."""
    stamp = started.strftime("%Y%m%d-%H%M%S")
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


def _record_failures(records: Path | None, *, expected: bool) -> list[str]:
    from workbench.records import read_records

    if records is None:
        return ["no records were written, so nothing was established"] if expected else []
    try:
        found = read_records(records)
    except RecordError as error:
        return [str(error)]
    if not found:
        return [f"{records.name} holds no record, so nothing was established"]
    own = [record for record in found if record.failed and record.candidate == "workbench"]
    lines = [f"{record.scenario}, lane {record.lane}: {record.status}: {record.message}" for record in own]
    more = len(lines) - _LISTED_FAILURES
    return lines[:_LISTED_FAILURES] + ([f"and {more} more failed scenarios"] if more > 0 else [])


def _facts(name: str, values: dict[str, Any], started: datetime) -> dict[str, Any]:
    return {
        "name": name,
        "parameters": values,
        "started": started.isoformat(timespec="seconds"),
        "environment": environment_facts(),
        "versions": {package: _version(package) for package in _VERSIONED},
    }


def _header(facts: dict[str, Any], failed: list[str]) -> ReportHeader:
    environment = facts["environment"]
    shown = [("parameter " + key, repr(value)) for key, value in facts["parameters"].items()]
    shown += [(key, value) for key, value in environment.items() if value]
    return ReportHeader(
        name=facts["name"],
        title=f"{facts['name']} report",
        status="failed" if failed else "ok",
        started=facts["started"],
        device=environment.get("device", ""),
        failed=failed,
        facts=shown,
    )


def _external(html: Path) -> list[str]:
    return external_references(html.read_text(encoding="utf-8"))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
