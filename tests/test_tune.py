"""Sweeps with made-up facts and times: what is tried, pruned, timed, kept, and what wins."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.fake_tune import fake_compile, fake_measure
from workbench.device import load_device
from workbench.dispatch import select_spec
from workbench.dispatch.tuned import problem_key, read_table
from workbench.parity import TimingPlan
from workbench.problem import UnifiedAttentionProblem
from workbench.records import read_records
from workbench.scenarios import Scenario
from workbench.tune.space import read_space
from workbench.tune.store import Store
from workbench.tune.sweep import Plan, run_sweep
from workbench.tune.winners import write_winners

H200 = load_device("h200")
PROBLEM = UnifiedAttentionProblem(((1, 70), (1, 40)), 4, 2, 32, 16)
TINY = Scenario("tiny", "tests", PROBLEM)
SPACE = {
    "kernel": "unified-2d",
    "lane": "2d",
    "spec": "Unified2DSpec",
    "fields": {"tile_size": [16, 64], "num_warps": [1, 4, 8], "num_stages": [1, 2]},
}


@pytest.fixture
def space(tmp_path):
    path = tmp_path / "space.json"
    path.write_text(json.dumps(SPACE))
    return read_space(path)


@pytest.fixture
def plan(space):
    return Plan((TINY,), (space,), H200, "3.6.0", TimingPlan(rounds=5))


def sweep(plan, folder, measure=fake_measure, **options):
    with ThreadPoolExecutor(2) as executor:
        return run_sweep(plan, executor, Store(folder), compile_job=fake_compile, measure_job=measure, **options)


def test_every_point_is_a_record_that_says_what_became_of_it(plan, tmp_path):
    outcome = sweep(plan, tmp_path / "records")
    tried = {record.candidate: record for record in outcome.records if record.candidate != "workbench"}
    assert len(tried) == 12
    by_warps = {warps: [each for each in tried.values() if each.spec.num_warps == warps] for warps in (1, 4, 8)}
    assert {record.status for record in by_warps[1]} == {"compile_error"}
    assert {record.message for record in by_warps[8]} == {"pruned: spills 16 bytes a lane, the dispatcher's choice 0"}
    assert {record.evidence for record in by_warps[8]} == {"static"}
    assert all(record.samples and record.reasons[-1].startswith("Tuning, ") for record in by_warps[4])
    slow = next(record for record in by_warps[4] if record.spec.num_stages == 1 and record.spec.tile_size == 64)
    assert "slower" in slow.reasons[-1]


def test_the_fastest_wins_and_the_dispatcher_takes_it(plan, tmp_path):
    outcome = sweep(plan, tmp_path / "records")
    (winner,) = outcome.winners
    assert winner.key == problem_key(PROBLEM)
    assert (winner.specs["2d"].spec.tile_size, winner.specs["2d"].spec.num_stages) == (16, 2)
    path = write_winners(tmp_path / "h200.json", "h200", "3.6.0", outcome.winners, outcome.records[-1].environment)
    table = read_table(path, "3.6.0")
    choice = select_spec(PROBLEM, H200, "2d", tuned=table)
    assert choice.spec == winner.specs["2d"].spec
    assert choice.reasons[0].startswith(f"Tuned for {winner.key} (measured on ")
    heuristic = select_spec(PROBLEM, H200, "2d", tuned=False)
    assert select_spec(PROBLEM, H200, "3d", tuned=table) == select_spec(PROBLEM, H200, "3d", tuned=False)
    for problem, device in ((PROBLEM.with_changes(softcap=5.0), H200), (PROBLEM, load_device("h100"))):
        assert select_spec(problem, device, "2d", tuned=table).cohort != "tuned"
    assert read_table(path, "3.9.0") is None
    assert heuristic.spec != choice.spec


def test_a_sweep_that_stopped_goes_on_where_it_was(plan, tmp_path):
    first = sweep(plan, tmp_path / "records")
    calls = []

    def counted(job):
        calls.append(job)
        return fake_measure(job)

    second = sweep(plan, tmp_path / "records", counted)
    assert calls == []
    assert second == first
    final = next((tmp_path / "records").glob("final-*.parquet"))
    assert read_records(final)[0].candidate == "workbench"
    final.unlink()
    sweep(plan, tmp_path / "records", counted)
    assert len(calls) == 1
