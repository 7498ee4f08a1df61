"""The study of the sliding window: tiles counted by hand, parts of an emulated launch, tables."""

import pytest

from workbench.device import load_device
from workbench.errors import ParameterError
from workbench.problem import UnifiedAttentionProblem
from workbench.published import load_published
from workbench.scenarios import find
from workbench.studies import window_views as views
from workbench.studies.unified_levers import paged
from workbench.studies.window import (
    UNPRUNED,
    context_frame,
    count_tiles,
    part_frame,
    read_frame,
    small_problem,
    tile_frame,
    window_study,
)

SCENARIO = find("serving_d64_sinks_sw127_ns64")
FOUR, TWO = views.FOUR, views.TWO


@pytest.fixture(scope="module")
def study():
    return window_study(SCENARIO, "Gluon", [(4, 64), (2, 64)])


@pytest.fixture(scope="module")
def reads(study):
    return read_frame(study, [FOUR, TWO])


@pytest.mark.parametrize(("window", "rows", "tile"), [(128, 128, 64), (5, 64, 32), (None, 128, 32), (300, 32, 16)])
def test_tiles_are_those_that_hold_a_visible_key(window, rows, tile):
    problem = UnifiedAttentionProblem(
        ((37, 211), (16, 16), (1, 90)), num_query_heads=8, num_kv_heads=1, head_size=64, block_size=16,
        sliding_window=window,
    )  # fmt: skip
    tiles, keys, scores, blocks = 0, 0, 0, 0
    for queries, length in problem.seq_lens:
        limits = [length - queries + each for each in range(queries)]
        seen = [[key for key in range(limit + 1) if window is None or limit - key < window] for limit in limits]
        for first in range(0, queries, rows // 8):
            block = seen[first : first + rows // 8]
            some = {key for row in block for key in row}
            blocks += 1
            tiles += len({key // tile for key in some})
            keys += len(some)
            scores += 8 * sum(map(len, block))
    counted = count_tiles(problem, rows, tile)
    assert (counted.blocks, counted.tiles, counted.keys, counted.scores) == (blocks, tiles, keys, scores)
    assert (counted.unpruned > counted.tiles) == (window is not None and window < 200)


def test_parts_of_a_launch_add_up_and_pruning_takes_passes(study):
    frame = part_frame(study, "Gluon").set_index("variant")
    assert frame["correct"].all()
    for row in frame.itertuples():
        parts = row.busy * (row.prelude + row.loop + row.behind) + (row.waves - row.busy) * row.idle
        assert parts == pytest.approx(row.instructions)
        assert row.passes * row.tile == pytest.approx(row.loop)
        assert row.peeled == 0
    pruned, every = frame.loc[FOUR], frame.loc[f"{FOUR}, {UNPRUNED}"]
    small = small_problem(paged(SCENARIO))
    counted = count_tiles(small, 128, 64)
    assert pruned["passes"] * pruned["busy"] == 4 * counted.tiles
    assert every["passes"] * every["busy"] == 4 * counted.unpruned
    assert every["around"] < pruned["around"]


def test_half_the_rows_read_keys_twice_and_no_line_more(reads):
    by = reads.set_index("variant")
    assert by.loc[TWO]["requests"] > 1.2 * by.loc[FOUR]["requests"]
    assert by.loc[TWO]["lines"] == pytest.approx(by.loc[FOUR]["lines"], rel=0.01)


def test_tables_pictures_and_conclusion(study, reads):
    parts, problem = part_frame(study, "Gluon"), paged(SCENARIO)
    tiles = tile_frame(problem, load_device("mi355x"), {(4, 64): 3, (2, 64): 6})
    assert list(tiles["workgroups"]) == [8 * (64 * 8 + 64), 8 * (64 * 16 + 64)]
    assert list(tiles["rounds"]) == [4608 / (3 * 256), 8704 / (6 * 256)]
    assert tiles["copied"].is_monotonic_increasing
    contexts = context_frame(problem, views.row_of(parts, FOUR), 4, 64, [128, 4096])
    assert len(contexts) == 4
    for picture in (views.part_picture([parts, parts]), views.context_picture(contexts, "one")):
        assert picture._repr_png_()[0].startswith(b"\x89PNG")
    for table in (views.part_table(parts), views.code_table(parts, [study]), views.tile_table(tiles, "")):
        assert len(table.rows) > 1
    assert len(views.published_beside(tiles, parts, load_published("window")).rows) == 2
    text = views.conclusion(tiles, parts, parts, parts, reads)
    assert "Only hardware can tell" in text
    assert "The fp8 cache was not run with both tiles" in text
    with pytest.raises(ParameterError, match="has no window"):
        window_study(find("serving_d64_sinks_full_ns16"), "Gluon", [(4, 64)])
