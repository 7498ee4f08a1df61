"""Scalar instructions that pseudo-code for one lane does not cover: EXEC, MODE, memory, bits in place."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.emulator_asm import kernel, run_body, run_lanes
from workbench.errors import EmulationError
from workbench.gfx950.emulator import emulate

ALL = (1 << 64) - 1
SAVE_EXEC = {
    "and": lambda s, e: s & e, "or": lambda s, e: s | e, "xor": lambda s, e: s ^ e, "andn2": lambda s, e: s & ~e,
    "orn2": lambda s, e: s | ~e, "andn1": lambda s, e: ~s & e, "orn1": lambda s, e: ~s | e,
    "nand": lambda s, e: ~(s & e), "nor": lambda s, e: ~(s | e), "xnor": lambda s, e: ~(s ^ e),
}  # fmt: skip


@pytest.mark.parametrize("name", SAVE_EXEC)
@pytest.mark.parametrize("mask", [0xFFFF0000FF00F0F1, ALL, 0])
def test_save_exec(name: str, mask: int) -> None:
    """The old EXEC goes to the destination, the combination to EXEC, and SCC says whether it is not zero."""
    before = 0x0FFFFFFFFFFFFFF0
    body = [f"s_mov_b32 s12, {mask & 0xFFFFFFFF:#x}", f"s_mov_b32 s13, {mask >> 32:#x}", "v_mov_b32 v8, 0",
            f"s_mov_b32 exec_lo, {before & 0xFFFFFFFF:#x}", f"s_mov_b32 exec_hi, {before >> 32:#x}",
            f"s_{name}_saveexec_b64 s[14:15], s[12:13]", "s_cselect_b32 s16, 2, 0", "v_mov_b32 v8, 1",
            "s_mov_b64 exec, -1", "v_cndmask_b32 v9, 0, 1, s[14:15]", "v_or_b32 v9, s16, v9"]  # fmt: skip
    got = run_lanes(body)
    active = SAVE_EXEC[name](mask, before) & ALL
    for lane in range(64):
        assert int(got[lane]) == active >> lane & 1 | ((before >> lane & 1) | (2 if active else 0)) << 32


@pytest.mark.parametrize(
    ("branch", "setup", "taken"),
    [
        ("scc0", "s_cmp_eq_u32 0, 1", True), ("scc0", "s_cmp_eq_u32 0, 0", False),
        ("scc1", "s_cmp_eq_u32 0, 1", False), ("scc1", "s_cmp_eq_u32 0, 0", True),
        ("vccz", "s_mov_b64 vcc, 0", True), ("vccz", "s_mov_b64 vcc, -1", False),
        ("vccnz", "s_mov_b64 vcc, 0", False), ("vccnz", "s_mov_b64 vcc, -1", True),
        ("execz", "s_mov_b64 exec, 0", True), ("execz", "s_mov_b64 exec, -1", False),
        ("execnz", "s_mov_b64 exec, 0", False), ("execnz", "s_mov_b64 exec, -1", True),
    ],
)  # fmt: skip
def test_branches(branch: str, setup: str, taken: bool) -> None:
    body = ["s_mov_b32 s12, 1", setup, f"s_cbranch_{branch} .LTAKEN", "s_mov_b32 s12, 0", "s_branch .LDONE", ".LTAKEN:",
            "s_nop 0", ".LDONE:", "s_mov_b64 exec, -1", "v_mov_b32 v8, s12"]  # fmt: skip
    assert (run_lanes(body) == int(taken)).all()


@pytest.mark.parametrize("bits", [32, 64])
def test_bits_in_place(bits: int) -> None:
    """brev turns bits around, bitset0 and bitset1 change one of the destination's."""
    value = 0x0123456789ABCDEF & (1 << bits) - 1
    low, high, last = value & 0xFFFFFFFF, value >> 32, bits - 1
    pair = "s[12:13]" if bits == 64 else "s12"
    load = [f"s_mov_b32 s12, {low:#x}", f"s_mov_b32 s13, {high:#x}"]
    show = ["v_mov_b32 v8, s12", "v_mov_b32 v9, s13"]
    reverse = int(f"{value:0{bits}b}"[::-1], 2)
    assert run_lanes([*load, f"s_brev_b{bits} {pair}, {pair}", *show])[0] == reverse
    assert run_lanes([*load, f"s_bitset1_b{bits} {pair}, {last}", *show])[0] == value | 1 << last
    assert run_lanes([*load, f"s_bitset0_b{bits} {pair}, 0x41", *show])[0] == value & ~(1 << 0x41 % bits)


@pytest.mark.parametrize("words", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("buffer", [False, True])
def test_scalar_load(words: int, buffer: bool) -> None:
    """A scalar buffer load gives 0 past the end of the buffer."""
    source, out = torch.arange(100, 132, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    name = f"s_{'buffer_' if buffer else ''}load_dword{'' if words == 1 else f'x{words}'}"
    target = "s32" if words == 1 else f"s[32:{31 + words}]"
    base = "s[12:15]" if buffer else "s[4:5]"
    body = ["s_mov_b64 s[12:13], s[4:5]", "s_mov_b32 s14, 0x80", "s_mov_b32 s15, 0x27000", "s_movk_i32 s16, 0x8",
            f"{name} {target}, {base}, s16 offset:0x4", "v_mov_b32 v1, 0", "s_waitcnt lgkmcnt(0)"]  # fmt: skip
    for i in range(words):
        body += [f"v_mov_b32 v2, s{32 + i}", f"global_store_dword v1, v2, s[6:7] offset:{4 * i}"]
    run_body(body, [source, out])
    assert out[:words].tolist() == list(range(103, 103 + words))
    if buffer:
        past = [line.replace("0x80", "0x8") for line in body]
        run_body(past, [source, out])
        assert not out[:words].any()


def test_mode_is_set_and_read() -> None:
    """Denormals are bits 4..7 of MODE: flushed, kept, and from a register."""
    body = ["s_getreg_b32 s12, hwreg(HW_REG_MODE, 4, 4)", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0",
            "v_mul_f32 v10, v2, v4", "s_movk_i32 s13, 0x3", "s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s13",
            "v_mul_f32 v8, v2, v4", "s_getreg_b32 s14, hwreg(HW_REG_MODE, 4, 4)", "s_lshl_b32 s14, s14, 4",
            "s_or_b32 s14, s14, s12", "v_or_b32 v9, s14, v10"]  # fmt: skip
    halves = [np.full(64, np.float32(2.0**e).view(np.uint32), np.uint64) for e in (-64, -63)]
    got = run_lanes(body, *halves)
    assert (got == (1 << 22 | 0xFF << 32)).all()


def test_hardware_registers_that_are_not_modelled() -> None:
    for line, message in [
        ("s_setreg_imm32_b32 hwreg(HW_REG_STATUS), 0", "only fields of HW_REG_MODE can be set"),
        ("s_getreg_b32 s12, hwreg(HW_REG_TRAPSTS)", "this hardware register is not modelled; known: HW_REG_MODE"),
        ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1", "only rounding to nearest even is modelled"),
    ]:
        with pytest.raises(EmulationError, match=message):
            run_lanes([line])


def test_time_goes_on() -> None:
    for name in ("s_memtime", "s_memrealtime"):
        body = [f"{name} s[12:13]", "s_waitcnt lgkmcnt(0)", "s_nop 7", f"{name} s[14:15]", "s_waitcnt lgkmcnt(0)",
                "s_sub_u32 s12, s14, s12", "v_mov_b32 v8, s12"]  # fmt: skip
        assert (run_lanes(body) < 1 << 31).all()


def test_hints_change_nothing() -> None:
    """Scheduling hints, performance counters and cache control; a write-back counts like a store."""
    hints = """s_nop 3; s_sleep 1; s_setprio 2; s_inst_prefetch 1; s_ttracedata; s_incperflevel 1; s_decperflevel 1
        s_set_gpr_idx_off; ds_nop; v_nop; s_sethalt 0; s_code_end; buffer_inv sc1; buffer_wbinvl1; buffer_wbinvl1_vol
        s_dcache_wb; s_dcache_inv; s_icache_inv; buffer_wbl2 sc1; s_waitcnt vmcnt(0); s_waitcnt 0"""
    lanes = np.arange(64, dtype=np.uint64)
    got = run_lanes(["v_mov_b32 v8, v2", *(line.strip() for line in hints.replace("\n", ";").split(";"))], lanes)
    assert (got == lanes).all()


def test_a_raw_wait_count() -> None:
    """0xc07f waits for lgkmcnt(0) alone, 0xf70 for vmcnt(0) alone."""
    body = ["s_load_dword s12, s[4:5], 0x0", "s_waitcnt 0xc07f", "v_mov_b32 v1, 0", "global_load_dword v2, v1, s[4:5]",
            "s_waitcnt 0xf70", "v_add_u32 v2, s12, v2", "global_store_dword v1, v2, s[6:7]"]  # fmt: skip
    source, out = torch.tensor([21], dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    assert run_body(body, [source, out]).findings == ()
    assert out.item() == 42
    early = [line.replace("0xf70", "0xc07f") for line in body]
    assert {finding.kind for finding in run_body(early, [source, out]).findings} == {"missing-wait"}


@pytest.mark.parametrize("name", ["v_frobnicate_b32 v8, v2", "v_cvt_scalef32_pk_fp4_f32 v8, v2, v3, v4", "s_trap 2"])
def test_an_opcode_that_is_not_modelled(name: str) -> None:
    with pytest.raises(EmulationError, match=rf"line \d+: {name}: opcode {name.partition(' ')[0]} is not modelled"):
        emulate(kernel([name], pointers=1), (1,), [torch.zeros(1)])
