"""The split-KV study: traffic and occupancy by segments, exactness of the merge, tables."""

import pandas as pd
import pytest
import torch

from workbench.device import load_device
from workbench.errors import ParameterError
from workbench.studies import split_views as views
from workbench.studies.lever_study import spec_variants, study_variants
from workbench.studies.routing import Shape
from workbench.studies.split_kv import (
    base_3d,
    kernel_frame,
    largest_ulps,
    recurrence_frame,
    segment_frame,
    workspace_bytes,
)

MI355X = load_device("mi355x")
PROBLEM = Shape().problem(1, 8192)


@pytest.fixture(scope="module")
def exact():
    return pd.concat([recurrence_frame([1, 4], 512), kernel_frame([1, 4], 128)], ignore_index=True)


def test_the_workspace_is_counted_by_hand():
    """64 rows of 128 channels and two numbers, float32, there and back."""
    assert workspace_bytes(PROBLEM, 8) == 2 * 4 * 64 * 8 * 130


def test_segments_share_the_tiles_and_those_behind_the_end_are_empty():
    frame = segment_frame(PROBLEM.with_changes(seq_lens=((1, 576),)), MI355X, [1, 4, 8]).set_index("segments")
    assert list(frame["tiles"]) == [9, 3, 2]
    assert list(frame["empty"]) == [0, 8 * (4 - 3), 8 * (8 - 5)]
    chosen = segment_frame(PROBLEM, MI355X, [32, 64, 128])
    assert list(chosen["chosen"]) == [False, True, False]
    assert chosen["chosen"].sum() == 1
    tight = segment_frame(PROBLEM, MI355X, [64, 128], per_cu=2)
    assert list(tight["steps"]) == [2, 2]
    assert list(tight["busy"]) == [1.0, 1.0]


def test_a_merge_is_exact_and_not_bit_for_bit(exact):
    by = exact.set_index(["what", "segments"])
    assert by.loc[("recurrence, fp64", 4)]["error"] < 1e-14
    assert by.xs(1, level=1)["equal"].min() == 1
    assert by.loc[("recurrence, bf16", 4)]["equal"] < 0.9
    assert by.loc[("recurrence, bf16, whole anchors", 4)]["equal"] > 0.97
    kernels = exact[exact["evidence"] != "modelled"]
    assert len(kernels) == 4
    assert kernels[kernels["what"].str.contains("fp32")]["error"].max() < 1e-6


def test_units_in_the_last_place():
    a = torch.tensor([[1.0, 1.0]])
    assert largest_ulps(a + torch.tensor([[0.0, 2.0**-23]]), a) == 1
    assert largest_ulps(-a, -a) == 0
    with pytest.raises(ParameterError, match="need one dtype"):
        largest_ulps(a, a.double())


def test_tables_pictures_and_conclusion(exact):
    changes = {"segments=1": {"num_segments": 1}, "segments=8": {"num_segments": 8}}
    changes["segments=8, fused"] = {"num_segments": 8, "fused_reduce": True}
    study = study_variants(spec_variants(PROBLEM, base_3d(PROBLEM, MI355X), changes), small=None, timing=False)
    per_cu = int(study.value("segments=1", "workgroups per CU"))
    frames = [segment_frame(PROBLEM, MI355X, [1, 64, 128]), segment_frame(PROBLEM, MI355X, [1, 64, 128], per_cu)]
    for picture in (
        views.segment_picture(frames, "a decode"),
        views.exactness_picture(exact),
        views.study_picture(study, "a decode"),
    ):
        assert picture._repr_png_()[0].startswith(b"\x89PNG")
    assert len(views.segment_table(frames[1]).rows) == 3
    assert len(views.exactness_table(exact).rows) == len(exact)
    text = views.conclusion(*frames, exact, study)
    assert "Dispatch takes 64" in text
    assert f"the code admits {per_cu}, limited by" in text
    assert "Only hardware can tell" in text
