"""The study of waves_per_eu: registers, the latency model, tables."""

import pandas as pd
import pytest

from workbench.errors import ParameterError
from workbench.published import load_published
from workbench.scenarios import find
from workbench.studies import waves_views as views
from workbench.studies.unified_levers import base_spec, paged, small_paged
from workbench.studies.waves import implied_latency, latency_frame, pays_from, register_frame, waves_study

SCENARIO = find("serving_d64_sinks_full_ns16")


@pytest.fixture(scope="module")
def gluon():
    return register_frame(waves_study(SCENARIO, "Gluon", [2, 4, 5], emulate=False), "Gluon")


def registers(*rows: tuple[int, float, float]) -> pd.DataFrame:
    """value, waves, cycles."""
    fields = {"kernel": "one", "spills": 0, "vgprs": 100, "instructions": 300}
    return pd.DataFrame([{"value": v, "waves": w, "cycles": c, **fields} for v, w, c in rows])


def test_the_model_is_bound_by_issue_or_by_latency():
    frame = registers((2, 2, 1000), (3, 3, 1200))
    model = latency_frame(frame, [0, 4000]).set_index(["value", "latency"])["cycles"]
    assert list(model) == [1000, 2500, 1200, pytest.approx(5200 / 3)]
    # (1000 + L) / 2 = 1200
    assert pays_from(frame, 2, 3) == 1410
    assert pays_from(frame, 3, 2) == 0
    # (1000 + L) / 2 = 1.15 * 1000 with equal cycles
    assert implied_latency(registers((2, 2, 1000), (3, 3, 1000)), 2, 3, 1.15) == 1300
    assert implied_latency(frame, 2, 3, 1.6) is None
    with pytest.raises(ParameterError, match=r"waves_per_eu=4 is not in the study; it has 2, 3"):
        pays_from(frame, 2, 4)


def test_the_lever_caps_waves_until_it_spills(gluon):
    by = gluon.set_index("value")
    assert list(by["waves"]) == [2, 4, 5]
    assert list(by["spills"] > 0) == [False, False, True]
    assert by.loc[2]["reserved"] > by.loc[2]["vgprs"] + 8
    assert by.loc[2]["instructions"] == by.loc[4]["instructions"]
    assert views.shipped_value(gluon) == 4


def test_tables_pictures_and_conclusion(gluon):
    portable = registers((2, 2, 1400), (3, 3, 1700)).assign(kernel="portable", reserved=160)
    for picture in (views.register_picture([gluon, portable]), views.latency_picture([gluon, portable])):
        assert picture._repr_png_()[0].startswith(b"\x89PNG")
    assert len(views.register_table(gluon).rows) == 3
    text = views.conclusion(gluon, portable, gluon[gluon["value"] == 5], load_published("waves_per_eu"))
    assert "so only caps the waves" in text
    assert "Gluon at 5 (static)" in text
    assert "Only hardware can tell" in text


def test_what_the_unified_lever_studies_share():
    problem = paged(SCENARIO)
    assert problem.cache_bytes < 2**31
    small = small_paged(problem)
    assert (small.seq_lens, small.num_query_heads, small.num_blocks) == (((32, 320),), 8, 10)
    with pytest.raises(ParameterError, match="dense_headline is dense"):
        paged(find("dense_headline"))
    with pytest.raises(ParameterError, match="no kernel 'triton'; there are Gluon, portable"):
        base_spec("triton", problem)
