"""Instruction classes, loops, runs between MFMA, and live registers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine_code import instructions, kernel_of, stored_kernel

from workbench.gfx950.cfg import control_flow
from workbench.gfx950.clusters import find_runs
from workbench.gfx950.isa import classify, mix_of
from workbench.gfx950.liveness import peak_pressure, reads_and_writes

CLASSES = {
    "v_mfma_f32_32x32x16_bf16 v[0:15], v[0:3], v[4:7], 0": "MFMA 32x32x16 bf16",
    "v_mfma_f32_16x16x32_fp8_bf8 a[0:3], v[0:1], v[4:5], a[0:3]": "MFMA 16x16x32 fp8_bf8",
    "v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[0:7], v[8:15], v[0:15]": "MFMA 32x32x64 f8f6f4",
    "v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[0:3], v[8:11], v[0:15] cbsz:4 blgp:4": "MFMA 32x32x64 f8f6f4 4/6-bit",
    "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[0:1], v[2:3], v[0:3]": "MFMA 4x4x4 x16 f16",
    "v_smfmac_f32_16x16x64_bf16 v[0:3], v[0:3], v[4:11], v12": "MFMA 16x16x64 bf16 sparse",
    "v_accvgpr_write_b32 a0, v1": "AGPR move",
    "v_fma_f32 v0, v1, v2, v3": "VALU",
    "v_cvt_pk_bf16_f32 v0, v1, v2": "VALU",
    "v_cmp_lt_i32_e32 vcc, v0, v1": "VALU",
    "v_cndmask_b32_e64 v0, 0, 1, vcc": "VALU",
    "v_exp_f32_e32 v0, v0": "TRANS",
    "v_rcp_f32_e32 v0, v0": "TRANS",
    "v_pk_mul_f32 v[0:1], v[0:1], v[2:3]": "packed f32",
    "v_mov_b32_dpp v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf": "cross-lane dpp",
    "v_permlane32_swap_b32_e32 v0, v1": "cross-lane permlane32_swap",
    "v_readfirstlane_b32 s0, v0": "cross-lane readfirstlane",
    "ds_bpermute_b32 v0, v1, v2": "cross-lane bpermute",
    "ds_swizzle_b32 v0, v1 offset:swizzle(SWAP,16)": "cross-lane swizzle",
    "ds_read_b128 v[0:3], v4": "LDS read b128",
    "ds_read_b64_tr_b16 v[0:1], v4 offset:32": "LDS read b64_tr_b16",
    "ds_read2st64_b64 v[0:3], v4 offset1:4": "LDS read 2xb64",
    "ds_read_u16_d16_hi v0, v1": "LDS read u16",
    "ds_write_b16_d16_hi v0, v1": "LDS write b16",
    "ds_write2_b32 v0, v1, v2 offset1:1": "LDS write 2xb32",
    "ds_add_u32 v0, v1": "LDS atomic",
    "buffer_load_dwordx4 v[0:3], v4, s[0:3], 0 offen": "VMEM load dwordx4",
    "buffer_load_dwordx4 v4, s[0:3], 0 offen lds": "VMEM to LDS dwordx4",
    "global_load_lds_dwordx4 v[0:1], off": "VMEM to LDS dwordx4",
    "global_store_short v0, v1, s[0:1]": "VMEM store short",
    "global_atomic_add_f32 v0, v1, s[0:1]": "VMEM atomic",
    "scratch_load_dword v0, off, off offset:4": "scratch load dword",
    "scratch_store_dwordx4 off, v[0:3], off": "scratch store dwordx4",
    "s_load_dwordx8 s[0:7], s[8:9], 0x0": "SMEM dwordx8",
    "s_and_saveexec_b64 s[0:1], vcc": "SALU",
    "s_mul_hi_u32 s0, s1, s2": "SALU",
    "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 0": "SALU",
    "s_waitcnt vmcnt(0) lgkmcnt(0)": "wait",
    "s_barrier": "barrier",
    "s_cbranch_vccnz .LBB0_1": "branch",
    "s_setprio 1": "hint",
    "v_frobnicate_b32 v0, v1": "unknown",
}


@pytest.mark.parametrize(("text", "name"), CLASSES.items())
def test_class_of_an_instruction(text, name):
    (instruction,) = instructions(text)
    assert classify(instruction).name == name


def test_unknown_mnemonics_are_listed():
    mix = mix_of(instructions("3 * v_frobnicate_b32 v0, v1", "s_endpgm"))
    assert mix.unknown == (("v_frobnicate_b32", 3),)
    assert mix.families() == {"branch": 1, "unknown": 3}


def test_nested_loops_and_the_hot_one():
    flow = control_flow(stored_kernel("two_kernels.s", "attend_small"))
    assert [(loop.label, loop.depth) for loop in flow.loops] == [
        (".Lattend_small_outer", 1),
        (".Lattend_small_loop", 2),
    ]
    hot = flow.hot_loop()
    assert hot.label == ".Lattend_small_loop"
    assert mix_of(flow.instructions(hot)).family("mfma") == 3
    assert hot.parent is flow.roots[0]


def test_the_walk_over_full_tiles_is_hotter_than_the_masked_one():
    mfma = "\tv_mfma_f32_32x32x16_bf16 v[0:15], v[16:19], v[20:23], v[0:15]\n"
    loop = ".L{0}:\n" + mfma + "{1}\ts_cbranch_scc1 .L{0}\n"
    masked = loop.format("masked", "\tv_cndmask_b32_e32 v0, v1, v2, vcc\n")
    kernel = kernel_of(masked + loop.format("full", "") + "\ts_endpgm")
    assert control_flow(kernel).hot_loop().label == ".Lfull"


def test_peeled_iterations_do_not_make_the_outer_loop_hot():
    mfma = "\tv_mfma_f32_32x32x16_bf16 v[0:15], v[16:19], v[20:23], v[0:15]\n"
    inner = ".Linner:\n" + mfma + "\ts_cbranch_scc1 .Linner\n"
    kernel = kernel_of(".Louter:\n" + 3 * mfma + inner + 3 * mfma + "\ts_cbranch_scc1 .Louter\n\ts_endpgm")
    assert control_flow(kernel).hot_loop().label == ".Linner"
    search = ".Lsearch:\n\ts_load_dword s0, s[2:3], 0x0\n\ts_cbranch_scc1 .Lsearch\n"
    kernel = kernel_of(".Louter:\n" + 3 * mfma + search + "\ts_cbranch_scc1 .Louter\n\ts_endpgm")
    assert control_flow(kernel).hot_loop().label == ".Louter"


def test_without_mfma_memory_decides_and_without_loops_nothing_is_hot():
    loop = ".L{0}:\n\t{0} v0, v1\n\ts_cbranch_scc1 .L{0}\n"
    code = loop.format("v_mov_b32_e32") + loop.format("ds_read_b32") + "\ts_endpgm"
    assert control_flow(kernel_of(code)).hot_loop().label == ".Lds_read_b32"
    assert control_flow(kernel_of("\ts_endpgm")).hot_loop() is None


def test_a_loop_entered_in_its_middle_is_not_natural():
    code = "\ts_cbranch_scc1 .Lmid\n.Ltop:\n\ts_nop 0\n.Lmid:\n\ts_nop 1\n\ts_cbranch_scc1 .Ltop\n\ts_endpgm"
    assert control_flow(kernel_of(code)).loops == ()


def test_two_back_edges_to_one_header_are_one_loop():
    code = ".Ltop:\n\ts_cbranch_scc1 .Ltop\n\tv_mov_b32_e32 v0, 0\n\ts_cbranch_scc0 .Ltop\n\ts_endpgm"
    (loop,) = control_flow(kernel_of(code)).loops
    assert len(loop.blocks) == 2


nests = st.recursive(st.just([]), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=8)


@given(nests)
def test_every_nest_of_loops_is_found(nest):
    lines, expected = [], []

    def emit(loops, depth):
        for loop in loops:
            label = f".L{len(expected)}"
            expected.append((label, depth))
            lines.append(f"{label}:\n\tv_add_u32_e32 v0, 1, v0")
            emit(loop, depth + 1)
            lines.append(f"\ts_cbranch_scc1 {label}")

    emit(nest, 1)
    flow = control_flow(kernel_of("\n".join([*lines, "\ts_endpgm"])))
    assert [(loop.label, loop.depth) for loop in flow.loops] == expected


QK = "v_mfma_f32_32x32x16_bf16 v[0:15], v[16:19], v[20:23], 0"
QK_NEXT = "v_mfma_f32_32x32x16_bf16 v[0:15], v[16:19], v[24:27], v[0:15]"
PV = "v_mfma_f32_32x32x16_bf16 v[48:63], v[28:31], v[32:35], v[48:63]"


def test_runs_between_the_two_products():
    loop = instructions(
        "2 * s_nop 0", QK, "s_nop 0", QK_NEXT, "5 * v_exp_f32_e32 v0, v0", PV, "3 * s_nop 0", PV, "s_barrier"
    )
    report = find_runs(loop)
    assert (report.mfma, report.clusters) == (4, 2)
    assert (report.longest.length, report.qk_to_pv.length, report.pv_to_qk.length) == (5, 5, 3)
    assert report.qk_to_pv.mix.families() == {"trans": 5}
    # The run from the last PV to the first QK crosses the end of the loop.
    assert report.pv_to_qk.mix.families() == {"barrier": 1, "hint": 2}


@pytest.mark.parametrize(
    "preset",
    ["v_mov_b32_e32 v0, 0", "v_accvgpr_write_b32 a0, 0", "v_mov_b32_e32 v70, 0\nv_mov_b32_e32 v0, v70"],
)
def test_an_accumulator_set_to_zero_starts_a_fresh_product(preset):
    score = QK_NEXT.replace("v[0:15]", "a[0:15]") if "accvgpr" in preset else QK_NEXT
    report = find_runs(instructions(*preset.splitlines(), score, "7 * s_nop 0", PV))
    assert report.qk_to_pv.length == 7


def test_a_gemm_loop_is_one_product():
    report = find_runs(instructions(PV, "4 * s_nop 0", PV))
    assert (report.clusters, report.longest.length, report.qk_to_pv) == (1, 4, None)
    assert find_runs(instructions("s_nop 0")) is None


@pytest.mark.parametrize(
    ("text", "reads", "writes"),
    [
        ("v_add_f32_e32 v0, v1, v2", "v1 v2", "v0"),
        ("v_fmac_f32_e32 v0, v1, v2", "v0 v1 v2", "v0"),
        ("v_mfma_f32_4x4x4_16b_f16 a[0:3], v[0:1], v[2:3], a[0:3]", "v0 v1 v2 v3 a0 a1 a2 a3", "a0 a1 a2 a3"),
        ("v_cmp_lt_i32_e32 vcc, v0, v1", "v0 v1", ""),
        ("v_readfirstlane_b32 s0, v3", "v3", ""),
        ("v_permlane32_swap_b32_e32 v0, v1", "v0 v1", "v0 v1"),
        ("ds_read_b64 v[0:1], v4", "v4", "v0 v1"),
        ("ds_read_u16_d16_hi v0, v4", "v0 v4", "v0"),
        ("ds_write_b64 v4, v[0:1]", "v4 v0 v1", ""),
        ("ds_add_rtn_u32 v0, v1, v2", "v1 v2", "v0"),
        ("ds_add_u32 v1, v2", "v1 v2", ""),
        ("global_store_dwordx2 v4, v[0:1], s[0:1]", "v4 v0 v1", ""),
        ("buffer_load_dwordx2 v[0:1], v4, s[0:3], 0 offen", "v4", "v0 v1"),
        ("buffer_load_dwordx4 v4, s[0:3], 0 offen lds", "v4", ""),
        ("global_atomic_add_u32 v0, v1, v2, s[0:1] sc0", "v1 v2", "v0"),
        ("global_atomic_add_f32 v1, v2, s[0:1]", "v1 v2", ""),
        ("v_mov_b32_dpp v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1", "v1", "v0"),
        ("v_mov_b32_dpp v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf", "v0 v1", "v0"),
        ("v_cvt_pk_fp8_f32 v0, v1, v2 op_sel:[0,0,1]", "v0 v1 v2", "v0"),
        ("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel:[0,0,1]", "v2 v3 v4 v5 v6 v7", "v0 v1"),
        ("v_and_b32_sdwa v0, v1, v2 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE", "v0 v1 v2", "v0"),
        ("s_add_u32 s0, s1, s2", "", ""),
    ],
)
def test_registers_read_and_written(text, reads, writes):
    (instruction,) = instructions(text)
    found_reads, found_writes = reads_and_writes(instruction)
    assert (set(found_reads), set(found_writes)) == (set(reads.split()), set(writes.split()))


def test_live_registers_peak_inside_and_outside_loops():
    code = """
\tv_mov_b32_e32 v0, 0
\tds_read_b128 v[4:7], v0
\tv_mov_b32_e32 v1, 0
.Lloop:
\tv_add_f32_e32 v1, v1, v0
\tv_mov_b32_e32 v2, v1
\tv_add_f32_e32 v1, v1, v2
\ts_cbranch_scc1 .Lloop
\tv_add_f32_e32 v4, v4, v5
\tv_add_f32_e32 v4, v4, v1
\tglobal_store_dword v0, v4, s[0:1]
\ts_endpgm"""
    # Through the loop: v0, v1, and v4 and v5 for what follows it; v2 comes on top for one instruction. v6 and v7 are
    # never read, but ds_read_b128 writes them beside v0.
    flow = control_flow(kernel_of(code))
    peak, by_loop = peak_pressure(flow)
    assert (peak, by_loop) == (5, {flow.loops[0].header: 5})
