"""The measured records that come with the workbench are whole and honest."""

import pytest

from workbench.parity.flops import work_of
from workbench.profile import derive, read
from workbench.records import read_records
from workbench.resources import data_path
from workbench.scenarios import find, load_all


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


PROFILES = ("serving_decode_b64_4k", "decode_d128_b64", "single_batch_d128_S4096", "dense_headline")


def figures(name):
    """Derived figures of a recorded Nsight Compute run, by kernel and metric."""
    derivation = derive(read(data_path("measured", "h200", "profiles", f"{name}.csv")))
    table = derivation.to_frame()
    assert set(table.evidence) == {"measured"}
    return {(row.kernel, row.metric): row.value for row in table.itertuples()}


@pytest.mark.parametrize("name", PROFILES)
def test_every_recorded_profile_gives_the_four_figures_of_its_attention_kernel(name):
    found = figures(name)
    kernel = next(kernel for kernel, _ in found if "attention" in kernel)
    for metric in ("l2_hit_rate", "tensor_utilisation", "occupancy"):
        assert 0 < found[kernel, metric] <= 100
    assert found[kernel, "dram_read_bytes"] > 0


def test_a_decode_reads_the_bytes_that_the_model_counts():
    problem = find("serving_decode_b64_4k", "full").problem
    launches = 3
    kernel = "unified_attention_3d"
    read_bytes = figures("serving_decode_b64_4k")[kernel, "dram_read_bytes"] / launches
    assert read_bytes == pytest.approx(work_of(problem).bytes, rel=0.10)
