"""Every format becomes the same table, found by its content; damaged and foreign files are refused by name."""

import math
import shutil
import sqlite3
from contextlib import closing

import pytest
from profile_files import FIXTURES, write_agent_info, write_rocpd, write_rocprofv3

from workbench.errors import ProfileError
from workbench.gfx950.emulator.rocprof_csv import AGENT, COLUMNS
from workbench.profile import read
from workbench.profile.table import short_name
from workbench.profile.text import number, uses_decimal_comma

COUNTERS = {"SQ_WAVES": 4.0, "SQ_INSTS_LDS": 8.0}


def launches(profile) -> list[tuple]:
    wanted = ["dispatch", "kernel", "grid", "workgroup", "vgpr", "agpr", "sgpr", "lds", "scratch", "duration_ns"]
    return [tuple(row) for row in profile.dispatches[wanted].itertuples(index=False)]


def test_rocprofv3_folder_joins_its_agent_info():
    profile = read(FIXTURES / "rocprofv3")
    assert profile.tool == "rocprofv3"
    assert profile.evidence == "measured"
    assert profile.architectures == ("gfx950",)
    assert len(profile.table) == 8
    assert profile.problems == ()
    assert launches(profile)[1] == (2, "_attn_fwd", "2097152", "256", 64, 0, 32, 0, 0, 2300000.0)
    assert "void fill<float, 4>(at::native::(anonymous namespace)::Range, float)" in set(profile.table["kernel"])


def test_one_file_finds_the_agent_info_beside_it():
    profile = read(FIXTURES / "rocprofv3" / "run_counter_collection.csv")
    assert profile.agents["2"].xcds == 8
    assert profile.architectures == ("gfx950",)


def test_the_name_of_a_file_does_not_matter(tmp_path):
    for name in ("rocprof_v1.csv", "ncu_raw.csv", "rocprofv3.json"):
        odd = shutil.copy(FIXTURES / name, tmp_path / f"{name}.txt")
        assert read(odd).table["value"].tolist() == pytest.approx(read(FIXTURES / name).table["value"].tolist())


def test_columns_that_rocpd_convert_adds(tmp_path):
    plain = write_rocprofv3(tmp_path / "a.csv", [(1, "k", COUNTERS)])
    header, *rows = plain.read_text().splitlines()
    converted = tmp_path / "b.csv"
    converted.write_text("\n".join([f'"Pid",{header}', *(f"77,{row}" for row in rows)]) + "\n")
    assert launches(read(converted)) == launches(read(plain))


def test_first_rocprofv3_had_neither_times_nor_accumulators(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Name,Workgroup_Size,"
        "LDS_Block_Size,Scratch_Size,VGPR_Count,SGPR_Count,Counter_Name,Counter_Value\n"
        '1,1,1,1,7,7,64,"k.kd",64,0,0,8,16,"SQ_WAVES",1\n'
    )
    profile = read(path)
    row = profile.dispatches.iloc[0]
    assert (row["kernel"], row["vgpr"], row["agpr"]) == ("k", 8, None)
    assert math.isnan(row["duration_ns"])


def test_kernel_trace_has_launches_and_no_counters(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(
        '"Kind","Agent_Id","Queue_Id","Kernel_Id","Dispatch_Id","Kernel_Name","Start_Timestamp","End_Timestamp",'
        '"Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
        '"KERNEL_DISPATCH","Agent 2",1,1,1,"k",100,350,64,2,1,1024,2,1\n'
    )
    profile = read(path)
    assert launches(profile)[0][:4] == (1, "k", "1024x2x1", "64x2x1")
    assert profile.dispatches["duration_ns"].tolist() == [250.0]
    assert "no counters were collected" in profile.problems[0]


def test_json_sums_instances_and_joins_names():
    profile = read(FIXTURES / "rocprofv3.json")
    assert launches(profile)[0] == (1, "copy", "1024x2x1", "64x2x1", 24, 8, 48, 1024, 0, 600.0)
    assert profile.architectures == ("gfx942",)
    sums = profile.table.groupby(["dispatch", "counter"])["value"].sum()
    assert (sums[1, "TCC_HIT"], sums[2, "TCC_HIT"], sums[1, "GRBM_GUI_ACTIVE"]) == (90, 180, 800)


def test_rocpd_with_and_without_counters(tmp_path):
    counted = read(write_rocpd(tmp_path / "a.db", [(1, "k", 500, COUNTERS), (2, "k", 700, COUNTERS)]))
    assert launches(counted)[1] == (2, "k", "1024x1x128", "256x1x1", 120, 8, 48, 16384, 0, 700.0)
    assert counted.agents["2"].describe().startswith("gfx942: CUs 304, XCDs 8")
    assert len(counted.table) == 4
    bare = read(write_rocpd(tmp_path / "b.db", [(1, "k", 500, {})]))
    assert bare.table["counter"].isna().all()
    assert "no counters were collected" in bare.problems[0]


def test_merged_passes_are_told_apart():
    """Repeated columns mark the passes; the accumulator is named after the counter in front of it."""
    table = read(FIXTURES / "workload_wide" / "pmc_perf.csv").table
    where = table.groupby("counter")["pass"].unique().map(list)
    assert where["SQ_WAVES"] == ["pmc_perf.csv #3", "pmc_perf.csv #4"]
    assert where["GRBM_GUI_ACTIVE"] == ["pmc_perf.csv #3", "pmc_perf.csv #4"]
    assert where["SQ_IFETCH_LEVEL_ACCUM"] == ["pmc_perf.csv #3"]
    assert where["SQ_LEVEL_WAVES_ACCUM"] == ["pmc_perf.csv #4"]
    assert not [name for name in where.index if name.startswith(("SQ_ACCUM", "wave_size", "obj"))]
    assert set(table["kernel"]) == {"micro_tk(micro_globals)", "Cijk_MT256x224x64"}


def test_a_long_workload_has_a_pass_for_each_start_time():
    profile = read(FIXTURES / "workload_long")
    passes = profile.table.groupby("counter")["pass"].unique().map(list)
    assert profile.table["pass"].nunique() == 8
    assert passes["SQ_WAVE_CYCLES"] == passes["GRBM_GUI_ACTIVE"] != passes["SQ_LEVEL_WAVES_ACCUM"]
    assert len(profile.dispatches) == 3


def test_an_xcd_count_that_cannot_be_is_replaced_and_told():
    profile = read(FIXTURES / "workload_wide")
    assert profile.agents["*"].xcds == 8
    assert "1 XCD for 304 CUs" in profile.problems[0]


def test_time_stamps_that_a_spreadsheet_ruined_are_no_times():
    profile = read(FIXTURES / "rocprof_v2.csv")
    assert profile.dispatches["duration_ns"].isna().all()
    assert "time stamps without their digits" in profile.problems[0]


def test_ncu_raw_page_behind_program_output():
    profile = read(FIXTURES / "ncu_raw.csv")
    assert len(profile.dispatches) == 6
    assert profile.architectures == ("sm_90",)
    row = profile.dispatches.iloc[0]
    assert (row["grid"], row["workgroup"], row["vgpr"], row["lds"]) == ("6x2x1", "128x1x1", 90, 21760)
    times = profile.table[profile.table["counter"] == "gpu__time_duration.sum"]
    assert times["value"].tolist() == [186080, 8544, 6048, 253664, 87008, 32992]
    assert set(times["unit"]) == {"ns"}


def test_ncu_details_page_in_base_units_with_bom_and_crlf():
    profile = read(FIXTURES / "ncu_details.csv")
    first = profile.table[profile.table["dispatch"] == 0].set_index("counter")
    assert first.loc["Duration", ["value", "unit"]].tolist() == [211232.0, "ns"]
    assert first.loc["Memory Throughput", "unit"] == "%"
    assert first.loc["Memory Workload Analysis: Memory Throughput", "value"] == pytest.approx(658.5e9)
    assert profile.dispatches["vgpr"].tolist() == [64, 64]


NCU = "==WARN== first\n==WARN== second\n{header}\n{units}\n{row}\n==PROF== Disconnected\nprogram, said, this\n"


def ncu(tmp_path, header: str, units: str, row: str):
    path = tmp_path / "ncu.csv"
    path.write_text(NCU.format(header=header, units=units, row=row))
    return read(path)


@pytest.mark.parametrize("extra", ["", ',"x","y","z"'])
def test_ncu_units_row_is_no_kernel_and_columns_never_shift(tmp_path, extra):
    more = extra.replace("x", "1").replace("y", "(!) nan").replace("z", "on")
    header = f'"ID","Kernel Name","sm__cycles_elapsed.max"{extra},"sm__throughput.avg.pct"'
    profile = ncu(
        tmp_path, header, '"","","cycle"' + extra.replace("x", "").replace("y", "").replace("z", "") + ',"%"',
        f'"0","k","1,234,567"{more},"83.2"',
    )  # fmt: skip
    values = profile.table.set_index("counter")
    assert profile.dispatches["kernel"].tolist() == ["k"]
    assert values.loc["sm__cycles_elapsed.max", "value"] == 1234567
    assert values.loc["sm__throughput.avg.pct", ["value", "unit"]].tolist() == [83.2, "%"]
    if extra:
        assert values.loc["x", "value"] == 1
        assert math.isnan(values.loc["y", "value"])
        assert "z" not in values.index


def test_ncu_repeated_columns_are_told_and_kept_apart(tmp_path):
    profile = ncu(tmp_path, '"ID","Kernel Name","a","a"', '"","","",""', '"0","k","1","2"')
    assert dict(zip(profile.table["counter"], profile.table["value"], strict=True)) == {"a": 1, "a (2)": 2}
    assert "repeated columns" in " ".join(profile.problems)


def test_numbers_in_every_spelling():
    assert number("1,234,567.5") == 1234567.5
    assert number("27.595.520", decimal_comma=True) == 27595520
    assert number("65,77", decimal_comma=True) == 65.77
    assert math.isnan(number("(!) nan"))
    assert math.isnan(number(""))
    assert uses_decimal_comma(["117.344", "27.595.520"])
    assert not uses_decimal_comma(["117.344", "1,234", "1,234,567.8"])


def test_emulated_counters_say_so(tmp_path):
    path = tmp_path / "emulated.csv"
    row = [1, 1, AGENT, 1, 0, 0, 256, 1, "k", 64, 1024, 0, 80, 16, 32, "SQ_WAVES", 4.0, 0, 0]
    path.write_text(",".join(COLUMNS) + "\n" + ",".join(map(str, row)) + "\n")
    profile = read(path)
    assert (profile.evidence, profile.tool, profile.architectures) == ("emulated", "emulator", ("gfx950",))
    assert profile.problems == ()
    assert launches(profile)[0][4:8] == (80, 16, 32, 1024)


def test_passes_match_by_order_where_numbers_differ(tmp_path):
    write_rocprofv3(tmp_path / "pass_1" / "a.csv", [(1, "k", {"A": 1}), (2, "k", {"A": 2})])
    write_rocprofv3(tmp_path / "pass_2" / "a.csv", [(5, "k", {"B": 10}), (9, "k", {"B": 20})], process=8)
    profile = read(tmp_path)
    by_launch = profile.table.pivot_table(index="launch", columns="counter", values="value")
    assert by_launch.to_numpy().tolist() == [[1, 10], [2, 20]]
    assert profile.problems == ()


def test_files_of_one_pass_from_two_processes_are_two_sets_of_launches(tmp_path):
    for process in (7, 8):
        write_rocprofv3(tmp_path / f"{process}.csv", [(1, "k", COUNTERS)], process=process)
    profile = read(tmp_path)
    assert len(profile.dispatches) == 2
    assert profile.table["pass"].nunique() == 1


def test_a_folder_names_what_it_passes_over(tmp_path):
    write_rocprofv3(tmp_path / "run_counter_collection.csv", [(1, "k", COUNTERS)])
    (tmp_path / "run_hip_api_trace.csv").write_text("Domain,Function,Process_Id,Start_Timestamp,End_Timestamp\n")
    (tmp_path / "notes.csv").write_text("a,b\n1,2\n")
    assert "notes.csv, run_hip_api_trace.csv" in read(tmp_path).problems[0]


def test_two_tools_in_one_folder_are_not_one_profile(tmp_path):
    write_rocprofv3(tmp_path / "a.csv", [(1, "k", COUNTERS)])
    shutil.copy(FIXTURES / "ncu_raw.csv", tmp_path / "b.csv")
    with pytest.raises(ProfileError, match=r"several tools.*a\.csv \(rocprofv3\).*b\.csv \(ncu\)"):
        read(tmp_path)


@pytest.mark.parametrize(
    "name", ["rocprofv3/run_counter_collection.csv", "workload_wide/pmc_perf.csv", "rocprof_v1.csv", "ncu_raw.csv",
             "ncu_details.csv", "rocprofv3.json"],
)  # fmt: skip
def test_a_truncated_file_is_refused(tmp_path, name):
    whole = (FIXTURES / name).read_bytes().rstrip()
    path = tmp_path / "cut"
    path.write_bytes(whole[: len(whole) - 30])
    with pytest.raises(ProfileError, match="truncated"):
        read(path)


def test_a_truncated_database_is_refused(tmp_path):
    whole = write_rocpd(tmp_path / "a.db", [(n, "k" * 200, 500, COUNTERS) for n in range(200)]).read_bytes()
    path = tmp_path / "cut.db"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ProfileError, match="damaged or truncated SQLite"):
        read(path)


def test_another_database_is_refused(tmp_path):
    with closing(sqlite3.connect(tmp_path / "results.db")) as connection, connection:
        connection.execute("CREATE TABLE KERN (id)")
    with pytest.raises(ProfileError, match=r"legacy rocprof: give its \.csv"):
        read(tmp_path / "results.db")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"\x7fELF\x00\x01", "is binary"),
        (b"a,b\n1,2\n", "is of no known kind"),
        (b'{"traceEvents": []}', "not rocprofv3's"),
        (b"ID,Kernel Name,x\n", "no dispatch"),
    ],
)
def test_wrong_files_are_refused_by_what_they_are(tmp_path, content, said):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ProfileError, match=said):
        read(path)


def test_facts_of_the_gpu_alone_are_no_profile(tmp_path):
    with pytest.raises(ProfileError, match=r"no dispatch of a kernel \(it holds run_agent_info\.csv\)"):
        read(write_agent_info(tmp_path / "run_agent_info.csv"))


def test_a_missing_path_is_refused(tmp_path):
    with pytest.raises(ProfileError, match="does not exist"):
        read(tmp_path / "nowhere")


def test_a_damaged_row_names_its_line(tmp_path):
    path = write_rocprofv3(tmp_path / "a.csv", [(1, "k", COUNTERS)])
    header, first, second = path.read_text().splitlines()
    path.write_text("\n".join([header, first + ",1", second]) + "\n")
    with pytest.raises(ProfileError, match="damaged: line 2 has 20 of the 19 cells"):
        read(path)


def test_only_keeps_the_kernels_that_match():
    profile = read(FIXTURES / "workload_wide")
    assert set(profile.only("^micro").table["kernel"]) == {"micro_tk(micro_globals)"}
    with pytest.raises(ProfileError, match="no kernel matches 'mirco'; the profile has micro_tk"):
        profile.only("mirco")


def test_long_names_are_shortened_for_tables():
    assert short_name("void (anonymous namespace)::fill<float, 4>(float*, int)") == "fill<float, 4>"
    assert len(short_name("k" * 5160)) == 48
