"""Several studies in one run: what fails, dies or is malformed stops no other one and is told."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from notebook_files import write_notebook
from rich.console import Console

import workbench.report
from workbench.cli import main
from workbench.cli.report_tables import print_comparison
from workbench.environment import environment_facts
from workbench.errors import ParameterError, ReportError
from workbench.records import Metric, read_records, write_records
from workbench.report import find_notebook, known_notebooks, run_all, suite
from workbench.report.compare import compare_runs
from workbench.report.find import describe_notebook
from workbench.report.html import external_references
from workbench.report.index import command_line
from workbench.report.outcome import Outcome
from workbench.report.runs import Run, find_run, find_runs
from workbench.report.study import ReportResult
from workbench.report.suite_plan import choose_notebooks, plan_studies
from workbench.report.words import format_duration, format_figure
from workbench.resources import data_path

GOOD = """
from workbench.report import headline
headline(f"Blocks of {block_size} are <best>.", evidence="modelled", value=block_size / 3, unit="x")
"""
DIES = """
import os, pathlib, subprocess
child = subprocess.Popen(["sleep", "300"])
pathlib.Path(pid_file).write_text(str(child.pid))
os._exit(1)
"""
KILLS_ITS_RUNNER = "import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(300)"


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """One run of four notebooks, three of which come to grief in ways of their own."""
    folder = tmp_path_factory.mktemp("all")
    pid = f'pid_file: str = "{folder / "pid"}"  # where to write\n'
    notebooks = [
        write_notebook(folder / "good.ipynb", "# A good one\n\nIs it\ngood?\n\nMore.", GOOD),
        write_notebook(folder / "dies.ipynb", "# Dies", "print('reached')", DIES, parameters=pid),
        write_notebook(folder / "runner.ipynb", "# Kills its runner", "print('so far')", KILLS_ITS_RUNNER),
        write_notebook(folder / "untagged.ipynb", tagged=False),
    ]
    options = {"notebooks": notebooks, "jobs": 3, "timeout": 100, "progress": False}
    return run_all({"block_size": "32"}, folder / "reports", **options)


def test_each_failure_is_its_own_and_keeps_what_came_before_it(ran):
    assert ran.status == "failed"
    outcomes = {outcome.name: outcome for outcome in ran.outcomes}
    assert {name: outcome.status for name, outcome in outcomes.items()} == {
        "good": "ok",
        "dies": "failed",
        "runner": "failed",
        "untagged": "failed",
    }
    assert "KernelDied" in outcomes["dies"].failed[0]
    assert outcomes["runner"].failed == ("the study's process died: signal SIGKILL",)
    assert "no code cell tagged 'parameters'" in outcomes["untagged"].failed[0]
    for name, said in (("dies", "reached"), ("runner", "so far")):
        page = (ran.path / outcomes[name].page).read_text()
        assert said in page
        assert "this page is partial" in page
        assert 'href="../index.html"' in page


def test_a_dead_kernel_leaves_no_process_behind(ran):
    process = Path("/proc") / (ran.path.parents[1] / "pid").read_text()
    if not Path("/proc/self").exists():
        pytest.skip("needs /proc to look")
    # A killed orphan may stay a zombie until init collects it.
    assert not process.exists() or "\nState:\tZ" in (process / "status").read_text()


def test_the_index_shows_failures_first_and_fetches_nothing(ran):
    html = ran.index.read_text()
    assert external_references(html) == []
    assert "<script" not in html
    places = [html.index(part) for part in ("3 of 4 failed", "KernelDied", "signal SIGKILL", "A good one")]
    assert places == sorted(places)
    assert "Blocks of 32 are &lt;best&gt;." in html
    assert ">10.7<small>×</small>" in html
    assert "Is it good?" in html
    assert "workbench report all --jobs 3 --timeout 100 -p block_size 32" in html
    for outcome in ran.outcomes:
        assert not outcome.page or (f'href="{outcome.page}"' in html and (ran.path / outcome.page).is_file())


def test_the_manifest_holds_what_the_index_shows(ran):
    manifest = json.loads((ran.path / "manifest.json").read_text())
    assert manifest["asked"]["parameters"] == {"block_size": "32"}
    assert manifest["studies"] == [json.loads(json.dumps(outcome.as_dict())) for outcome in ran.outcomes]
    assert {"index.html", "good/good.html", "good/manifest.json"} <= set(manifest["files"])


def test_earlier_reports_are_found_by_folder_name_and_notebook(ran):
    reports = ran.path.parent
    (reports / "parity-20200101-000000").mkdir()
    (reports / "mine").mkdir()
    runs = find_runs(reports)
    assert [(run.name, run.status) for run in runs] == [("all", "failed"), ("parity", "unfinished")]
    assert runs[0].outcomes == ran.outcomes
    assert find_run(None, reports).page == ran.index
    assert find_run("parity", reports).started.startswith("2020-01-01T")
    good = find_run(str(ran.path / "good"), reports)
    assert (good.status, good.page.name, good.outcomes[0].headlines) == ("ok", "good.html", ran.outcomes[0].headlines)
    with pytest.raises(ReportError, match=r"no report 'x' in .*; there are all-"):
        find_run("x", reports)
    with pytest.raises(ReportError, match="run one with `workbench report all`"):
        find_run(None, reports / "none")


def test_two_runs_side_by_side(ran):
    run = find_run(None, ran.path.parent)
    single = find_run(str(ran.path / "good"), ran.path.parent)
    comparison = compare_runs(run, single)
    assert comparison.environment == comparison.parameters == ()
    assert [(name, a is not None, b is not None) for name, a, b in comparison.studies] == [
        ("dies", True, False),
        ("good", True, True),
        ("runner", True, False),
        ("untagged", True, False),
    ]
    assert [(pair.study, pair.ratio, pair.note) for pair in comparison.headlines] == [("good", 1.0, "")]


def test_records_of_two_runs_by_problem(tmp_path):
    found = read_records(data_path("measured", "h200", "dense.parquet"))
    changed = [
        replace(each, metrics=each.metrics | {"max_abs_error": Metric(1.0, "1", "measured")}) for each in found[:1]
    ]
    runs = []
    for name, records in (("a", found[:4]), ("b", [*changed, *found[1:3]])):
        (tmp_path / name).mkdir()
        write_records(records, tmp_path / name / "records.parquet")
        outcome = Outcome("parity", "Parity", "", "ok", records="records.parquet")
        runs.append(Run(tmp_path / name, "parity", "ok", "", 1.0, None, (outcome,)))
    (pair,) = compare_runs(*runs).records
    assert (pair.common, len(pair.changes), pair.note) == (3, 1, "")
    assert pair.changes[0].b == "ok, max error 1"
    assert len(pair.timed.deltas) == sum(bool(each.samples) for each in found[:3])
    console = Console(record=True, width=200)
    print_comparison(compare_runs(*runs), console)
    assert "Records of parity: 2 of 3 have the same status and error in both." in console.export_text()


def test_list_open_and_compare_as_commands(ran, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setattr("webbrowser.get", lambda: pytest.fail("there is no browser"))
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    out = ["--out", str(ran.path.parent)]
    shown = {}
    for words in (["list"], ["open", ran.path.name], ["compare", str(ran.path), str(ran.path / "good")]):
        with pytest.raises(SystemExit) as exit_info:
            main(["report", *words, *out])
        assert not exit_info.value.code
        shown[words[0]] = capsys.readouterr().out
    assert f"{ran.path.name}, " in shown["list"]
    assert "Is every kernel right on every scenario" in shown["list"]
    assert shown["open"] == f"{ran.index}\n"
    assert "Blocks of 32 are <best>." in shown["compare"]


def test_a_parameter_goes_to_every_notebook_that_has_it_and_must_be_known(tmp_path):
    first = write_notebook(tmp_path / "first.ipynb", parameters="a: int = 1\nb: int = 2\n")
    second = write_notebook(tmp_path / "second.ipynb", parameters="b: int = 3\nout_dir: str = ''\n")
    planned = plan_studies([first, second], {"first.b": "7", "b": "5"})
    assert [dict(each.study.values) for each in planned] == [{"a": 1, "b": 7}, {"b": 5}]
    assert [each.study.writes_records for each in planned] == [False, True]
    for given, complaint in (
        ({"aa": "1"}, r"no notebook of this run has a parameter 'aa'; did you mean 'a'\? Their parameters: a, b"),
        ({"second.a": "1"}, "notebook second has no parameter 'second.a'"),
        ({"third.a": "1"}, "'third.a' is for a notebook 'third', which is not in this run; in it are first, second"),
        ({"out_dir": "x"}, "no notebook of this run has a parameter 'out_dir'"),
        ({"b": "x"}, "(?s)first: b: expected int, got 'x'.*second: b: expected int"),
    ):
        with pytest.raises(ParameterError, match=complaint):
            plan_studies([first, second], given)


def test_notebooks_are_chosen_by_name():
    assert [path.stem for path in choose_notebooks(["parity", "roofline"], ["roofline"])] == ["parity"]
    with pytest.raises(ReportError, match="did you mean 'parity'"):
        choose_notebooks(["party"])
    with pytest.raises(ReportError, match="leave no notebook"):
        choose_notebooks(["parity"], ["parity"])


def test_words_of_the_command_are_no_notebook_names(tmp_path, monkeypatch):
    write_notebook(tmp_path / "all.ipynb")
    with pytest.raises(ReportError, match=r"rename all\.ipynb"):
        find_notebook(tmp_path / "all.ipynb")
    monkeypatch.setattr("workbench.report.find.notebooks_path", tmp_path.joinpath)
    with pytest.raises(ReportError, match=r"rename all\.ipynb"):
        known_notebooks()


def test_every_notebook_says_what_it_asks():
    for name in known_notebooks():
        described = describe_notebook(find_notebook(name))
        assert described.title != name
        assert len(described.question) > 20
    assert not describe_notebook(find_notebook("kv_tile")).measures
    assert describe_notebook(find_notebook("parity")).measures


def test_on_a_gpu_what_measures_runs_alone(tmp_path, monkeypatch):
    """Stand-ins for the processes: the two that do not measure wait for each other."""
    running, beside, together = [], [], threading.Barrier(2, timeout=20)

    def run(process, _view):
        running.append(process.study.name)
        if process.study.name.startswith("c"):
            together.wait()
        else:
            beside.append(tuple(running))
        running.remove(process.study.name)
        page = process.folder / "page.html"
        return ReportResult(process.folder, page, page, None, (), "ok")

    monkeypatch.setattr(suite.StudyProcess, "run", run)
    monkeypatch.setattr(suite, "environment_facts", lambda: {**environment_facts(), "device_kind": "gpu"})
    notebooks = [write_notebook(tmp_path / f"{name}.ipynb") for name in ("m1", "m2", "c1", "c2")]
    for path in notebooks[2:]:
        path.write_text(json.dumps(json.loads(path.read_text()) | {"metadata": {"workbench": {"measures": False}}}))
    result = run_all(out=tmp_path / "out", notebooks=notebooks, jobs=4, progress=False)
    assert result.status == "ok"
    assert beside == [("m1",), ("m2",)]


def test_the_command_passes_what_was_given_and_ends_with_code_1(monkeypatch, tmp_path, ran, capsys):
    calls = []
    monkeypatch.setattr(workbench.report, "run_all", lambda *given, **options: calls.append((given, options)) or ran)
    options = ["--size", "small", "--only", "a, b", "--skip", "c", "--jobs", "2", "--out", str(tmp_path)]
    with pytest.raises(SystemExit) as exit_info:
        main(["report", "all", *options, "-p", "seed", "7"])
    assert exit_info.value.code == 1
    expected = {"size": "small", "only": ["a", "b"], "skip": ["c"], "jobs": 2, "timeout": 3600.0}
    assert calls == [(({"seed": "7"}, tmp_path), expected)]
    out = capsys.readouterr().out
    assert "3 of 4 studies failed. Total time" in out
    assert str(ran.index) in "".join(out.split("\n"))
    asked = {**expected, "parameters": {"seed": "7"}}
    assert command_line(asked) == "workbench report all --size small --only a,b --skip c --jobs 2 -p seed 7"


@pytest.mark.parametrize(
    ("value", "shown"), [(207, "207"), (12345.6, "12,346"), (0.001523, "0.00152"), (1e-9, "1.00e-09")]
)
def test_figures_keep_three_digits(value, shown):
    assert format_figure(value) == shown
    assert [format_duration(seconds) for seconds in (34, 192, 7500)] == ["34 s", "3 min 12 s", "2 h 05 min"]
