"""The routing study: the map, the queue model, the rule against measured records."""

import pytest

from workbench.device import load_device
from workbench.errors import ParameterError
from workbench.records import stored_records
from workbench.studies import routing_views as views
from workbench.studies.routing import UNIFIED_SETS, Shape, gain, measured_frame, queue_of, route_frame, timed_points

MI355X, H200 = load_device("mi355x"), load_device("h200")


@pytest.fixture(scope="module")
def routes():
    return route_frame(MI355X, Shape(), [1, 64, 256], [512, 8192])


@pytest.fixture(scope="module")
def measured():
    return measured_frame(stored_records("h200", UNIFIED_SETS), H200)


def test_the_map_follows_context_and_grid(routes):
    lanes = {(row.batch, row.context): row.lane for row in routes.itertuples()}
    assert lanes == {
        (1, 512): "2d",
        (1, 8192): "3d",
        (64, 512): "2d",
        (64, 8192): "3d",
        (256, 512): "2d",
        (256, 8192): "2d",
    }
    assert set(routes["evidence"]) == {"static; steps, busy and gain modelled"}
    windowed = route_frame(MI355X, Shape(sliding_window=4096), [1], [8192])
    assert list(windowed["lane"]) == ["2d"]


def test_the_queue_counts_rounds_and_tiles():
    """8 workgroups of 128 tiles of 64 keys; split into 64 segments of 2 tiles; 16 rows each."""
    problem = Shape().problem(1, 8192)
    flat, split = queue_of(problem, MI355X, "2d"), queue_of(problem, MI355X, "3d")
    assert (flat.workgroups, flat.rounds, flat.tiles, flat.steps) == (8, 1, 128, 128 * 16)
    assert (split.segments, split.workgroups, split.tiles) == (64, 512, 2)
    assert split.busy == 0.5
    assert gain(problem, MI355X) == 64
    assert gain(Shape().problem(1024, 8192), MI355X) == 1


def test_records_show_where_the_rule_loses(measured):
    worst = measured.sort_values("rule_loss").iloc[-1]
    assert worst["scenario"] == "creative_sw_large"
    assert worst["rule"] == "2d"
    assert worst["rule_loss"] == worst["ratio"] > 5
    assert len(measured) > 60
    assert 0.8 < views.right_share(measured, "rule_loss") < 1
    assert measured["loss"].min() == 1
    scenarios = [row[0].text for row in views.wrong_table(measured).rows]
    assert scenarios[0] == "creative_sw_large"
    with pytest.raises(ParameterError, match="no measured records of mi355x"):
        stored_records("mi355x", UNIFIED_SETS)


def test_pictures_and_conclusion(routes, measured):
    pictures = (views.lane_map({"one": routes}), views.gain_map(routes, "a shape"), views.check_picture(measured))
    for picture in pictures:
        assert picture._repr_png_()[0].startswith(b"\x89PNG")
    assert "NVIDIA H200" in pictures[2].alt
    assert [row[0].text for row in views.line_table(routes, 8192).rows] == ["1", "64", "256"]
    text = views.conclusion(routes, measured)
    assert "A window does not always leave little to split: creative_sw_large" in text
    assert "Only hardware can tell" in text


def test_nothing_is_timed_without_a_gpu(monkeypatch):
    monkeypatch.setattr("workbench.device.detect_device", lambda: None)
    assert timed_points(Shape(), [(1, 1024)]) == []
