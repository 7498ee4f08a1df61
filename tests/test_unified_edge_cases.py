"""Inputs on which attention kernels elsewhere went wrong, through the 2D kernel and 2 to 32 segments of the 3D one."""

import pytest
import torch
from edge_cases import (
    HUGE_CASES,
    MANY_SEQUENCES,
    UNIFIED_CASES,
    assert_right,
    table_too_narrow,
    window_empties_segments,
)

from workbench.attention import run_unified
from workbench.dtypes import torch_dtype
from workbench.errors import TensorError
from workbench.poison import fill_nan, output_shape
from workbench.spec import Unified2DSpec, Unified3DSpec

TILE = {"block_m": 16, "tile_size": 16}
LANES = {"2d": Unified2DSpec(**TILE), "3d": Unified3DSpec(**TILE, num_segments=2)}
CANARY = 171.0


def run(case, spec, device):
    """The case's output, from NaN; nothing beside it may be written and no input may change."""
    inputs = case.inputs.to(device)
    before = inputs.clone() if case.inputs.k_cache.numel() < 2**20 else None
    shape = output_shape(case.problem)
    rows = torch.full((shape[0] + 2, *shape[1:]), CANARY, dtype=torch_dtype(case.problem.dtype), device=device)
    out = rows[1:-1]
    fill_nan(out)
    run_unified(case.problem, inputs, spec=spec, out=out)
    assert (rows[0] == CANARY).all()
    assert (rows[-1] == CANARY).all()
    assert before is None or inputs.changed_since(before) == ()
    return out


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("name", UNIFIED_CASES)
def test_edge_case(name, dtype, device):
    """Every case meets all dtypes and both kernels, each of which takes every other pair of case and dtype."""
    turn = list(UNIFIED_CASES).index(name) + ["fp32", "fp16", "bf16"].index(dtype)
    lane = list(LANES)[turn % 2]
    case = UNIFIED_CASES[name](dtype)
    spec = LANES[lane].with_changes(block_m=max(16, case.problem.group_size))
    assert_right(case, run(case, spec, device), dtype)


@pytest.mark.parametrize("levers", [{"transposed_qk": True}, {"mask_split": False}, {"fast_paged_kv": False}], ids=str)
@pytest.mark.parametrize("name", [name for name in UNIFIED_CASES if "before the window" in name or "slots" in name])
def test_nan_in_memory_that_no_key_owns_stays_out_under_every_lever(name, levers, device):
    case = UNIFIED_CASES[name]("bf16")
    assert_right(case, run(case, LANES["2d"].with_changes(**levers), device), "bf16")


@pytest.mark.parametrize("num_segments", [1, 2, 8, 32])
def test_the_result_does_not_depend_on_empty_segments(num_segments, device):
    case = window_empties_segments("fp32")
    assert_right(case, run(case, LANES["3d"].with_changes(num_segments=num_segments), device), "fp32")


def test_a_thousand_sequences_half_of_them_empty(device):
    """In the 3D kernel; both look for their sequence by one function, and the emulator runs both."""
    case = MANY_SEQUENCES("fp32")
    assert_right(case, run(case, LANES["3d"], device), "fp32")


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("name", HUGE_CASES)
def test_blocks_beyond_2_gib(name, lane, device):
    case = HUGE_CASES[name]("bf16")
    assert case.problem.needs_i64_addressing
    assert_right(case, run(case, LANES[lane], device), "bf16")


def test_a_table_too_narrow_is_refused_before_launch():
    case = table_too_narrow("fp32")
    with pytest.raises(TensorError, match="sequence 0 has 40 keys, but its block-table row of width 2 holds 32"):
        run_unified(case.problem, case.inputs)
