"""Blocks that a wave branches around when no lane needs them, and the budget without them."""

from machine_code import kernel_of, stored_kernel

from workbench.gfx950.cfg import control_flow
from workbench.gfx950.votes import voted_away, without_blocks
from workbench.inspection import inspect_kernel

MFMA = "v_mfma_f32_32x32x16_bf16 v[0:15], v[16:19], v[20:23], v[0:15]"
SCALE = "v_pk_mul_f32 v[0:1], v[0:1], v[24:25]"

IN_LINE = """
.Lloop:
	{mfma}
	v_cmp_neq_f32_e32 vcc, 1.0, v24
	s_and_saveexec_b64 s[0:1], vcc
	s_cbranch_execz .Lrest
	{body}
.Lrest:
	s_or_b64 exec, exec, s[0:1]
	s_cbranch_scc1 .Lloop
	s_endpgm
"""
# Two blocks behind the loop's latch; each is entered from the loop and from the block before it.
OUT_OF_LINE = """
.Lloop:
	{mfma}
	s_and_saveexec_b64 s[0:1], vcc
	s_cbranch_execnz .Lfirst
.Lsecond_test:
	s_or_b64 exec, exec, s[0:1]
	s_and_saveexec_b64 s[0:1], vcc
	s_cbranch_execz .Llatch
	s_branch .Lsecond
.Lfirst:
	{body}
	s_or_b64 exec, exec, s[0:1]
	s_and_saveexec_b64 s[0:1], vcc
	s_cbranch_execz .Llatch
.Lsecond:
	{body}
.Llatch:
	s_or_b64 exec, exec, s[0:1]
	s_cbranch_scc1 .Lloop
	s_endpgm
"""
# The loop's own back edge is a branch on exec, and a guarded load is no vote.
DIVERGENT = """
.Lloop:
	{mfma}
	s_and_saveexec_b64 s[0:1], vcc
	s_cbranch_execz .Llatch
	v_pk_mul_f32 v[0:1], v[0:1], v[24:25]
	global_load_dword v30, v31, s[4:5]
.Llatch:
	s_or_b64 exec, exec, s[0:1]
	s_andn2_b64 exec, exec, s[2:3]
	s_cbranch_execnz .Lloop
	s_endpgm
"""


def skipped_texts(code: str, body: str = SCALE) -> list[str]:
    flow = control_flow(kernel_of(code.format(mfma=MFMA, body=body)))
    loop = flow.hot_loop()
    left = without_blocks(flow, loop, voted_away(flow, loop))
    return [each.text for each in flow.instructions(loop) if each not in left]


def test_a_block_in_line_is_skipped():
    assert skipped_texts(IN_LINE) == [SCALE]


def test_blocks_behind_the_latch_are_skipped_with_the_branches_among_them():
    skipped = skipped_texts(OUT_OF_LINE)
    assert skipped.count(SCALE) == 2
    assert "s_branch .Lsecond" in skipped
    assert len(skipped) == 6
    assert MFMA not in skipped


def test_work_is_never_skipped():
    for body in (MFMA, "ds_read_b128 v[0:3], v4", "s_barrier", "buffer_load_dwordx4 v4, s[0:3], 0 offen lds"):
        assert skipped_texts(IN_LINE, body) == []
    assert skipped_texts(DIVERGENT) == []


def test_only_the_way_to_the_work_stays():
    """Of two guarded blocks one loads: the other is skipped all the same."""
    both = OUT_OF_LINE.replace(".Lsecond:\n\t{body}", ".Lsecond:\n\tds_read_b128 v[0:3], v4")
    skipped = skipped_texts(both)
    assert SCALE in skipped
    assert "s_branch .Lsecond" not in skipped


def test_two_budgets_stand_side_by_side_and_are_not_blended():
    found = inspect_kernel(kernel_of(IN_LINE.format(mfma=MFMA, body=f"{SCALE}\n\t{SCALE}")))
    assert found.budget.cycles["packed"] == 8
    assert found.voted_budget.cycles["packed"] == 0
    assert found.voted_budget.mfma_efficiency > found.budget.mfma_efficiency
    titles = [section.title for section in found.sections() if "Issue budget" in section.title]
    assert titles[1] == f"{titles[0]}, voted-away blocks skipped"
    modelled = found.summary()["modelled"]
    assert modelled["voted mfma_efficiency"] == found.voted_budget.mfma_efficiency
    assert found.voted_budget.assumptions[0] != found.budget.assumptions[0]


def test_a_loop_without_such_blocks_has_one_budget():
    found = inspect_kernel(stored_kernel("two_kernels.s", "attend_small"))
    assert found.voted_away == frozenset()
    assert found.voted_budget is None
    assert "voted mfma_efficiency" not in found.summary()["modelled"]
    assert sum("Issue budget" in section.title for section in found.sections()) == 1


def test_what_stands_in_the_way_is_named():
    found = inspect_kernel(kernel_of(IN_LINE.format(mfma=MFMA, body=SCALE)))
    assert found.budget.obstacle() == "1 packed instructions, 4 cycles, never beside an MFMA"
    (lines,) = (section.lines for section in found.sections() if section.title.endswith("of one wave"))
    assert lines[0] == f"in the way of the rest: {found.budget.obstacle()}"
