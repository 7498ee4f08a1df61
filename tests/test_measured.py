"""The measured records that come with the workbench are whole and honest."""

from workbench.records import read_records
from workbench.resources import data_path
from workbench.scenarios import load_all


def records():
    return [record for path in sorted(data_path("measured", "h200").glob("*.parquet")) for record in read_records(path)]


def test_every_scenario_passed_in_every_lane_that_admits_it():
    own = [record for record in records() if record.candidate == "workbench"]
    assert {record.status for record in own} == {"ok"}
    lanes = {(record.scenario, record.lane) for record in own}
    expected = {
        (scenario.name, lane)
        for scenario in load_all("full")
        for lane in (("dense",) if scenario.set == "dense" else ("auto", "2d", "3d"))
    }
    assert lanes == expected


def test_every_time_has_its_samples_and_its_machine():
    for record in records():
        assert record.evidence == "measured"
        assert record.environment["device"] == "NVIDIA H200"
        assert len(record.environment["commit"]) == 40
        assert bool(record.samples) == (record.status == "ok")
