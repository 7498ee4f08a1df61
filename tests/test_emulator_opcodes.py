"""Opcodes that the pseudo-code does not settle, against numbers worked out here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.emulator_asm import run_lanes


def _float(bits: int) -> np.float32:
    return np.array([bits & 0xFFFFFFFF], np.uint32).view(np.float32)[0]


@pytest.mark.parametrize(
    ("name", "shift"),
    [("lshlrev_b64", "v2, v[4:5]"), ("lshrrev_b64", "v2, v[4:5]"), ("lshl_add_u64", "v[2:3], 3, v[4:5]")],
)
def test_64_bit(name: str, shift: str) -> None:
    random = np.random.default_rng(0)
    x, y = (random.integers(0, 2**63, 64, dtype=np.uint64) for _ in range(2))
    got = run_lanes([f"v_{name} v[8:9], {shift}"], x, y)
    wanted = {
        "lshlrev_b64": y << (x & np.uint64(63)),
        "lshrrev_b64": y >> (x & np.uint64(63)),
        "lshl_add_u64": (x << np.uint64(3)) + y,
    }[name]
    assert (got == wanted).all()


def _floats(values: list[float]) -> np.ndarray:
    return np.resize(np.array(values, np.float32), 64).view(np.uint32).astype(np.uint64)


def _as_float(result: np.ndarray) -> np.ndarray:
    return result.astype(np.uint32).view(np.float32)


@pytest.mark.parametrize(
    ("name", "function"),
    [("exp", np.exp2), ("log", np.log2), ("rcp", np.reciprocal), ("sqrt", np.sqrt), ("rsq", lambda x: 1 / np.sqrt(x))],
)
def test_transcendental_within_one_ulp(name: str, function: Callable[[np.ndarray], np.ndarray]) -> None:
    x = np.random.default_rng(0).uniform(0.01, 60, 64).astype(np.float32)
    got = _as_float(run_lanes([f"v_{name}_f32 v8, v2"], x.view(np.uint32)))
    exact = function(x.astype(np.float64))
    assert (np.abs(got - exact) <= np.spacing(np.abs(exact).astype(np.float32))).all()


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


def test_unknown_opcode_is_named_with_its_line() -> None:
    from workbench.errors import EmulationError

    with pytest.raises(
        EmulationError, match=r"line \d+: v_frobnicate_b32 v8, v2: opcode v_frobnicate_b32 is not modelled"
    ):
        run_lanes(["v_frobnicate_b32 v8, v2"])
