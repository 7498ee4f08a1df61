"""Ceilings and points of a roofline."""

import pytest

from workbench.device import load_device
from workbench.errors import BackendUnavailable, ModelError
from workbench.model import (
    Ceiling,
    Ceilings,
    Point,
    datasheet_ceilings,
    measure_ceilings,
    point_from_record,
    share_of_roof,
)
from workbench.model.roofline import point_from_problem
from workbench.parity.timing import TimingPlan
from workbench.records import read_records
from workbench.resources import data_path
from workbench.scenarios import find

H200 = load_device("h200")


def test_the_ridge_parts_the_two_ceilings():
    roof = Ceilings("a device", Ceiling(100.0, "published", "x"), Ceiling(4.0, "published", "x"))
    assert roof.ridge == 25.0
    assert (roof.attainable(10.0), roof.binding(10.0)) == (40.0, "memory")
    assert (roof.attainable(50.0), roof.binding(50.0)) == (100.0, "compute")
    with pytest.raises(ModelError, match="a ceiling must be positive, got 0"):
        Ceiling(0.0, "published", "x")


def test_data_sheets_are_published_figures_with_their_source():
    roof = datasheet_ceilings(load_device("mi355x"))
    assert roof.hardware == "AMD Instinct MI355X"
    assert (roof.compute.value, roof.compute.evidence) == (2516582400000000, "published")
    assert "data sheet" in roof.memory.source
    assert 300 < roof.ridge < 320


@pytest.fixture(scope="module")
def records():
    return [record for record in read_records(data_path("measured", "h200", "dense.parquet")) if record.samples]


def test_a_record_on_the_roofline_of_its_device(records):
    record = next(r for r in records if r.scenario == "dense_headline" and r.candidate == "workbench")
    point = point_from_record(record)
    assert point.hardware == "NVIDIA H200 SXM"
    assert (point.time_evidence, point.bytes_evidence) == ("measured", "static")
    assert point.flops == record.value("flops")
    assert point.flop_per_s == pytest.approx(record.value("tflops") * 1e12, rel=1e-3)
    assert point.byte_per_s == pytest.approx(record.value("tbps") * 1e12, rel=1e-3)
    assert point.intensity == pytest.approx(2199291691008 / 570425344)
    share = share_of_roof(point, datasheet_ceilings(H200))
    assert share == pytest.approx(record.value("tflops") / 989.4, rel=1e-3)


def test_two_devices_do_not_meet(records):
    with pytest.raises(ModelError, match="ran on NVIDIA H200 SXM, but the ceilings are those of AMD Instinct MI355X"):
        share_of_roof(point_from_record(records[0]), datasheet_ceilings(load_device("mi355x")))


def test_windows_and_groups_are_in_the_counts():
    full = point_from_problem("full", H200.title, find("serving_d64_sinks_full_ns16").problem)
    window = point_from_problem("window", H200.title, find("serving_d64_sinks_sw127_ns64").problem)
    assert window.intensity < full.intensity
    assert full.flop_per_s is None
    with pytest.raises(ModelError, match="full has no time"):
        share_of_roof(full, datasheet_ceilings(H200))


def test_records_without_a_time_and_points_that_cannot_be():
    skipped = [r for r in read_records(data_path("measured", "h200", "default.parquet")) if not r.samples]
    with pytest.raises(ModelError, match="status skipped, so there is no time"):
        point_from_record(skipped[0])
    with pytest.raises(ModelError, match="needs flops >= 0, bytes > 0"):
        Point("x", "y", 1.0, 0.0, "static")
    with pytest.raises(ModelError, match="come together"):
        Point("x", "y", 1.0, 1.0, "static", 1.0)


def test_ceilings_need_a_gpu_to_be_measured(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(BackendUnavailable, match="PyTorch sees none; use datasheet_ceilings"):
        measure_ceilings()


@pytest.mark.gpu
def test_measured_ceilings_lie_below_the_data_sheets():
    roof = measure_ceilings(TimingPlan(rounds=5))
    assert roof.compute.evidence == roof.memory.evidence == "measured"
    assert roof.compute.value > 1e12
    if roof.hardware == H200.title:
        sheet = datasheet_ceilings(H200)
        assert 0.5 < roof.memory.value / sheet.memory.value <= 1.0
        assert 0.5 < roof.compute.value / sheet.compute.value <= 1.05
