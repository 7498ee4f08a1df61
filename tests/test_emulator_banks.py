"""LDS bank conflicts: hand-made patterns whose cycles are known, for each width and direction."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.emulator_asm import run_body
from workbench.errors import ParameterError
from workbench.gfx950.emulator.banks import conflict_cycles, lds_access, phases_of

LANES = np.arange(64)


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("size", [4, 8, 12, 16])
def test_every_phase_table_serves_each_lane_once(size: int, write: bool) -> None:
    served = [lane for phase in phases_of(size, write).lanes for lane in phase]
    assert sorted(served) == list(range(64))


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("size", [4, 8, 12, 16])
def test_consecutive_lanes(size: int, write: bool) -> None:
    """No conflict, but for ds_read_b96: lanes 0-3 and 20-23 of a phase are 60 words apart and meet in 8 banks."""
    assert conflict_cycles(LANES * size, size, write) == (8 if size == 12 and not write else 0)


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("size", [4, 8, 12, 16])
def test_one_address_is_a_broadcast(size: int, write: bool) -> None:
    assert conflict_cycles(LANES * 0 + 256, size, write) == 0


@pytest.mark.parametrize(("size", "write"), [(s, w) for s in (4, 8, 12, 16) for w in (False, True)])
def test_same_bank_different_words(size: int, write: bool) -> None:
    """A stride of all banks puts a phase on one bank: an extra cycle for each of its lanes but the first."""
    phases = phases_of(size, write)
    assert conflict_cycles(LANES * phases.banks * 4, size, write) == 64 - len(phases.lanes)


def test_two_way_conflict_of_read_b64() -> None:
    """Phases {0-31} and {32-63}: a stride of 16 bytes covers the 64 banks twice in each."""
    assert conflict_cycles(LANES * 16, 8, write=False) == 2


def test_idle_lanes_do_not_conflict() -> None:
    assert conflict_cycles(LANES * 256, 4, write=False, lanes=LANES < 1) == 0


def transposed_value_read(pad: int) -> np.ndarray:
    """Lane addresses of V^T for v_mfma_f32_32x32x16_bf16: rows (keys) of 128 + pad halves, 32 columns from the first.

    Lanes 0-15 and 16-31 hold columns 0-15 and 16-31 of keys 0-3, lanes 32-63 the same of keys 8-11; of its group of 16,
    lane i asks for 4 halves of key i / 4.
    """
    group, lane = LANES // 16, LANES % 16
    key = 8 * (group // 2) + lane // 4
    column = 16 * (group % 2) + 4 * (lane % 4)
    return (key * (128 + pad) + column) * 2


# Published for the dense kernel on an MI355X, in a unit that is not said.
PUBLISHED_CONFLICTS = {0: 30, 8: 29, 16: 11, 32: 0}


def test_v_pad_sweep_of_the_dense_kernel() -> None:
    found = {pad: lds_access(transposed_value_read(pad), 8, transposed=True).conflict_cycles for pad in (0, 8, 16, 32)}
    assert found == {0: 6, 8: 6, 16: 2, 32: 0}
    for pad, published in PUBLISHED_CONFLICTS.items():
        assert abs(found[pad] / found[0] - published / PUBLISHED_CONFLICTS[0]) < 0.04


def test_every_step_of_the_tile_has_the_conflicts_of_the_first() -> None:
    """d 128 in 4 column steps, 64 keys in 4 steps of 16, two reads each: offsets shift all banks alike."""
    for pad in PUBLISHED_CONFLICTS:
        first = lds_access(transposed_value_read(pad), 8, transposed=True)
        for key in (0, 4, 16, 20, 32, 36, 48, 52):
            for column in (0, 32, 64, 96):
                shifted = transposed_value_read(pad) + (key * (128 + pad) + column) * 2
                assert lds_access(shifted, 8, transposed=True) == first


def test_sweep_as_the_emulator_counts_it() -> None:
    """The same addresses in executed code."""
    addresses = torch.from_numpy(transposed_value_read(16).astype(np.int32))
    body = ["v_lshlrev_b32 v1, 2, v0", "global_load_dword v2, v1, s[4:5]", "s_waitcnt vmcnt(0)",
            "ds_read_b64_tr_b16 v[4:5], v2 offset:64", "s_waitcnt lgkmcnt(0)"]  # fmt: skip
    counters = run_body(body, [addresses], lds=16 * 1024).counters
    assert counters["SQ_LDS_BANK_CONFLICT"] == 2
    assert counters["SQ_LDS_IDX_ACTIVE"] == 4


def test_cost_of_one_access() -> None:
    cost = lds_access(LANES * 16, 8)
    assert (cost.phases, cost.conflict_cycles, cost.cycles, cost.degree, cost.measured) == (2, 2, 4, 2, True)
    assert lds_access(LANES * 16, 4, write=True).measured is False
    # The first 16 lanes of each phase alone have 4 of the 64 banks each.
    assert lds_access(np.where(LANES % 32 < 16, LANES * 16, -1), 8).conflict_cycles == 0


@pytest.mark.parametrize(
    ("addresses", "width", "options"),
    [(range(32), 4, {}), (range(64), 3, {}), (range(64), 16, {"transposed": True}),
     (range(64), 8, {"transposed": True, "write": True})],
)  # fmt: skip
def test_accesses_that_no_instruction_makes(addresses: range, width: int, options: dict[str, bool]) -> None:
    with pytest.raises(ParameterError):
        lds_access(addresses, width, **options)


def test_counters_of_a_run() -> None:
    """ds_write_b32 at a stride of 128 bytes: 32 lanes a phase on one of 32 banks, two phases."""
    body = ["v_lshlrev_b32 v1, 7, v0", "v_mov_b32 v2, 1", "ds_write_b32 v1, v2", "s_waitcnt lgkmcnt(0)"]
    counters = run_body(body, [torch.zeros(1)], lds=64 * 128).counters
    assert counters["SQ_LDS_BANK_CONFLICT"] == 62
    assert counters["SQ_LDS_IDX_ACTIVE"] == 64
    assert counters["SQ_INSTS_LDS"] == 1
    assert counters["SQ_WAVES"] == 1
