"""Two record sets side by side."""

import pytest
from typer.testing import CliRunner

from workbench.bench import compare_sets, load_record_set
from workbench.bench.compare import failing, parse_condition
from workbench.cli.app import app
from workbench.errors import ParameterError, RecordError
from workbench.records import write_records
from workbench.resources import data_path

GQA = data_path("measured", "h200", "gqa.parquet")


def measured():
    return load_record_set(GQA)


def scaled(record, factor, **changes):
    """The record as if it had taken `factor` times as long, in a session of its own."""
    speeds = {name: metric for name, metric in record.metrics.items() if metric.unit in ("FLOP", "byte", "1")}
    samples = tuple(sample * factor for sample in record.samples)
    return record.with_changes(samples=samples, metrics=speeds, session="another", **changes)


def test_a_record_set_equals_itself():
    comparison = compare_sets(measured(), measured())
    assert len(comparison.deltas) == sum(bool(record.samples) for record in measured())
    assert {delta.word for delta in comparison.deltas} == {"within noise"}
    assert comparison.geomean == pytest.approx(1.0)
    assert comparison.warnings == comparison.notes == comparison.unmatched == ()


def test_a_slower_set_is_slower_and_fails_the_condition():
    before = measured()
    after = [scaled(before[0], 1.2), *(scaled(record, 1.0) for record in before[1:])]
    comparison = compare_sets(before, after)
    slow = [delta for delta in comparison.deltas if delta.word == "slower"]
    assert [delta.scenario for delta in slow] == [before[0].scenario]
    assert slow[0].ratio.low <= slow[0].ratio.value <= slow[0].ratio.high < 0.97
    (line,) = failing(comparison, "ratio<0.97")
    assert before[0].scenario in line
    assert failing(comparison, "ratio<0.5") == []


def test_what_fails_in_b_fails_any_condition_and_what_is_missing_is_named():
    before = measured()
    broken = before[0].with_changes(samples=(), metrics={}, status="wrong", message="elements over")
    comparison = compare_sets(before, [broken, *before[2:]])
    assert len(comparison.broken) == 1
    assert failing(comparison, "ratio<0.1") == [f"broken: {comparison.broken[0]}"]
    assert comparison.unmatched == (f"only in A: {before[1].scenario}, workbench, lane {before[1].lane}",)


def test_other_machines_are_warned_of_and_other_software_noted():
    other = {**measured()[0].environment, "device": "NVIDIA H100", "triton": "3.9.0"}
    comparison = compare_sets(measured(), [scaled(record, 1.0, environment=other) for record in measured()])
    assert comparison.warnings == ("the machines differ: device is NVIDIA H200 in A, NVIDIA H100 in B",)
    assert any("triton is 3.6.0 in A, 3.9.0 in B" in note for note in comparison.notes)


def test_sets_that_cannot_be_compared_are_refused(tmp_path):
    records = measured()
    with pytest.raises(RecordError, match="twice"):
        compare_sets([records[0], records[0]], records)
    with pytest.raises(RecordError, match="no problem, candidate and lane in common"):
        compare_sets(records[:1], records[1:2])
    with pytest.raises(RecordError, match="holds no records"):
        load_record_set(tmp_path)


@pytest.mark.parametrize("text", ["ratio", "speed<1", "ratio=1", "ratio<one", "ratio<0.97 and more"])
def test_a_malformed_condition_says_how_to_write_one(text):
    with pytest.raises(ParameterError, match="write one of ratio, low, high"):
        parse_condition(text)


def test_the_command_ends_with_code_1_on_a_regression(tmp_path):
    slow = write_records([scaled(record, 1.1) for record in measured()], tmp_path / "slow.parquet")
    assert CliRunner().invoke(app, ["compare", str(GQA), str(slow)]).exit_code == 0
    failed = CliRunner().invoke(app, ["compare", str(GQA), str(slow), "--fail-on", "ratio<0.97"])
    assert failed.exit_code == 1
    assert "failed: " in failed.output
    folder = CliRunner().invoke(app, ["compare", str(GQA.parent), str(GQA.parent)])
    assert folder.exit_code == 0, folder.output
