"""Which studies a run of several comprises, and with which parameters: all checked before any of them starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from workbench.errors import ParameterError, ReportError
from workbench.report.find import Description, describe_notebook, find_notebook, known_notebooks
from workbench.report.parameters import Parameter, notebook_parameters
from workbench.report.study import OUT_DIR, Study, plan_study

INDEX_FROM_STUDY = "../index.html"
STUDY_LIMIT_S = 3600.0
"""Limit of one study unless another one is given, in seconds."""


@dataclass(frozen=True)
class Planned:
    """A notebook of the run, with its study, or with the reason why it cannot be one."""

    source: Path
    described: Description
    study: Study | None
    error: str = ""

    @property
    def name(self) -> str:
        return self.source.stem


def choose_notebooks(only: Sequence[str] = (), skip: Sequence[str] = ()) -> list[Path]:
    """Notebooks of the workbench by name: all that are not interactive, or `only` those, without those to `skip`.

    ReportError for an unknown name, and where nothing is left.
    """
    known = known_notebooks()
    for name in (*only, *skip):
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise ReportError(f"no notebook is named {name!r}{hint} Known notebooks: {', '.join(known)}")
    asked = only or [name for name in known if not describe_notebook(find_notebook(name)).interactive]
    chosen = [name for name in known if name in asked and name not in skip]
    if not chosen:
        raise ReportError("there is nothing left to run: --only and --skip leave no notebook")
    return [find_notebook(name) for name in chosen]


def plan_studies(sources: Sequence[Path], parameters: Mapping[str, Any]) -> list[Planned]:
    """Give every parameter to each notebook that has it.

    `NOTEBOOK.NAME` gives it to that notebook alone, over a value for all. ParameterError if no notebook has it, or if
    one that has it refuses the value. A notebook whose own declarations are malformed is planned as a failure.
    """
    _refuse_twins(sources)
    declared: dict[Path, dict[str, Parameter]] = {}
    broken: dict[Path, str] = {}
    for source in sources:
        try:
            declared[source] = notebook_parameters(source)
        except ParameterError as error:
            broken[source] = str(error)
    given = _distribute(declared, parameters)
    planned, problems = [], []
    for source in sources:
        study = None
        try:
            study = plan_study(source, given[source], INDEX_FROM_STUDY) if source in declared else None
        except ParameterError as error:
            problems.append(str(error))
        planned.append(Planned(source, describe_notebook(source), study, broken.get(source, "")))
    if problems:
        raise ParameterError("\n".join(problems))
    return planned


def _distribute(
    declared: Mapping[Path, Mapping[str, Parameter]], parameters: Mapping[str, Any]
) -> dict[Path, dict[str, Any]]:
    """Notebook -> the parameters that are meant for it."""
    given: dict[Path, dict[str, Any]] = {source: {} for source in declared}
    # What names its notebook comes last, so that it wins.
    for name, value in sorted(parameters.items(), key=lambda item: "." in item[0]):
        notebook, _, parameter = name.rpartition(".")
        takers = [
            source
            for source, known in declared.items()
            if parameter in known and notebook in ("", source.stem) and (notebook or parameter != OUT_DIR)
        ]
        if not takers:
            raise ParameterError(_nobody_takes(name, notebook, parameter, declared))
        for source in takers:
            given[source][parameter] = value
    return given


def _nobody_takes(name: str, notebook: str, parameter: str, declared: Mapping[Path, Mapping[str, Parameter]]) -> str:
    """An error text for a parameter that no notebook of the run has."""
    stems = [source.stem for source in declared]
    if notebook and notebook not in stems:
        return f"{name!r} is for a notebook {notebook!r}, which is not in this run; in it are {', '.join(stems)}"
    asked = [known for source, known in declared.items() if notebook in ("", source.stem)]
    names = sorted({each for known in asked for each in known} - {OUT_DIR})
    close = get_close_matches(parameter.lower(), names, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    who, verb = (f"notebook {notebook}", "has no") if notebook else ("no notebook of this run", "has a")
    return f"{who} {verb} parameter {name!r}{hint} Their parameters: {', '.join(names) or 'none'}"


def _refuse_twins(sources: Iterable[Path]) -> None:
    seen: dict[str, Path] = {}
    for source in sources:
        other = seen.setdefault(source.stem, source)
        if other != source:
            raise ReportError(f"{other} and {source} would share a folder of the report: give one another name")
