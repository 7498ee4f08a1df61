"""One study: a notebook with its checked parameters, run into a folder that holds everything about the run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from workbench.environment import environment_facts
from workbench.errors import ParameterError, RecordError, ReportError
from workbench.records.kept import RECORDS
from workbench.report.execute import execute_notebook
from workbench.report.find import describe_notebook
from workbench.report.headlines import Headline, read_headlines
from workbench.report.html import ReportHeader, external_references, write_html
from workbench.report.manifest import MANIFEST, write_manifest
from workbench.report.parameters import bind_parameters, notebook_parameters
from workbench.report.progress import ProgressView
from workbench.report.words import format_moment

OUT_DIR = "out_dir"
_VERSIONED = ("papermill", "nbclient", "nbconvert", "nbformat", "ipykernel", "matplotlib")
_LISTED_FAILURES = 20


@dataclass(frozen=True)
class Study:
    """A notebook and the values of all its parameters."""

    source: Path
    values: Mapping[str, Any]
    writes_records: bool = False
    """Whether the notebook declares out_dir, the folder for its records."""
    index: str = ""
    """Link from the study's page to an index that it belongs to, relative to the page."""
    environment: Mapping[str, str] | None = None
    """The facts of `workbench.environment`, where they are known already: finding them loads PyTorch."""

    @property
    def name(self) -> str:
        return self.source.stem


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
    headlines: tuple[Headline, ...] = ()
    """The study's key figures, as its notebook said them."""
    seconds: float = 0.0


def plan_study(source: Path, parameters: Mapping[str, Any], index: str = "") -> Study:
    """Check the parameters against the notebook's parameters cell. ParameterError."""
    declared = notebook_parameters(source)
    takes_out_dir = declared.pop(OUT_DIR, None) is not None
    if takes_out_dir and OUT_DIR in parameters:
        raise ParameterError(f"{OUT_DIR} is the report's own folder; choose where it is made with --out (out=...)")
    return Study(source, bind_parameters(declared, parameters, f"notebook {source.stem}"), takes_out_dir, index)


def run_study(study: Study, folder: Path, *, timeout: float | None, view: ProgressView) -> ReportResult:
    """Execute a study into an empty folder: notebook, page, records if it writes any, manifest."""
    started = datetime.now(UTC)
    values = dict(study.values)
    if study.writes_records:
        values[OUT_DIR] = str(folder)
    error = execute_notebook(study.source, folder / f"{study.name}.ipynb", values, timeout=timeout, view=view)
    return finish_study(study, folder, started, error)


def finish_study(study: Study, folder: Path, started: datetime, error: str | None) -> ReportResult:
    """Write page and manifest over what an execution left in the folder, however far it came.

    error: why it did not come to its end, or None.
    """
    seconds = (datetime.now(UTC) - started).total_seconds()
    notebook, html = folder / f"{study.name}.ipynb", folder / f"{study.name}.html"
    if not notebook.exists():
        shutil.copyfile(study.source, notebook)
    failed = [error] if error else []
    records = folder / RECORDS if (folder / RECORDS).exists() else None
    failed += _record_failures(records, expected=study.writes_records and not error)
    headlines, wrong = _headlines(notebook)
    failed += wrong
    facts = _facts(study, started)
    write_html(notebook, html, _header(study, facts, failed, partial=error is not None))
    failed += [f"the HTML is not self-contained: {found}" for found in _external(html)]
    status: Literal["ok", "failed"] = "failed" if failed else "ok"
    facts |= {
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "status": status,
        "failed": failed,
        "headlines": [said.payload() for said in headlines],
    }
    write_manifest(folder, facts)
    return ReportResult(folder, notebook, html, records, tuple(failed), status, headlines, seconds)


def read_result(folder: Path, name: str) -> ReportResult:
    """What `run_study` returned for this folder, from its manifest."""
    facts = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    records = folder / RECORDS if (folder / RECORDS).exists() else None
    said = tuple(Headline(**payload) for payload in facts["headlines"])
    notebook, html = folder / f"{name}.ipynb", folder / f"{name}.html"
    return ReportResult(
        folder, notebook, html, records, tuple(facts["failed"]), facts["status"], said, facts["seconds"]
    )


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


def _headlines(notebook: Path) -> tuple[tuple[Headline, ...], list[str]]:
    """The headlines, and what is wrong with them: anything can stand in a notebook's output."""
    try:
        return read_headlines(notebook), []
    except (ReportError, TypeError) as error:
        return (), [f"a headline of the notebook is malformed: {error}"]


def _facts(study: Study, started: datetime) -> dict[str, Any]:
    described = describe_notebook(study.source)
    return {
        "kind": "study",
        "name": study.name,
        "title": described.title,
        "question": described.question,
        "parameters": dict(study.values),
        "started": started.isoformat(timespec="seconds"),
        "environment": dict(study.environment or environment_facts()),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Versions of the packages that make a report; "" for one that is not installed."""
    return {package: _version(package) for package in _VERSIONED}


def _header(study: Study, facts: dict[str, Any], failed: list[str], *, partial: bool) -> ReportHeader:
    environment = facts["environment"]
    shown = [("parameter " + key, repr(value)) for key, value in facts["parameters"].items()]
    shown += [(key, value) for key, value in environment.items() if value]
    return ReportHeader(
        name=study.name,
        title=f"{study.name} report",
        status="failed" if failed else "ok",
        started=format_moment(facts["started"]),
        device=environment.get("device", ""),
        failed=failed,
        facts=shown,
        partial=partial,
        index=study.index,
    )


def _external(html: Path) -> list[str]:
    return external_references(html.read_text(encoding="utf-8"))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
