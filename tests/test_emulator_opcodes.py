"""Opcodes that the pseudo-code does not settle, against numbers worked out here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.emulator_asm import run_lanes


def _float(bits: int) -> np.float32:
    return np.array([bits & 0xFFFFFFFF], np.uint32).view(np.float32)[0]


def _floats(values: list[float]) -> np.ndarray:
    return np.resize(np.array(values, np.float32), 64).view(np.uint32).astype(np.uint64)


def _as_float(result: np.ndarray) -> np.ndarray:
    return result.astype(np.uint32).view(np.float32)


@pytest.mark.parametrize(
    ("name", "function"),
    [("v_exp_f32", np.exp2), ("v_log_f32", np.log2), ("v_rcp_f32", np.reciprocal), ("v_rcp_iflag_f32", np.reciprocal),
     ("v_sqrt_f32", np.sqrt), ("v_rsq_f32", lambda x: 1 / np.sqrt(x)), ("v_sin_f32", lambda x: np.sin(2 * np.pi * x)),
     ("v_cos_f32", lambda x: np.cos(2 * np.pi * x))],
)  # fmt: skip
def test_transcendental_within_one_ulp(name: str, function: Callable[[np.ndarray], np.ndarray]) -> None:
    x = np.random.default_rng(0).uniform(0.01, 60, 64).astype(np.float32)
    got = _as_float(run_lanes([f"{name} v8, v2"], x.view(np.uint32)))
    exact = function(x.astype(np.float64))
    assert (np.abs(got - exact) <= np.spacing(np.abs(exact).astype(np.float32))).all()


@pytest.mark.parametrize(
    ("name", "function"),
    [("v_exp_f16", np.exp2), ("v_log_f16", np.log2), ("v_rcp_f16", np.reciprocal), ("v_sqrt_f16", np.sqrt),
     ("v_rsq_f16", lambda x: 1 / np.sqrt(x))],
)  # fmt: skip
def test_half_transcendental_within_one_ulp(name: str, function: Callable[[np.ndarray], np.ndarray]) -> None:
    x = np.random.default_rng(0).uniform(0.1, 10, 64).astype(np.float16)
    got = run_lanes([f"{name} v8, v2"], x.view(np.uint16)).astype(np.uint16).view(np.float16)
    exact = function(x.astype(np.float64))
    assert (np.abs(got - exact) <= np.spacing(np.abs(exact).astype(np.float16))).all()


EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("v_exp_f32", [1.0, 1.0, np.inf, 0.0, np.nan, 2.0, 0.5]),
        ("v_log_f32", [-np.inf, -np.inf, np.inf, np.nan, np.nan, 0.0, np.nan]),
        ("v_rcp_f32", [np.inf, -np.inf, 0.0, -0.0, np.nan, 1.0, -1.0]),
        ("v_sqrt_f32", [0.0, -0.0, np.inf, np.nan, np.nan, 1.0, np.nan]),
        ("v_rsq_f32", [np.inf, -np.inf, 0.0, np.nan, np.nan, 1.0, np.nan]),
        ("v_rndne_f32", EDGES),
        ("v_frexp_mant_f32", [0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -0.5]),
        ("v_sin_f32", [0.0, -0.0, np.nan, np.nan, np.nan, 0.0, 0.0]),
        ("v_cos_f32", [1.0, 1.0, np.nan, np.nan, np.nan, 1.0, 1.0]),
    ],
)
def test_special_values(name: str, wanted: list[float]) -> None:
    got = _as_float(run_lanes([f"{name} v8, v2"], _floats(EDGES)))[: len(EDGES)]
    if name in ("v_sin_f32", "v_cos_f32"):
        np.testing.assert_allclose(got, wanted, atol=1e-6)
    else:
        np.testing.assert_array_equal(got, np.float32(wanted))
        assert (np.signbit(got) == np.signbit(wanted))[~np.isnan(wanted)].all()


def test_rounding_and_parts_of_a_float() -> None:
    x = _floats([0.5, 1.5, 2.5, -0.5, -1.25, 8388609.0, 1e-40, -1e-10])
    rounded = _as_float(run_lanes(["v_rndne_f32 v8, v2"], x))[:8]
    assert rounded.tolist() == [0.0, 2.0, 2.0, -0.0, -1.0, 8388609.0, 0.0, -0.0]
    fraction = _as_float(run_lanes(["v_fract_f32 v8, v2"], x))[:8]
    # A tiny negative number would give 1, which is not a fraction.
    assert fraction.tolist() == [0.5, 0.5, 0.5, 0.5, 0.75, 0.0, np.float32(1e-40), np.float32(1 - 2.0**-24)]
    exponent = run_lanes(["v_frexp_exp_i32_f32 v8, v2"], x).astype(np.uint32).view(np.int32)[:8]
    assert exponent.tolist() == [0, 1, 2, 0, 1, 24, -132, -33]
    halves = np.resize(np.array([0.5, 1.5, 2.5, -0.5], np.float16), 64).view(np.uint16).astype(np.uint64)
    got = run_lanes(["v_rndne_f16 v8, v2"], halves).astype(np.uint16).view(np.float16)[:4]
    assert got.tolist() == [0.0, 2.0, 2.0, -0.0]
    doubles = np.resize(np.array([0.5, 2.5, -0.5, 4503599627370497.5]), 64).view(np.uint64)
    got64 = run_lanes(["v_rndne_f64 v[8:9], v[2:3]"], doubles).view(np.float64)[:4]
    assert got64.tolist() == [0.0, 2.0, -0.0, 4503599627370498.0]


@pytest.mark.parametrize(("name", "dtype", "values"), [
    ("v_ldexp_f32", np.float32, [(1.0, 3), (1.5, -149), (3.0, 127), (-1.0, 200), (2.0**-140, 30), (0.0, 5)]),
    ("v_ldexp_f64", np.float64, [(1.0, 3), (1.5, -1074), (-1.0, 2000), (3.0, -1)]),
    ("v_ldexp_f16", np.float16, [(1.0, 3), (1.5, -24), (-1.0, 20), (3.0, -1)]),
])  # fmt: skip
def test_ldexp(name: str, dtype: type, values: list[tuple[float, int]]) -> None:
    width = np.dtype(dtype).itemsize
    x = np.resize(np.array([value for value, _ in values], dtype), 64).view(f"u{width}").astype(np.uint64)
    power = np.resize(np.array([power for _, power in values], np.int32), 64).view(np.uint32).astype(np.uint64)
    registers = "v[8:9], v[2:3]" if width == 8 else "v8, v2"
    got = run_lanes([f"{name} {registers}, v4"], x, power).astype(f"u{width}").view(dtype)[: len(values)]
    with np.errstate(over="ignore", under="ignore"):
        assert got.tolist() == [float(dtype(np.ldexp(np.float64(value), power))) for value, power in values]


def test_max_prefers_numbers_and_positive_zero() -> None:
    x, y = _floats([np.nan, 1.0, 0.0, -0.0, -1.0]), _floats([2.0, np.nan, -0.0, 0.0, -2.0])
    got = _as_float(run_lanes(["v_max_f32 v8, v2, v4"], x, y))[:5]
    assert got.tolist() == [2.0, 1.0, 0.0, 0.0, -1.0]
    assert not np.signbit(got[2:4]).any()


def test_fma_rounds_once() -> None:
    """1 + 2^-24 + 2^-60 lies above the middle of two float32, but its float64 sum is exactly the middle."""
    x, y, z = _floats([2.0**-30]), _floats([2.0**-30]), _floats([1.0 + 2.0**-23])
    assert _as_float(run_lanes(["v_fma_f32 v8, v2, v4, v6"], x, y, z))[0] == np.float32(1 + 2.0**-23)
    half = _floats([2.0**-12 * (1 + 2.0**-23)])
    got = _as_float(run_lanes(["v_fma_f32 v8, v2, v4, 1.0"], half, _floats([2.0**-12])))[0]
    assert got == np.float32(1 + 2.0**-23)


@pytest.mark.parametrize(("mode", "wanted"), [(3, 2.0**-127), (0, 0.0)])
def test_denormals_follow_the_descriptor(mode: int, wanted: float) -> None:
    got = _as_float(run_lanes(["v_mul_f32 v8, v2, v4"], _floats([2.0**-64]), _floats([2.0**-63]), denormals=mode))
    assert got[0] == np.float32(wanted)


@pytest.mark.parametrize("pair", [(1.0, 3.0), (1e38, 1e-3), (3e-39, 7.0), (5.0, 2e38), (1e-30, 1e25), (7.0, -0.0)])
def test_division_sequence(pair: tuple[float, float]) -> None:
    """The compiler's float32 division, whose steps scale and repair each other."""
    body = """v_div_scale_f32 v10, s[12:13], v4, v4, v2
        v_div_scale_f32 v11, vcc, v2, v4, v2
        v_rcp_f32 v12, v10
        v_fma_f32 v13, -v10, v12, 1.0
        v_fmac_f32 v12, v13, v12
        v_mul_f32 v13, v11, v12
        v_fma_f32 v14, -v10, v13, v11
        v_fmac_f32 v13, v14, v12
        v_fma_f32 v10, -v10, v13, v11
        v_div_fmas_f32 v10, v10, v12, v13
        v_div_fixup_f32 v8, v10, v4, v2"""
    got = _as_float(run_lanes([line.strip() for line in body.split("\n")], _floats([pair[0]]), _floats([pair[1]])))[0]
    with np.errstate(all="ignore"):
        assert got == np.float32(pair[0]) / np.float32(pair[1])


def test_lane_movement() -> None:
    lanes = np.arange(64, dtype=np.uint64)
    row = (lanes // 16) * 16
    assert (run_lanes(["v_mov_b32_dpp v8, v2 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1"], lanes + 1)
            == np.where(lanes % 16 > 0, lanes, 0)).all()  # fmt: skip
    assert (
        run_lanes(["v_mov_b32_dpp v8, v2 row_ror:4 row_mask:0xf bank_mask:0xf"], lanes) == row + (lanes - 4) % 16
    ).all()
    assert (
        run_lanes(["v_mov_b32_dpp v8, v2 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0xf"], lanes) == lanes ^ 3
    ).all()
    swapped = run_lanes(["v_permlane32_swap_b32 v2, v4", "v_mov_b32 v8, v2", "v_mov_b32 v9, v4"], lanes, lanes + 100)
    first, second = swapped & np.uint64(0xFFFFFFFF), swapped >> np.uint64(32)
    assert (first == np.where(lanes < 32, lanes, lanes + 68)).all()
    assert (second == np.where(lanes < 32, lanes + 32, lanes + 100)).all()


def test_permutes_and_swizzle() -> None:
    lanes = np.arange(64, dtype=np.uint64)
    wait = "s_waitcnt lgkmcnt(0)"
    assert (run_lanes(["ds_bpermute_b32 v8, v2, v4", wait], (63 - lanes) * 4, lanes) == 63 - lanes).all()
    assert (run_lanes(["ds_permute_b32 v8, v2, v4", wait], ((lanes + 1) % 64) * 4, lanes) == (lanes - 1) % 64).all()
    assert (run_lanes(["ds_swizzle_b32 v8, v2 offset:swizzle(SWAP,16)", wait], lanes) == lanes ^ 16).all()


def test_sdwa_selects_and_preserves() -> None:
    x, y = np.full(64, 0x11223344, np.uint64), np.full(64, 0x000000F0, np.uint64)
    body = [
        "v_mov_b32 v8, -1",
        "v_or_b32_sdwa v8, v2, v4 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_2 src1_sel:DWORD",
    ]
    assert run_lanes(body, x, y)[0] == 0x00F2FFFF


@pytest.mark.parametrize(("value", "code"), [(1.0, 0x38), (448.0, 0x7E), (-0.0625, 0x98), (2.0**-9, 0x01), (0.0, 0x00)])
def test_fp8_both_ways(value: float, code: int) -> None:
    packed = run_lanes(["v_cvt_pk_fp8_f32 v8, v2, v2"], _floats([value]))[0]
    assert packed & 0xFF == code
    back = run_lanes(["v_cvt_pk_f32_fp8 v[8:9], v2"], np.full(64, code, np.uint64))[0]
    assert _float(int(back)) == np.float32(value)


def test_fp8_bytes_by_sdwa_and_op_sel() -> None:
    """Byte 2 of the source, and its upper half."""
    codes = np.full(64, 0x40BC3830, np.uint64)
    fp8, bf8 = ((0.5, 1.0, -1.5, 2.0), (0.125, 0.5, -1.0, 2.0))
    for kind, values in (("fp8", fp8), ("bf8", bf8)):
        for byte in range(4):
            got = run_lanes([f"v_cvt_f32_{kind}_sdwa v8, v2 src0_sel:BYTE_{byte}"], codes)
            assert _as_float(got)[0] == values[byte]
        for word in range(2):
            got = run_lanes([f"v_cvt_pk_f32_{kind}_sdwa v[8:9], v2 src0_sel:WORD_{word}"], codes)
            pair = _float(int(got[0])), _float(int(got[0]) >> 32)
            assert pair == values[2 * word : 2 * word + 2]
            scaled = run_lanes([f"v_cvt_scalef32_pk_f32_{kind} v[8:9], v2, 4.0 op_sel:[{word},0,0]"], codes)
            assert _float(int(scaled[0])) == 4 * values[2 * word]
        for select, byte in (("[0,0,0,0]", 0), ("[1,0,0,0]", 1), ("[0,1,0,0]", 2), ("[1,1,0,0]", 3)):
            got = run_lanes([f"v_cvt_scalef32_f32_{kind} v8, v2, 0.5 op_sel:{select}"], codes)
            assert _as_float(got)[0] == values[byte] / 2


def test_fp8_goes_to_the_half_that_op_sel_names() -> None:
    body = ["v_mov_b32 v8, 0x11223344", "v_cvt_pk_fp8_f32 v8, v2, v4 op_sel:[0,0,1]"]
    assert run_lanes(body, _floats([1.0]), _floats([-2.0]))[0] == 0xC0383344
    body[1] = "v_cvt_scalef32_pk_bf8_f32 v8, v2, v4, 2.0 op_sel:[0,0,0,1]"
    assert run_lanes(body, _floats([1.0]), _floats([-2.0]))[0] == 0xBC383344


def test_half_conversion_towards_zero() -> None:
    x, y = _floats([1.0009765, 65535.0, -1e-9]), _floats([-1.0009765, np.inf, 2.0])
    got = run_lanes(["v_cvt_pkrtz_f16_f32 v8, v2, v4"], x, y).astype(np.uint32).view(np.float16).reshape(64, 2)[:3]
    assert got.tolist() == [[1.0, -1.0], [65504.0, np.inf], [-0.0, 2.0]]


@pytest.mark.parametrize("prefix", ["v_fma_mix", "v_mad_mix"])
def test_mixed_precision(prefix: str) -> None:
    """op_sel_hi: a half, which op_sel picks; the result goes to one half of the destination or is float32."""
    pair = np.float16([2.0, 3.0]).view(np.uint32)[0]
    x, y, z = np.full(64, pair, np.uint64), _floats([0.5]), _floats([10.0])
    assert _as_float(run_lanes([f"{prefix}_f32 v8, v2, v4, -v6 op_sel:[1,0,0] op_sel_hi:[1,0,0]"], x, y, z))[0] == -8.5
    start = "v_mov_b32 v8, 0x11223344"
    low = run_lanes([start, f"{prefix}lo_f16 v8, v2, v4, v6 op_sel_hi:[1,0,0]"], x, y, z)[0]
    assert low == 0x11220000 | int(np.float16(11.0).view(np.uint16))
    high = run_lanes([start, f"{prefix}hi_f16 v8, v2, v4, v6 op_sel_hi:[1,0,0]"], x, y, z)[0]
    assert high == int(np.float16(11.0).view(np.uint16)) << 16 | 0x3344


def test_fma_with_a_literal_and_multiply_add() -> None:
    x, y = _floats([3.0]), _floats([5.0])
    assert _as_float(run_lanes(["v_fmaak_f32 v8, v2, v4, 0x40000000"], x, y))[0] == 17.0
    assert _as_float(run_lanes(["v_fmamk_f32 v8, v2, 0x40000000, v4"], x, y))[0] == 11.0
    assert _as_float(run_lanes(["v_mad_f32 v8, v2, v4, -v2"], x, y))[0] == 12.0
    assert _as_float(run_lanes(["v_mov_b32 v8, 1.0", "v_mac_f32 v8, v2, v4"], x, y))[0] == 16.0
    infinite = run_lanes(["v_mad_legacy_f32 v8, v2, v4, 1.0"], _floats([0.0]), _floats([np.inf]))
    assert _as_float(infinite)[0] == 1.0


@pytest.mark.parametrize("table", [0x00, 0x01, 0x96, 0xCA, 0xE8, 0x35, 0xFE, 0xFF])
def test_bitop3(table: int) -> None:
    """Bit 4a + 2b + c of the table is the result."""
    random = np.random.default_rng(0)
    x, y, z = (random.integers(0, 2**32, 64, dtype=np.uint64) for _ in range(3))
    wanted = np.zeros(64, np.uint64)
    for bit in range(32):
        a, b, c = (value >> np.uint64(bit) & np.uint64(1) for value in (x, y, z))
        index = a << np.uint64(2) | b << np.uint64(1) | c
        wanted |= (np.uint64(table) >> index & np.uint64(1)) << np.uint64(bit)
    assert (run_lanes([f"v_bitop3_b32 v8, v2, v4, v6 bitop3:{table:#x}"], x, y, z) == wanted).all()
    assert (run_lanes([f"v_bitop3_b16 v8, v2, v4, v6 bitop3:{table:#x}"], x, y, z) == wanted & np.uint64(0xFFFF)).all()


def test_bytes_moved_and_summed() -> None:
    """v_perm_b32: byte 0-3 of the second source, 4-7 of the first, 8-11 a sign, 12 zero, above it ones."""
    x, y = np.full(64, 0x81223344, np.uint64), np.full(64, 0x55E67788, np.uint64)
    for selector, wanted in ((0x03020100, 0x55E67788), (0x07050301, 0x81335577), (0x0C0D0B08, 0x00FFFF00),
                             (0x090A0404, 0x00004444), (0x07060302, 0x812255E6)):  # fmt: skip
        assert run_lanes(["v_perm_b32 v8, v2, v4, v6"], x, y, np.full(64, selector, np.uint64))[0] == wanted
        assert run_lanes([f"v_perm_b32 v8, v2, v4, {selector:#x}"], x, y)[0] == wanted
    assert run_lanes(["v_sad_u32 v8, v2, v4, 5"], x, y)[0] == 0x81223344 - 0x55E67788 + 5
    assert run_lanes(["v_bfrev_b32 v8, v2"], x)[0] == int(f"{0x81223344:032b}"[::-1], 2)


def test_selection_by_a_mask() -> None:
    lanes = np.arange(64, dtype=np.uint64)
    body = ["s_mov_b32 vcc_lo, 0xf0", "s_mov_b32 vcc_hi, 1", "v_cndmask_b32 v8, v2, v4, vcc"]
    chosen = ((lanes >= 4) & (lanes < 8)) | (lanes == 32)
    assert (run_lanes(body, lanes, lanes + 100) == np.where(chosen, lanes + 100, lanes)).all()
    body[2] = "v_cndmask_b32 v8, -|v2|, v4, vcc"
    assert _as_float(run_lanes(body, _floats([2.0]), _floats([1.0])))[[0, 4]].tolist() == [-2.0, 1.0]


def test_lanes_read_written_and_counted() -> None:
    lanes = np.arange(64, dtype=np.uint64)
    assert (run_lanes(["s_mov_b32 s12, 0x45", "v_readlane_b32 s13, v2, s12", "v_mov_b32 v8, s13"], lanes) == 5).all()
    body = ["s_mov_b64 exec, 0xf00", "v_readfirstlane_b32 s13, v2", "s_mov_b64 exec, -1", "v_mov_b32 v8, s13"]
    assert (run_lanes(body, lanes) == 8).all()
    written = run_lanes(
        ["v_mov_b32 v8, v2", "s_mov_b64 exec, 1", "v_writelane_b32 v8, 77, 9", "s_mov_b64 exec, -1"], lanes
    )
    assert (written == np.where(lanes == 9, 77, lanes)).all()
    body = ["v_mbcnt_lo_u32_b32 v8, -1, 0", "v_mbcnt_hi_u32_b32 v8, -1, v8"]
    assert (run_lanes(body) == lanes).all()
    body = ["v_mbcnt_lo_u32_b32 v8, 0xf, 3", "v_mbcnt_hi_u32_b32 v9, 2, 0"]
    got = run_lanes(body)
    assert (got & np.uint64(0xFFFFFFFF) == np.minimum(lanes, 4) + 3).all()
    assert (got >> np.uint64(32) == (lanes > 33)).all()


def test_registers_exchanged_and_moved() -> None:
    lanes = np.arange(64, dtype=np.uint64)
    both = ["v_mov_b32 v8, v2", "v_mov_b32 v9, v4"]
    assert (run_lanes(["v_swap_b32 v2, v4", *both], lanes, lanes + 100) == (lanes + 100 | lanes << np.uint64(32))).all()
    got = run_lanes(["v_permlane16_swap_b32 v2, v4", *both], lanes, lanes + 100)
    odd = lanes // 16 % 2 == 1
    assert (got & np.uint64(0xFFFFFFFF) == np.where(odd, lanes - 16 + 100, lanes)).all()
    assert (got >> np.uint64(32) == np.where(odd, lanes + 100, lanes + 16)).all()
    pair = lanes | lanes + 100 << np.uint64(32)
    got = run_lanes(["v_pk_mov_b32 v[8:9], v[2:3], v[4:5] op_sel:[1,0]"], pair, pair + 1)
    assert (got == (lanes + 100 | lanes + 1 << np.uint64(32))).all()
    accumulator = ["v_accvgpr_write_b32 a3, v2", "v_accvgpr_mov_b32 a4, a3", "v_accvgpr_read_b32 v8, a4"]
    assert (run_lanes(accumulator, lanes) == lanes).all()
