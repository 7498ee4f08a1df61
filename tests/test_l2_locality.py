"""The L2 locality study: its sweeps, its tables, and the notebook in small form."""

from dataclasses import replace

import pytest

from workbench.device import load_device
from workbench.errors import ModelError, ParameterError
from workbench.model import L2Assumptions
from workbench.problem import DenseAttentionProblem
from workbench.report import run_report
from workbench.report.html import external_references
from workbench.scenarios import Scenario
from workbench.studies.l2_locality import SENSITIVITY, compare_orders, dense_scenarios, sensitivity, what_if
from workbench.studies.l2_overview import (
    SHAPES,
    auto_sentence,
    key_figure,
    order_shapes,
    overview_plot,
    unexcused,
    worst_of_all,
)
from workbench.studies.l2_views import (
    conclusion,
    detail_table,
    order_plot,
    order_table,
    published_table,
    sensitivity_table,
    what_if_plot,
)

MI355X = load_device("mi355x")
ORDERS = ("grid", "qb_major", "hkv_major")
PERSISTENT = ("qb_major", "hkv_major", "gqa_pair", "gqa_pair_2phase")
QUICK = L2Assumptions(sampled_sets=4)
SMALL = dense_scenarios(["dense_gqa8_4k", "dense_ragged_5000"], "small")
UNEVEN = [
    Scenario(name, "tests", DenseAttentionProblem(1, 8, 1, tokens, tokens, 128, causal=True), "small")
    for name, tokens in (("four blocks", 1024), ("eight blocks", 2048))
]
(HEADLINE,) = dense_scenarios(["dense_headline"])


@pytest.fixture(scope="module")
def headline():
    return compare_orders([HEADLINE], MI355X, ORDERS, QUICK)


def test_an_order_that_dispatch_refuses_is_modelled_and_marked(headline):
    assert headline[0].refused == {}
    seen = []
    cases = compare_orders(UNEVEN, MI355X, ORDERS, QUICK, lambda *state: seen.append(state))
    assert seen == [(1, 2, "four blocks"), (2, 2, "eight blocks")]
    assert [set(case.results) for case in cases] == [set(ORDERS)] * 2
    assert all("under 2 x 256 programs" in case.refused["hkv_major"] for case in cases)
    table = order_table(cases, "scenario")
    assert len(table.rows) == 6
    assert [row[-1].text for row in table.rows] == ["yes", "yes", "refused"] * 2
    assert "dispatch refuses" in conclusion(cases, UNEVEN[0], cases)


def test_an_order_that_misses_items_has_no_result_and_a_reason():
    (case,) = compare_orders([SMALL[0]], MI355X, ("qb_major", "gqa_pair"), QUICK)
    (missing,) = what_if(SMALL[0], MI355X, ("qb_major", "gqa_pair"), QUICK, "block_m", [256])
    assert set(missing.results) == {"qb_major"}
    assert "got 1 blocks" in missing.refused["gqa_pair"]
    assert len(order_table([missing], "block_m").rows) == 1
    assert what_if_plot({"block_m": [case, missing]}, "a study")._repr_png_()[0].startswith(b"\x89PNG")
    assert order_plot([case, missing], SMALL[0], MI355X).alt.startswith("L2 hit rate")


def test_published_figures_stand_beside_the_one_problem_they_are_of(headline):
    table = published_table(headline[0], HEADLINE, MI355X)
    assert [row[2].text for row in table.rows] == ["57.0 %", "93.0 %", "5.9x"]
    assert {row[4].text for row in table.rows} == {"MI355X"}
    nothing = published_table(headline[0], SMALL[0], MI355X)
    assert repr(nothing) == "Nothing is published of dense_gqa8_4k on AMD Instinct MI355X."
    assert published_table(headline[0], HEADLINE, load_device("mi300x")).rows == []


def test_a_larger_l2_and_fewer_dies_miss_less(headline):
    larger = what_if(HEADLINE, MI355X, ORDERS, QUICK, "l2_kib", [2048, 4096, 8192])
    rates = [case.results["hkv_major"].hit_rate for case in larger]
    assert rates == sorted(rates)
    assert larger[1].results["hkv_major"].hit_rate == headline[0].results["hkv_major"].hit_rate
    shared = what_if(HEADLINE, MI355X, ("qb_major",), QUICK, "xcds", [1, 8])
    assert shared[0].results["qb_major"].hit_rate > shared[1].results["qb_major"].hit_rate + 0.2
    assert shared[0].results["qb_major"].geometry.bytes_per_xcd == 32 << 20


def test_programs_and_tiles_are_what_ifs_too():
    programs = what_if(SMALL[0], MI355X, ORDERS, QUICK, "programs", [1, 2])
    assert [set(case.results) for case in programs] == [{"qb_major", "hkv_major"}] * 2
    assert [case.results["qb_major"].num_persistent for case in programs] == [1, 2]
    tiles = what_if(SMALL[0], MI355X, ("grid",), QUICK, "block_m", [128, 256])
    requests = [case.results["grid"].requests[1].sum() for case in tiles]
    assert requests[0] > requests[1]
    picture = what_if_plot({"programs": programs, "block_m": tiles}, "a study")
    assert picture._repr_png_()[0].startswith(b"\x89PNG")
    assert "query rows" in picture.alt


def test_each_assumption_moves_its_row_alone():
    cases = sensitivity(SMALL[0], MI355X, ("qb_major", "hkv_major"), QUICK)
    assert [case.label for case in cases] == ["as chosen", *(label for label, _ in SENSITIVITY)]
    by_label = {case.label: case.results["qb_major"] for case in cases}
    assert by_label["O left out"].requests[3].sum() == 0
    assert by_label["sets by the line number, not hashed"].geometry.set_index == "modulo"
    drifting = by_label["speeds within 2 %"].assumptions
    assert drifting == replace(by_label["as chosen"].assumptions, drift=0.02)
    table = sensitivity_table(cases, SMALL[0], MI355X)
    assert len(table.rows) == len(cases)
    assert {row[-1].text for row in table.rows} == {"modelled"}


def test_the_published_row_is_marked_as_such(headline):
    table = sensitivity_table(headline, HEADLINE, MI355X)
    assert [cell.text for cell in table.rows[-1]] == [
        "published for MI355X",
        "",
        "57.0 %",
        "93.0 %",
        "5.9x",
        "published",
    ]


def test_pictures_and_details(headline):
    picture = order_plot(headline, HEADLINE, MI355X)
    assert picture._repr_png_()[0].startswith(b"\x89PNG")
    assert "AMD Instinct MI355X" in picture.alt
    assert detail_table(headline[0]).headings[:2] == ["order", "XCD 0"]
    text = conclusion(headline, HEADLINE, headline * 2)
    assert "divides the misses of `qb_major`" in text
    assert "Only hardware can tell" in text


@pytest.fixture(scope="module")
def many_shapes():
    return compare_orders(order_shapes(), MI355X, PERSISTENT, L2Assumptions(sampled_sets=2))


def test_auto_is_never_the_worst_order(many_shapes):
    assert len(many_shapes) == len(SHAPES) >= 20
    assert worst_of_all(many_shapes) == unexcused(many_shapes) == []
    assert {case.auto for case in many_shapes} == {"qb_major", "hkv_major", "gqa_pair_2phase"}
    assert "on 30 of 30 shapes (modelled)" in auto_sentence(many_shapes)
    assert key_figure(many_shapes)["value"] == 30


def test_an_order_that_hits_least_may_be_excused_by_the_load_of_the_others(many_shapes):
    case = next(case for case in many_shapes if case.label.startswith("1 x 4096, 40/8 heads"))
    least = replace(case, auto="qb_major")
    assert worst_of_all([least]) == [least]
    assert unexcused([least]) == []
    assert "1.13 times the load at least" in auto_sentence([least])


def test_an_order_as_balanced_as_auto_that_hits_more_is_a_fault_of_auto(many_shapes):
    case = many_shapes[1]
    fault = replace(case, auto="qb_major", results={key: case.results[key] for key in ("qb_major", "gqa_pair_2phase")})
    assert worst_of_all([case]) == []
    assert unexcused([case, fault]) == [fault]


def test_the_overview_shows_every_shape(many_shapes):
    picture = overview_plot(many_shapes, MI355X)
    assert picture._repr_png_()[0].startswith(b"\x89PNG")
    assert "over 30 shapes on AMD Instinct MI355X, modelled" in picture.alt
    assert len({shape.problem for shape in order_shapes("small")}) < len(SHAPES)


def test_what_cannot_be_studied_says_so():
    with pytest.raises(ParameterError, match="decode_d128_b16 is paged"):
        dense_scenarios(["decode_d128_b16"])
    with pytest.raises(ParameterError, match="no what-if 'waves'; there are programs, l2_kib"):
        what_if(HEADLINE, MI355X, ORDERS, QUICK, "waves", [1])
    with pytest.raises(ModelError, match="leave no whole set"):
        what_if(HEADLINE, MI355X, ORDERS, QUICK, "xcds", [10**6])


def test_the_notebook_in_small_form(tmp_path):
    given = {
        "scenarios": "dense_gqa8_4k,dense_mha_4k",
        "size": "small",
        "programs": "2",
        "l2_kib": "4096",
        "xcds": "8",
        "block_m": "128",
        "sampled_sets": "4",
        "orders": "qb_major,hkv_major",
    }
    result = run_report("l2_locality", given, tmp_path, progress=False)
    assert result.failed == ()
    html = result.html.read_text()
    assert "Nothing is published of dense_gqa8_4k" in html
    assert "Only hardware can tell" in html
    assert html.count("data:image/png;base64,") == 3
    assert external_references(html) == []


def test_processes_find_what_one_finds(monkeypatch):
    alone = compare_orders(SMALL, MI355X, ORDERS, QUICK)
    monkeypatch.setattr("workbench.studies.l2_locality.WORTH_PROCESSES", 0)
    seen = []
    together = compare_orders(SMALL, MI355X, ORDERS, QUICK, lambda done, *_: seen.append(done))
    assert seen == [1, 2]
    for one, other in zip(alone, together, strict=True):
        assert (one.label, one.refused, one.auto) == (other.label, other.refused, other.auto)
        assert {o: r.hit_rate for o, r in one.results.items()} == {o: r.hit_rate for o, r in other.results.items()}
