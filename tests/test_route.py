"""Routing as rows and as a list."""

import io

import pytest
from rich.console import Console

from workbench.device import load_device
from workbench.errors import ParameterError
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.route import COLUMNS, route_list, route_rows
from workbench.scenarios import load_set

DECODE = UnifiedAttentionProblem(
    seq_lens=((1, 4096),) * 4, num_query_heads=16, num_kv_heads=2, head_size=128, block_size=16
)
DENSE = DenseAttentionProblem(
    batch=1, num_query_heads=128, num_kv_heads=8, seqlen_q=8192, seqlen_kv=8192, head_size=128
)


def test_a_problem_gives_one_row():
    (row,) = route_rows(DECODE, load_device("h200"))
    assert tuple(row) == COLUMNS
    assert (row["lane"], row["workgroups"], row["target"]) == ("3d", 8, 396)
    assert row["launch grid"] == (4, 2, 32)
    assert "num_segments=32" in row["spec"]
    assert row["reasons"][0].startswith("3D: 4 query blocks x 2 KV heads = 8 workgroups")


def test_a_forced_lane_says_so():
    (row,) = route_rows(DECODE, load_device("h200"), lane="2d")
    assert (row["lane"], row["launch grid"]) == ("2d", (2, 4, 1))
    assert row["reasons"][0] == "Lane 2d: asked for."


def test_an_unknown_lane_lists_the_known():
    with pytest.raises(ParameterError, match="lane must be one of auto, 2d, 3d, got '4d'"):
        route_rows(DECODE, lane="4d")


def test_a_dense_problem_shows_its_grid_and_its_order():
    (persistent,) = route_rows(DENSE, load_device("mi355x"))
    assert (persistent["lane"], persistent["workgroups"], persistent["target"]) == ("dense", 4096, 256)
    assert persistent["launch grid"] == (256, 1, 1)
    assert persistent["reasons"][-1].startswith("hkv_major: g 16 x 32 query blocks x batch 1 = 512, at least 2 x 256")
    (default,) = route_rows(DENSE, load_device("b200"))
    assert default["launch grid"] == (64, 128, 1)


def test_a_set_gives_a_row_a_scenario():
    scenarios = load_set("default")
    rows = route_rows(scenarios, load_device("mi355x"))
    assert [row["scenario"] for row in rows] == [scenario.name for scenario in scenarios]
    assert {row["lane"] for row in rows} == {"2d", "3d"}


def rendered(*arguments, width=200):
    console = Console(file=io.StringIO(), width=width)
    console.print(route_list(*arguments))
    return console.file.getvalue()


def test_the_list_names_the_device_and_every_scenario():
    scenarios = load_set("default")
    text = rendered(scenarios, load_device("mi355x"))
    assert "Routes: AMD Instinct MI355X" in text
    for scenario in scenarios:
        assert scenario.name in text


def test_at_80_columns_a_route_takes_a_few_whole_lines():
    lines = rendered(load_set("default")[:1], load_device("mi355x"), width=80).splitlines()
    assert any(line.startswith("decode_d128_b16  3d  grid 4 x 2 x 32, 8 / 1024") for line in lines)
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 80


def test_reasons_of_all_rows_stand_once():
    text = rendered(load_set("gqa"))
    assert text.count("No device is given") == 1
    assert text.index("No device is given") < text.index("gqa_group5")


def test_the_list_without_a_device_says_what_it_assumes():
    text = rendered(DECODE)
    assert "path of mi355x, geometry of the interpreter" in text
    assert "grid 4 x 2 x 4, 8 / 1024 workgroups / target" in text
    assert "num_stages=1 tile_size=128" in text
