"""Issue budget: cycles by pipe, the bounds, and the one that binds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine_code import instructions, stored_kernel

from workbench.errors import ProblemError, TargetError
from workbench.gfx950.budget import issue_budget
from workbench.gfx950.cfg import control_flow
from workbench.gfx950.costs import costs_of
from workbench.gfx950.isa import FAMILIES, InstructionClass
from workbench.resources import data_path

MFMA = "v_mfma_f32_32x32x16_bf16 v[0:15], v[16:19], v[20:23], 0"
SMALL_MFMA = "v_mfma_f32_16x16x32_bf16 v[0:3], v[16:19], v[20:23], 0"
VALU = "v_add_f32_e32 v0, v1, v2"
TRANS = "v_exp_f32_e32 v0, v1"
PACKED = "v_pk_mul_f32 v[0:1], v[2:3], v[4:5]"
B128 = "ds_read_b128 v[0:3], v4"
B64 = "ds_read_b64_tr_b16 v[0:1], v4"
LOAD = "buffer_load_dwordx4 v4, s[0:3], 0 offen lds"


def budget(*texts, target="gfx950", **options):
    return issue_budget(instructions(*texts), target, **options)


def test_six_vector_instructions_fit_beside_an_mfma_and_the_seventh_costs_its_issue():
    assert budget(f"16 * {MFMA}", f"96 * {VALU}").least_cycles == 16 * 32
    over = budget(f"16 * {MFMA}", f"97 * {VALU}")
    assert (over.least_cycles, over.binding, over.exposed) == (16 * 32 + 4, "vector math", 4)


def test_three_transcendentals_fit_beside_an_mfma():
    assert budget(MFMA, f"3 * {TRANS}").mfma_efficiency == 1.0
    assert budget(MFMA, f"4 * {TRANS}").least_cycles == 32 + 8
    assert budget(MFMA, f"3 * {TRANS}", trans_cycles=16).least_cycles == 32 + 48 - 24


def test_a_packed_instruction_never_hides():
    found = budget(f"2 * {MFMA}", f"5 * {PACKED}")
    assert (found.least_cycles, found.in_shadow, found.exposed) == (64 + 20, 0, 20)


def test_two_b128_reads_balance_a_32_cycle_mfma():
    balanced = budget(MFMA, f"2 * {B128}")
    assert (balanced.bounds["LDS"], balanced.mfma_efficiency, balanced.binding) == (32, 1.0, "matrix pipe")
    assert budget(MFMA, f"4 * {B64}").bounds["LDS"] == 32
    crowded = budget(MFMA, f"3 * {B128}")
    assert (crowded.binding, crowded.mfma_efficiency) == ("LDS", pytest.approx(32 / 48))
    assert budget(MFMA, B128, bank_conflict_degree=4.0).bounds["LDS"] == 64


def test_memory_instructions_share_one_port():
    found = budget(SMALL_MFMA, f"3 * {B64}", f"4 * {LOAD}")
    assert (found.bounds["memory port"], found.bounds["LDS"], found.binding) == (28, 24, "memory port")


def test_a_lone_wave_takes_turns():
    loop = (MFMA, f"6 * {VALU}", f"2 * {LOAD}")
    assert budget(*loop, waves_per_simd=2).mfma_efficiency == 1.0
    alone = budget(*loop, waves_per_simd=1)
    assert (alone.bounds["one wave"], alone.binding) == (4 * 3 + 24, "one wave")
    assert any("one wave per SIMD" in line for line in alone.assumptions)


def test_shapes_have_their_own_cost_and_shadow():
    found = budget(f"2 * {SMALL_MFMA}")
    assert (found.cycles["MFMA"], found.shadow) == (32, 16)
    half_rate = budget("v_mfma_f32_32x32x8_bf16 v[0:15], v[16:17], v[20:21], 0")
    assert half_rate.cycles["MFMA"] == 32
    narrow = "v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[0:3], v[8:11], v[0:15] cbsz:4 blgp:4"
    assert budget(narrow).cycles["MFMA"] == 32
    assert budget(narrow.replace(" cbsz:4", "")).cycles["MFMA"] == 64


def test_gfx942_has_half_the_lds_rate_and_slower_transcendentals():
    found = budget(B128, TRANS, target="gfx942")
    assert (found.cycles["LDS"], found.cycles["TRANS"]) == (32, 16)


def test_what_has_no_cost_is_named_and_free():
    found = budget(MFMA, "2 * v_frobnicate_b32 v0, v1")
    assert found.unpriced == (("unknown", 2),)
    assert found.mfma_efficiency == 1.0


def test_a_loop_without_mfma_has_no_efficiency():
    found = budget(f"8 * {VALU}")
    assert (found.mfma_efficiency, found.binding, found.least_cycles) == (None, "vector math", 32)


def test_budget_of_a_whole_loop():
    flow = control_flow(stored_kernel("two_kernels.s", "attend_small"))
    found = issue_budget(flow.instructions(flow.hot_loop()), "gfx950")
    assert found.counts == {"MFMA": 3, "VALU": 2, "TRANS": 1, "packed": 1, "LDS": 2, "VMEM": 0, "scalar": 7}
    assert found.cycles == {"MFMA": 96, "VALU": 8, "TRANS": 8, "packed": 4, "LDS": 24, "VMEM": 0, "scalar": 7}
    assert (found.shadow, found.exposed, found.least_cycles) == (72, 4, 100)


@given(st.lists(st.sampled_from([MFMA, SMALL_MFMA, VALU, TRANS, PACKED, B128, LOAD]), min_size=1, max_size=60))
def test_more_instructions_never_cost_less_and_the_bound_is_a_bound(texts):
    found, more = budget(*texts), budget(*texts, VALU)
    assert more.least_cycles >= found.least_cycles
    assert found.least_cycles >= max(found.cycles["MFMA"], found.cycles["LDS"])
    assert found.least_cycles <= sum(found.cycles.values()) + 4 * (found.counts["LDS"] + found.counts["VMEM"])
    assert found.mfma_efficiency is None or 0 < found.mfma_efficiency <= 1


def test_bad_input_is_refused():
    with pytest.raises(TargetError, match="gfx950, gfx942"):
        budget(VALU, target="gfx90a")
    for options in ({"waves_per_simd": 0}, {"bank_conflict_degree": 0.5}):
        with pytest.raises(ProblemError, match="at least 1"):
            budget(VALU, **options)


@pytest.mark.parametrize("target", ["gfx950", "gfx942"])
def test_every_family_has_a_cost_with_a_source(target):
    table = costs_of(target)
    assert {row.family for row in table.rows} == set(FAMILIES) - {"unknown"}
    for row in table.rows:
        assert row.cycles > 0
        assert row.kind in ("published", "derived", "assumed")
        assert len(row.source) > 10


def test_published_costs_are_the_published_ones():
    table = costs_of("gfx950")
    published = {
        ("mfma", "32x32x16 bf16"): 32,
        ("mfma", "16x16x32 f16"): 16,
        ("valu", ""): 4,
        ("trans", ""): 8,
        ("packed", "f32"): 4,
        ("lds read", "b128"): 16,
        ("lds read", "b64"): 8,
        ("lds read", "b64_tr_b16"): 8,
    }
    for (family, detail), cycles in published.items():
        row = table.cost(InstructionClass(family, detail))
        assert (row.cycles, row.kind) == (cycles, "published")
    document = json.loads(data_path("gfx950", "costs.json").read_text())
    assert document["mfma_read_phase"]["cycles"] == 8
