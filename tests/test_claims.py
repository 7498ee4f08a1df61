"""The claims of the specification: the file is complete, and the cheap ones come out as it says."""

import math

import pytest

from workbench.errors import ParameterError
from workbench.records import EVIDENCE_KINDS
from workbench.studies import claims_views as views
from workbench.studies.claims import (
    SECTIONS,
    Ours,
    Tolerance,
    claim_frame,
    function_of,
    in_sections,
    load_claims,
    summary,
)

CLAIMS = {claim.key: claim for claim in load_claims()}
CHEAP = (
    "lds_double", "wg_48", "wg_32", "wg_48_of_64", "target", "short_context", "long_query", "reach_fp8", "cache_size",
    "k_conflict", "k_pad", "unmasked", "balance", "hit_hkv", "misses", "product_arithmetic", "speed_hkv",
)  # fmt: skip


def test_every_claim_is_whole():
    assert len(CLAIMS) == len(load_claims()) > 60
    assert {claim.section for claim in CLAIMS.values()} == set(SECTIONS)
    for claim in CLAIMS.values():
        assert claim.evidence in EVIDENCE_KINDS
        assert claim.why.endswith(".")
        assert math.isfinite(claim.value)
        assert (claim.tolerance is None) == (claim.expected == "only hardware can tell"), claim.key
        if claim.function:
            assert function_of(claim.function).__doc__
        else:
            assert claim.tolerance is None


def test_cheap_claims_come_out_as_explained():
    frame = claim_frame(CLAIMS[key] for key in CHEAP)
    assert list(frame["verdict"]) == [CLAIMS[key].expected for key in CHEAP]
    found = frame.set_index("key")["ours"]
    assert found["wg_48"] == 3
    assert found["wg_48_of_64"] == 1
    assert found["unmasked"] == pytest.approx(100 * 1984 / 2112)
    assert math.isnan(found["speed_hkv"])
    assert summary(frame).endswith("1 need hardware")
    for picture in (views.verdict_picture(frame), views.ratio_picture(frame)):
        assert picture._repr_png_()[0].startswith(b"\x89PNG")
    text = views.claim_table(frame)._repr_html_()
    assert "64 KB of LDS" in text
    assert len(views.function_table(frame).rows) == len(CHEAP)
    assert views.conclusion(frame).count("\n- §") == (frame["verdict"] == "disagrees").sum()


@pytest.mark.parametrize(
    ("kind", "value", "ours", "claimed", "admitted"),
    [
        ("equal", 0, 3, 3, True),
        ("equal", 0, 3.001, 3, False),
        ("factor", 1.5, 2, 3, True),
        ("factor", 1.5, 5, 3, False),
        ("factor", 1.5, 0, 3, False),
        ("points", 10, 56, 57, True),
        ("points", 10, 40, 57, False),
        ("at most", 0, 0, 1e-12, True),
        ("at most", 0, 1e-3, 1e-12, False),
    ],
)
def test_tolerances(kind, value, ours, claimed, admitted):
    assert Tolerance(kind, value).admits(ours, claimed) is admitted


def test_a_verdict_that_nobody_explained_says_so(monkeypatch):
    claim = CLAIMS["target"]
    monkeypatch.setattr("workbench.studies.claims_unified.fill_target", lambda: Ours(7, "seven"))
    (line,) = claim_frame([claim]).to_dict("records")
    assert line["verdict"] == "disagrees"
    assert line["why"].startswith("Unexplained")
    monkeypatch.setattr("workbench.studies.claims_unified.fill_target", lambda: Ours(None, "no kernel"))
    assert claim_frame([claim])["verdict"].item() == "not computed"


def test_unknown_names_are_refused():
    with pytest.raises(ParameterError, match="claims are computed in"):
        function_of("os.getcwd")
    with pytest.raises(ParameterError, match="has no function"):
        function_of("claims_dense.guess")
    with pytest.raises(ParameterError, match="no claims of section 10"):
        in_sections(["10"])
