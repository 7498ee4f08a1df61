"""The walk through one KV tile: what it finds in the code, what it reads, and the notebook."""

import numpy as np
import pytest
import torch

from workbench.compiler import triton_versions
from workbench.errors import EmulationError, ParameterError
from workbench.report import find_notebook, notebook_parameters, run_report
from workbench.report.html import external_references
from workbench.studies.kv_reference import check_vector, find_in_lds, order_of, place_of, streaming_softmax
from workbench.studies.kv_tile import TILE_SIZE, full_tiles, operand_matrix, small_problem, start_walk
from workbench.studies.kv_views import conclusion, executed_classes, in_flight_table, key_figure


@pytest.mark.parametrize("version", triton_versions())
@pytest.mark.parametrize(("extent", "wave"), [(16, 0), (16, 1), (32, 1)])
def test_every_step_agrees_with_the_recurrence(version, extent, wave):
    walk = start_walk(small_problem(160, extent), extent, triton_version=version, seed=wave)
    walk.to_tile(2, wave)
    assert len(walk.in_flight_at_start) == len(in_flight_table(walk).rows) == 8
    walk.to_products()
    places = walk.lds_places()
    assert (places["K"] >= 0).all()
    assert (places["V"] >= 0).all()
    np.testing.assert_array_equal(walk.lds_tile(places["V"]), walk.state.v.float().numpy())
    scores, probabilities = walk.to_scores(), walk.to_probabilities()
    rescaled, output = walk.to_output()
    walk.to_next_tile()
    checks = walk.checks(scores, probabilities, rescaled, output)
    assert [check.name for check in checks if not check.ok] == []
    assert len(checks) == 7
    assert set(walk.executed().values()) == {2}
    assert sum(count for _, count in executed_classes(walk).values()) == len(walk.landmarks.loop)
    assert walk.debugger.findings == ()
    text = conclusion(walk, probabilities)
    assert f"{len(walk.landmarks.loop)} instructions (emulated)" in text
    assert "Only hardware can tell" in text
    figure = key_figure(walk, checks)
    assert figure["value"] == len(walk.landmarks.loop)
    assert "7 of 7 quantities" in figure["sentence"]


@pytest.fixture(scope="module")
def walk():
    walk = start_walk(small_problem(160, 16), 16)
    walk.to_tile(1)
    return walk


def test_checks_see_a_wrong_value(walk):
    right = walk.state.m.numpy()
    assert check_vector("m", right, walk.state.m).ok
    assert not check_vector("m", right + 1e-3, walk.state.m).ok
    assert not check_vector("m", np.where(right == right[0], np.nan, right), walk.state.m).ok


def test_only_tiles_of_the_hot_loop_can_be_walked(walk):
    last = full_tiles(walk.problem) - 2
    for tile in (0, last + 1):
        with pytest.raises(ParameterError, match=rf"tile must be 1..{last}, got {tile}"):
            walk.to_tile(tile)
    with pytest.raises(ParameterError, match=r"wave must be 0..1, got 2"):
        walk.to_tile(1, 2)
    with pytest.raises(ParameterError, match="kv_len must be at least 72"):
        small_problem(64, 16)


def test_the_recurrence_ends_at_softmax(walk):
    tiles = full_tiles(walk.problem)
    last = streaming_softmax(walk.problem, walk.inputs, TILE_SIZE, tiles)[-1]
    keys = tiles * TILE_SIZE
    blocks = walk.inputs.block_table[0].long()
    k, v = (
        cache[blocks][:, :, 0].reshape(-1, 128)[:keys].double() for cache in (walk.inputs.k_cache, walk.inputs.v_cache)
    )
    q = walk.inputs.q.reshape(-1, 128).double()
    expected = torch.softmax(q @ k.T / 128**0.5, 1) @ v
    torch.testing.assert_close((last.o / last.denominator).T, expected)


def test_places_and_orders_follow_the_content():
    whole = torch.arange(64 * 32, dtype=torch.float64).reshape(64, 32)
    place = place_of(whole[32:48, 16:].numpy() + 0.25, whole)
    assert (place.row, place.column, place.max_abs) == (32, 16, 0.25)
    assert order_of(whole[[2, 0, 1]].numpy(), whole[:3]).tolist() == [2, 0, 1]
    with pytest.raises(EmulationError, match="each key of the tile once"):
        order_of(whole[[2, 2, 1]].numpy(), whole[:3])


def test_lds_is_searched_bit_for_bit():
    tile = torch.randn(2, 8).bfloat16()
    words = np.zeros(16, np.uint32)
    pieces = tile.view(torch.int16).numpy().view(np.uint32).reshape(4, 2)
    words[4:6], words[8:10], words[12:14] = pieces[0], pieces[3], pieces[1]
    assert find_in_lds(words, tile).tolist() == [[16, 48], [-1, 32]]


def test_an_operand_holds_runs_of_the_depth_in_its_lanes():
    matrix = np.arange(32 * 16).reshape(32, 16)
    lanes = matrix.reshape(4, 4, 2, 16)  # lane group, register, half, column
    halves = lanes.transpose(1, 0, 3, 2).reshape(4, 64, 2)
    np.testing.assert_array_equal(operand_matrix(halves, 16), matrix)


def test_the_report_shows_every_step(tmp_path):
    path = find_notebook("kv_tile")
    assert all(parameter.help for parameter in notebook_parameters(path).values())
    result = run_report("kv_tile", {"kv_len": 160, "tile": 1}, tmp_path, progress=False)
    assert result.failed == ()
    html = result.html.read_text()
    assert external_references(html) == []
    assert html.count("wb-ok") >= 7
    assert 'class="wb-tag wb-bad"' not in html
    assert html.count("data:image/png") == 5
    for text in ("1024 of 1024 pieces", "(emulated)", "Static: the hot loop", "what only hardware can tell"):
        assert text in html
