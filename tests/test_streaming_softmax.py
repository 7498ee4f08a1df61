"""The streaming softmax study: the recurrence, its cases, its tables."""

import math

import pytest

from workbench.errors import ParameterError
from workbench.studies import streaming_views as views
from workbench.studies.streaming_softmax import (
    Recipe,
    kernel_frame,
    masked_frame,
    precision_frame,
    rescale_frame,
    scores,
    sink_frame,
    trace_frame,
)

KEYS = 512


@pytest.fixture(scope="module")
def rescales():
    return rescale_frame([0, 8, 20], ["bf16", "fp16"], KEYS)


@pytest.fixture(scope="module")
def precision():
    return precision_frame([256, 1024], 2)


@pytest.mark.parametrize("tile", [16, 64, 100])
@pytest.mark.parametrize("threshold", [None, 8.0])
def test_any_tile_and_threshold_give_the_softmax_so_far(tile, threshold):
    trace = trace_frame("rising", KEYS, Recipe(tile=tile, threshold=threshold))
    assert len(trace) == math.ceil(KEYS / tile)
    assert trace["error"].max() < 1e-13


def test_a_larger_threshold_rescales_less_until_fp16_overflows(rescales):
    rising = rescales[rescales["pattern"] == "rising"].set_index(["p", "threshold"])
    shares = rising.loc["bf16"]["rows_rescaled"]
    assert list(shares) == sorted(shares, reverse=True)
    assert rising.loc[("bf16", 8)]["largest_p"] <= 2**8
    assert math.isinf(rising.loc[("fp16", 20)]["error"])
    assert rising.loc[("bf16", 20)]["error"] < 5e-3
    falling = rescales[rescales["pattern"] == "falling"]
    assert falling["rows_rescaled"].max() == 0


def test_the_error_is_that_of_ps_dtype_at_any_context(precision):
    for dtype, low, high in (("fp64", 0, 1e-14), ("fp16", 1e-4, 3e-4), ("bf16", 1e-3, 2.5e-3)):
        found = views.error_of(precision, dtype)
        assert low <= found[0] <= found[1] <= high, dtype


def test_a_sink_may_enter_anywhere_but_not_be_left_out():
    errors = sink_frame(KEYS).set_index("sink enters")["error"]
    assert errors.pop("left out") > 1e-3
    assert errors.max() < 1e-14


def test_a_start_at_minus_infinity_is_nan_where_the_first_tile_is_masked():
    frame = masked_frame(256).set_index(["row", "m starts at"])
    assert frame.xs("lowest float32", level=1)["nan"].max() == 0
    assert frame.xs("lowest float32", level=1)["error"].max() < 1e-14
    assert list(frame.xs("-inf", level=1)["nan"]) == [0, 1, 1]


def test_tables_pictures_and_conclusion(rescales, precision):
    kernels = kernel_frame(64)
    assert kernels["error"].max() < 4e-3
    assert len(views.kernel_table(kernels).rows) == 5
    assert len(views.rescale_table(rescales).rows) == 12
    assert len(views.sink_table(sink_frame(KEYS)).rows) == 4
    assert len(views.masked_table(masked_frame(256)).rows) == 6
    pictures = (
        views.trace_picture([trace_frame("random", KEYS, Recipe())]),
        views.rescale_picture(rescales),
        views.precision_picture(precision),
    )
    for picture in pictures:
        assert "modelled" in picture.alt
        assert picture._repr_png_()[0].startswith(b"\x89PNG")
    text = views.conclusion(rescales, precision, kernels)
    assert "From 20 on fp16 overflows" in text
    assert "Only hardware can tell" in text


def test_an_unknown_pattern_is_refused():
    with pytest.raises(ParameterError, match="no pattern 'flat'; there are random, rising"):
        scores("flat", 4, 64)
