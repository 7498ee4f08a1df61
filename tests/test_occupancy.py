"""Occupancy: the arithmetic, the published cases, the next step, and LLVM's own figure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine_code import kernel_of, stored_kernel

from workbench.errors import ProblemError, TargetError
from workbench.gfx950.limits import limits_of
from workbench.gfx950.occupancy import (
    Occupancy,
    both_budgets,
    cap_note,
    llvm_occupancy,
    next_steps,
    occupancy_of,
    what_if,
)
from workbench.gfx950.resources import Resources

KB = 1024
GFX950, GFX942 = limits_of("gfx950"), limits_of("gfx942")


@pytest.mark.parametrize(
    ("vgprs", "waves"),
    [(1, 8), (64, 8), (65, 7), (72, 7), (73, 6), (80, 6), (96, 5), (128, 4), (129, 3), (168, 3), (169, 2), (257, 1)],
)
def test_waves_by_registers(vgprs, waves):
    assert Occupancy(GFX950, vgprs, 0, 4).waves_by_registers == waves


@pytest.mark.parametrize(
    ("vgprs", "lds", "warps", "workgroups", "limiter"),
    [
        (137, 0, 4, 3, "registers"),  # specification §4: the d64/b32 combo
        (128, 0, 4, 4, "registers"),  # and what one more wave takes
        (24, 0, 4, 8, "wave slots"),
        (24, 0, 1, 32, "wave slots"),
        (24, 0, 16, 2, "wave slots"),
        (64, 48 * KB, 4, 3, "LDS"),
        (64, 40 * KB, 4, 4, "LDS"),
        # 32 KB take 26 granules of 1280 bytes, and 5 x 26 exceed the 128 of a CU.
        (64, 32 * KB, 4, 4, "LDS"),
        (64, 32000, 4, 5, "LDS"),
        (200, 0, 8, 1, "registers"),
        (300, 0, 8, 0, "registers"),
        (64, 161 * KB, 4, 0, "LDS"),
        (168, 0, 2, 6, "registers"),
    ],
)
def test_workgroups_per_cu(vgprs, lds, warps, workgroups, limiter):
    occupancy = Occupancy(GFX950, vgprs, lds, warps)
    assert occupancy.workgroups_per_cu == workgroups
    assert occupancy.limiters == (limiter,)
    assert ("does not fit" in occupancy.describe()) == (workgroups == 0)


@pytest.mark.parametrize(("lds", "device", "specification"), [(48 * KB, 3, 1), (32 * KB, 4, 2)])
def test_both_lds_budgets_of_the_single_batch_study(lds, device, specification):
    budgets = both_budgets(Occupancy(GFX950, 215, lds, 2))
    assert [occupancy.workgroups_per_cu for occupancy in budgets.values()] == [device, specification]
    assert [name.split()[0] for name in budgets] == ["160", "64"]
    assert next(iter(both_budgets(Occupancy(GFX942, 215, lds, 2)).values())).workgroups_per_cu == specification


def test_gfx942_has_64_kb():
    assert Occupancy(GFX942, 64, 33 * KB, 4).workgroups_per_cu == 1
    assert len(both_budgets(Occupancy(GFX942, 64, 33 * KB, 4))) == 1


def test_steps_say_what_the_next_workgroup_takes():
    (step,) = next_steps(Occupancy(GFX950, 100, 0, 4))
    assert step.text == "4 fewer VGPRs (100 -> 96) -> 5 waves/SIMD: 5 workgroups/CU, then limited by registers"
    registers, lds = next_steps(Occupancy(GFX950, 64, 48 * KB, 4))[0], next_steps(Occupancy(GFX950, 65, 48 * KB, 4))[1]
    assert registers.text == "LDS 48 -> 40 KB: 4 workgroups/CU, then limited by LDS"
    assert lds.text == registers.text
    blocked = next_steps(Occupancy(GFX950, 176, 66 * KB, 4))
    assert [step.gains for step in blocked] == [False, False, True]
    assert blocked[2].text.startswith("8 fewer VGPRs (176 -> 168) and LDS 66 -> 52.5 KB: 3 workgroups/CU")


uses = st.builds(
    Occupancy,
    limits=st.sampled_from([GFX950, GFX942]),
    vgprs=st.integers(1, 512),
    lds_bytes=st.integers(0, 200 * KB),
    num_warps=st.sampled_from([1, 2, 3, 4, 6, 8, 16]),
)


@given(uses)
def test_a_step_is_the_least_saving(occupancy):
    for step in next_steps(occupancy):
        after = step.occupancy
        assert step.gains == (after.workgroups_per_cu > occupancy.workgroups_per_cu)
        if not step.gains:
            continue
        if after.vgprs != occupancy.vgprs:
            assert what_if(after, vgprs=after.vgprs + 1).workgroups_per_cu < after.workgroups_per_cu
        if after.lds_bytes != occupancy.lds_bytes:
            assert what_if(after, lds_bytes=after.lds_bytes + 1).workgroups_per_cu < after.workgroups_per_cu


@given(uses)
def test_no_resource_is_overdrawn_and_one_more_workgroup_would_overdraw(occupancy):
    limits, count = occupancy.limits, occupancy.workgroups_per_cu

    def fits(workgroups):
        waves = workgroups * occupancy.num_warps
        on_fullest_simd = -(-waves // limits.simds)
        return (
            on_fullest_simd * occupancy.allocated_vgprs <= limits.vgprs
            and workgroups * occupancy.allocated_lds <= limits.lds_bytes
            and waves <= limits.wave_slots
            and (occupancy.num_warps == 1 or workgroups <= limits.workgroups)
        )

    assert fits(count)
    assert not fits(count + 1)


def test_what_if_checks_its_input():
    occupancy = Occupancy(GFX950, 64, 0, 4)
    assert what_if(occupancy, num_warps=8).num_warps == 8
    for change in ({"vgprs": -1}, {"lds_bytes": 1.5}, {"num_warps": 0}):
        with pytest.raises(ProblemError, match=next(iter(change))):
            what_if(occupancy, **change)
    with pytest.raises(TargetError, match="gfx950, gfx942"):
        limits_of("gfx1100")


def test_the_kernels_own_figures_are_the_default():
    resources = stored_kernel("two_kernels.s", "attend_large").resources
    occupancy = occupancy_of(resources, GFX950)
    assert (occupancy.vgprs, occupancy.lds_bytes, occupancy.num_warps) == (200, 49152, 8)
    assert occupancy_of(resources, GFX950, lds_bytes=0, num_warps=4).workgroups_per_cu == 2


def test_reserved_registers_above_the_used_ones_are_pointed_out():
    capped = Resources(vgprs=147, vgprs_reserved=169)
    assert "uses 147 vector registers but reserves 169, which caps a SIMD at 2 waves; 3 would fit" in cap_note(
        capped, GFX950
    )
    assert "caps a SIMD at 1 wave; 3 would fit" in cap_note(Resources(vgprs=147, vgprs_reserved=300), GFX950)
    assert cap_note(kernel_of("\ts_endpgm", vgprs=64).resources, GFX950) is None


# What LLVM printed for kernels of inline assembly: reserved VGPRs, SGPRs, and `; Occupancy`. The first list is of the
# LLVM in Triton 3.6, the second of the one in Triton 3.9; both say the same for gfx942.
PRINTED_BEFORE = [
    (24, 12, 8),
    (65, 12, 7),
    (80, 12, 6),
    (128, 12, 4),
    (129, 12, 3),
    (168, 12, 3),
    (256, 12, 2),
    (257, 12, 1),
]
PRINTED_BEFORE += [(2, 46, 8), (2, 86, 8), (2, 94, 8), (2, 100, 8), (2, 102, 7), (2, 108, 7), (81, 12, 5)]
PRINTED_MODERN = [
    (24, 12, 8),
    (65, 12, 7),
    (80, 12, 6),
    (128, 12, 4),
    (129, 12, 3),
    (168, 12, 3),
    (256, 12, 2),
    (257, 12, 1),
]
PRINTED_MODERN += [(2, 46, 8), (2, 86, 7), (2, 94, 7), (2, 100, 6), (2, 102, 6), (2, 108, 6), (97, 12, 4)]


@pytest.mark.parametrize("limits", [GFX950, GFX942], ids=["gfx950", "gfx942"])
@pytest.mark.parametrize(
    ("modern", "vgprs", "sgprs", "printed"),
    [(False, *row) for row in PRINTED_BEFORE] + [(True, *row) for row in PRINTED_MODERN],
)
def test_llvm_occupancy_is_what_llvm_printed(limits, modern, vgprs, sgprs, printed):
    resources = Resources(vgprs=vgprs, vgprs_reserved=vgprs, sgprs=sgprs)
    assert llvm_occupancy(resources, limits, modern=modern) == printed
