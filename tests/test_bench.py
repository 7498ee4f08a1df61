"""Benches with a timer whose times are made up, and what is said about them."""

import io
import json

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from tests.fake_timer import FakeTimer
from workbench.bench import bench_scenarios, line_up, noise_of, verdicts
from workbench.bench.table import bench_tables, bench_title
from workbench.cli.app import app, main
from workbench.device import load_device
from workbench.dispatch import select_spec
from workbench.dispatch.tuned import TunedEntry, TunedTable, problem_key
from workbench.errors import BackendUnavailable, ParameterError, RecordError, SpecError
from workbench.parity import TimingPlan
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.scenarios import Scenario

PAGED = Scenario("paged", "tests", UnifiedAttentionProblem(((1, 40), (3, 20)), 4, 2, 32, 16))
DENSE = Scenario("dense", "tests", DenseAttentionProblem(1, 4, 2, 33, 33, 32))
PLAN = TimingPlan(rounds=10)


def bench(*changes, scenario=PAGED, lanes=("2d",), timer=None, **options):
    return bench_scenarios([scenario], lanes, changes, plan=PLAN, device="cpu", timer=timer or FakeTimer(), **options)


def test_candidates_and_baselines_share_a_session_and_verdicts_stay_outside_the_noise():
    timer = FakeTimer({"workbench:num_warps=8/2d": 80.0, "workbench:num_stages=2/2d": 100.3, "sdpa/2d": 150.0})
    records = bench("num_warps=8", "num_stages=2", timer=timer, baselines=["sdpa"])
    assert len({record.session for record in records}) == 1
    assert [len(record.samples) for record in records] == [10] * 4
    assert records[1].spec == records[0].spec.with_changes(num_warps=8)
    found = verdicts(records)
    assert [verdict.word for verdict in found] == ["reference", "faster", "within noise", "slower"]
    assert found[1].ratio.low <= 1.25 <= found[1].ratio.high
    assert 0 < noise_of(records) < 0.02
    assert timer.timed.count("again") == 1


def test_what_is_wrong_is_not_timed(monkeypatch):
    from workbench.parity.baselines import BASELINES

    class Wrong(type(BASELINES["sdpa"])):
        def prepare(self, problem, inputs, lane):
            return super().prepare(problem.with_changes(softmax_scale=1.0), inputs, lane)

    monkeypatch.setitem(BASELINES, "sdpa", Wrong("sdpa", None))
    timer = FakeTimer()
    records = bench(timer=timer, baselines=["sdpa"])
    assert [(record.status, bool(record.samples)) for record in records] == [("ok", True), ("wrong", False)]
    assert "sdpa/2d" not in timer.timed
    assert verdicts(records)[1].word.startswith("wrong: ")


def test_cold_inputs_rotate_and_every_copy_is_checked(monkeypatch):
    from workbench.parity.baselines import BASELINES

    class ForgetsCopies(type(BASELINES["sdpa"])):
        prepared = 0

        def prepare(self, problem, inputs, lane):
            self.prepared += 1
            wrong = {"softmax_scale": 1.0} if self.prepared > 2 else {}  # one for each seed is right
            return super().prepare(problem.with_changes(**wrong), inputs, lane)

    monkeypatch.setitem(BASELINES, "sdpa", ForgetsCopies("sdpa", None))
    plan = TimingPlan(rounds=3, cache="cold")
    records = bench_scenarios([PAGED], ("2d",), baselines=["sdpa"], plan=plan, device="cpu", timer=FakeTimer())
    assert [record.status for record in records] == ["ok", "wrong"]
    assert records[0].reasons[-1] == "Cold caches: 2 copies of the inputs in turn."
    assert records[0].environment["cache"] == "cold"
    assert "does not give the output again" in records[1].message


def test_a_change_that_does_not_fit_one_scenario_is_a_row_and_one_that_fits_none_an_error():
    windowed = Scenario("windowed", "tests", PAGED.problem.with_changes(sliding_window=8))
    records = bench_scenarios(
        [PAGED, windowed], ("2d",), ["mask_limit=true"], plan=PLAN, device="cpu", timer=FakeTimer()
    )
    refused = next(record for record in records if record.status == "unsupported")
    assert (refused.scenario, refused.candidate) == ("windowed", "workbench:mask_limit=true")
    assert "full attention only" in refused.message
    with pytest.raises(
        SpecError, match="num_wraps=8 fits none of the scenarios: Unified2DSpec has no field 'num_wraps'"
    ):
        bench("num_wraps=8")


def test_the_heuristics_can_be_asked_for_beside_a_tuned_choice(monkeypatch):
    device = load_device("h200")
    paged = Scenario("paged", "tests", UnifiedAttentionProblem(((1, 4000),) * 4, 16, 2, 128, 16))
    heuristic = select_spec(paged.problem, device, "2d", tuned=False).spec
    tuned = heuristic.with_changes(num_warps=8)
    entry = TunedEntry(problem_key(paged.problem), None, (("2d", tuned),), "Measured.")
    table = TunedTable("h200", "3.6.0", {entry.key: entry})
    monkeypatch.setattr("workbench.dispatch.tuned.installed_table", lambda device: table)
    select_spec.cache_clear()
    _, changed, untuned = line_up(paged, ("2d",), ["num_stages=1", "untuned"], device)
    select_spec.cache_clear()
    assert changed.spec == tuned.with_changes(num_stages=1)
    assert untuned.spec == heuristic


def test_a_dense_scenario_has_one_lane_and_the_portable_kernel_can_be_asked_for():
    device = load_device("mi355x")
    wide = Scenario("wide", "tests", DenseAttentionProblem(1, 8, 2, 512, 512, 128))
    own, portable = line_up(wide, ("2d", "3d"), ["portable, num_warps=4"], device)
    assert (own.lane, portable.lane) == ("dense", "dense")
    assert type(portable.spec).__name__ == "DenseSpec"
    assert portable.spec.num_warps == 4


@pytest.mark.parametrize(
    ("lanes", "changes", "message"),
    [
        (("4d",), (), "unknown lane '4d'"),
        (("2d", "2d"), (), "a lane is given twice"),
        (("2d",), ("a=1", "a = 1"), "spec"),
    ],
)
def test_lineups_that_say_nothing_are_refused(lanes, changes, message):
    with pytest.raises(ParameterError, match=message):
        line_up(PAGED, lanes, changes, None)


def test_without_a_gpu_the_command_says_what_else_there_is(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BackendUnavailable, match=r"timing needs a GPU.*`workbench report parity`"):
        bench_scenarios([PAGED], device="cpu")
    with pytest.raises(SystemExit) as end:
        main(["bench", "decode_d128_b16"])
    assert end.value.code == 2
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_records_once_and_prints_the_verdicts(monkeypatch, tmp_path):
    monkeypatch.setattr("workbench.bench.session.Timer", FakeTimer)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    out = tmp_path / "records.parquet"
    file = tmp_path / "mine.json"
    heads = {"num_query_heads": 2, "num_kv_heads": 1, "head_size": 16}
    tiny = {"name": "tiny", "batch": 1, "seqlen": 16, **heads}
    file.write_text(json.dumps({"set": "mine", "kind": "dense", "scenarios": [tiny]}))
    command = ["bench", "--set", str(file), "--spec", "lazy_rescale=false", "--out", str(out)]
    ran = CliRunner().invoke(app, command)
    assert ran.exit_code == 0, ran.output
    assert "within" in ran.output
    compared = CliRunner().invoke(app, ["compare", str(out), str(out), "--fail-on", "ratio<0.97"])
    assert compared.exit_code == 0, compared.output
    again = CliRunner().invoke(app, command)
    assert isinstance(again.exception, RecordError)


def test_the_table_holds_medians_ratios_and_the_noise():
    console = Console(file=io.StringIO(), width=80)
    records = bench("num_warps=8", timer=FakeTimer({"workbench:num_warps=8/2d": 50.0}))
    console.print(*bench_tables(records))
    text = console.file.getvalue()
    for part in ("paged, A/A noise", "num_warps=8", "100.00", "50.00", "2.00", "faster", "reference"):
        assert part in text
    assert "10 interleaved rounds, warm caches" in bench_title(records)
