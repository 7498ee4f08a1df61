import json

import pytest
import torch

from workbench.errors import BackendUnavailable, ParameterError, ScenarioError
from workbench.parity import BASELINES, choose_baselines, choose_scenarios, run_lanes, run_scenario, run_set
from workbench.parity.baselines.sdpa import TorchSdpa
from workbench.parity.entrant import BaselineEntrant
from workbench.parity.trial import Trials
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.records import read_records, write_records
from workbench.scenarios import Scenario
from workbench.spec import Unified2DSpec

RAGGED = UnifiedAttentionProblem(
    seq_lens=((1, 40), (9, 25)), num_query_heads=6, num_kv_heads=2, head_size=32, block_size=16, sliding_window=20
)
DENSE = DenseAttentionProblem(1, 4, 2, 33, 33, 32)


def scenario(problem, name="probe"):
    return Scenario(name, "tests", problem)


def test_every_lane_passes_and_says_what_ran(device):
    records = run_lanes(scenario(RAGGED), ("auto", "2d", "3d"), device=device)
    assert [(record.lane, record.status) for record in records] == [("auto", "ok"), ("2d", "ok"), ("3d", "ok")]
    assert [record.path for record in records] == ["2d", "2d", "3d"]
    for record in records:
        assert record.spec is not None
        assert record.reasons
        assert 0 < record.value("worst_error") <= record.value("allowed_error")
        assert len(record.worst_index) == 3
        assert record.evidence == ("measured" if device == "cuda" else "emulated")
        assert record.samples == ()


def test_a_dense_problem_has_one_lane_of_its_own(device):
    (record,) = run_lanes(scenario(DENSE), ("auto", "3d"), device=device)
    assert (record.lane, record.path, record.status) == ("dense", "dense", "ok")


def test_a_forced_spec_is_the_one_that_runs_and_a_wrong_one_is_a_status(device):
    spec = Unified2DSpec(block_m=32, tile_size=32)
    assert run_scenario(scenario(RAGGED), "2d", spec=spec, device=device).spec == spec
    wide = RAGGED.with_changes(num_query_heads=40, num_kv_heads=2)
    record = run_scenario(scenario(wide), "2d", spec=Unified2DSpec(block_m=16), device=device)
    assert record.status == "runtime_error"
    assert "block_m must hold one whole GQA group" in record.message


def test_a_scenario_that_cannot_be_set_up_fails_alone(device):
    cramped = scenario(RAGGED.with_changes(num_blocks=1))
    records = run_lanes(cramped, ("auto", "2d"), device=device)
    assert [(record.lane, record.status, record.backend) for record in records] == [
        ("auto", "runtime_error", "none"),
        ("2d", "runtime_error", "none"),
    ]
    assert "num_blocks is 1" in records[0].message


def test_what_is_not_there_is_refused_before_anything_runs(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BackendUnavailable, match="sees no GPU"):
        run_scenario(scenario(RAGGED), device="cuda")
    with pytest.raises(BackendUnavailable, match="timing needs a GPU"):
        run_scenario(scenario(RAGGED), device="cpu", timing=True)


@pytest.mark.parametrize(
    "problem",
    [
        UnifiedAttentionProblem(
            seq_lens=((1, 17), (5, 5), (3, 40), (1, 17), (0, 4)),
            num_query_heads=6,
            num_kv_heads=2,
            head_size=32,
            block_size=16,
        ),
        RAGGED,
        DENSE,
        DENSE.with_changes(seqlen_q=20, alignment="top_left"),
        DENSE.with_changes(seqlen_q=20),
        DENSE.with_changes(causal=False),
    ],
    ids=["paged", "window", "dense", "top_left", "bottom_right", "not_causal"],
)
def test_torch_sdpa_is_a_right_baseline(problem):
    trials = Trials(problem, torch.device("cpu"), (0, 1))
    entrant = BaselineEntrant(BASELINES["sdpa"], problem, "auto")
    for expected in trials:
        entrant.check(trials, expected)
    assert entrant.passed, entrant.verdicts


def test_a_wrong_baseline_is_caught_too():
    class Unscaled(TorchSdpa):
        def prepare(self, problem, inputs, lane):
            return super().prepare(problem.with_changes(softmax_scale=1.0), inputs, lane)

    trials = Trials(DENSE, torch.device("cpu"), (0,))
    entrant = BaselineEntrant(Unscaled("unscaled", None), DENSE, "dense")
    for expected in trials:
        entrant.check(trials, expected)
    assert not entrant.passed


def test_baselines_that_do_not_take_part_are_rows_that_say_why():
    records = run_lanes(
        scenario(RAGGED.with_changes(softcap=30.0)),
        ("2d",),
        device="cpu",
        baselines=choose_baselines(["sdpa", "aiter"]),
    )
    skipped = {record.candidate: record for record in records if record.status == "skipped"}
    assert skipped["sdpa"].message == "it has no softcap"
    assert skipped["aiter"].message == "aiter needs a GPU"
    assert skipped["aiter"].lane == "2d"


def test_baselines_are_chosen_by_name():
    assert [baseline.name for baseline in choose_baselines(["all"])] == list(BASELINES)
    assert "flex" not in {baseline.name for baseline in choose_baselines(["auto"])}
    assert choose_baselines(["none"]) == []
    with pytest.raises(ParameterError, match="unknown baseline 'sdap'; known are auto, all, none, sdpa"):
        choose_baselines(["sdap"])


def test_a_set_runs_in_processes_and_comes_back_in_order(tmp_path):
    scenarios = [scenario(DENSE, "first"), scenario(RAGGED, "second")]
    seen = []
    with pytest.raises(ParameterError, match="lanes is empty"):
        run_set([], [])
    records = run_set(
        scenarios, ("2d",), device="cpu", baselines=["none"], jobs=2, on_done=lambda *step: seen.append(step)
    )
    assert [(record.scenario, record.lane, record.status) for record in records] == [
        ("first", "dense", "ok"),
        ("second", "2d", "ok"),
    ]
    assert seen[0] == (0, 2, "")
    assert sorted(name for _, _, name in seen[1:]) == ["first", "second"]
    assert read_records(write_records(records, tmp_path / "records.parquet")) == records


def test_scenarios_are_chosen_by_set_file_and_name(tmp_path):
    assert len(choose_scenarios("default", "auto", "cpu")) == 13
    assert {found.size for found in choose_scenarios("default", "auto", "cpu")} == {"small"}
    (one,) = choose_scenarios("all", "full", "cpu", ["dense_group5"])
    assert one.kind == "dense"
    with pytest.raises(ScenarioError, match="has no scenario decode"):
        choose_scenarios("default", "small", "cpu", ["decode"])
    with pytest.raises(ScenarioError, match="there is no scenario set 'defualt'"):
        choose_scenarios("defualt", "auto", "cpu")
    broken = tmp_path / "mine.json"
    broken.write_text(json.dumps({"set": "mine"}))
    with pytest.raises(ScenarioError, match=r"mine\.json"):
        choose_scenarios(str(broken), "auto", "cpu")


@pytest.mark.gpu
def test_a_timed_record_holds_samples_rates_and_paired_ratios():
    records = run_lanes(
        scenario(RAGGED), ("auto", "2d"), baselines=choose_baselines(["sdpa"]), device="cuda", timing=True
    )
    auto, two, sdpa = records
    assert len(auto.samples) == len(two.samples) == len(sdpa.samples) == 30
    assert auto.value("time") > 0
    low, ratio, high = (auto.value(f"speedup_over_sdpa/auto{end}") for end in ("_low", "", "_high"))
    assert low <= ratio <= high
    assert auto.value("speedup_over_again") == pytest.approx(1.0, abs=0.3)
    assert {record.session for record in records} == {auto.session}
