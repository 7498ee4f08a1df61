"""`workbench profile`: what it prints, what it writes, and what it refuses before anything runs."""

import pandas as pd
import pytest
from profile_files import FIXTURES, write_rocprofv3

from workbench.cli import main

WIDE = str(FIXTURES / "workload_wide")


@pytest.fixture
def run(capsys, monkeypatch):
    """Run the command in this process: (exit code, standard output, standard error)."""
    monkeypatch.setenv("COLUMNS", "200")

    def run_command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_info:
            main(("profile", *arguments))
        captured = capsys.readouterr()
        return exit_info.value.code or 0, captured.out, captured.err

    return run_command


def test_findings_come_before_the_figures(run):
    code, out, _ = run("explain", WIDE)
    assert code == 0
    assert out.index("1 XCD for 304 CUs") < out.index("micro_tk on gfx942")
    assert "XCDs 8" in out
    figure = next(line for line in out.splitlines() if "MFMA utilisation" in line)
    assert "measured" in figure
    assert "share of the time in which the matrix units were busy" in figure
    assert "VALU lane utilisation" in out
    assert "n/a, needs SQ_THREAD_CYCLES_VALU, SQ_ACTIVE_INST_VALU; or VALUUtilization" in out


def test_quiet_figures_are_told_from_figures_that_were_not_counted(run, tmp_path):
    """A profile with one counter and one with most, neither with anything worth a look."""
    path = write_rocprofv3(tmp_path / "a.csv", [(1, "k", {"SQ_WAVES": 10})])
    _, out, _ = run("explain", str(path), "--arch", "gfx950")
    assert "Too little was counted to judge: " in out
    _, out, _ = run("explain", str(FIXTURES / "ncu_raw.csv"), "--kernel", "cudnn")
    assert "Too little" not in out


def test_one_dispatch_at_a_time(run):
    _, out, _ = run("explain", str(FIXTURES / "ncu_raw.csv"), "--by", "dispatch", "--kernel", "unified_attention$")
    assert "kernel_unified_attention #0 on sm_90" in out
    assert "kernel_unified_attention #3 on sm_90" in out
    assert "96.73 %" in out


def test_two_profiles_side_by_side(run, tmp_path):
    counters = {"TCC_HIT_sum": 30, "TCC_MISS_sum": 70, "SQ_WAVES": 10}
    write_rocprofv3(tmp_path / "a.csv", [(1, "k", counters)])
    write_rocprofv3(tmp_path / "b.csv", [(n, "k", counters | {"TCC_HIT_sum": 105}) for n in (1, 2)])
    options = ["--arch", "gfx950", "--against", str(tmp_path / "b.csv")]
    code, out, _ = run("explain", str(tmp_path / "a.csv"), *options)
    assert code == 0
    assert [line for line in out.splitlines() if "L2 hit rate" in line and "30.00 %" in line and "2.000 x" in line]
    assert [line for line in out.splitlines() if "waves, a launch" in line and "1.000 x" in line]


def test_two_kinds_of_evidence_get_no_ratio(run, tmp_path):
    path = write_rocprofv3(tmp_path / "a.csv", [(1, "k", {"SQ_WAVES": 10})])
    emulated = tmp_path / "b.csv"
    emulated.write_text(path.read_text().replace("Agent 2", "Emulated gfx950"))
    _, out, _ = run("explain", str(path), "--arch", "gfx950", "--against", str(emulated))
    assert "gfx950, emulated" in out
    assert " x " not in out


def test_kernels_without_a_partner_are_named(run, tmp_path):
    path = write_rocprofv3(tmp_path / "a.csv", [(1, "k", {"SQ_WAVES": 10}), (2, "other", {"SQ_WAVES": 10})])
    other = write_rocprofv3(tmp_path / "b.csv", [(1, "k", {"SQ_WAVES": 10}), (2, "third", {"SQ_WAVES": 10})])
    _, out, _ = run("explain", str(path), "--arch", "gfx950", "--against", str(other))
    assert "other is in the first profile alone" in out
    assert "third is in the second profile alone" in out


def test_figures_as_csv(run, tmp_path):
    table = tmp_path / "figures.csv"
    code, _, _ = run("explain", WIDE, "--csv", str(table))
    assert code == 0
    frame = pd.read_csv(table)
    assert set(frame["kernel"]) == {"micro_tk(micro_globals)", "Cijk_MT256x224x64"}
    code, _, err = run("explain", WIDE, "--csv", str(table))
    assert code == 2
    assert "exists; name a file that does not" in err


def test_a_wrong_file_is_one_line(run, tmp_path):
    (tmp_path / "a.csv").write_text("")
    code, out, err = run("explain", str(tmp_path / "a.csv"))
    assert (code, out) == (2, "")
    assert "is empty" in err


def test_dry_run_prints_the_commands_and_makes_nothing(run, tmp_path):
    into = tmp_path / "raw"
    options = ["--scenario", "decode_d128_b16", "--tool", "rocprofv3", "--dry-run", "--out", str(into)]
    code, out, _ = run("run", *options)
    assert code == 0
    lines = out.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("rocprofv3 --pmc ") and "workbench.profile.target" in line for line in lines)
    assert not into.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--scenario", "decode_d128_b61"], "did you mean"),
        (["--scenario", "dense_headline", "--lane", "2d"], "has no lanes"),
        (["--scenario", "decode_d128_b16", "--tool", "ncu", "--arch", "gfx950"], "give --tool rocprofv3"),
    ],
)
def test_what_cannot_be_profiled_is_refused_first(run, options, said):
    code, _, err = run("run", *options, "--dry-run")
    assert code == 2
    assert said in err


def test_without_a_gpu_the_tool_is_asked_for(run, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, _, err = run("run", "--scenario", "decode_d128_b16")
    assert code == 2
    assert "say --tool rocprofv3 or --tool ncu" in err
