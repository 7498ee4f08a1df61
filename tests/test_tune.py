"""Sweeps with made-up facts and times: what is tried, pruned, timed, kept, what wins, and what dispatch makes of it."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from tests.fake_timer import FakeTimer
from tests.fake_tune import eager, fake_compile, fake_measure
from workbench.cli.app import main
from workbench.device import load_device
from workbench.dispatch import select_dense_spec, select_path, select_spec
from workbench.dispatch.tuned import TunedEntry, TunedTable, problem_key, read_table
from workbench.errors import TuneError
from workbench.parity import TimingPlan
from workbench.parity.harness import Contestant, run_contestants
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.records import read_records
from workbench.resources import data_path
from workbench.scenarios import Scenario
from workbench.spec import Unified2DSpec
from workbench.spec_gfx950 import Gfx950DenseSpec
from workbench.tune.scheduler import Workers
from workbench.tune.space import read_space
from workbench.tune.store import Store
from workbench.tune.sweep import Plan, run_sweep
from workbench.tune.table import static_rank
from workbench.tune.winners import check_free, find_winner, write_winners

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
def space_file(tmp_path):
    path = tmp_path / "space.json"
    path.write_text(json.dumps(SPACE))
    return path


@pytest.fixture
def plan(space_file):
    return Plan((TINY,), (read_space(space_file),), H200, "3.6.0", TimingPlan(rounds=5))


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


@pytest.mark.parametrize(("tile", "lane"), [(64, None), (16, "2d")])
def test_the_heuristics_choice_wins_nothing_over_itself(tile, lane):
    contestants = [
        Contestant("workbench", name, spec=Unified2DSpec(tile_size=size), candidate=eager)
        for name, size in (("auto", 64), ("2d", tile))
    ]
    timer = FakeTimer({"workbench/auto": 100.0, "workbench/2d": 80.0})
    records = run_contestants(TINY, contestants, device="cpu", plan=TimingPlan(rounds=5), timer=timer)
    assert find_winner("key", [records]).lane == lane


def test_a_lane_is_taken_for_what_dispatch_would_run_in_it():
    contestants = [
        Contestant("workbench", "auto", spec=Unified2DSpec(tile_size=64), candidate=eager),
        Contestant("workbench", "2d", spec=Unified2DSpec(tile_size=16), candidate=eager),
        Contestant("tried", "2d", spec=Unified2DSpec(tile_size=32), candidate=eager),
    ]
    sessions = [
        run_contestants(TINY, contestants, device="cpu", plan=TimingPlan(rounds=5), timer=FakeTimer(times))
        for times in ({"workbench/2d": 50.0, "tried/2d": 60.0}, {"workbench/2d": 120.0, "tried/2d": 60.0})
    ]
    # Faster than auto in both, but slower than the heuristics' own spec of the lane once: no winner there.
    assert find_winner("key", sessions).is_empty
    winner = find_winner("key", sessions[1:])
    assert (winner.lane, winner.specs["2d"].candidate) == ("2d", "tried")


def test_static_ranking_puts_what_is_unknown_last():
    known, unknown = ({"spill_bytes": 64.0, "resident_waves": 1.0, "vgprs": 512.0}, {"resident_waves": 8.0})
    assert static_rank(SimpleNamespace(value=known.get)) < static_rank(SimpleNamespace(value=unknown.get))


def test_a_sweep_that_stopped_goes_on_where_it_was(plan, tmp_path):
    first = sweep(plan, tmp_path / "records")
    calls = []

    def counted(job):
        calls.append(job)
        return fake_measure(job)

    second = sweep(plan, tmp_path / "records", counted)
    assert calls == []
    kept = [record for path in (tmp_path / "records").glob("*.parquet") for record in read_records(path)]
    assert sorted(record.candidate for record in kept) == sorted(record.candidate for record in first.records)
    assert second == first
    final = next((tmp_path / "records").glob("final-*.parquet"))
    assert read_records(final)[0].candidate == "workbench"
    final.unlink()
    sweep(plan, tmp_path / "records", counted)
    assert len(calls) == 1


def test_winners_are_not_replaced_by_accident(plan, tmp_path):
    outcome = sweep(plan, tmp_path / "records")
    facts = outcome.records[-1].environment
    path = write_winners(tmp_path / "h200.json", "h200", "3.6.0", outcome.winners, facts)
    key = problem_key(PROBLEM)
    with pytest.raises(TuneError, match=r"already holds winners for 1 of the keys with Triton 3\.6\.0.*--update"):
        write_winners(path, "h200", "3.6.0", outcome.winners, facts)
    with pytest.raises(TuneError, match="holds the winners of h200, not of h100"):
        check_free(path, "h100", "3.6.0", [key], update=True)
    write_winners(path, "h200", "3.9.0", outcome.winners, facts)
    assert set(read_table(path, "3.6.0").entries) == set(read_table(path, "3.9.0").entries) == {key}
    beaten = replace(outcome.winners[0], lane=None, specs={}, ratios={})
    write_winners(path, "h200", "3.6.0", [beaten], facts, update=True)
    assert dict(read_table(path, "3.6.0").entries) == {}
    path.write_text(path.read_text().replace('"tile_size"', '"tile_sise"'))
    with pytest.raises(TuneError, match=r"malformed.*tile_sise"):
        read_table(path, "3.9.0")
    path.write_text('{"device": "h200", "tables": []}')
    with pytest.raises(TuneError, match="tables an object by Triton version"):
        read_table(path, "3.9.0")


def entry(lane, **specs):
    return TunedEntry(problem_key(PROBLEM), lane, tuple(specs.items()), "Measured.")


def test_a_tuned_lane_goes_before_the_heuristics_and_says_so():
    assert select_path(PROBLEM, H200, tuned=False).lane == "2d"
    table = TunedTable("h200", "3.6.0", {problem_key(PROBLEM): entry("3d")})
    assert select_path(PROBLEM, H200, tuned=table) == replace(
        select_path(PROBLEM, H200, tuned=False), lane="3d", reasons=("3D: Measured.",)
    )
    assert select_path(PROBLEM, None, tuned=table).lane == "2d"


def test_a_tuned_spec_that_does_not_serve_the_problem_leaves_the_heuristics_and_says_why():
    wide = PROBLEM.with_changes(num_query_heads=80)
    small = Unified2DSpec(block_m=16)
    table = TunedTable("h200", "3.6.0", {problem_key(wide): entry(None, **{"2d": small})})
    choice = select_spec(wide, H200, "2d", tuned=table)
    assert choice.spec == select_spec(wide, H200, "2d", tuned=False).spec
    assert choice.reasons[-1].startswith("Not the tuned spec of this key, which does not serve this problem: block_m")


def test_a_dense_winner_is_dispatched_and_portable_skips_other_kernels():
    problem = DenseAttentionProblem(1, 8, 2, 512, 512, 128)
    device = load_device("mi355x")
    gluon = Gfx950DenseSpec(block_m=128)
    why = TunedEntry(problem_key(problem), None, (("dense", gluon),), "Measured.")
    table = TunedTable("mi355x", "3.6.0", {problem_key(problem): why})
    assert select_dense_spec(problem, device, tuned=table).spec == gluon
    assert "Measured." in select_dense_spec(problem, device, tuned=table).reasons
    portable = select_dense_spec(problem, device, portable=True, tuned=table)
    assert portable == select_dense_spec(problem, device, portable=True, tuned=False)


def test_keys_hold_lengths_by_powers_of_two_and_features_as_they_are():
    assert problem_key(PROBLEM) == "unified d32 g2 kv2 b16 bf16/bf16/bf16 q1 tokens2 k128 seqs2"
    assert problem_key(PROBLEM.with_changes(seq_lens=((1, 128), (1, 5)))) == problem_key(PROBLEM)
    assert problem_key(PROBLEM.with_changes(seq_lens=((1, 129), (1, 5)))) != problem_key(PROBLEM)
    windowed = PROBLEM.with_changes(sliding_window=100, use_sinks=True)
    assert problem_key(windowed).endswith(" seqs2 window128 sinks")
    dense = DenseAttentionProblem(3, 8, 2, 512, 500, 128, causal=False)
    assert problem_key(dense) == "dense d128 g4 kv2 bf16 full B4 Sq512 Skv512"


def test_the_tables_that_come_with_the_workbench_are_whole():
    for path in data_path("tuned").glob("*.json"):
        content = json.loads(path.read_text())
        assert content["device"] == path.stem
        for triton, entries in content["tables"].items():
            table = read_table(path, triton)
            assert len(table.entries) == len(entries)
            assert all(entries[key]["environment"]["device"] in found.why for key, found in table.entries.items())


def test_without_a_gpu_the_command_names_the_static_one(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["tune", "decode_d128_b16"])
    assert end.value.code == 2
    assert "tuning needs a GPU" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["tune", "decode_d128_b16", "--static", "--update"])
    assert "--static finds no winners" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["tune", "decode_d128_b16", "--static", "--triton", "1.0"])
    assert "Triton 1.0 is not available" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_static_command_ranks_by_what_the_compiler_says_and_writes_no_winners(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("workbench.tune.sweep.compile_offline", fake_compile)
    with pytest.raises(SystemExit) as end:
        main(["tune", "decode_d128_b16", "--static", "--kernel", "unified-2d", "--records", str(tmp_path)])
    assert end.value.code == 0
    records = read_records(next(tmp_path.glob("static-gfx950-*.parquet")))
    assert {record.evidence for record in records} == {"static"}
    assert all(record.samples == () for record in records)
    printed = capsys.readouterr().out
    assert "36 do not compile" in printed
    assert "takes the hardware" in " ".join(printed.split())


def test_the_timed_command_writes_winners_and_says_where(space_file, monkeypatch, tmp_path, capsys):
    @contextmanager
    def workers(_jobs):
        with ThreadPoolExecutor(1) as executor:
            yield Workers(executor, executor, 1, 1, H200, "3.6.0")

    monkeypatch.setattr("workbench.tune.scheduler.local_workers", workers)
    for name, double in (("compile_on_this_gpu", fake_compile), ("measure_on_a_gpu", fake_measure)):
        monkeypatch.setitem(run_sweep.__kwdefaults__, name.split("_")[0] + "_job", double)
    scenario = {"name": "tiny", "seq_lens": [[1, 70], [1, 40]], "num_query_heads": 4, "num_kv_heads": 2}
    content = {"set": "mine", "kind": "unified", "scenarios": [scenario | {"head_size": 32, "block_size": 16}]}
    (tmp_path / "mine.json").write_text(json.dumps(content))
    out = tmp_path / "h200.json"
    command = ["tune", "--set", str(tmp_path / "mine.json"), "--space", str(space_file), "--rounds", "5"]
    command += ["--records", str(tmp_path / "records"), "--out", str(out)]
    with pytest.raises(SystemExit) as end:
        main(command)
    captured = capsys.readouterr()
    assert end.value.code == 0, captured.err
    assert "checking and timing: 1 of 1" in captured.err
    assert set(read_table(out, "3.6.0").entries) == {problem_key(PROBLEM)}
    with pytest.raises(SystemExit) as end:
        main(command)
    assert end.value.code == 2
    assert "pass --update" in capsys.readouterr().err
