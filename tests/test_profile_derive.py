"""Derived figures: against hand-computed values of real profiles, and the faults that such figures are known for."""

import csv

import pytest
from profile_files import FIXTURES, write_agent_info, write_rocprofv3

from workbench.errors import ProfileError
from workbench.profile import derive, read
from workbench.profile.definitions import architectures, definitions
from workbench.profile.formula import CONSTANTS, DURATION


def only_group(profile, **options):
    (group,) = derive(profile, **options).groups
    return group


def gfx950(tmp_path, *dispatches, xcds=8):
    """The profile of dispatches of kernel k, each given by its counters."""
    write_rocprofv3(tmp_path / "run_counter_collection.csv", [(n, "k", c) for n, c in enumerate(dispatches, 1)])
    write_agent_info(tmp_path / "run_agent_info.csv", xcds=xcds)
    return read(tmp_path)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (
            "micro_tk(micro_globals)",
            {
                "l2_hit_rate": "80.5911", "mfma_utilisation": "71.3744", "waves_per_cu": "6.22918",
                "occupancy": "19.4662", "waves_per_cu_level": "6.24363", "lds_conflict_rate": "0",
                "hbm_read_bytes": "12084034432", "hbm_write_bytes": "2020489888", "waves": str(60 * 2048),
                "mfma_flops": str(60 * 2 * 4096**3), "clock": "1.63956",
            },
        ),
        (
            "Cijk_MT256x224x64",
            {
                "l2_hit_rate": "72.5518", "mfma_utilisation": "76.0573", "waves_per_cu": "3.53917",
                "occupancy": "11.0599", "waves_per_cu_level": "3.51614", "lds_conflict_rate": "0",
                "hbm_read_bytes": "18660664896", "hbm_write_bytes": "2013265920", "waves": str(60 * 1216),
            },
        ),
    ],
)  # fmt: skip
def test_gemm_on_gfx942(kernel, expected):
    """The counters of 60 launches of each GEMM on an MI325X, folded into two."""
    group = derive(read(FIXTURES / "workload_wide")).find(kernel)
    for name, digits in expected.items():
        value = group[name].value
        assert value is not None, name
        assert f"{value:.{max(6, len(digits.replace('.', '')))}g}" == digits, name
    assert not any(metric.suspect for metric in group.metrics)
    assert {metric.evidence for metric in group.metrics} == {"measured"}


def test_a_single_pass_gives_its_own_ratio():
    group = derive(read(FIXTURES / "workload_wide" / "SQ_LEVEL_WAVES.csv")).find("micro_tk(micro_globals)")
    assert group["waves_per_cu"].value == pytest.approx(6.24315, abs=5e-6)
    assert group["waves_per_cu_level"].value == pytest.approx(6.24363, abs=5e-6)
    assert group["mfma_utilisation"].note == "n/a, needs SQ_VALU_MFMA_BUSY_CYCLES; or MfmaUtil"


def test_copy_on_gfx942():
    group = only_group(read(FIXTURES / "workload_long"))
    assert group["l2_hit_rate"].value == pytest.approx(34.3047, abs=5e-5)
    assert group["waves_per_cu"].value == pytest.approx(6.38213, abs=5e-6)
    assert group["waves"].value == 49152
    assert group["hbm_read_bytes"].value == 25_200_448
    assert group["hbm_write_bytes"].value == 25_165_824
    assert group["mfma_utilisation"].value == 0
    assert group["waves_per_cu_level"].note == "n/a, needs SQ_LEVEL_WAVES_ACCUM, GRBM_GUI_ACTIVE in one pass"
    assert group["lds_conflict_rate"].note == "n/a: LDS served no indexed access (SQ_LDS_IDX_ACTIVE is 0)"


def test_a_clock_beyond_the_gpu_is_flagged():
    clock = only_group(read(FIXTURES / "workload_long"))["clock"]
    assert clock.suspect
    assert clock.note.startswith("IMPOSSIBLE: outside 0 to 3 GHz; launch overhead")


def test_copy_by_rocprof_v2_has_channels_and_no_times():
    group = only_group(read(FIXTURES / "rocprof_v2.csv"), device="mi300x")
    assert group["l2_hit_rate"].value == pytest.approx(33.3618, abs=5e-5)
    assert group["hbm_read_bytes"].value == 25_209_856
    assert group["mean_time"].note == "n/a, needs time stamps"
    assert group.duration_ns is None


def test_kibibytes_of_rocprof_v1_on_gfx90a():
    found = derive(read(FIXTURES / "rocprof_v1.csv"), "gfx90a")
    assert found.find("test_function_kernel")["hbm_read_bytes"].value == 6976
    assert found.find("test_function_kernel")["hbm_write_bytes"].value == 1044480 * 1024
    both = found.find("laplacian_kernel")["hbm_read_bytes"]
    assert both.value == (1979347.875 + 1985818.75) * 1024
    assert both.note == "from FETCH_SIZE"


def test_conflicts_of_attention_kernels_on_gfx950():
    found = derive(read(FIXTURES / "rocprofv3"))
    conflicts = {group.kernel: group["lds_conflicts_per_instruction"] for group in found.groups}
    assert conflicts["_attn_fwd"].value == pytest.approx(0.515091, abs=5e-7)
    assert conflicts["void attend_ker<64>(attn_globals<64>)"].value == 0
    assert found.find("_attn_fwd").duration_ns == 4_650_000
    assert found.find("_attn_fwd")["lds_conflict_rate"].note == "n/a, needs SQ_LDS_IDX_ACTIVE"


@pytest.mark.parametrize(
    ("dispatch", "time", "read_bytes", "hits", "tensor", "warps"),
    [
        (0, 186_080, 7_867_392, 3.98, 3.82, 6.25),
        (1, 8_544, 7_862_784, 34.34, 4.07, 17.33),
        (2, 6_048, 2_949_376, 17.90, 0, 3.12),
        (3, 253_664, 12_597_248, 96.73, 8.75, 46.38),
        (4, 87_008, 12_616_960, 81.11, 18.80, 11.03),
        (5, 32_992, 4_219_904, 90.16, 53.98, 14.13),
    ],
)
def test_attention_kernels_on_sm_90(dispatch, time, read_bytes, hits, tensor, warps):
    group = derive(read(FIXTURES / "ncu_raw.csv"), by="dispatch").groups[dispatch]
    names = ("mean_time", "dram_read_bytes", "l2_hit_rate", "tensor_utilisation", "occupancy")
    assert [group[name].value for name in names] == [time, read_bytes, hits, tensor, warps]


def test_percentages_of_several_launches_are_weighed_or_refused(tmp_path):
    group = derive(read(FIXTURES / "ncu_raw.csv")).find("kernel_unified_attention")
    assert group["l2_hit_rate"].value is None
    assert "2 launches give 3.98 to 96.73" in group["l2_hit_rate"].note
    path = tmp_path / "ncu.csv"
    path.write_text(
        '"ID","Kernel Name","lts__t_sector_hit_rate.pct","lts__t_sectors.sum"\n"","","%",""\n'
        '"0","k","90","100"\n"1","k","1","900"\n'
    )
    assert only_group(read(path))["l2_hit_rate"].value == pytest.approx(9.9)


def test_details_page_without_an_architecture():
    group = derive(read(FIXTURES / "ncu_details.csv"), by="dispatch").groups[0]
    assert group["dram_bandwidth"].value == pytest.approx(658.53, abs=5e-3)
    assert group["dram_utilisation"].value == 73.11
    assert group["tensor_instructions"].value == 0


def test_json_instances_are_summed():
    group = only_group(read(FIXTURES / "rocprofv3.json"))
    assert group["l2_hit_rate"].value == 90
    assert group["clock"].value == pytest.approx(2 * 800 / 8 / 1200)


MFMA = {"SQ_VALU_MFMA_BUSY_CYCLES": 512_000_000, "GRBM_GUI_ACTIVE": 8_000_000}


def test_a_clock_summed_over_xcds_is_divided_by_them(tmp_path):
    found = derive(gfx950(tmp_path, MFMA))
    assert found.groups[0]["mfma_utilisation"].value == 50
    assert "XCDs 8" in found.agents[0]


def test_an_unknown_partition_is_not_guessed(tmp_path):
    found = derive(gfx950(tmp_path, MFMA, xcds=""))
    utilisation = found.groups[0]["mfma_utilisation"]
    assert utilisation.value is None
    assert "the number of XCDs (partition mode)" in utilisation.note
    assert "XCDs unknown" in found.agents[0]
    assert derive(read(tmp_path), device="mi355x").groups[0]["mfma_utilisation"].value == 50


HITS = ((90, 10), (10, 990), (0, 0))


@pytest.mark.parametrize("channels", [0, 32])
def test_hits_are_pooled_over_dispatches_and_channels(tmp_path, channels):
    def counters(hits, misses):
        if not channels:
            return {"TCC_HIT_sum": hits, "TCC_MISS_sum": misses}
        spread = {f"TCC_HIT[{i}]": hits if i == 31 else 0 for i in range(channels)}
        return spread | {f"TCC_MISS[{i}]": misses if i == 3 else 0 for i in range(channels)}

    profile = gfx950(tmp_path, *(counters(*pair) for pair in HITS))
    assert only_group(profile)["l2_hit_rate"].value == pytest.approx(9.0909, abs=5e-5)
    third = derive(profile, by="dispatch").groups[2]["l2_hit_rate"]
    assert third.value is None
    assert third.note.startswith("n/a: no request reached L2")


def test_half_of_the_channels_is_told(tmp_path):
    counters = {f"TCC_HIT[{i}]": 1 for i in range(16, 32)} | {f"TCC_MISS[{i}]": 1 for i in range(32)}
    assert "TCC_HIT misses the instances 0..15; sums are too low" in only_group(gfx950(tmp_path, counters)).notes[0]


def test_unequal_passes_use_the_launches_that_both_have(tmp_path):
    a, b = tmp_path / "pass_1" / "a.csv", tmp_path / "pass_2" / "b.csv"
    write_rocprofv3(a, [(n, "k", {"TCC_HIT_sum": 10 * n}) for n in (1, 2, 3)])
    write_rocprofv3(b, [(n, "k", {"TCC_MISS_sum": 10 * n}) for n in (1, 2)])
    profile = read(tmp_path)
    rate = only_group(profile, arch="gfx950")["l2_hit_rate"]
    assert rate.value == 50
    assert "2 of 3 used" in rate.note
    assert profile.problems == (
        "passes saw different numbers of dispatches of k: 3 in pass_1/a.csv; 2 in pass_2/b.csv",
    )


def test_an_empty_column_was_not_collected(tmp_path):
    path = tmp_path / "pmc_perf.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Dispatch_ID", "Kernel_Name", "Grid_Size", "TCC_HIT_sum", "TCC_MISS_sum", "SQ_WAVES"])
        writer.writerows([[0, "k", 64, 10, 10, ""], [1, "k", 64, 20, 20, ""], [2, "k", 64, 30, "", ""]])
    profile = read(path)
    group = only_group(profile, arch="gfx942")
    assert group["l2_hit_rate"].value == 50
    assert group["waves"].note == "n/a, needs SQ_WAVES"
    assert profile.problems == ("pmc_perf.csv: empty columns, so not collected: SQ_WAVES",)


def test_a_zero_that_a_running_kernel_cannot_have_was_not_collected(tmp_path):
    good, bad = {**MFMA, "SQ_WAVES": 8}, {"SQ_VALU_MFMA_BUSY_CYCLES": 0, "GRBM_GUI_ACTIVE": 0, "SQ_WAVES": 0}
    group = only_group(gfx950(tmp_path, good, bad))
    assert group["mfma_utilisation"].value == 50
    assert "1 of 2 used" in group["mfma_utilisation"].note
    assert "GRBM_GUI_ACTIVE is 0 for 1 launches that ran" in group.notes[0]


def test_a_zero_beside_its_own_instructions_was_not_collected(tmp_path):
    counters = {"SQ_VALU_MFMA_BUSY_CYCLES": 0, "GRBM_GUI_ACTIVE": 8e6, "SQ_INSTS_MFMA": 100}
    utilisation = only_group(gfx950(tmp_path, counters))["mfma_utilisation"]
    assert utilisation.value is None
    assert utilisation.note.endswith("0 beside a positive SQ_INSTS_MFMA, so not collected")
    counters["SQ_INSTS_MFMA"] = 0
    assert only_group(gfx950(tmp_path, counters))["mfma_utilisation"].value == 0


def test_an_impossible_percentage_is_flagged(tmp_path):
    utilisation = only_group(gfx950(tmp_path, MFMA | {"SQ_VALU_MFMA_BUSY_CYCLES": 2 * 1024e6}))["mfma_utilisation"]
    assert utilisation.value == 200
    assert utilisation.suspect
    assert "IMPOSSIBLE" in utilisation.note


def test_the_tools_own_percentages_are_weighed_by_cycles(tmp_path):
    profile = gfx950(tmp_path, {"MfmaUtil": 10, "GRBM_GUI_ACTIVE": 900}, {"MfmaUtil": 90, "GRBM_GUI_ACTIVE": 100})
    assert only_group(profile)["mfma_utilisation"].value == 18


def test_reads_on_gfx950_count_each_size(tmp_path):
    sizes = {"TCC_EA0_RDREQ_32B_sum": 1, "TCC_EA0_RDREQ_64B_sum": 2, "TCC_EA0_RDREQ_128B_sum": 3}
    old = {"FETCH_SIZE": 1, "TCC_EA0_RDREQ_sum": 6, "TCC_BUBBLE_sum": 0}
    assert only_group(gfx950(tmp_path, sizes | old))["hbm_read_bytes"].value == 32 + 128 + 384
    missing = only_group(gfx950(tmp_path, old))["hbm_read_bytes"]
    assert missing.note == "n/a, needs TCC_EA0_RDREQ_32B_sum, TCC_EA0_RDREQ_64B_sum, TCC_EA0_RDREQ_128B_sum"


def test_matrix_work_names_the_types_that_were_not_counted(tmp_path):
    work = only_group(gfx950(tmp_path, {"SQ_INSTS_VALU_MFMA_MOPS_BF16": 3}))["mfma_flops"]
    assert work.value == 1536
    assert "SQ_INSTS_VALU_MFMA_MOPS_F8" in work.note
    assert "XF32" not in work.note


def test_the_architecture_must_be_known_and_must_agree():
    profile = read(FIXTURES / "rocprof_v1.csv")
    with pytest.raises(ProfileError, match="give --arch, one of gfx90a, gfx942, gfx950"):
        derive(profile)
    with pytest.raises(ProfileError, match="no figures are defined for 'gfx803'"):
        derive(profile, "gfx803")
    with pytest.raises(ProfileError, match="the files are of gfx950, but gfx942 was given"):
        derive(read(FIXTURES / "rocprofv3"), "gfx942")
    with pytest.raises(ProfileError, match="the device is a gfx950, but the architecture given is gfx942"):
        derive(profile, "gfx942", device="mi355x")


def test_emulated_figures_say_so(tmp_path):
    path = write_rocprofv3(tmp_path / "a.csv", [(1, "k", {"SQ_LDS_BANK_CONFLICT": 1, "SQ_LDS_IDX_ACTIVE": 4})])
    path.write_text(path.read_text().replace("Agent 2", "Emulated gfx950"))
    rate = only_group(read(path))["lds_conflict_rate"]
    assert (rate.value, rate.evidence) == (25, "emulated")


def test_frame_has_a_row_for_each_figure():
    frame = derive(read(FIXTURES / "workload_wide")).to_frame()
    assert len(frame) == 2 * len(definitions("gfx942").metrics)
    row = frame[(frame["kernel"] == "micro_tk(micro_globals)") & (frame["metric"] == "l2_hit_rate")].iloc[0]
    assert (row["unit"], row["used"], row["launches"], row["evidence"]) == ("%", 2, 2, "measured")


@pytest.mark.parametrize("architecture", architectures())
def test_every_definition_is_complete(architecture):
    known = definitions(architecture)
    names = [metric.name for metric in known.metrics]
    assert len(names) == len(set(names))
    for metric in known.metrics:
        assert metric.meaning
        assert metric.source
        assert metric.formulas
        assert [reading.below for reading in metric.readings[-1:]] in ([], [None])
        for formula in metric.formulas:
            assert set(formula.constants) <= set(CONSTANTS)
            assert formula.counters or formula.optional
    assert DURATION in known.counters or architecture in ("nvidia", "sm_90")
