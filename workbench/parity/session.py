"""Run a whole set of scenarios: one after the other on a GPU, in several processes in the interpreter."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from workbench.errors import ParameterError, ScenarioError
from workbench.parity.baselines import choose_baselines
from workbench.parity.harness import resolve_device, run_lanes
from workbench.parity.recording import Session, lost_record
from workbench.parity.timing import TimingPlan
from workbench.problem import DenseAttentionProblem
from workbench.records import Record
from workbench.scenarios import Scenario, Size, load_named

OnDone = Callable[[int, int, str], None]


def choose_scenarios(set_name: str, size: str, device: str, only: Sequence[str] = ()) -> tuple[Scenario, ...]:
    """The scenarios of a set, of all sets (`all`) or of a file, at full size on a GPU and small on a CPU if `auto`.

    ScenarioError for an unknown set, and for names in `only` that the set does not have.
    """
    chosen: Size = "full" if resolve_device(device).type == "cuda" else "small"
    if size != "auto":
        chosen = size  # type: ignore[assignment]
    found = load_named(set_name, chosen)
    unknown = sorted(set(only) - {scenario.name for scenario in found})
    if unknown:
        names = ", ".join(scenario.name for scenario in found)
        raise ScenarioError(f"set {set_name} has no scenario {', '.join(unknown)}; it has {names}")
    return tuple(scenario for scenario in found if not only or scenario.name in only)


def run_set(
    scenarios: Sequence[Scenario],
    lanes: Sequence[str] = ("auto", "2d", "3d"),
    *,
    device: str = "auto",
    baselines: Sequence[str] = ("auto",),
    seed: int = 0,
    timing: bool | TimingPlan | None = None,
    jobs: int | None = None,
    on_done: OnDone | None = None,
) -> list[Record]:
    """Records of every scenario in every lane, and of every baseline, in the scenarios' order.

    timing None means: if there is a GPU. jobs: processes for the interpreter, by default one per core; a GPU is used
    from this process alone. on_done(done, total, name) is called at the start, and after each scenario. ParameterError
    where `lanes` is empty.
    """
    if not lanes:
        raise ParameterError("lanes is empty, so nothing would run; give some of auto, 2d, 3d")
    chosen = resolve_device(device)
    choose_baselines(baselines)
    on_gpu = chosen.type == "cuda"
    options = {
        "device": str(chosen),
        "baselines": tuple(baselines),
        "seed": seed,
        "timing": on_gpu if timing is None else timing,
    }
    total = len(scenarios)
    report = on_done or (lambda done, total, name: None)
    report(0, total, "")
    jobs = 1 if on_gpu else min(jobs or os.cpu_count() or 1, max(total, 1))
    runs = _in_process(scenarios, tuple(lanes), options)
    if jobs > 1:
        runs = _in_processes(scenarios, tuple(lanes), options, jobs)
    found: dict[int, list[Record]] = {}
    for done, (index, records) in enumerate(runs, start=1):
        found[index] = records
        report(done, total, scenarios[index].name)
    return [record for index in range(total) for record in found[index]]


Runs = Iterator[tuple[int, list[Record]]]


def _in_process(scenarios: Sequence[Scenario], lanes: tuple[str, ...], options: dict[str, object]) -> Runs:
    for index, scenario in enumerate(scenarios):
        yield index, _run_one(scenario, lanes, options)


def _in_processes(scenarios: Sequence[Scenario], lanes: tuple[str, ...], options: dict[str, object], jobs: int) -> Runs:
    """Fresh processes, not forks: PyTorch's threads do not survive a fork."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_single_thread) as pool:
        futures: dict[Future[list[Record]], int] = {
            pool.submit(_run_one, scenario, lanes, options): index for index, scenario in enumerate(scenarios)
        }
        for future in as_completed(futures):
            index = futures[future]
            try:
                yield index, future.result()
            except BrokenProcessPool as error:
                yield index, _lost(scenarios[index], lanes, f"its process died: {error}")


def _single_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _run_one(scenario: Scenario, lanes: tuple[str, ...], options: dict[str, object]) -> list[Record]:
    names: tuple[str, ...] = options["baselines"]  # type: ignore[assignment]
    return run_lanes(scenario, lanes, **{**options, "baselines": choose_baselines(names)})  # type: ignore[arg-type]


def _lost(scenario: Scenario, lanes: tuple[str, ...], why: str) -> list[Record]:
    if isinstance(scenario.problem, DenseAttentionProblem):
        lanes = ("dense",)
    session = Session(scenario.name, scenario.problem, resolve_device("cpu"), "", None)
    return [lost_record(session, "workbench", lane, why) for lane in lanes]
