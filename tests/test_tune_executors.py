"""A sweep on a Dask cluster and on workers that die, and GPUs that several workers share."""

import os
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest
import torch
from distributed import LocalCluster

from tests.fake_tune import fake_compile, fake_measure
from workbench.device import load_device
from workbench.errors import BackendUnavailable
from workbench.parity import TimingPlan
from workbench.problem import UnifiedAttentionProblem
from workbench.scenarios import Scenario
from workbench.spec import Unified2DSpec
from workbench.tune import jobs, scheduler
from workbench.tune.futures import LocalPool, run_jobs
from workbench.tune.space import Space
from workbench.tune.store import Store
from workbench.tune.sweep import Plan, run_sweep

DECODE = UnifiedAttentionProblem(((1, 70), (1, 40)), 4, 2, 32, 16)
SCENARIOS = (Scenario("tiny", "tests", DECODE), Scenario("capped", "tests", DECODE.with_changes(softcap=5.0)))
SPACE = Space("unified-2d", "2d", Unified2DSpec, (("tile_size", (16, 64)), ("num_stages", (1, 2))))
PLAN = Plan(SCENARIOS, (SPACE,), load_device("h200"), "3.6.0", TimingPlan(rounds=5))


def workers_of(records):
    return {reason for record in records for reason in record.reasons if reason.startswith("worker ")}


@pytest.mark.slow
def test_a_dask_cluster_of_two_workers_shares_a_sweep(tmp_path):
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        scheduler.dask_workers(cluster.scheduler_address) as workers,
    ):
        outcome = run_sweep(
            PLAN,
            workers.compiling,
            Store(tmp_path),
            width=workers.width,
            measuring_width=workers.measuring_width,
            compile_job=fake_compile,
            measure_job=fake_measure,
        )
    assert workers.device is None or torch.cuda.is_available()
    assert len(workers_of(outcome.records)) == workers.measuring_width == 2
    assert f"worker {os.getpid()}" not in workers_of(outcome.records)
    assert [winner.specs["2d"].spec.num_stages for winner in outcome.winners] == [2, 2]


def test_workers_that_differ_or_are_none_are_refused():
    h200, h100 = load_device("h200"), load_device("h100")
    with pytest.raises(BackendUnavailable, match=r"differ \(h100 with"):
        scheduler._the_same("tcp://a", {"1": (h200, 1, "3.6.0"), "2": (h100, 1, "3.6.0")})
    with pytest.raises(BackendUnavailable, match="has no workers; start one for each GPU"):
        scheduler._the_same("tcp://a", {})
    assert scheduler._the_same("tcp://a", {"1": (h200, 1, "3.6.0"), "2": (h200, 8, "3.6.0")}) == (h200, "3.6.0")


class Fatal(Executor):
    """Runs a job at once; one with a tile of 64 keys takes its worker down."""

    def submit(self, function, job):
        future = Future()
        if any(entry.spec.tile_size == 64 and entry.name != "workbench" for entry in job.entries):
            future.set_exception(BrokenProcessPool("terminated abruptly"))
        else:
            future.set_result(function(job))
        return future


def test_only_the_spec_that_kills_its_worker_is_lost(tmp_path):
    plan = Plan(SCENARIOS[:1], (SPACE,), PLAN.device, "3.6.0", PLAN.timing)
    with ThreadPoolExecutor(1) as compiling:
        outcome = run_sweep(
            plan, compiling, Store(tmp_path), measuring=Fatal(), compile_job=fake_compile, measure_job=fake_measure
        )
    lost = [record for record in outcome.records if record.status == "runtime_error"]
    assert {record.spec.tile_size for record in lost} == {64}
    assert all("its worker died: BrokenProcessPool" in record.message for record in lost)
    assert outcome.winners[0].specs["2d"].spec.tile_size == 16


def test_a_local_pool_starts_anew_after_a_death():
    with LocalPool(1) as pool:
        ((_, died),) = run_jobs(pool, os._exit, [70], 1)
        assert isinstance(died, BrokenProcessPool)
        assert sorted(run_jobs(pool, abs, [-1, -2], 2)) == [(-2, 2), (-1, 1)]


def test_workers_of_a_host_never_share_a_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr(jobs.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with jobs.claimed_gpu(2) as first, jobs.claimed_gpu(2) as second:
        assert {first, second} == {0, 1}
        claimed = []
        waiting = threading.Thread(target=lambda: claimed.append(_claim(2)))
        waiting.start()
        waiting.join(timeout=3 * jobs.POLL_SECONDS)
        assert claimed == []
    waiting.join(timeout=10)
    assert claimed in ([0], [1])
    with jobs.claimed_gpu(2) as again:
        assert again == claimed[0], "a worker keeps to its GPU"
    with pytest.raises(BackendUnavailable, match="this worker sees no GPU"), jobs.claimed_gpu(0):
        pass


def _claim(count):
    with jobs.claimed_gpu(count) as index:
        return index
