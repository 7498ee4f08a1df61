"""LDS bank conflicts: hand-made patterns whose cycles are known, for each width and direction."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.emulator_asm import run_body
from workbench.gfx950.emulator.banks import conflict_cycles, phases_of

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


def test_counters_of_a_run() -> None:
    """ds_write_b32 at a stride of 128 bytes: 32 lanes a phase on one of 32 banks, two phases."""
    body = ["v_lshlrev_b32 v1, 7, v0", "v_mov_b32 v2, 1", "ds_write_b32 v1, v2", "s_waitcnt lgkmcnt(0)"]
    counters = run_body(body, [torch.zeros(1)], lds=64 * 128).counters
    assert counters["SQ_LDS_BANK_CONFLICT"] == 62
    assert counters["SQ_LDS_IDX_ACTIVE"] == 64
    assert counters["SQ_INSTS_LDS"] == 1
    assert counters["SQ_WAVES"] == 1
