"""The lever study: sweeps in machine code, their tables, and the notebook."""

import pytest

from workbench.errors import ParameterError, SpecError
from workbench.published import load_published
from workbench.scenarios import find
from workbench.studies.compile_study import base_spec, call_limits, emulate_values, lever_values, sweep_lever
from workbench.studies.compile_views import (
    bench_command,
    budget_table,
    conclusion,
    conflict_table,
    key_figure,
    lds_budget_table,
    mix_table,
    published_table,
    resource_table,
    study_plot,
)
from workbench.studies.lever_figures import WITH_CONFLICTS, Figure
from workbench.studies.lever_study import LeverStudy, Outcome, Variant

SCENARIO = find("decode_d128_b16")
DECODE = call_limits(SCENARIO.problem, "gfx950")
DENSE = call_limits(find("dense_headline").problem, "gfx950")
BOUND = "MFMA efficiency, at most" + WITH_CONFLICTS


@pytest.fixture(scope="module")
def points():
    spec = base_spec(SCENARIO, "2d", "gfx950")
    return sweep_lever(SCENARIO, spec, "tile_size", ["32", "64", "8"])


def test_a_value_that_no_kernel_allows_is_a_row_with_its_reason(points):
    assert [point.status for point in points] == ["ok", "ok", "unsupported"]
    assert "tile_size must be a power of two in 16..256, got 8" in points[2].message


def test_figures_follow_the_lever(points):
    small, large = (point.inspection.summary()["static"] for point in points[:2])
    assert large["hot mfma"] == 2 * small["hot mfma"] > 0
    assert large["vgpr_spills"] == small["vgpr_spills"] == 0


def test_tables_hold_a_row_per_value_and_the_failures_text(points):
    for build in (resource_table, mix_table, budget_table, lds_budget_table):
        table = build(points, "tile_size")
        assert [row[0].text for row in table.rows] == ["32", "64", "8"]
        assert len({len(row) for row in table.rows} | {len(table.headings)}) == 1, build.__name__
        assert "unsupported" in repr(table)
    headings = mix_table(points, "tile_size").headings
    column = [row[headings.index("MFMA")].text for row in mix_table(points, "tile_size").rows[:2]]
    assert column == [str(point.inspection.summary()["static"]["hot mfma"]) for point in points[:2]]


def test_the_picture_and_the_conclusion_speak_of_the_values(points):
    picture = study_plot(points, "tile_size", "a study")
    assert "tile_size = 32, 64" in picture.alt
    assert picture._repr_png_()[0].startswith(b"\x89PNG")
    bench = bench_command(SCENARIO.name, "2d", "tile_size", points, ["num_warps=8"])
    assert bench == (
        "workbench bench decode_d128_b16 --lane 2d --spec num_warps=8,tile_size=32 --spec num_warps=8,tile_size=64"
    )
    assert bench in conclusion(points, "tile_size", bench, DECODE)
    figure = key_figure(points, "tile_size", "decode on gfx950", DENSE)
    assert figure["value"] == 100 * max(p.inspection.summary()["modelled"]["mfma_efficiency"] for p in points[:2])
    assert "decode on gfx950" in figure["sentence"]
    assert figure["sentence"].endswith("1 of 3 values gave no kernel.")
    assert "; no other gave a kernel." in key_figure(points[1:], "tile_size", "decode", DENSE)["sentence"]


def test_what_limits_the_call_comes_first(points):
    assert (DECODE.binding, DENSE.binding) == ("memory", "compute")
    assert DECODE.memory_us == pytest.approx(DECODE.work.bytes / 8e6)  # 8 TB/s
    figure = key_figure(points, "tile_size", "decode", DECODE)
    assert figure["sentence"].startswith("Memory, not MFMA, limits decode")
    assert figure["value"] == DECODE.memory_us
    said = conclusion(points, "tile_size", "", DECODE)
    assert f"{points[0].workgroups} workgroups, on 256 compute units" in said
    assert "admitting more is no gain" in said


def test_emulated_conflicts_can_turn_the_order_round(points):
    plain = {p.value: p.inspection.summary()["modelled"]["mfma_efficiency"] for p in points[:2]}
    best = max(plain, key=plain.get)
    other = next(value for value in plain if value != best)
    lines = {value: Figure(value, BOUND, 0.2 if value == best else 0.3, "1", "modelled", "", "") for value in plain}
    variants = {value: Variant(value, SCENARIO.problem, None) for value in plain}
    study = LeverStudy({v: Outcome(variants[v], figures=[lines[v]]) for v in plain}, (), "")
    assert (
        f"30% MFMA efficiency, with tile_size = {other}"
        in key_figure(points, "tile_size", "", DENSE, study)["sentence"]
    )
    partial = LeverStudy({best: study.outcomes[best]}, (), "")
    assert f"with tile_size = {best}" in key_figure(points, "tile_size", "", DENSE, partial)["sentence"]
    assert "may turn the order round" in conclusion(points, "tile_size", "", DENSE, partial)


def test_conflicts_are_counted_on_the_emulator(points):
    study = emulate_values(SCENARIO, points[:1])
    table = conflict_table(study, "tile_size")
    assert [cell.text for cell in table.rows[0][:2]] == ["32", "correct"]
    assert {len(row) for row in table.rows} == {len(table.headings)}
    assert study.value("32", BOUND) > 0
    assert emulate_values(SCENARIO, points[:1], target="gfx942") is None
    assert "Not emulated" in repr(conflict_table(None, "tile_size"))


def test_one_value_gives_no_conclusion(points):
    assert "nothing to compare" in conclusion(points[2:], "tile_size", "", DECODE)
    assert "No value of tile_size" in key_figure(points[2:], "tile_size", "decode", DECODE)["sentence"]


def test_levers_are_checked_by_name():
    spec = base_spec(SCENARIO, "2d", "gfx950")
    assert lever_values(spec, "mask_split", []) == ["false", "true"]
    assert lever_values(spec, "async_copy", []) == ["false", "true"]
    with pytest.raises(ParameterError, match=r"has no lever 'tile'; it has .*tile_size"):
        lever_values(spec, "tile", ["1"])
    with pytest.raises(ParameterError, match="num_stages is not a switch"):
        lever_values(spec, "num_stages", [])
    with pytest.raises(ParameterError, match="num_stages=foo: the value must be an integer"):
        lever_values(spec, "num_stages", ["1", "foo"])
    with pytest.raises(ParameterError, match="tile_size: 32 is given twice"):
        lever_values(spec, "tile_size", ["32", "32"])
    assert lever_values(spec, "tile_size", ["8"]) == ["8"]  # of the right type: the sweep says why it is refused
    with pytest.raises(ParameterError, match="dense scenario and has no lanes"):
        base_spec(find("dense_headline"), "2d", "gfx950")
    with pytest.raises(SpecError, match="has no field 'tile'"):
        base_spec(SCENARIO, "2d", "gfx950", ["tile=3"])


def test_published_figures_name_hardware_and_source():
    rows = load_published()
    assert all(row.hardware and row.source and row.value for row in rows)
    assert [row.value for row in load_published("waves_per_eu")][:3] == ["137", "3", "4"]
    assert len(published_table("num_stages").rows) == len(load_published("num_stages")) > 0
    assert repr(published_table("no such lever")) == "Nothing published is on file."
