"""The fp8 study: rounding, accuracy over seeds, bytes, and the kernels' code."""

import pytest
import torch

from workbench.scenarios import find
from workbench.studies import fp8_views as views
from workbench.studies.fp8_cache import (
    E4M3,
    accuracy_frame,
    attention,
    bytes_frame,
    cache_variants,
    conversions,
    rounded,
)
from workbench.studies.lever_study import study_variants

PREFILL, DECODE = "serving_d64_sinks_full_fp8kv", "serving_d64_decode_fp8kv_b64"


@pytest.fixture(scope="module")
def accuracy():
    return accuracy_frame([1.0, 4.0], [256], 2)


@pytest.fixture(scope="module")
def moved():
    return bytes_frame({name: find(name).problem for name in (PREFILL, DECODE)}, "mi355x")


def test_e4m3_keeps_three_bits_behind_the_first():
    x = torch.tensor([448.0, 17.0, 1.0, -0.3], dtype=torch.float64)
    assert rounded(x, E4M3).tolist() == [448.0, 16.0, 1.0, -0.3125]
    assert rounded(2 * x, E4M3).tolist() == [896.0, 32.0, 2.0, -0.625]
    assert rounded(x, torch.bfloat16)[1] == 17


def test_attention_is_torchs():
    q, k, v = (torch.randn(5, 8, dtype=torch.float64) for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], scale=1.0)[0]
    torch.testing.assert_close(attention(q, k, v), expected)


def test_each_operand_in_fp8_costs_accuracy_and_sharp_heads_more(accuracy):
    for spread in (1.0, 4.0):
        errors = [views.error_of(accuracy, way, spread) for way in accuracy["way"].unique()]
        assert errors[0] < errors[1] / 5
        assert errors[1] < errors[3]
        assert errors[2] == pytest.approx(errors[1], rel=0.05)
    cached = "fp8 cache, dequantised"
    assert views.error_of(accuracy, cached, 4.0) > 1.5 * views.error_of(accuracy, cached, 1.0)
    assert accuracy[accuracy["way"] == cached]["own"].max() < 3e-3


def test_a_decode_moves_half_the_bytes(moved):
    by = moved.set_index("scenario")
    assert by.loc[DECODE]["ratio"] == pytest.approx(2, rel=0.01)
    assert by.loc[DECODE]["limited_by"] == "memory"
    assert by.loc[PREFILL]["gain"] == 1
    assert len(views.bytes_table(moved).rows) == 2


def test_the_kernels_convert_what_they_say(accuracy, moved):
    problem = find(PREFILL).problem
    variants = [variant for variant in cache_variants(problem) if variant.name.startswith("Gluon")]
    assert [variant.problem.cache_bytes < 2**31 for variant in variants] == [True] * 3
    study = study_variants(variants, small=None, timing=False)
    counts = [conversions(study, name) for name in study.names]
    assert counts == [0, 16, 8]
    assert study.value("Gluon: fp8, native QK", "LDS") < study.value("Gluon: bf16", "LDS")
    assert 0.9 < views.gain(study, "Gluon") < 1.1
    assert len(views.kernel_table(study).rows) == 3
    text = views.conclusion(accuracy, moved, study)
    assert "The native product has 8 conversions instead of 16" in text
    assert "Only an MI355X can tell" in text


def test_the_picture_shows_seeds(accuracy):
    picture = views.accuracy_picture(accuracy)
    assert picture._repr_png_()[0].startswith(b"\x89PNG")
    assert len(views.accuracy_table(accuracy).rows) == len(accuracy)
