"""The order of the dense kernel's work items and the L2: sweeps of the model over shapes, devices and assumptions.

Every figure is modelled, except those of `published`.
"""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

from workbench.device import Device
from workbench.errors import ModelError, OrderError, ParameterError, SpecError
from workbench.model import CacheGeometry, L2Assumptions, L2Result, l2_geometry, model_l2
from workbench.model.dense_order import PAIRED
from workbench.problem import DenseAttentionProblem
from workbench.published import load_published
from workbench.scenarios import Scenario, find
from workbench.spec import DenseGeometry

WHAT_IFS: dict[str, str] = {
    "programs": "programs of the persistent grid (NP)",
    "l2_kib": "KiB of L2 per XCD",
    "xcds": "XCDs, with as many compute units and as much L2 each as its share",
    "block_m": "query rows of a work item (block_m)",
    "block_n": "keys of a tile (block_n)",
}
"""What `what_if` can vary, in words."""

SENSITIVITY: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("each line of O in one store", {"o_requests": 1}),
    ("each line of O in four stores", {"o_requests": 4}),
    ("each line of O in eight stores", {"o_requests": 8}),
    ("each line of Q asked for four times", {"q_requests": 4}),
    ("O left out", {"o_requests": 0}),
    ("Q and O left out", {"q_requests": 0, "o_requests": 0}),
    ("workgroups wait at every stride", {"pace": "phase"}),
    ("speeds within 0.5 %", {"drift": 0.005}),
    ("speeds within 2 %", {"drift": 0.02}),
    ("sets by the line number, not hashed", {"set_index": "modulo"}),
)
"""Each free assumption at another value: what is changed in L2Assumptions, or in the geometry."""

WORTH_PROCESSES = 10**11
"""From so much work on (`_Job.work`), some seconds on one core, a sweep goes to several processes."""

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Case:
    """One shape, or one value of a what-if, with the model's result for each order."""

    label: str
    problem: DenseAttentionProblem
    results: Mapping[str, L2Result]
    refused: Mapping[str, str]
    """Orders that the dispatcher would not run here, and why; modelled all the same, where they meet every item."""
    auto: str
    """The order that `auto` takes here."""

    def ratio(self, first: str, second: str) -> float | None:
        """Misses of one order over those of another; None if either was not modelled."""
        if first not in self.results or second not in self.results:
            return None
        return self.results[first].total_misses / self.results[second].total_misses


def dense_scenarios(names: Sequence[str], size: str = "full") -> list[Scenario]:
    """The scenarios of those names; ParameterError for one that is not dense."""
    found = [find(name, size) for name in names]  # type: ignore[arg-type]
    for scenario in found:
        if not isinstance(scenario.problem, DenseAttentionProblem):
            raise ParameterError(
                f"{scenario.name} is paged; the L2 model is of the dense kernel: `workbench scenarios dense` lists its "
                "scenarios"
            )
    return found


def base_spec(problem: DenseAttentionProblem, device: Device) -> DenseGeometry:
    """What dispatch ships for the problem."""
    from workbench.dispatch import select_dense_spec

    return select_dense_spec(problem, device).spec


def compare_orders(
    scenarios: Sequence[Scenario],
    device: Device,
    orders: Sequence[str],
    assumptions: L2Assumptions,
    on_done: Progress | None = None,
) -> list[Case]:
    """Each scenario under each order, with the geometry that dispatch ships."""
    jobs = []
    for scenario in scenarios:
        problem = _dense(scenario)
        spec = base_spec(problem, device)
        jobs.append(_Job(scenario.name, problem, spec, device, tuple(orders), l2_geometry(device), assumptions))
    return _run(jobs, on_done)


def what_if(
    scenario: Scenario,
    device: Device,
    orders: Sequence[str],
    assumptions: L2Assumptions,
    name: str,
    values: Sequence[int],
    on_done: Progress | None = None,
) -> list[Case]:
    """The scenario with one of WHAT_IFS set to each of the values, all else as shipped.

    The default grid has no number of programs and a paired order only one: both are left out where that varies.
    """
    if name not in WHAT_IFS:
        raise ParameterError(f"there is no what-if {name!r}; there are {', '.join(WHAT_IFS)}")
    problem = _dense(scenario)
    shipped = base_spec(problem, device)
    if name == "programs":
        orders = [order for order in orders if order not in ("grid", *PAIRED)]
    jobs = []
    for value in values:
        spec, geometry = shipped, l2_geometry(device)
        if name == "programs":
            spec = spec.with_changes(num_persistent=value)
        elif name == "l2_kib":
            geometry = replace(geometry, bytes_per_xcd=value * 1024)
        elif name == "xcds":
            geometry = replace(geometry, xcds=value, bytes_per_xcd=_share(geometry, value))
        else:
            spec = spec.with_changes(**{name: value})
        jobs.append(_Job(str(value), problem, spec, device, tuple(orders), geometry, assumptions))
    return _run(jobs, on_done, f"{name} ")


def sensitivity(
    scenario: Scenario,
    device: Device,
    orders: Sequence[str],
    assumptions: L2Assumptions,
    on_done: Progress | None = None,
) -> list[Case]:
    """The scenario with each free assumption at another value, the chosen values first."""
    problem = _dense(scenario)
    spec = base_spec(problem, device)
    jobs = []
    for label, changes in (("as chosen", {}), *SENSITIVITY):
        free = {key: value for key, value in changes.items() if key != "set_index"}
        fixed = {key: value for key, value in changes.items() if key == "set_index"}
        geometry = replace(l2_geometry(device), **fixed)
        jobs.append(_Job(label, problem, spec, device, tuple(orders), geometry, replace(assumptions, **free)))
    return _run(jobs, on_done)


@dataclass(frozen=True)
class PublishedRate:
    """An L2 hit rate that was measured elsewhere, as a share."""

    value: float
    hardware: str
    source: str


def published_rates(scenario: Scenario, device: Device) -> dict[str, PublishedRate]:
    """Published hit rates by order, for the one problem and device that they are known of; else nothing."""
    if scenario.name != "dense_headline" or scenario.size != "full" or device.name != "mi355x":
        return {}
    rows = [row for row in load_published("persist_decode") if row.metric == "L2 hit rate"]
    return {
        row.config.split(",")[0]: PublishedRate(float(row.value) / 100, row.hardware, f"{row.kernel}, {row.source}")
        for row in rows
    }


def published_ratio(scenario: Scenario, device: Device) -> float | None:
    """Published misses of qb_major over those of hkv_major, where they are known."""
    if not published_rates(scenario, device):
        return None
    return next(float(row.value) for row in load_published("persist_decode") if row.metric == "misses")


@dataclass(frozen=True)
class _Job:
    """What one case is calculated from."""

    label: str
    problem: DenseAttentionProblem
    spec: DenseGeometry
    device: Device
    orders: tuple[str, ...]
    geometry: CacheGeometry
    assumptions: L2Assumptions

    @property
    def work(self) -> int:
        """Query heads times pairs of a query and a key: what the number of requests grows with."""
        problem = self.problem
        return problem.batch * problem.num_query_heads * problem.seqlen_q * problem.seqlen_kv * len(self.orders)


def _run(jobs: Sequence[_Job], on_done: Progress | None, before: str = "") -> list[Case]:
    """The cases in order, over the machine's cores where they are worth the start of processes.

    before: stands before each case's label where its end is told.
    """
    width = min(os.cpu_count() or 1, len(jobs))
    results: Iterable[Case] = map(_case, jobs)
    if width > 1 and sum(job.work for job in jobs) >= WORTH_PROCESSES:
        results = _processes().map(_case, jobs)
    cases = []
    for job, case in zip(jobs, results, strict=True):
        cases.append(case)
        if on_done:
            on_done(len(cases), len(jobs), before + job.label)
    return cases


@functools.cache
def _processes() -> ProcessPoolExecutor:
    """One process a core, for all sweeps of a notebook: each keeps what `_modelled` found."""
    return ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"), initializer=_leave_interrupts)


def _leave_interrupts() -> None:
    """An interrupt is the kernel's to answer: it ends this process with itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _case(job: _Job) -> Case:
    from workbench.dispatch import select_work_order

    problem, spec, device = job.problem, job.spec, job.device
    results, refused = {}, {}
    for order in job.orders:
        try:
            results[order] = _modelled(problem, spec, device, order, job.geometry, job.assumptions)
        except OrderError as error:
            refused[order] = str(error)
        else:
            why = _refusal(problem, spec, device, order)
            refused |= {order: why} if why else {}
    auto = select_work_order(problem, spec.with_changes(persist_decode="auto"), device).order
    return Case(job.label, problem, results, refused, auto)


@functools.lru_cache(maxsize=256)
def _modelled(
    problem: DenseAttentionProblem,
    spec: DenseGeometry,
    device: Device,
    order: str,
    geometry: CacheGeometry,
    assumptions: L2Assumptions,
) -> L2Result:
    """model_l2, once for what several sweeps of a notebook share."""
    return model_l2(problem, spec, device, order, geometry=geometry, assumptions=assumptions)


def _refusal(problem: DenseAttentionProblem, spec: DenseGeometry, device: Device, order: str) -> str:
    from workbench.dispatch import select_work_order

    if order == "grid":
        return ""
    try:
        select_work_order(problem, spec.with_changes(persist_decode=order), device)
    except SpecError as error:
        return str(error).split(";")[0]
    return ""


def _share(geometry: CacheGeometry, xcds: int) -> int:
    """L2 of one of `xcds` dies that hold as much together as the device does, in whole sets."""
    set_bytes = geometry.ways * geometry.line_bytes
    share = geometry.xcds * geometry.bytes_per_xcd // xcds // set_bytes * set_bytes
    if share == 0:
        raise ModelError(f"{xcds} XCDs leave no whole set of {set_bytes} bytes of L2 to each; take fewer")
    return share


def _dense(scenario: Scenario) -> DenseAttentionProblem:
    problem = scenario.problem
    if not isinstance(problem, DenseAttentionProblem):
        raise ParameterError(f"{scenario.name} is paged; take a dense scenario")
    return problem
