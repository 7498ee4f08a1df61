"""The roofline study: which records and ceilings it takes, its tables, and the notebook in small form."""

import pytest

from workbench.device import load_device
from workbench.errors import ParameterError
from workbench.model import L2Assumptions, datasheet_ceilings
from workbench.records import read_records, write_records
from workbench.resources import data_path
from workbench.studies.l2_locality import dense_scenarios
from workbench.studies.roofline import (
    ceilings_for,
    modelled_points,
    place_records,
    published_points,
    roofline_records,
)
from workbench.studies.roofline_views import (
    ceiling_table,
    conclusion,
    key_figure,
    limit_table,
    roofline_plot,
    share_table,
)

MI355X = load_device("mi355x")
ROOF = datasheet_ceilings(load_device("h200"))
MODEL_ROOF = datasheet_ceilings(MI355X)


@pytest.fixture(scope="module")
def records():
    return roofline_records("h200", ["default", "dense"])


@pytest.fixture(scope="module")
def modelled():
    return modelled_points(dense_scenarios(["dense_gqa8_4k"]), MI355X, L2Assumptions(sampled_sets=4))


def test_own_records_one_lane_a_problem(records):
    assert {record.candidate for record in records} == {"workbench"}
    assert len({record.scenario for record in records}) == len(records) == 23
    kinds = {item.point.label: item.kind for item in place_records(records)}
    assert kinds["decode_d128_b16"] == "decode"
    assert kinds["prefill_d128_b16"] == "prefill"
    assert kinds["dense_headline"] == "dense"


def test_records_of_your_own_and_none(records, tmp_path):
    write_records(records[:2], tmp_path / "mine.parquet")
    assert len(roofline_records("", [], str(tmp_path / "mine.parquet"))) == 2
    with pytest.raises(ParameterError, match="no measured records of h200 for nosuch; there are creative, default"):
        roofline_records("h200", ["nosuch"])
    with pytest.raises(ParameterError, match="there are none, and records= takes a file"):
        roofline_records("mi355x", ["dense"])
    others = [r for r in read_records(data_path("measured", "h200", "dense.parquet")) if r.candidate != "workbench"]
    write_records(others, tmp_path / "others.parquet")
    with pytest.raises(ParameterError, match=r"measured records of 0 devices \(none\)"):
        roofline_records("", [], str(tmp_path / "others.parquet"))


def test_ceilings_are_those_of_the_records_device(records, monkeypatch):
    monkeypatch.setattr("workbench.studies.roofline.detect_device", lambda: None)
    assert ceilings_for(records, "auto") == ceilings_for(records, "datasheet") == ROOF
    with pytest.raises(ParameterError, match="needs the NVIDIA H200 that the records come from; here is no GPU"):
        ceilings_for(records, "measured")
    monkeypatch.setattr("workbench.studies.roofline.detect_device", lambda: load_device("h200"))
    monkeypatch.setattr("workbench.studies.roofline.measure_ceilings", lambda: "measured here")
    assert ceilings_for(records, "auto") == "measured here"
    assert ceilings_for(records, "datasheet") == ROOF


def test_modelled_points_have_limits_and_no_time(modelled):
    minimal, beyond = modelled
    assert (minimal.point.bytes_evidence, beyond.point.bytes_evidence) == ("static", "modelled")
    assert beyond.point.bytes > minimal.point.bytes
    assert minimal.point.seconds is beyond.point.seconds is None
    table = limit_table(modelled, MODEL_ROOF)
    assert [row[5].text for row in table.rows] == ["compute", "memory"]
    assert "AMD Instinct MI355X" in table.caption


def test_published_throughputs_keep_their_evidence():
    (headline,) = dense_scenarios(["dense_headline"])
    points = published_points(headline, MI355X)
    assert [round((item.point.flop_per_s or 0) * 1e-12) for item in points] == [543, 948]
    assert {item.point.time_evidence for item in points} == {"published"}
    assert published_points(headline, load_device("h200")) == []


def test_tables_and_pictures_name_device_and_evidence(records, modelled):
    placed = place_records(records)
    table = share_table(placed, ROOF)
    shares = [float(row[-1].text.removesuffix(" %")) for row in table.rows]
    assert shares == sorted(shares)
    assert f"{shares[-1]:.0f} %." in key_figure(placed, ROOF)["sentence"]
    assert table.caption == "NVIDIA H200 SXM. Times measured, minimal bytes static, ceilings published."
    assert [row[4].text for row in ceiling_table([ROOF, MODEL_ROOF]).rows] == ["published"] * 4
    picture = roofline_plot(placed, ROOF, "records")
    assert picture._repr_png_()[0].startswith(b"\x89PNG")
    assert "NVIDIA H200 SXM" in picture.alt
    text = conclusion(placed, ROOF, modelled, MODEL_ROOF)
    assert "Decode on NVIDIA H200 SXM" in text
    assert "make memory the limit of dense_gqa8_4k (modelled)" in text
    assert "compute limits every modelled problem" in conclusion(placed, ROOF, modelled[:1], MODEL_ROOF)
