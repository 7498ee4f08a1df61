"""Reports that were written before: found in a folder, read from their manifests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import ReportError
from workbench.json_text import parse_json
from workbench.report.manifest import MANIFEST
from workbench.report.outcome import Outcome

_FOLDER = re.compile(r"(?P<name>.+)-(?P<date>\d{8})-(?P<time>\d{6})(?:-\d+)?")
UNFINISHED = "unfinished"


@dataclass(frozen=True)
class Run:
    """A report: of one notebook, or of several with an index page."""

    path: Path
    name: str
    """The notebook's name, or `all`."""
    status: str
    """`ok`, `failed`, or `unfinished` where there is no manifest: it runs still, or was killed."""
    started: str
    seconds: float | None
    page: Path | None
    """What a reader opens: the index page, or the one study's."""
    outcomes: tuple[Outcome, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment and versions."""

    @property
    def label(self) -> str:
        """How the run is called on the command line."""
        return self.path.name


def find_runs(folder: Path) -> list[Run]:
    """The reports in a folder, the newest first; [] if there is no such folder. ReportError for a file."""
    if folder.is_file():
        raise ReportError(f"{folder} is a file; --out names the folder of the reports")
    if not folder.is_dir():
        return []
    runs = [_unfinished(path) or load_run(path) for path in folder.iterdir() if path.is_dir() and _is_report(path)]
    return sorted(runs, key=lambda run: (run.started, run.label), reverse=True)


def find_run(name: str | None, folder: Path) -> Run:
    """A report by its path, by its name in the folder, or by its notebook's name, of which the newest is meant.

    None: the newest of all. ReportError if there is none.
    """
    if name is not None and Path(name).is_dir() and _is_report(Path(name)):
        return load_run(Path(name))
    runs = find_runs(folder)
    fitting = [run for run in runs if name in (None, run.label, run.name)]
    if fitting:
        return fitting[0]
    known = ", ".join(run.label for run in runs[:5]) + (", ..." if len(runs) > 5 else "")
    asked = "no report" if name is None else f"no report {name!r}"
    hint = f"there are {known}" if runs else "run one with `workbench report all`"
    raise ReportError(f"{asked} in {folder}/; {hint}. --out names another folder")


def load_run(path: Path) -> Run:
    """Read a report's manifest. ReportError if it has none, or one that is malformed."""
    try:
        facts = parse_json((path / MANIFEST).read_text(encoding="utf-8"))
        name, several = facts["name"], facts.get("kind") == "all"
        outcomes = tuple(map(Outcome.from_dict, facts["studies"])) if several else (_single(path, facts),)
        page = path / ("index.html" if several else f"{name}.html")
        return Run(
            path.resolve(),
            name,
            facts["status"],
            facts["started"],
            facts.get("seconds"),
            page.resolve(),
            outcomes,
            {**facts["environment"], **facts["versions"]},
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(f"{path} holds no readable {MANIFEST}, so it is no finished report: {error}") from error


def _single(path: Path, facts: Mapping[str, Any]) -> Outcome:
    """The one study of a report that has no index."""
    name = facts["name"]
    records = "records.parquet" if (path / "records.parquet").exists() else ""
    files = {"page": f"{name}.html", "notebook": f"{name}.ipynb", "records": records}
    return Outcome.from_dict({"title": name, "question": "", "headlines": (), **facts, **files})


def _is_report(path: Path) -> bool:
    return (path / MANIFEST).is_file() or _FOLDER.fullmatch(path.name) is not None


def _unfinished(path: Path) -> Run | None:
    """The report in a folder without a manifest."""
    found = _FOLDER.fullmatch(path.name)
    if (path / MANIFEST).is_file() or found is None:
        return None
    date, time = found["date"], found["time"]
    started = f"{date[:4]}-{date[4:6]}-{date[6:]}T{time[:2]}:{time[2:4]}:{time[4:]}+00:00"
    return Run(path.resolve(), found["name"], UNFINISHED, started, None, None)
