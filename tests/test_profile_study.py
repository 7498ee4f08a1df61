"""The profile study: recorded profiles against the least bytes, foreign files, the emulator, and the notebook."""

import pytest
from profile_files import write_agent_info, write_rocprofv3

from workbench.errors import ParameterError, ScenarioError
from workbench.parity.flops import work_of
from workbench.report import find_notebook, notebook_parameters, run_report
from workbench.report.html import external_references
from workbench.scenarios import find
from workbench.studies.profile_study import explain, least_bytes, metric_of, moved, recorded_path
from workbench.studies.profile_views import (
    bytes_plot,
    bytes_table,
    conclusion,
    figure_table,
    key_figure,
    missing_table,
    share_plot,
    source_table,
)

RECORDED = ("serving_decode_b64_4k", "single_batch_d128_S4096", "dense_headline")
COUNTERS = {"TCC_HIT_sum": 30.0, "TCC_MISS_sum": 10.0, "SQ_WAVES": 8.0}


@pytest.fixture(scope="module")
def decode():
    return explain(recorded_path("serving_decode_b64_4k"))


@pytest.fixture
def foreign(tmp_path):
    write_agent_info(tmp_path / "1_agent_info.csv")
    return write_rocprofv3(tmp_path / "1_counter_collection.csv", [(1, "my_kernel", COUNTERS)])


@pytest.mark.parametrize("name", RECORDED)
def test_what_a_kernel_read_is_about_the_least_that_it_must(name):
    study = explain(recorded_path(name))
    least = least_bytes(study.scenario.problem)
    assert least.read + least.written == work_of(find(name).problem).bytes
    assert least.read <= moved(study.main, "read") <= 1.01 * least.read


def test_a_decode_writes_segments_and_is_limited_by_memory(decode):
    assert [group.kernel for group in decode.groups] == ["unified_attention_3d", "reduce_segments"]
    assert decode.main.launches == 3
    assert moved(decode.main, "written") > least_bytes(decode.scenario.problem).written
    text = conclusion([decode], None)
    assert "Memory is close to its peak" in text
    assert "K and V are read about once" in text
    assert "emulated" not in text
    figure = key_figure(decode)
    assert (figure["evidence"], figure["unit"], round(figure["value"], 2)) == ("measured", "x", 1.0)


def test_kinds_of_evidence_stand_in_rows_of_their_own(decode):
    table = bytes_table([decode])
    assert [(row[1].text, row[-1].text) for row in table.rows] == [
        ("least, whole call", "static"),
        ("unified_attention_3d", "measured"),
        ("reduce_segments", "measured"),
    ]
    assert {row[3].text for row in figure_table(decode).rows} == {"measured"}


def test_a_file_of_ones_own_needs_neither_scenario_nor_every_counter(foreign, decode):
    study = explain(foreign)
    assert study.scenario is None
    assert metric_of(study.main, "l2_hit_rate").value == 75.0
    assert moved(study.main, "read") is None
    assert [row[2].text for row in bytes_table([study]).rows] == ["not counted"]
    assert [row[2].text for row in source_table([study, decode]).rows] == ["gfx950", "sm_90"]
    assert any("HBM bytes read" in row[0].text for row in missing_table(study).rows)
    assert "L2 hit rate 75.00 %" in conclusion([study], None)
    assert "counts neither bytes nor matrix work" in key_figure(study)["sentence"]
    for picture in (share_plot([study, decode]), share_plot([study]), bytes_plot([study, decode])):
        assert picture._repr_png_()[0].startswith(b"\x89PNG")


def test_a_kernel_and_a_scenario_are_chosen_by_name(foreign):
    chosen = explain(recorded_path("serving_decode_b64_4k"), kernel="reduce")
    assert [group.kernel for group in chosen.groups] == ["reduce_segments"]
    assert explain(foreign, scenario="dense_headline").scenario.name == "dense_headline"
    with pytest.raises(ScenarioError, match="did you mean dense_headline"):
        explain(foreign, scenario="dense_headlin")
    with pytest.raises(ParameterError, match="no recorded profile 'decode'; there are decode_d128_b64"):
        recorded_path("decode")


def test_the_notebook_in_small_form(tmp_path):
    assert all(parameter.help for parameter in notebook_parameters(find_notebook("profile")).values())
    result = run_report("profile", {"emulated": "single_batch_d128_S4096"}, tmp_path, progress=False)
    assert result.failed == ()
    html = result.html.read_text()
    assert html.count("data:image/png;base64,") == 2
    assert external_references(html) == []
    for text in ("1,076.143", "1,074.266", "visible pairs, whole call", "single_batch_d128_S4096, small size"):
        assert text in html
