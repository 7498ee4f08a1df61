"""The dense kernel's lever studies: what each reads off the code, the addresses, the scores, and the work."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from machine_code import instructions, kernel_of

from workbench.device import load_device
from workbench.errors import ParameterError
from workbench.inspection import inspect_kernel
from workbench.problem import DenseAttentionProblem
from workbench.report.find import find_notebook, known_notebooks
from workbench.report.parameters import notebook_parameters
from workbench.scenarios import find
from workbench.spec_gfx950 import Gfx950DenseSpec
from workbench.studies import dense_banks_views, dense_schedule_views, dense_softmax_views, dense_work_views
from workbench.studies.dense_banks import patterns, published_series
from workbench.studies.dense_levers import compilers, dense, emulated_problem, portable_studies, refusals
from workbench.studies.dense_schedule import (
    in_flight,
    keys_left_by_qk,
    keys_wanted_by_pv,
    mixing,
    moves_of_layout,
    raised,
)
from workbench.studies.dense_softmax import exponential_frame, log2_scores, rescales, threshold_frame, votes_of
from workbench.studies.dense_work import hand_out, hands, item_tiles, scores_computed, scores_needed, waste_frame
from workbench.studies.lever_study import lever_variants, study_variants

SMALL = DenseAttentionProblem(1, 1, 1, 256, 512, 128)
BASE = Gfx950DenseSpec(wide_lds_dma=True, grid="default")
HEADLINE = find("dense_headline").problem
MI355X = load_device("mi355x")

LOOP = """
	s_mov_b32 s0, 4
.LBB0_1:
	s_setprio 0
	buffer_load_dwordx4 v0, s[4:7], 0 offen lds
	v_mfma_f32_32x32x16_bf16 v[0:15], v[16:19], v[20:23], 0
	s_waitcnt vmcnt(1)
	s_setprio 1
	v_exp_f32_e32 v40, v41
	v_mfma_f32_32x32x16_bf16 v[64:79], v[24:27], v[28:31], v[64:79]
	v_exp_f32_e32 v42, v43
	v_mfma_f32_32x32x16_bf16 v[64:79], v[24:27], v[28:31], v[64:79]
	s_add_i32 s0, s0, -1
	s_cmp_lg_u32 s0, 0
	s_cbranch_scc1 .LBB0_1
	s_endpgm
"""


@pytest.fixture(scope="module")
def pads():
    variants = lever_variants("gfx950-dense", SMALL, "lds_v_pad", [0, 32], base=BASE)
    return study_variants(variants, published=["lds_v_pad"], small=lambda problem: problem)


def named(study, *names):
    """The study with its kernels under other names."""
    outcomes = {
        name: replace(outcome, figures=[replace(figure, variant=name) for figure in outcome.figures])
        for name, outcome in zip(names, study.outcomes.values(), strict=True)
    }
    return replace(study, outcomes=outcomes)


def test_a_loop_is_read_as_a_circle_from_its_first_qk_product():
    inspection = inspect_kernel(kernel_of(LOOP), lds_bytes=1024, num_warps=1)
    flight = in_flight(inspection)
    assert flight.copies == (2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2)
    assert flight.windows == (4,)  # the products of a whole iteration and the QK product of the next
    assert flight.drained == [1]
    assert flight.share("QK") == flight.share("PV") == 1
    mix = mixing(inspection)
    assert (mix.mfma, mix.total_mfma, mix.beside_pv) == ((1, 2), 3, 1)
    assert raised(inspection) == {"PV": 2, "e": 2, "P": 1, ".": 3}


def test_p_lies_as_pv_wants_it_with_narrow_operands_only():
    for half in range(2):
        assert keys_wanted_by_pv(half, 4) == keys_left_by_qk(half)
    assert sorted(keys_wanted_by_pv(0, 8) + keys_wanted_by_pv(1, 8)) == list(range(16))
    assert (moves_of_layout(4), moves_of_layout(8)) == (0, 8)


def test_the_addresses_of_a_read_explain_the_conflicts_of_the_launch(pads):
    found = patterns([pads], "V")
    assert {name: pattern.access.cycles for name, pattern in found.items()} == {"lds_v_pad=0": 8, "lds_v_pad=32": 2}
    for name, pattern in found.items():
        assert pattern.transposed
        reads = pads.value(name, "LDS wave-instructions") * 32 / 48  # 32 of 48 reads of an iteration are of V
        assert pads.value(name, "LDS conflict cycles, V read") == pattern.access.conflict_cycles * reads
        assert pattern.words_by_bank().sum() == 64 * pattern.width // 4
    assert published_series(pads.published, "throughput") == {0: 906, 8: 901, 16: 944, 32: 953}


def test_the_emulated_votes_are_those_of_the_scores(pads):
    emulated = pads.outcomes["lds_v_pad=32"].emulated
    votes = votes_of(emulated.launches[0])
    expected = rescales(log2_scores(SMALL), 64, 8.0)
    assert votes.share == pytest.approx(float(expected.double().mean()))
    assert votes.met == 4 * 8 * 8  # accumulators, waves, tiles


def test_a_row_rescales_where_it_exceeds_its_anchor_by_more():
    scores = torch.zeros(32, 4, dtype=torch.float64)
    scores[5] = torch.tensor([0.0, 8.0, 8.5, 9.0])
    assert rescales(scores, 1, 8.0).flatten().tolist() == [True, False, True, False]
    assert rescales(scores, 1, 0.0).flatten().tolist() == [True, True, True, True]
    frame = threshold_frame(HEADLINE, (1.0, 64.0), keys=512)
    assert (frame["evidence"] == "modelled").all()
    assert frame["share"].iloc[3] > frame["share"].iloc[1]


def test_both_forms_of_the_exponential_part_at_the_smallest_normal_number():
    frame = exponential_frame()
    low = frame["x"] < -126
    assert (frame["fast"][low] == 0).all()
    assert np.allclose(frame["guarded"], frame["exact"], rtol=1e-6, atol=2.0**-149)
    assert (frame["fast"][~low] == frame["guarded"][~low]).all()


def test_every_grid_hands_out_the_same_work_and_starts_cold_as_often_as_it_says():
    spec = Gfx950DenseSpec()
    grid, rows, heads = hands(HEADLINE, spec, MI355X, ["grid", "qb_major", "hkv_major"], [256])
    total = item_tiles(HEADLINE, spec, "grid").sum()
    assert grid.tiles.sum() == rows.tiles.sum() == heads.tiles.sum() == total
    assert (grid.starts.sum(), rows.starts.sum()) == (4096, 256)
    assert heads.span < rows.span < grid.span
    assert heads.busy > 0.99
    few = hand_out(HEADLINE, spec, "qb_major", 64, 256)
    assert (few.items > 0).sum() == 64


def test_work_for_nothing_is_the_corner_and_the_padding():
    full = SMALL.with_changes(causal=False)
    assert scores_computed(full, 256, 64) == scores_needed(full) == 256 * 512
    frame = waste_frame(full, [500, 512], 256, [64])
    assert frame["waste"].tolist() == [pytest.approx(512 * 512 / 500**2 - 1), 0]


def test_a_paged_scenario_is_refused_and_heads_without_wide_copies_are_named():
    with pytest.raises(ParameterError, match="of the dense kernel"):
        dense(find("decode_d128_b16").problem)
    assert refusals([find("dense_d64_8k"), find("dense_headline")], "wide_lds_dma", True).keys() == {"dense_d64_8k"}
    assert emulated_problem(HEADLINE, "full").seqlen_q == 1024
    assert compilers(["3.6.0"], "full") == ["3.6.0"]


@pytest.mark.parametrize("lever", ["transposed_pv", "cluster", "prefetch", "setprio"])
def test_conclusions_about_schedules_name_both_settings(pads, lever):
    study = named(pads, f"{lever}=false", f"{lever}=true")
    text = getattr(dense_schedule_views, f"{lever}_conclusion")([study])
    assert "nly hardware can tell" in text
    assert "2 of 2 variants ran on the emulator" in text
    key = getattr(dense_schedule_views, f"{lever}_key")(study)
    assert key["evidence"] == "static"
    assert len(dense_schedule_views.schedule_table([study]).rows) == 2


def test_conclusions_about_pads_hold_ours_beside_the_published_counts(pads):
    text = dense_banks_views.pad_conclusion({"wide": pads}, "lds_v_pad", "V", [])
    assert "conflicts are 1.00 and 1.00, 0.00 and 0.00" in text
    assert dense_banks_views.pad_key(pads, "lds_v_pad", "V")["value"] == 32
    assert "0 at pad 32" in dense_banks_views.pad_plot({"wide": pads}, "lds_v_pad", "V").alt


def test_pictures_say_what_they_show(pads):
    study = named(pads, "lazy_rescale=false", "lazy_rescale=true")
    assert "100 % of QK" in dense_schedule_views.in_flight_plot(study).alt
    assert "12 of 16 PV products raised" in dense_schedule_views.priority_plot(study).alt
    assert "16 of 33" in dense_schedule_views.mixing_plot(study).alt
    assert "'False': 8" in dense_schedule_views.layout_plot().alt
    assert dense_softmax_views.lazy_key(study)["unit"] == "x"
    assert "barriers per 64 keys: 3, 3" in dense_work_views.tile_plot(study).alt


@pytest.mark.parametrize("name", [name for name in known_notebooks() if name.startswith("dense_")])
def test_notebooks_ask_one_question_and_take_a_size(name):
    path = find_notebook(name)
    parameters = notebook_parameters(path)
    assert {"scenario", "size", "triton"} <= parameters.keys()
    assert all(parameter.help for parameter in parameters.values())


def test_instructions_without_copies_leave_nothing_under_way():
    inspection = inspect_kernel(kernel_of(LOOP.replace("buffer_load_dwordx4 v0, s[4:7], 0 offen lds", "s_nop 0")))
    assert set(in_flight(inspection).copies) == {0}
    assert len(instructions("s_nop 0")) == 1


def test_the_portable_twin_of_block_n_is_its_geometry(monkeypatch):
    given = []
    monkeypatch.setattr("workbench.studies.dense_levers.study_variants", lambda variants, **_: given.extend(variants))
    portable_studies(find("dense_headline", "small"), "block_n", "yes")
    assert [(variant.spec.block_n, variant.refusal) for variant in given] == [(32, ""), (64, ""), (128, "")]
    assert portable_studies(find("dense_headline", "small"), "block_n", "no") == []
