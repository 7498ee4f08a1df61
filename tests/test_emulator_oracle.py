"""Every arithmetic opcode of the emulator against the vendor's pseudo-code, on edge values."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from tests.emulator_asm import run_lanes
from tests.emulator_pcode import PSEUDO_CODE, Lane
from tests.emulator_pcode_functions import OutOfRange, to_bits
from workbench.gfx950.emulator.registry import OPCODES

INTEGERS = [0, 1, 2, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFF, 0x800000, 0xFFFFFF, 0x7FFFFFFF,
            0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0xDEADBEEF, 0x01234567]  # fmt: skip
FLOATS = [0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x3F800001, 0x40490FDB, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000,
          0xFF800000, 0x7FC00000, 0x00800000, 0x00000001, 0x80000001, 0x007FFFFF, 0x4B800000, 0x33800000, 0x42F6E979,
          0xC0200000, 0x3F000000, 0x437F0000, 0xBE99999A]  # fmt: skip
HALVES = [0x0000, 0x8000, 0x3C00, 0xBC00, 0x3C01, 0x4248, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x0400, 0x0001,
          0x8001, 0x03FF, 0x6400, 0x1400, 0x5640, 0xC100, 0x3800]  # fmt: skip
DOUBLES = [0, 1 << 63, 0x3FF0000000000000, 0xBFF0000000000000, 0x3FF0000000000001, 0x7FEFFFFFFFFFFFFF,
           0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0x0010000000000000, 1, 0x47EFFFFFF0000000,
           0x36A0000000000000, 0xC004000000000000]  # fmt: skip
FP8 = [0x00, 0x80, 0x38, 0xB8, 0x01, 0x7E, 0xFE, 0x08, 0x3C, 0x77]
"""Finite as e4m3 and as e5m2."""

# Pseudo-code that calls for its own operands, or that rounds where the hardware does not: tested by hand.
APPROXIMATE = {"v_exp_f32", "v_log_f32", "v_rcp_f32", "v_rcp_iflag_f32", "v_rsq_f32", "v_sqrt_f32", "v_sin_f32",
               "v_cos_f32", "v_exp_f16", "v_log_f16", "v_rcp_f16", "v_sqrt_f16"}  # fmt: skip
BY_HAND = APPROXIMATE | {
    "v_fract_f32", "v_rndne_f32", "v_rndne_f16", "v_ldexp_f32", "v_frexp_exp_i32_f32", "v_frexp_mant_f32",
    "v_div_scale_f32", "v_div_fmas_f32", "v_div_fixup_f32", "v_perm_b32", "v_sad_u32", "v_bitop3_b32", "v_bitop3_b16",
    "v_readlane_b32", "v_readfirstlane_b32", "v_writelane_b32", "v_swap_b32", "v_permlane16_swap_b32",
    "v_permlane32_swap_b32", "v_mad_mix_f32", "v_mad_mixlo_f16", "v_mad_mixhi_f16", "v_cvt_pkrtz_f16_f32",
    "v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32", "v_pk_mov_b32", "v_cndmask_b32", "v_fmaak_f32", "v_fmamk_f32",
    "v_bfrev_b32", "v_rndne_f64", "v_ldexp_f64", "v_ldexp_f16", "v_rsq_f16", "v_cvt_f32_fp8", "v_cvt_f32_bf8",
    "v_cvt_pk_f32_fp8",
    "v_cvt_pk_f32_bf8",
}  # fmt: skip
VECTOR = [name for name in OPCODES if name.startswith("v_") and name in PSEUDO_CODE and name not in BY_HAND
          and "mfma" not in name]  # fmt: skip
COMPARES = [name for name in VECTOR if name.startswith("v_cmp")]
ARITHMETIC = [name for name in VECTOR if not name.startswith("v_cmp")]


def _lanes(values: Sequence[int], seed: int) -> np.ndarray:
    """The first lanes go through the values in step, the others mix them."""
    random = np.random.default_rng(seed)
    picks = np.concatenate((np.arange(len(values)), random.integers(0, len(values), 64)))[:64]
    return np.array([values[i] for i in picks], np.uint64)


def _values(name: str, source: str) -> list[int]:
    """Edge values of a source register, by how the pseudo-code reads it."""
    kinds = set(re.findall(rf"\b{source}(?:\[[^\]]*\])?\.([a-z]+\d+)", PSEUDO_CODE[name]))
    if "S" not in source or not kinds:
        return INTEGERS
    pairs = _is_pair(name, source)
    if "f64" in kinds:
        return DOUBLES
    if kinds & {"f16", "bf16"}:
        halves = HALVES if "f16" in kinds else [value >> 16 for value in FLOATS]
        return [low | high << 16 for low, high in zip(halves, halves[1:] + halves[:1], strict=True)]
    if name.endswith(("_fp8", "_bf8")) and "f32" not in kinds:
        return [code | other << 8 for code, other in zip(FP8, FP8[1:] + FP8[:1], strict=True)]
    single = FLOATS if "f32" in kinds else INTEGERS
    return [low | high << 32 for low, high in zip(single, single[1:] + single[:1], strict=True)] if pairs else single


def _is_pair(name: str, source: str) -> bool:
    return bool(re.search(rf"\b{source}(?:\.\w64|\[63 : 32\])", PSEUDO_CODE[name]))


def _sources(name: str) -> list[str]:
    return [f"S{i}" for i in range(3) if re.search(rf"\bS{i}\b|SRC{i}\b", PSEUDO_CODE[name])]


def _equal(got: int, wanted: int, name: str) -> bool:
    """The same bits, but a NaN is any NaN."""
    return got == wanted or any(
        _equal_but_nan(got, wanted, width) for width in (64, 32, 16) if f"f{width}" in PSEUDO_CODE[name]
    )


def _equal_but_nan(got: int, wanted: int, width: int) -> bool:
    bits = [np.array([value], np.uint64).view(f"u{width // 8}") for value in (got, wanted)]
    nan = [np.isnan(part.view(f"f{width // 8}")) for part in bits]
    return bool(((bits[0] == bits[1]) | (nan[0] & nan[1])).all())


@pytest.mark.parametrize("name", ARITHMETIC)
def test_vector(name: str) -> None:
    text = PSEUDO_CODE[name]
    names = _sources(name)
    sources = [_lanes(_values(name, source), seed) for seed, source in enumerate(names)]
    registers = [f"v[{2 + 2 * i}:{3 + 2 * i}]" if _is_pair(name, source) else f"v{2 + 2 * i}"
                 for i, source in enumerate(names)]  # fmt: skip
    wide = bool(re.search(r"\bD0\.\w64 =|D0\.b64|D0\[63|D0\.u64 \}|D0\.i64 \}", text))
    carry = "VCC" in text or "D1" in text
    before = [
        "v_mov_b32 v8, 0x3f9d70a4",
        "v_mov_b32 v9, 0",
        "s_mov_b32 vcc_lo, 0x55555555",
        "s_mov_b32 vcc_hi, 0x55555555",
    ]
    operands = ["v[8:9]" if wide else "v8", *(["vcc"] if carry else []), *registers,
                *(["vcc"] if "VCC.u64[laneId]" in text and re.search(r"[-+] VCC", text) else [])]  # fmt: skip
    after = [] if wide or not carry else ["v_cndmask_b32 v9, 0, 1, vcc"]
    got = run_lanes([*before, f"{name} {', '.join(operands)}", *after], *sources)
    for lane in range(64):
        inputs = {source: int(values[lane]) for source, values in zip(names, sources, strict=True)}
        try:
            wanted = Lane(**inputs, D0=0x3F9D70A4, VCC=lane + 1 & 1).run(name).names
        except OutOfRange:
            continue
        expected = to_bits(wanted["D0"]) & (2**64 - 1 if wide else 2**32 - 1)
        if carry and not wide:
            expected |= (to_bits(wanted["VCC"]) & 1) << 32
        assert _equal(int(got[lane]), expected, name), (
            name, {k: hex(v) for k, v in inputs.items()}, hex(int(got[lane])), hex(expected),
        )  # fmt: skip


@pytest.mark.parametrize("name", COMPARES)
def test_compare(name: str) -> None:
    """The mask goes to a scalar pair, for v_cmpx to EXEC as well."""
    sources = [_lanes(_values(name, source) if name[-3:] != "f32" or source == "S0" else INTEGERS, seed)
               for seed, source in enumerate(("S0", "S1"))]  # fmt: skip
    if "class" in name:
        sources[1] = np.arange(64, dtype=np.uint64) * 16
    registers = [f"v[{2 + 2 * i}:{3 + 2 * i}]" if _is_pair(name, f"S{i}") else f"v{2 + 2 * i}" for i in range(2)]
    body = ["v_mov_b32 v9, 0", f"{name} s[12:13], {registers[0]}, {registers[1]}", "v_mov_b32 v9, 1",
            "s_mov_b64 exec, -1", "v_cndmask_b32 v8, 0, 1, s[12:13]"]  # fmt: skip
    got = run_lanes(body, *sources)
    for lane in range(64):
        inputs = {f"S{i}": int(sources[i][lane]) for i in range(2)}
        wanted = Lane(**inputs).run(name).names
        mask = to_bits(wanted["D0"]) & 1
        executed = to_bits(wanted["EXEC"]) & 1
        assert int(got[lane]) == mask | executed << 32, (name, {k: hex(v) for k, v in inputs.items()})


_SCALAR_SKIPPED = re.compile(r"s_(c?branch|load|buffer|nop|sleep|waitcnt|[gs]etreg|set_gpr|bitset|brev|.*saveexec)")
SCALAR = [name for name in OPCODES if name.startswith("s_") and name in PSEUDO_CODE and not _SCALAR_SKIPPED.match(name)]


@pytest.mark.parametrize("name", SCALAR)
def test_scalar(name: str) -> None:
    """64 cases in one wave, each result and its SCC put into a lane."""
    text = PSEUDO_CODE[name]
    wide = [bool(re.search(rf"\bS{i}\.\w64", text)) for i in range(2)]
    wide_out = bool(re.search(r"\bD0\.\w64 =(?!=)", text))
    short = re.search(r"S[01]\.[iu]16", text) is not None
    names = _sources(name)
    random = np.random.default_rng(0)
    body, cases = [], []
    for lane in range(64):
        words = [INTEGERS[i] for i in random.integers(0, len(INTEGERS), 4)]
        if lane < len(INTEGERS):
            words = [INTEGERS[lane]] * 4 if lane % 2 else [INTEGERS[lane], INTEGERS[-lane - 1], INTEGERS[lane], 1]
        scc, old = lane & 1, INTEGERS[lane % len(INTEGERS)]
        body += [f"s_mov_b32 s{12 + i}, {words[i]:#x}" for i in range(4)]
        body += [f"s_mov_b32 s16, {old:#x}", f"s_mov_b32 s17, {old:#x}", f"s_cmp_eq_u32 {scc}, 1"]
        inputs = {"D0": old | old << 32 if wide_out else old, "SCC": scc}
        for i in range(2):
            inputs[f"S{i}"] = words[2 * i] | words[2 * i + 1] << 32 if wide[i] else words[2 * i]
        operands = [f"s[{12 + 2 * i}:{13 + 2 * i}]" if wide[i] else f"s{12 + 2 * i}" for i in range(2)][: len(names)]
        if short:
            literal = words[2] & 0xFFFF
            inputs[names[-1]] = literal
            operands[-1:] = [f"{literal:#x}"]
        if not name.startswith(("s_cmp", "s_bitcmp")):
            operands.insert(0, "s[16:17]" if wide_out else "s16")
        body += [f"{name} {', '.join(operands)}", "s_cselect_b32 s18, 1, 0", f"v_writelane_b32 v8, s16, {lane}"]
        body += [f"v_writelane_b32 v9, {'s17' if wide_out else 's18'}, {lane}"]
        cases.append(inputs)
    got = run_lanes(body)
    for lane, inputs in enumerate(cases):
        wanted = Lane(**inputs).run(name).names
        expected = to_bits(wanted["D0"]) & (2**64 - 1 if wide_out else 2**32 - 1)
        if not wide_out:
            expected |= (to_bits(wanted["SCC"]) & 1) << 32
        assert int(got[lane]) == expected, (
            name,
            {k: hex(v) for k, v in inputs.items()},
            hex(int(got[lane])),
            hex(expected),
        )
