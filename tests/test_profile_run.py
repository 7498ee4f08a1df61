"""Passes and commands, and whole runs with programs that stand in for rocprofv3 and ncu."""

import stat
import sys
import time
from pathlib import Path

import pytest
from profile_files import FIXTURES

import workbench.profile.tool
from workbench.cli import main
from workbench.errors import (
    BackendUnavailable,
    ParameterError,
    ProfileError,
    ProfilerFailed,
    ProfilerForbidden,
    ProfilerMissing,
    ProfilerTimeout,
)
from workbench.profile import derive
from workbench.profile.definitions import collection
from workbench.profile.plan import (
    OWN_KERNELS,
    Target,
    block_of,
    plan_commands,
    plan_passes,
    wanted_counters,
)
from workbench.profile.run import new_folder, run_commands
from workbench.profile.target import main as run_target
from workbench.profile.tool import find_tool

LIMITS = collection("rocprofv3")["limits"]["counters"]
TARGET = Target("decode_d128_b16", "2d", "small", 2)
AMD = ("gfx90a", "gfx942", "gfx950")


@pytest.mark.parametrize("architecture", AMD)
def test_no_pass_asks_a_block_for_more_than_it_counts(architecture):
    groups = wanted_counters(architecture)
    passes = plan_passes(groups, LIMITS)
    for counters in passes:
        assert len(counters) == len(set(counters))
        used = [block_of(counter, LIMITS) for counter in counters]
        assert all(used.count(block) <= LIMITS[block] for block in used)
    assert {name for group in groups for name in group} == {name for counters in passes for name in counters}


@pytest.mark.parametrize("architecture", AMD)
def test_every_ratio_comes_from_one_pass(architecture):
    passes = [set(counters) for counters in plan_passes(wanted_counters(architecture), LIMITS)]
    assert all(any(set(group) <= counters for counters in passes) for group in wanted_counters(architecture))


def test_a_group_beyond_one_pass_is_split():
    group = [f"TCC_{i}" for i in range(5)]
    assert plan_passes([group], LIMITS) == [tuple(group[:4]), (group[4],)]


def test_a_counter_of_an_unknown_block_is_refused():
    with pytest.raises(ProfileError, match="XYZ_A: no block 'XYZ'"):
        plan_passes([["XYZ_A"]], LIMITS)


def test_rocprofv3_commands_leave_the_first_launch_out(tmp_path):
    first, *others = plan_commands("rocprofv3", "gfx950", TARGET, tmp_path)
    words = list(first.arguments)
    assert words[:2] == ["rocprofv3", "--pmc"]
    assert words[words.index("--kernel-include-regex") + 1] == OWN_KERNELS
    assert words[words.index("--kernel-iteration-range") + 1] == "[2-3]"
    assert words[words.index("-d") + 1] == str(tmp_path / "pass_1")
    assert words[words.index("--") + 1 :] == TARGET.command()
    assert [command.name for command in others] == ["pass_2"]


def test_ncu_command_profiles_what_the_target_switches_on(tmp_path):
    (command,) = plan_commands("ncu", "sm_90", TARGET, tmp_path, "unified_attention_2d")
    words = list(command.arguments)
    metrics = words[words.index("--metrics") + 1].split(",")
    assert {"lts__t_sector_hit_rate.pct", "dram__bytes_read.sum", "dram__bytes_write.sum"} <= set(metrics)
    assert {"gpu__time_duration.sum", "sm__warps_active.avg.pct_of_peak_sustained_active"} <= set(metrics)
    assert "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active" in metrics
    assert "sm__inst_executed_pipe_tensor.sum" in metrics
    assert not {"duration_ns", "launches"} & set(metrics)
    assert words[words.index("--kernel-name") + 1] == "regex:unified_attention_2d"
    assert words[words.index("--profile-from-start") + 1] == "off"
    assert words[-len(TARGET.command()) :] == TARGET.command()


def test_a_tool_serves_its_own_vendor(tmp_path):
    with pytest.raises(ProfileError, match="give --tool rocprofv3"):
        plan_commands("ncu", "gfx950", TARGET, tmp_path)
    with pytest.raises(ProfileError, match="give --tool ncu"):
        plan_commands("rocprofv3", "sm_90", TARGET, tmp_path)


# Test doubles: programs that write what the real profilers write, and print what they print. None of them profiles.
ROCPROFV3 = f"""#!{sys.executable}
import pathlib, sys
sys.path[:0] = [{str(Path(__file__).parent)!r}]
from profile_files import write_agent_info, write_rocprofv3
words = sys.argv
counters = words[words.index("--pmc") + 1 : words.index("--kernel-include-regex")]
value = {{"SQ_VALU_MFMA_BUSY_CYCLES": 512e6, "GRBM_GUI_ACTIVE": 8e6, "TCC_HIT_sum": 90, "TCC_MISS_sum": 10}}
folder = pathlib.Path(words[words.index("-d") + 1])
name = words[words.index("-o") + 1]
kernels = ["unified_attention_2d.kd", "unified_attention_2d.kd"]
write_rocprofv3(folder / f"{{name}}_counter_collection.csv",
    [(n, kernel, {{c: value.get(c, 1) for c in counters}}) for n, kernel in enumerate(kernels, 3)])
write_agent_info(folder / f"{{name}}_agent_info.csv")
print("profiled", *words[words.index("--") + 1 :])
"""
NCU = f"""#!{sys.executable}
import pathlib, sys
log = pathlib.Path(sys.argv[sys.argv.index("--log-file") + 1])
log.write_bytes(pathlib.Path({str(FIXTURES / "ncu_raw.csv")!r}).read_bytes())
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Put a program of that name and text on PATH, and nothing where installers put the real ones."""
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setattr(workbench.profile.tool, "USUAL_FOLDERS", ("/opt/none/bin",))

    def install(name: str, text: str) -> Path:
        program = tools / name
        program.write_text(text)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return program

    return install


def test_a_run_under_rocprofv3(stand_in, tmp_path):
    stand_in("rocprofv3", ROCPROFV3)
    folder = tmp_path / "raw"
    commands = plan_commands("rocprofv3", "gfx950", TARGET, folder)
    started = []
    profile = run_commands("rocprofv3", commands, folder, started.append)
    assert started == commands
    (group,) = derive(profile).groups
    assert (group.kernel, group.launches) == ("unified_attention_2d", 2)
    assert group["mfma_utilisation"].value == 50
    assert group["l2_hit_rate"].value == 90
    assert profile.problems == ()
    assert (folder / "commands.txt").read_text().splitlines() == [str(command) for command in commands]
    assert (folder / "pass_1.output").read_text().startswith("profiled")
    assert (folder / "pass_1" / "run_counter_collection.csv").is_file()


def test_a_run_under_ncu(stand_in, tmp_path):
    stand_in("ncu", NCU)
    folder = tmp_path / "raw"
    profile = run_commands("ncu", plan_commands("ncu", "sm_90", TARGET, folder), folder)
    assert len(profile.only("unified_attention_3d").dispatches) == 1


@pytest.mark.usefixtures("stand_in")
def test_a_missing_tool_is_told_with_where_it_was_searched_and_its_commands(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_HOME", "/elsewhere")
    folder = tmp_path / "raw"
    commands = plan_commands("rocprofv3", "gfx942", TARGET, folder)
    with pytest.raises(ProfilerMissing) as caught:
        run_commands("rocprofv3", commands, folder)
    searched = f"there is no rocprofv3 in {tmp_path / 'tools'}, /elsewhere/bin, /opt/none/bin; install ROCm"
    assert str(caught.value).startswith(searched)
    assert all(str(command) in str(caught.value) for command in commands)
    assert not folder.exists()


def test_the_command_runs_reads_and_explains(stand_in, tmp_path, capsys, monkeypatch):
    stand_in("ncu", NCU)
    monkeypatch.setenv("COLUMNS", "200")
    options = ["--scenario", "decode_d128_b16", "--size", "small", "--tool", "ncu", "--arch", "sm_90"]
    with pytest.raises(SystemExit) as ended:
        main(["profile", "run", *options, "--kernel", "attention_3d|reduce", "--out", str(tmp_path / "raw")])
    out = capsys.readouterr().out
    assert not ended.value.code
    assert "kernel_unified_attention_3d on sm_90" in out
    assert "34.34 %" in out
    assert "cudnn" not in out
    assert f"Raw files: {tmp_path / 'raw'}" in out


def test_a_tool_off_path_is_found_where_its_installer_puts_it(stand_in, tmp_path, monkeypatch):
    program = stand_in("ncu", NCU)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    (tmp_path / "toolkit").mkdir()
    program.parent.rename(tmp_path / "toolkit" / "bin")
    assert find_tool("ncu") == str(tmp_path / "toolkit" / "bin" / "ncu")


def run_failing(stand_in, tmp_path, tool, body, expected, **options):
    """The error of a run under a stand-in with that body."""
    stand_in(tool, f"#!{sys.executable}\nimport pathlib, subprocess, sys, time\n{body}\n")
    folder = tmp_path / "raw"
    with pytest.raises(expected) as caught:
        run_commands(tool, plan_commands(tool, ARCH[tool], TARGET, folder), folder, **options)
    assert type(caught.value) is expected
    return str(caught.value)


ARCH = {"rocprofv3": "gfx950", "ncu": "sm_90"}


@pytest.mark.parametrize("tool", ARCH)
def test_a_failing_tool_is_told_with_its_last_words(stand_in, tmp_path, tool):
    said = run_failing(stand_in, tmp_path, tool, "print('counter FOO not found')\nsys.exit(9)", ProfilerFailed)
    assert f"{tool} ended with code 9: " in said
    assert "  counter FOO not found\n" in said
    assert f"its output: {tmp_path / 'raw'}" in said


def test_a_tool_that_profiles_nothing_is_an_error(stand_in, tmp_path):
    log = "pathlib.Path(sys.argv[sys.argv.index('--log-file') + 1])"
    said = run_failing(stand_in, tmp_path, "ncu", f"{log}.write_text('==WARNING== No kernels\\n')", ProfilerFailed)
    assert "without a profile that can be read" in said
    assert "No kernels" in said


@pytest.mark.parametrize("tool", ARCH)
def test_a_tool_that_does_not_end_is_stopped_with_all_that_it_started(stand_in, tmp_path, tool):
    child = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    write = f"pathlib.Path({str(tmp_path / 'child')!r}).write_text(str(child.pid))"
    body = f"child = {child}\n{write}\nprint('waiting', flush=True)\ntime.sleep(60)"
    said = run_failing(stand_in, tmp_path, tool, body, ProfilerTimeout, timeout=2.0)
    assert f"{tool} was stopped after 2 s: " in said
    assert "  waiting\n" in said
    assert "--timeout" in said
    child_state = Path("/proc", (tmp_path / "child").read_text(), "stat")
    deadline = time.monotonic() + 5
    while child_state.exists() and child_state.read_text().split()[2] != "Z" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not child_state.exists() or child_state.read_text().split()[2] == "Z"


@pytest.mark.parametrize(
    ("tool", "text", "remedy"),
    [
        (
            "ncu",
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters",
            "NVreg_RestrictProfilingToAdminUsers=0",
        ),
        ("rocprofv3", "Unable to open /dev/kfd read-write: Permission denied", "groups that own /dev/kfd"),
        ("rocprofv3", "rocprofiler_configure failed: ROCPROFILER_STATUS_ERROR_PERMISSION_DENIED", "run as root"),
    ],
)
@pytest.mark.parametrize("code", [1, 0])
def test_counters_that_may_not_be_read_are_told_with_the_remedy(stand_in, tmp_path, tool, text, remedy, code):
    """Whether the tool ends with an error or merely without a profile."""
    said = run_failing(stand_in, tmp_path, tool, f"print({text!r})\nsys.exit({code})", ProfilerForbidden)
    assert said.startswith(f"{tool} may not read the GPU's counters: ")
    assert remedy in said
    assert text in said


@pytest.mark.parametrize("tool", ARCH)
def test_a_tool_without_the_right_to_be_executed_is_not_missing(stand_in, tmp_path, tool):
    program = stand_in(tool, "#!/bin/sh\n")
    program.chmod(0o644)
    folder = tmp_path / "raw"
    with pytest.raises(ProfilerForbidden, match=rf"{program} may not be executed; `chmod \+x {program}`"):
        run_commands(tool, plan_commands(tool, ARCH[tool], TARGET, folder), folder)
    assert not folder.exists()


def test_a_tool_whose_interpreter_may_not_run_is_forbidden_and_a_missing_one_has_failed(stand_in, tmp_path):
    plain = tmp_path / "interpreter"
    plain.write_text("")
    stand_in("ncu", f"#!{plain}\n")
    commands = plan_commands("ncu", "sm_90", TARGET, tmp_path / "raw")
    with pytest.raises(ProfilerForbidden, match=r"ncu may not be executed \(Permission denied\)"):
        run_commands("ncu", commands, tmp_path / "raw")
    plain.unlink()
    with pytest.raises(ProfilerFailed, match=r"cannot start .*ncu: No such file"):
        run_commands("ncu", commands, tmp_path / "again")


def test_a_warning_about_rights_is_a_problem_of_the_profile(stand_in, tmp_path):
    warning = "Device 1 could not be locked for profiling due to lack of permissions (capability SYS_PERFMON)"
    stand_in("rocprofv3", f"{ROCPROFV3}print({warning!r}, file=sys.stderr)\n")
    folder = tmp_path / "raw"
    profile = run_commands("rocprofv3", plan_commands("rocprofv3", "gfx950", TARGET, folder), folder)
    assert len(profile.problems) == 1
    assert "the counters may be inaccurate; run with the capability CAP_PERFMON" in profile.problems[0]


def test_the_command_s_time_limit(stand_in, tmp_path, capsys):
    stand_in("rocprofv3", f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    options = ["--scenario", "decode_d128_b16", "--size", "small", "--tool", "rocprofv3", "--arch", "gfx950"]
    for limit, said in (("0", "the timeout must be more than 0 seconds"), ("0.2", "rocprofv3 was stopped after 0.2 s")):
        with pytest.raises(SystemExit) as ended:
            main(["profile", "run", *options, "--out", str(tmp_path / f"raw{limit}"), "--timeout", limit])
        assert ended.value.code
        assert said in " ".join(capsys.readouterr().err.split())


def test_raw_files_are_never_overwritten(tmp_path):
    assert new_folder(TARGET, tmp_path / "new") == tmp_path / "new"
    assert new_folder(TARGET, None).parent == Path("reports").resolve()
    with pytest.raises(ProfileError, match="never overwritten"):
        new_folder(TARGET, tmp_path)


def test_the_target_needs_a_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(BackendUnavailable, match="profiling needs a GPU"):
        run_target(TARGET.command()[3:])
    with pytest.raises(ParameterError, match="at least one launch"):
        run_target(["--scenario", "decode_d128_b16", "--launches", "0"])


@pytest.mark.gpu
def test_the_target_runs():
    run_target(TARGET.command()[3:])
