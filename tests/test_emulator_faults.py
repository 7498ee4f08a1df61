"""Planted faults: each is caught and explained in one line."""

from __future__ import annotations

import pytest
import torch

from tests.emulator_asm import kernel, run_body
from workbench.errors import EmulationError
from workbench.gfx950.emulator import EmulationResult, emulate

LANE = ["v_lshlrev_b32 v1, 2, v0"]
STORE = ["global_store_dword v1, v2, s[6:7]"]


def _findings(result: EmulationResult, kind: str) -> str:
    found = [finding for finding in result.findings if finding.kind == kind]
    assert len(found) == 1, result.describe()
    assert "\n" not in str(found[0])
    return str(found[0])


def _pair() -> list[torch.Tensor]:
    return [torch.arange(64, dtype=torch.int32) + 7, torch.zeros(64, dtype=torch.int32)]


def test_clean_code_has_no_findings() -> None:
    tensors = _pair()
    result = run_body([*LANE, "global_load_dword v2, v1, s[4:5]", "s_waitcnt vmcnt(0)", *STORE], tensors)
    assert result.findings == ()
    assert torch.equal(tensors[0], tensors[1])
    assert result.written == ("argument 1",)


def test_removed_wait_reads_the_old_register() -> None:
    tensors = _pair()
    result = run_body(["v_mov_b32 v2, 5", *LANE, "global_load_dword v2, v1, s[4:5]", *STORE], tensors)
    text = _findings(result, "missing-wait")
    assert "global_store_dword" in text
    assert "reads v2 before an s_waitcnt vmcnt has made the result of" in text
    assert (tensors[1] == 5).all()


def test_a_counted_wait_delivers_the_oldest_load_only() -> None:
    tensors = _pair()
    body = [*LANE, "v_mov_b32 v3, 1", "global_load_dword v2, v1, s[4:5]", "global_load_dword v3, v1, s[4:5]",
            "s_waitcnt vmcnt(1)", *STORE]  # fmt: skip
    assert run_body(body, tensors).findings == ()
    text = _findings(run_body([*body[:-1], "global_store_dword v1, v3, s[6:7]"], tensors), "missing-wait")
    assert "reads v3" in text


def test_a_full_counter_stands_for_a_wait() -> None:
    """63 vector operations can be outstanding, and 15 LDS operations: the next one starts when the oldest is over."""
    tensors = _pair()
    loads = ["global_load_dword v2, v1, s[4:5]", *(f"global_load_dword v{i}, v1, s[4:5]" for i in range(3, 66))]
    assert run_body([*LANE, *loads, *STORE], tensors).findings == ()
    assert torch.equal(tensors[0], tensors[1])
    assert "reads v2" in _findings(run_body([*LANE, *loads[:-1], *STORE], tensors), "missing-wait")

    stored = [*LANE, "ds_write_b32 v1, v0", "s_waitcnt lgkmcnt(0)"]
    reads = [f"ds_read_b32 v{i}, v1" for i in range(2, 18)]
    assert run_body([*stored, *reads, *STORE], tensors, lds=256).findings == ()
    assert torch.equal(tensors[1], torch.arange(64, dtype=torch.int32))
    assert "reads v2" in _findings(run_body([*stored, *reads[:-1], *STORE], tensors, lds=256), "missing-wait")


EXCHANGE = ["v_lshlrev_b32 v1, 2, v0", "ds_write_b32 v1, v0", "s_waitcnt lgkmcnt(0)", "s_barrier",
            "v_xor_b32 v3, 0x100, v1",
            "ds_read_b32 v2, v3", "s_waitcnt lgkmcnt(0)", *STORE]  # fmt: skip


def _exchange(body: list[str]) -> tuple[EmulationResult, torch.Tensor]:
    tensors = [torch.zeros(1), torch.zeros(128, dtype=torch.int32)]
    return run_body(body, tensors, lds=1024, threads=128), tensors[1]


def test_barrier_orders_two_waves() -> None:
    result, out = _exchange(EXCHANGE)
    assert result.findings == ()
    assert torch.equal(out, torch.arange(128, dtype=torch.int32) ^ 64)


def test_removed_barrier_is_a_race() -> None:
    result, _ = _exchange([line for line in EXCHANGE if line != "s_barrier"])
    text = _findings(result, "lds-race")
    assert "ds_read_b32" in text
    assert "ds_write_b32" in text
    assert "no barrier lies between" in text


def _single_buffer(barrier_after_read: bool) -> list[str]:
    """A K tile in one LDS buffer: every step stores a tile, waits, and lets the other wave's half be read."""
    step = ["ds_write_b32 v1, v4", "s_waitcnt lgkmcnt(0)", "s_barrier", "ds_read_b32 v2, v3", "s_waitcnt lgkmcnt(0)"]
    step += ["s_barrier"] * barrier_after_read + ["v_add_u32 v4, 1, v4"]
    return ["v_lshlrev_b32 v1, 2, v0", "v_xor_b32 v3, 0x100, v1", "v_mov_b32 v4, v0", *step, *step, *STORE]


def test_single_k_buffer_write_after_read() -> None:
    assert _exchange(_single_buffer(True))[0].findings == ()
    text = _findings(_exchange(_single_buffer(False))[0], "lds-race")
    assert "races with the read by" in text or "races with the write by" in text


def test_a_wait_alone_does_not_end_an_access_before_the_barrier() -> None:
    body = [line for line in EXCHANGE if line != "s_waitcnt lgkmcnt(0)"]
    body.insert(-1, "s_waitcnt lgkmcnt(0)")
    assert "ds_write_b32" in _findings(_exchange(body)[0], "lds-race")


def test_one_row_too_far() -> None:
    tensors = _pair()
    with pytest.raises(EmulationError) as error:
        run_body([*LANE, "global_load_dword v2, v1, s[4:5] offset:4", "s_waitcnt vmcnt(0)", *STORE], tensors)
    text = str(error.value)
    assert "global_load_dword v2, v1, s[4:5] offset:4" in text
    assert "workgroup (0, 0, 0), wave 0, lane 63" in text
    assert "0 bytes past the end of argument 0 (256 bytes)" in text


def test_32_bit_wrap_past_2_gib() -> None:
    """Block 3 of 1 GiB, its byte offset computed in 32 bits and sign-extended."""
    tensors = [torch.empty(4 << 30, dtype=torch.uint8), torch.zeros(64, dtype=torch.int32)]
    address = ["v_mov_b32 v2, 3", "v_lshlrev_b32 v2, 30, v2", "{extend}", "v_mov_b32 v4, s5",
               "v_add_co_u32 v2, vcc, s4, v2", "v_addc_co_u32 v3, vcc, v4, v3, vcc",
               "global_load_dword v5, v[2:3], off", "s_waitcnt vmcnt(0)"]  # fmt: skip
    run_body([line.format(extend="v_mov_b32 v3, 0") for line in address], tensors)
    with pytest.raises(EmulationError, match=r"global_load_dword .* 1073741824 bytes before argument 0"):
        run_body([line.format(extend="v_ashrrev_i32 v3, 31, v2") for line in address], tensors)


LOAD_LDS = [*LANE, "ds_read_b32 v2, v1", "s_waitcnt lgkmcnt(0)"]


def test_uninitialised_lds_is_a_suspicion_until_it_is_used() -> None:
    result = run_body([*LOAD_LDS, "v_mov_b32 v2, 1", *STORE], _pair(), lds=256, strict=True)
    assert "lane 0 reads LDS byte 0, never written" in _findings(result, "lds-uninitialised")
    assert len(result.findings) == 1


@pytest.mark.parametrize(
    ("use", "what"),
    [
        (STORE, "uses v2, never defined"),
        (["v_add_u32 v4, v2, v2", "v_lshl_add_u32 v4, v4, 1, v1", "global_store_dword v1, v4, s[6:7]"], "uses v4"),
        (["v_and_b32 v2, 0, v2", "global_load_dword v3, v2, s[4:5]"], "uses v2"),
        (["v_cmp_eq_u32 vcc, 0, v2", "s_cbranch_vccnz .LEND", ".LEND:"], "uses vcc_lo, vcc_hi"),
        (["v_cmp_eq_u32 vcc, 0, v2", "s_and_saveexec_b64 s[12:13], vcc"], "uses vcc_lo, vcc_hi"),
        (["v_readfirstlane_b32 s12, v2", "s_and_b32 s12, s12, 0", "s_load_dword s13, s[4:5], s12"], "uses s12"),
    ],
    ids=["store", "sums", "address", "branch", "exec", "scalar address"],
)
def test_uninitialised_lds_that_is_used(use: list[str], what: str) -> None:
    text = _findings(run_body([*LOAD_LDS, *use], _pair(), lds=256), "undefined-use")
    assert what in text
    assert "the value comes from LDS byte 0, which nobody wrote, first read at line" in text
    assert "ds_read_b32 v2, v1" in text
    with pytest.raises(EmulationError, match=r"undefined-use: .*LDS byte 0, which nobody wrote"):
        run_body([*LOAD_LDS, *use], _pair(), lds=256, strict=True)


def test_undefined_values_stay_with_their_wave() -> None:
    """Wave 0 stores what it reads back from LDS; wave 1 reads LDS that nobody wrote, and stores something else."""
    body = [*LANE, "v_readfirstlane_b32 s12, v0", "s_cmp_eq_u32 s12, 0", "s_cbranch_scc0 .LREAD", "ds_write_b32 v1, v0",
            ".LREAD:", "s_waitcnt lgkmcnt(0)", "ds_read_b32 v2, v1", "s_waitcnt lgkmcnt(0)", "v_add_u32 v3, 1, v2",
            "s_cmp_eq_u32 s12, 0", "s_cbranch_scc1 .LSTORE", "v_mov_b32 v3, 5", ".LSTORE:",
            "global_store_dword v1, v3, s[6:7]"]  # fmt: skip
    tensors = [torch.zeros(1), torch.zeros(128, dtype=torch.int32)]
    run_body(body, tensors, lds=512, threads=128, strict=True)
    assert tensors[1].tolist() == [*range(1, 65), *[5] * 64]
    body.remove("v_mov_b32 v3, 5")
    text = _findings(run_body(body, tensors, lds=512, threads=128), "undefined-use")
    assert "wave 1: uses v3, never defined; the value comes from LDS byte 256" in text


def test_lds_bounds() -> None:
    body = [*LANE, "v_mov_b32 v2, 1", "ds_write_b32 v1, v2 offset:4", *STORE]
    text = _findings(run_body(body, _pair(), lds=256), "lds-bounds")
    assert "lane 63 accesses LDS byte 256, 4 bytes, of 256" in text


def test_undefined_register_that_reaches_memory() -> None:
    body = [*LANE, "v_add_u32 v2, 1, v9", *STORE]
    text = _findings(run_body(body, _pair()), "undefined-use")
    assert "uses v2, never defined; the value comes from v9, first read at" in text
    with pytest.raises(EmulationError, match="undefined-use"):
        run_body(body, _pair(), strict=True)


def test_undefined_register_that_does_not_matter() -> None:
    assert run_body([*LANE, "v_add_u32 v3, 1, v9", "v_mov_b32 v2, 1", *STORE], _pair()).findings == ()


def test_spilled_scalars_are_told_apart() -> None:
    """An undefined scalar that is spilled beside a defined one matters when it is that one which comes back."""
    spill = ["s_mov_b32 s20, 1", "v_writelane_b32 v40, s20, 0", "v_writelane_b32 v40, s21, 1"]

    def restored(lane: int) -> EmulationResult:
        return run_body([*LANE, *spill, f"v_readlane_b32 s22, v40, {lane}", "v_mov_b32 v2, s22", *STORE], _pair())

    assert restored(0).findings == ()
    assert "the value comes from s21" in _findings(restored(1), "undefined-use")
    assert "the value comes from a spilled scalar" in _findings(restored(2), "undefined-use")


def test_store_into_an_input() -> None:
    tensors = _pair()
    body = ["s_load_dwordx4 s[4:7], s[0:1], 0x0", "s_waitcnt lgkmcnt(0)", *LANE, "v_mov_b32 v2, 1",
            "global_store_dword v1, v2, s[4:5]"]  # fmt: skip
    result = emulate(kernel(body, pointers=2), (1,), tensors, outputs=["argument 1"])
    assert "stores into argument 0, which is an input" in _findings(result, "input-write")
    with pytest.raises(EmulationError, match="input-write"):
        emulate(kernel(body, pointers=2), (1,), tensors, outputs=["argument 1"], strict=True)


def test_a_barrier_that_half_the_workgroup_misses() -> None:
    body = ["v_readfirstlane_b32 s12, v0", "s_cmp_lt_u32 s12, 64", "s_cbranch_scc1 .LEND", "s_barrier",
            "s_branch .LWAIT",
            ".LEND:", "s_barrier", "s_barrier", ".LWAIT:", "s_nop 0"]  # fmt: skip
    assert _exchange(body)[0].findings == ()  # the rest has ended, so nobody is waited for


@pytest.mark.parametrize("seed", [None, 1])
def test_endless_loop(seed: int | None) -> None:
    """Wave 1 of two never leaves the inner loop."""
    body = ["v_readfirstlane_b32 s12, v0", ".LOUT:", "s_nop 0", ".LIN:", "s_cmp_lg_u32 s12, 0", "s_cbranch_scc1 .LIN",
            "s_cmp_lg_u32 s12, 0", "s_cbranch_scc1 .LOUT"]  # fmt: skip
    image = kernel(body, pointers=1, threads=128)
    with pytest.raises(EmulationError) as error:
        emulate(image, (1,), [torch.zeros(1)], seed=seed, max_instructions_per_wave=5000)
    text = str(error.value)
    assert "workgroup (0, 0, 0), wave 1 has executed 5,000 instructions without ending, in the loop of lines" in text
    lines = image.assembly.splitlines()
    inner, outer = (lines.index(f"\ts_cbranch_scc1 {label}") + 1 for label in (".LIN", ".LOUT"))
    assert f"..{inner} (s_cbranch_scc1 .LIN) inside the loop of lines" in text
    assert f"..{outer} (s_cbranch_scc1 .LOUT); a launch that needs more" in text


def test_a_long_loop_is_allowed() -> None:
    body = ["s_movk_i32 s12, 0x400", ".LOOP:", "s_sub_u32 s12, s12, 1", "s_cbranch_scc0 .LOOP"]
    count = emulate(kernel(body, pointers=1), (1,), [torch.zeros(1)]).wave_instructions
    emulate(kernel(body, pointers=1), (1,), [torch.zeros(1)], max_instructions_per_wave=count)
    with pytest.raises(EmulationError, match="without ending"):
        emulate(kernel(body, pointers=1), (1,), [torch.zeros(1)], max_instructions_per_wave=count - 1)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_seeds_change_the_order_not_the_result(seed: int) -> None:
    tensors = [torch.zeros(1), torch.zeros(128, dtype=torch.int32)]
    loads = [f"s_load_dwordx2 s[{4 + 2 * i}:{5 + 2 * i}], s[0:1], {8 * i:#x}" for i in range(2)]
    image = kernel([*loads, "s_waitcnt lgkmcnt(0)", *EXCHANGE], pointers=2, lds=1024, threads=128)
    assert emulate(image, (1,), tensors, seed=seed).findings == ()
    assert torch.equal(tensors[1], torch.arange(128, dtype=torch.int32) ^ 64)
