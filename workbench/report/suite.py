"""run_all: several studies at once, each in a process of its own, into one folder with an index page."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from workbench.environment import environment_facts
from workbench.errors import ParameterError
from workbench.report.execute import require_papermill
from workbench.report.index import write_index
from workbench.report.manifest import write_manifest
from workbench.report.outcome import Outcome, outcome_of
from workbench.report.process import StudyProcess
from workbench.report.run import REPORTS, fresh_folder
from workbench.report.study import versions
from workbench.report.suite_plan import STUDY_LIMIT_S, Planned, choose_notebooks, plan_studies
from workbench.report.suite_progress import SuiteView, suite_view

NAME = "all"


@dataclass(frozen=True)
class SuiteResult:
    """What a run of several studies left behind."""

    path: Path
    """The run's folder."""
    index: Path
    outcomes: tuple[Outcome, ...]
    """One for each study, by name."""
    seconds: float
    interrupted: bool = False

    @property
    def status(self) -> str:
        """`ok` if every study is, else `failed`."""
        return "ok" if all(outcome.status == "ok" for outcome in self.outcomes) else "failed"


def run_all(
    parameters: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    *,
    size: str | None = None,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    notebooks: Sequence[Path] | None = None,
    jobs: int | None = None,
    timeout: float | None = STUDY_LIMIT_S,
    progress: bool = True,
) -> SuiteResult:
    """Run every notebook of the workbench, or `only` some, into a fresh folder `all-<time>` below `out`.

    A parameter goes to each notebook that has it, `notebook.name` to that one; size is the parameter of that name.
    notebooks: paths to run instead of what the workbench brings. jobs: studies at once, by default one per core;
    on a GPU those that measure run alone, one after the other. timeout: seconds for each study, None for no limit.

    A study that fails, dies or exceeds its limit leaves its partial page and stops no other one.
    Raises ParameterError and ReportError before anything runs.
    """
    if jobs is not None and jobs < 1:
        raise ParameterError(f"jobs is how many studies run at once, 1 or more; got {jobs}")
    given = {**({} if size is None else {"size": size}), **(parameters or {})}
    sources = choose_notebooks(only, skip) if notebooks is None else [path.resolve() for path in notebooks]
    planned = plan_studies(sources, given)
    require_papermill()
    asked = {"size": size, "only": list(only), "skip": list(skip), "parameters": dict(parameters or {}), "jobs": jobs}
    started = datetime.now(UTC)
    folder = fresh_folder(Path(out or REPORTS), NAME)
    with suite_view(len(planned), progress) as view:
        runner = _Runner(folder, view, jobs or _cores(), timeout)
        outcomes = runner.run(planned)
    seconds = (datetime.now(UTC) - started).total_seconds()
    result = SuiteResult(folder, folder / "index.html", tuple(outcomes), seconds, runner.interrupted)
    _write(result, {**asked, "timeout": timeout}, started)
    return result


class _Runner:
    """Runs planned studies, and stops all of them when it is interrupted."""

    def __init__(self, folder: Path, view: SuiteView, jobs: int, timeout: float | None) -> None:
        self.folder = folder
        self.view = view
        self.jobs = jobs
        self.timeout = timeout
        self.interrupted = False
        self._processes: dict[str, StudyProcess] = {}
        self._lock = threading.Lock()

    def run(self, planned: Sequence[Planned]) -> list[Outcome]:
        """All outcomes, in the order given."""
        on_gpu = environment_facts()["device_kind"] == "gpu"
        alone = [each for each in planned if on_gpu and each.described.measures]
        beside = [each for each in planned if each not in alone]
        outcomes = {**self._run_at_once(beside, self.jobs), **self._run_at_once(alone, 1)}
        return [outcomes[each.name] for each in planned]

    def _run_at_once(self, planned: Sequence[Planned], jobs: int) -> dict[str, Outcome]:
        jobs = max(1, min(jobs, len(planned)))
        threads = max(1, _cores() // jobs)
        with ThreadPoolExecutor(jobs) as pool:
            futures = {each.name: pool.submit(self._run_one, each, threads) for each in planned}
            try:
                wait(futures.values())
            except KeyboardInterrupt:
                self._interrupt()
                wait(futures.values())
        return {each.name: _result(each, futures[each.name]) for each in planned}

    def _interrupt(self) -> None:
        with self._lock:
            self.interrupted = True
            for process in self._processes.values():
                process.stop("the run was interrupted")

    def _run_one(self, planned: Planned, threads: int) -> Outcome:
        described = planned.described
        outcome = Outcome(planned.name, described.title, described.question, "failed", (planned.error,))
        if planned.study is not None:
            process = StudyProcess(planned.study, self.folder / planned.name, timeout=self.timeout, threads=threads)
            with self._lock:
                if self.interrupted:
                    reason = "not run: the run was interrupted before"
                    return Outcome(planned.name, described.title, described.question, "stopped", (reason,))
                self._processes[planned.name] = process
                process.folder.mkdir()
            with self.view.study(planned.name) as view:
                result = process.run(view)
            with self._lock:
                del self._processes[planned.name]
            outcome = outcome_of(planned.study, described.title, described.question, result, self.folder)
        self.view.done(outcome)
        return outcome


def _write(result: SuiteResult, asked: Mapping[str, Any], started: datetime) -> None:
    """Index page and manifest."""
    facts = {
        "kind": NAME,
        "name": NAME,
        "asked": asked,
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(result.seconds, 1),
        "status": result.status,
        "interrupted": result.interrupted,
        "environment": environment_facts(),
        "versions": versions(),
        "studies": [outcome.as_dict() for outcome in result.outcomes],
    }
    write_index(result.index, facts, result.outcomes)
    write_manifest(result.path, facts)


def _result(planned: Planned, future: Future[Outcome]) -> Outcome:
    """The outcome; an error of the workbench's own is one study's failure too."""
    error = future.exception()
    if error is None:
        return future.result()
    described = planned.described
    line = f"the workbench itself failed: {type(error).__name__}: {error}"
    return Outcome(planned.name, described.title, described.question, "failed", (line,))


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
