"""The measured records that come with the workbench are whole and honest."""

from statistics import geometric_mean

import pytest

from workbench.errors import ParameterError
from workbench.parity.flops import work_of
from workbench.parity.peers import (
    DENSE_PEERS,
    OWN,
    UNIFIED_PEERS,
    peer_plot,
    peer_records,
    peer_sentence,
    peer_table,
    standings,
)
from workbench.profile import derive, read
from workbench.records import read_records
from workbench.resources import data_path
from workbench.scenarios import find, load_all, load_set


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


def beside_peers(set_name):
    """Standing of every scenario of a set that was timed."""
    return {row.own.scenario: row for row in standings(peer_records("h200", load_set(set_name, "full")))}


def bench(name):
    return {
        (r.scenario, r.candidate): r for r in read_records(data_path("measured", "h200", "bench", f"{name}.parquet"))
    }


def test_auto_is_ahead_of_both_peers_on_every_default_scenario():
    best = [row.ratios[row.best] for row in beside_peers("default").values()]
    assert len(best) == 13
    assert min(ratio.low for ratio in best) > 1.0
    assert geometric_mean(ratio.value for ratio in best) > 1.7


def test_paged_prefill_and_decode_reach_their_rates():
    serving = beside_peers("serving")
    assert serving["single_batch_d128_S4096"].own.value("tflops") > 430
    assert serving["serving_d64_sinks_full_ns16"].ratios["aiter"].low > 1.8
    window = bench("window")
    own, peer = (window["window_sw127_ns16", name].value("time") for name in ("workbench", "aiter"))
    assert peer / own > 1.4
    assert serving["serving_decode_b64_4k"].own.value("tbps") > 4.4
    assert serving["serving_d64_decode_fp8kv_b64"].ratios["aiter"].low > 2.4
    assert beside_peers("creative")["creative_decode_32k"].own.value("time") < 12.5


def test_dense_is_ahead_of_flash_and_near_cudnn():
    dense = beside_peers("dense")
    assert len(dense) == 10
    assert min(row.ratios["sdpa_flash"].low for row in dense.values()) > 1.45
    assert min(row.ratios["sdpa_cudnn"].low for row in dense.values()) > 0.93
    assert dense["dense_headline"].own.value("tflops") > 600


def test_the_persistent_grid_is_slower_on_head_size_64_alone():
    grids = bench("dense_grids")
    for scenario in load_set("dense", "full"):
        persistent, default = (grids[scenario.name, f"workbench:grid={grid}"] for grid in ("persistent", "default"))
        slower = persistent.value("time") > default.value("time")
        assert slower == (scenario.name == "dense_d64_8k")


def test_a_ragged_length_reaches_nearly_the_rate_of_the_next_whole_one():
    found = bench("aligned")
    for ragged, whole in (("5000", "5120"), ("noncausal_1000", "noncausal_1024")):
        rates = [
            found[f"dense_{name}", "workbench"].value("tflops") for name in (f"again_{ragged}", f"aligned_{whole}")
        ]
        assert 0.94 < rates[0] / rates[1] < 1.0


def test_our_error_is_within_two_hundredths_of_what_the_peers_lanes_reach():
    for name in ("default", "serving", "dense"):
        errors = {}
        for record in peer_records("h200", load_set(name, "full")):
            if record.status == "ok" and record.candidate in (OWN, *UNIFIED_PEERS, *DENSE_PEERS):
                whose = "own" if record.candidate == OWN and record.lane in ("auto", "dense") else record.candidate
                errors.setdefault(record.scenario, {}).setdefault(whose, []).append(record.value("rms_error"))
        for found in errors.values():
            peers = [error for whose, each in found.items() if whose not in ("own", OWN) for error in each]
            assert not peers or found["own"][0] < 1.02 * max(peers)


def test_stored_records_stand_in_the_parity_report():
    records = peer_records("h200", load_set("serving", "full"))
    text = peer_sentence(records)
    assert "in the geometric mean of 9 scenarios" in text
    assert "sw127_fp8kv no peer kept to the tolerance" in text
    assert "NVIDIA H200, 30 interleaved rounds, warm caches" in text
    assert "aiter 0.1.7" in text
    assert len(peer_table(records).rows) == 11
    assert peer_plot(records)._repr_png_()[0].startswith(b"\x89PNG")
    assert peer_records("", load_set("serving", "full")) == []
    assert peer_sentence([]) == "No stored record of these scenarios was timed beside a peer."
    with pytest.raises(ParameterError, match="no stored records of 'mi355x'"):
        peer_records("mi355x", load_set("serving", "full"))


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
