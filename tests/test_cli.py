"""The command: what it prints, its exit codes, and that errors are lines, not tracebacks."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import workbench
import workbench.report
from workbench.cli import main
from workbench.cli.report import join_parameters, split_parameters
from workbench.errors import ParameterError, ScenarioError
from workbench.report import ReportResult
from workbench.scenarios import load_set, set_names


@pytest.fixture
def run(capsys, monkeypatch):
    """Run the command in this process: (exit code, standard output, standard error)."""
    monkeypatch.setenv("COLUMNS", "200")

    def run_command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_info:
            main(arguments)
        captured = capsys.readouterr()
        return exit_info.value.code or 0, captured.out, captured.err

    return run_command


@pytest.fixture
def reported(monkeypatch, tmp_path):
    """Stand in for the report runner; the list fills with its calls, `failed` is what the next run reports."""
    calls = []

    def run_report(name, parameters, out, *, timeout=None):
        calls.append((name, parameters, out))
        run_report.timeout = timeout
        status = "failed" if run_report.failed else "ok"
        return ReportResult(tmp_path, tmp_path / "n.ipynb", tmp_path / "n.html", None, run_report.failed, status)

    run_report.failed = ()
    run_report.calls = calls
    monkeypatch.setattr(workbench.report, "run_report", run_report)
    return run_report


def test_version_from_module_and_script():
    for command in ([sys.executable, "-m", "workbench"], [str(Path(sys.executable).with_name("workbench"))]):
        shown = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout
        assert shown == f"workbench {workbench.__version__}\n"


def test_no_arguments_show_every_command(run):
    _, out, err = run()
    for command in ("doctor", "scenarios", "route", "report"):
        assert command in out + err


def test_scenarios_lists_every_set_with_its_size(run):
    code, out, _ = run("scenarios")
    assert code == 0
    for name in set_names():
        (line,) = (line for line in out.splitlines() if f" {name} " in line and f" {len(load_set(name))} " in line)
        assert line


@pytest.mark.parametrize("name", set_names())
def test_scenarios_lists_a_set(run, name):
    code, out, _ = run("scenarios", name)
    assert code == 0
    assert all(scenario.name in out for scenario in load_set(name))


def test_a_user_error_is_red_text_and_code_2(run):
    code, out, err = run("scenarios", "defualt")
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert "default" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("scenarios mine.yaml", "which ends in .json"),
        ("scenarios FOLDER.json", "Is a directory"),
        ("route '' --device mi355x", "an empty text stands behind route"),
        ("route --set=", "nothing stands behind --set="),
        ("bench dense_headline --out x.csv", "a file name that ends in .parquet"),
        ("inspect gfx942.s --lds 99999999999999999999", "--lds"),
        ("report parity --timeout inf", "--timeout"),
        ("report parity --list -p seed", "takes a name and a value"),
        ("route --set all decode_d128_b16", "not both"),
        ("compare '' ''", "an empty text stands behind compare"),
        ("measure --dry-run --only ,", "',' holds no name"),
        ("golden check --target gfx950 --target nosuch", "no golden record of nosuch; on record: gfx942 with Triton"),
        ("levers --csv nofolder/x.csv", "there is no folder nofolder"),
        ("emulate dense_headline --seed 99999999999999999999", "--seed"),
        ("inspect nofile.s --lane 2d --size full", "--lane, --size: for a --scenario"),
        ("profile explain DEEP.json", "it nests too deep"),
        ("profile run --scenario dense_headline --tool ncu --dry-run --kernel (", "is no regular expression"),
        ("profile run --scenario dense_headline --tool ncu --dry-run --timeout nan", "must be more than 0 seconds"),
        ("report DEEP.ipynb --list", "is not a Jupyter notebook"),
        ("report parity --lane 4d", "--lane"),
        ("report list --out DEEP.json", "is a file"),
    ],
)
def test_a_wrong_command_line_ends_before_anything_runs(run, reported, tmp_path, monkeypatch, line, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FOLDER.json").mkdir()
    for name in ("DEEP.json", "DEEP.ipynb"):
        (tmp_path / name).write_text("[" * 100_000)
    code, out, err = run(*shlex.split(line))
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())
    assert reported.calls == []
    assert {path.name for path in tmp_path.iterdir()} == {"FOLDER.json", "DEEP.json", "DEEP.ipynb"}


def test_debug_lets_the_traceback_through(monkeypatch):
    monkeypatch.setenv("WORKBENCH_DEBUG", "1")
    with pytest.raises(ScenarioError):
        main(["scenarios", "defualt"])


def test_route_gives_lane_and_reasons_for_a_device(run):
    scenario = load_set("default")[0].name
    code, out, _ = run("route", scenario, "--device", "mi355x")
    assert code == 0
    assert scenario in out
    assert "MI355X" in out


def test_route_refuses_names_beside_a_set(run):
    code, _, err = run("route", load_set("default")[0].name, "--set", "gqa")
    assert code == 2
    assert "not both" in err


def test_report_passes_only_what_was_given(run, reported, tmp_path):
    code, out, _ = run("report", "parity")
    assert code == 0
    assert reported.calls == [("parity", {}, None)]
    assert out == f"Report: {tmp_path / 'n.html'}\n"


def test_report_passes_options_and_parameters(run, reported, tmp_path):
    options = ["--lane", "auto", "--lane", "2d", "--size", "small", "--device", "cpu", "--out", str(tmp_path)]
    run("report", "parity", "--set", "gqa", *options, "-p", "seed", "-3", "-p", "note=a=b")
    expected = {"set_name": "gqa", "lanes": "auto,2d", "size": "small", "device": "cpu", "seed": "-3", "note": "a=b"}
    assert reported.calls == [("parity", expected, tmp_path)]


def test_report_passes_a_time_limit(run, reported):
    run("report", "parity", "--timeout", "60")
    assert reported.timeout == 60


def test_a_failed_report_is_told_and_ends_with_code_1(run, reported):
    reported.failed = ("decode_1k, lane 3d: wrong: max error 0.5",)
    code, out, _ = run("report", "parity")
    assert code == 1
    assert "decode_1k, lane 3d: wrong" in out
    assert "Report: " in out


@pytest.mark.parametrize(
    "option", [("--size", "medium"), ("--device", "tpu"), ("--setting", "gqa"), ("--set", "defualt")]
)
def test_report_refuses_unknown_options_and_values_before_running(run, reported, option):
    code, _, err = run("report", "parity", *option)
    assert code == 2
    assert option[0] in err or option[1] in err
    assert reported.calls == []


def test_a_gpu_that_is_not_there_ends_before_a_report_is_made(run, reported, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, _, err = run("report", "parity", "--device", "cuda")
    assert code == 2
    assert "PyTorch sees no GPU" in err
    assert reported.calls == []


def test_an_unknown_parameter_ends_before_a_report_is_made(run, tmp_path):
    code, _, err = run("report", "parity", "--out", str(tmp_path), "-p", "blocksize", "32")
    assert code == 2
    assert "'blocksize'" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["-p"], ["-p", "seed"], ["report", "--parameter"]])
def test_a_parameter_without_a_value_is_an_error(arguments):
    with pytest.raises(ParameterError, match="NAME VALUE"):
        join_parameters(arguments)


def test_a_parameter_given_twice_is_an_error():
    with pytest.raises(ParameterError, match="'seed' is given twice"):
        split_parameters(["seed=1", "seed=2"])
