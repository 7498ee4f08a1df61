"""The study of the mask split: tiles of a problem against the emulator's walk, tables, pictures, conclusions."""

import pandas as pd
import pytest

from workbench.problem import UnifiedAttentionProblem
from workbench.published import load_published
from workbench.scenarios import find
from workbench.studies import mask_split as split
from workbench.studies import mask_split_views as views
from workbench.studies.lever_study import emulate_checked
from workbench.studies.unified_levers import base_spec, paged, small_paged

SERVING = find("serving_d64_sinks_full_ns16")
PUBLISHED = load_published("mask_split")


@pytest.fixture(scope="module")
def study():
    return split.split_study(SERVING)


@pytest.fixture(scope="module")
def walked(study):
    return split.walk_frame([("d64", study)])


def problem(*lengths, **fields):
    shape = {"num_query_heads": 8, "num_kv_heads": 1, "head_size": 64, "block_size": 32, "dtype": "bf16"}
    return UnifiedAttentionProblem(seq_lens=lengths, **shape | fields)


def test_tiles_are_whole_where_the_first_row_sees_their_last_key():
    assert split.split_tiles(problem((16, 64)), 128, 64) == split.Tiles(1, 0, 1)
    assert split.split_tiles(problem((1, 64)), 128, 64) == split.Tiles(1, 1, 0)
    assert split.split_tiles(problem((32, 320)), 128, 64) == split.Tiles(2, 8, 2)
    assert split.split_tiles(problem((16, 320), num_query_heads=16, num_kv_heads=2), 128, 64).total == 2 * 5


def test_a_window_cuts_at_both_ends():
    # The block of queries 1008..1015 sees keys 881..1015: of tiles 13..15, tile 14 alone from end to end.
    assert split.split_tiles(problem((16, 1024), sliding_window=128), 64, 64) == split.Tiles(2, 2, 4)


def test_the_emulated_loops_walk_the_tiles_that_were_counted(walked):
    small = small_paged(paged(SERVING), 32, 320)
    spec = base_spec("Gluon", small).with_changes(mask_split=True)
    (launch,) = emulate_checked(small, spec, "2d", walked["triton"].iloc[0]).launches
    tiles = split.split_tiles(small, spec.block_m, spec.tile_size)
    mfma = walked[walked["tiles"] == "whole"]["mfma"].iloc[0]
    assert launch.counters["SQ_INSTS_MFMA"] == mfma * spec.num_warps * tiles.total


def test_the_split_takes_masks_out_of_whole_tiles_alone(walked):
    one, whole, masked = (walked[walked["tiles"] == kind].iloc[0] for kind in ("all", "whole", "masked"))
    assert one["masks"] - whole["masks"] >= 64  # two instructions for each of a lane's 32 scores
    assert masked["masks"] == one["masks"]
    assert split.predicted(walked, 1.0) == one["cycles"] / whole["cycles"] > 1
    assert split.predicted(walked, 0.5) < split.predicted(walked, 1.0)


def test_measured_ratios_are_told_with_their_hardware_and_tiles():
    rows = [("a", 0.98, 60.0, 1.278, 1.277, 1.279), ("b", 1.0, 2.0, 0.936, 0.930, 0.939)]
    timed = pd.DataFrame(rows, columns=["scenario", "share", "per_block", "ratio", "low", "high"])
    (text,) = views._measured(timed.assign(hardware="NVIDIA H200"))
    assert "on NVIDIA H200, one loop over the split: 1.278 on a (98% whole, 60 tiles a workgroup)" in text
    assert "lost with 2 to 2 tiles a workgroup, and won with 60 or more" in text
    assert views._measured(timed[:0].assign(hardware="")) == []


def test_the_key_figure_says_what_a_clock_said(study, walked):
    rows = [("a", 1.278, 1.277, 1.279), ("b", 0.936, 0.930, 0.939), ("c", 1.0, 0.99, 1.01)]
    timed = pd.DataFrame(rows, columns=["scenario", "ratio", "low", "high"]).assign(hardware="NVIDIA H200")
    sentences = [views.key_figure(walked, study, "d64", each, PUBLISHED)["sentence"] for each in (timed, timed[:0])]
    assert "timed on NVIDIA H200 it won 1 and lost 1 of 3 scenarios" in sentences[0]
    assert "published" not in sentences[0]
    assert "no clock ran here, and published is 0.93x on an MI355X" in sentences[1]


def test_tables_picture_and_conclusion(study, walked, monkeypatch):
    monkeypatch.setattr("workbench.device.detect_device", lambda: None)
    emulated = split.emulated_frame([SERVING], study.triton_version, ["middling"])
    assert emulated["right"].all()
    assert emulated["identical"].all()
    tiles = split.tile_frame([SERVING, find("decode_d128_b16")])
    assert list(tiles["scenario"]) == [SERVING.name]
    timed = split.timed_frame([SERVING])[:0]
    assert "no time was measured" in repr(views.time_table(timed))
    picture = views.share_picture(walked, emulated, tiles, PUBLISHED, study.triton_version)
    assert picture._repr_png_()[0].startswith(b"\x89PNG")
    text = views.conclusion([("d64", study)], walked, emulated, timed, PUBLISHED)
    assert "bit-identical in every case" in text
    assert "Published: 0.93x (MI355X" in text
    assert "the disagreement stands" in text
    assert views.key_figure(walked, study, "d64", timed, PUBLISHED)["value"] > 1
