import hashlib
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import nbformat
import pytest
from notebook_files import write_notebook

from workbench.errors import ParameterError, ReportError
from workbench.report import engine, find_notebook, known_notebooks, run_report
from workbench.report.html import external_references

PLOT = """
import matplotlib
matplotlib.use("module://matplotlib_inline.backend_inline")
import matplotlib.pyplot as plt
plt.plot([1, 2]);
"""
PARALLEL = 4
ROUNDS = 2


def report(path, out, **parameters):
    return run_report(str(path), parameters, out, progress=False)


def outputs_of(result):
    cells = nbformat.read(str(result.notebook), as_version=4).cells
    return "".join(output.get("text", "") for cell in cells for output in cell.get("outputs", []))


def test_a_report_is_a_folder_with_everything_in_it(tmp_path, capfd):
    notebook = write_notebook(tmp_path / "demo.ipynb", "# Demo of $x^2$", "print('block', block_size)", PLOT)
    result = run_report(str(notebook), {"block_size": "32"}, tmp_path / "out")

    assert result.status == "ok"
    assert result.failed == ()
    assert result.records is None
    assert "block 32" in outputs_of(result)
    assert "cell 4 of 5" in capfd.readouterr().err
    manifest = json.loads((result.path / "manifest.json").read_text())
    assert manifest["parameters"] == {"block_size": 32}
    assert manifest["status"] == "ok"
    assert manifest["environment"]["python"] == sys.version.split()[0]
    assert manifest["started"] <= manifest["ended"]
    assert set(manifest["files"]) == {"demo.ipynb", "demo.html"}
    for name, facts in manifest["files"].items():
        assert hashlib.sha256((result.path / name).read_bytes()).hexdigest() == facts["sha256"]

    html = result.html.read_text()
    assert external_references(html) == []
    assert "<script" not in html
    assert "data:image/png;base64," in html
    assert "block 32" in html
    assert html.count('<div class="code">') == 4


def test_a_misspelt_parameter_and_a_missing_cell_fail_before_the_kernel(tmp_path):
    """A run that ignored either would record the default's result under another name."""
    ran = tmp_path / "ran"
    touch = f"open({str(ran)!r}, 'w').close()"
    notebook = write_notebook(tmp_path / "sweep.ipynb", touch)
    with pytest.raises(ParameterError, match=r"unknown parameter 'blocksize'; did you mean 'block_size'"):
        report(notebook, tmp_path / "out", blocksize=32)
    untagged = write_notebook(tmp_path / "untagged.ipynb", touch, tagged=False)
    with pytest.raises(ParameterError, match="no code cell tagged 'parameters'"):
        report(untagged, tmp_path / "out", block_size=32)
    with pytest.raises(ParameterError, match="expected int, got 'x'"):
        report(notebook, tmp_path / "out", block_size="x")
    assert not ran.exists()
    assert not (tmp_path / "out").exists()


def test_a_failing_cell_keeps_what_came_before_it(tmp_path):
    notebook = write_notebook(tmp_path / "fails.ipynb", "print('reached')", "1 / 0", "print('not reached')")
    result = report(notebook, tmp_path / "out")
    assert result.status == "failed"
    assert result.failed == ("In [4] failed: ZeroDivisionError: division by zero",)
    assert "not reached" not in outputs_of(result)
    html = result.html.read_text()
    assert "reached" in html
    assert "ZeroDivisionError" in html
    assert "status-failed" in html
    assert json.loads((result.path / "manifest.json").read_text())["failed"] == list(result.failed)


def test_reports_are_append_only(tmp_path):
    notebook = write_notebook(tmp_path / "demo.ipynb")
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: report(notebook, tmp_path / "out"), range(2)))
    assert len({result.path for result in results}) == 2
    assert all(result.html.is_file() for result in results)
    taken = tmp_path / "taken"
    taken.write_text("mine")
    with pytest.raises(ReportError, match="cannot write a report below"):
        report(notebook, taken)
    assert taken.read_text() == "mine"


def test_notebooks_at_once_each_keep_their_own_value(tmp_path):
    notebook = write_notebook(tmp_path / "sweep.ipynb", "print('value', block_size)")
    for first in range(0, PARALLEL * ROUNDS, PARALLEL):
        values = range(first, first + PARALLEL)
        with ThreadPoolExecutor(PARALLEL) as pool:
            results = list(pool.map(lambda value: report(notebook, tmp_path / "out", block_size=value), values))
        assert [result.failed for result in results] == [()] * PARALLEL
        assert [outputs_of(result) for result in results] == [f"value {value}\n" for value in values]


def test_a_failed_kernel_start_is_retried(tmp_path, monkeypatch):
    notebook = write_notebook(tmp_path / "demo.ipynb", "print('block', block_size)")
    start = engine.ReportClient.setup_kernel
    attempts = []

    def fails_once(self, **kwargs):
        attempts.append(self.config.KernelManager.connection_file)
        if len(attempts) == 1:
            raise RuntimeError("Kernel died before replying to kernel_info")
        return start(self, **kwargs)

    monkeypatch.setattr(engine.ReportClient, "setup_kernel", fails_once)
    assert "block 16" in outputs_of(report(notebook, tmp_path / "out"))
    assert len(set(attempts)) == 2


def test_a_kernel_that_never_starts_is_reported(tmp_path, monkeypatch):
    def never(*_args, **_kwargs):
        raise RuntimeError("no kernel for you")

    monkeypatch.setattr(engine.ReportClient, "setup_kernel", never)
    result = report(write_notebook(tmp_path / "demo.ipynb"), tmp_path / "out")
    assert result.status == "failed"
    assert result.failed == ("the notebook's kernel did not start: no kernel for you",)
    assert result.html.is_file()


def test_a_dead_kernel_and_a_spent_time_limit_are_told_apart(tmp_path):
    dies = write_notebook(tmp_path / "dies.ipynb", "import os\nos._exit(1)")
    assert "KernelDied" in report(dies, tmp_path / "out").failed[0]
    sleeps = write_notebook(tmp_path / "sleeps.ipynb", "print('awake')", "import time\ntime.sleep(120)")
    started = time.monotonic()
    result = run_report(str(sleeps), {}, tmp_path / "out", progress=False, timeout=8)
    assert time.monotonic() - started < 60
    assert "TimeLimit" in result.failed[0]
    assert "awake" in outputs_of(result)


def test_a_notebook_that_should_measure_and_does_not_has_failed(tmp_path):
    notebook = write_notebook(tmp_path / "empty.ipynb", parameters='out_dir: str = ""  # folder of the records\n')
    result = report(notebook, tmp_path / "out")
    assert result.status == "failed"
    assert "no records were written" in result.failed[0]
    with pytest.raises(ParameterError, match="out_dir is the report's own folder"):
        report(notebook, tmp_path / "out", out_dir="elsewhere")


def test_unknown_notebooks_are_named_with_the_known_ones(tmp_path):
    assert "parity" in known_notebooks()
    assert find_notebook("parity").is_file()
    with pytest.raises(ReportError, match="did you mean 'parity'"):
        find_notebook("party")
    with pytest.raises(ReportError, match="no notebook at"):
        find_notebook(tmp_path / "none.ipynb")


def test_without_papermill_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "papermill", None)
    with pytest.raises(ReportError, match="reports need papermill, which this environment lacks; install"):
        report(write_notebook(tmp_path / "demo.ipynb"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "fetched",
    [
        '<script src="https://cdn.example/require.js"></script>',
        "<link rel=stylesheet href='//cdn.example/a.css'>",
        '<img alt="x" src="http://example.org/a.png">',
        "@import url(https://example.org/a.css)",
        'a { background: url("https://example.org/a.png") }',
    ],
)
def test_what_a_browser_would_fetch_is_found(fetched):
    assert len(external_references(f"<p>{fetched}</p>")) >= 1
    assert external_references('<a href="https://example.org">a link is no fetch</a>') == []


def test_a_notebook_that_embeds_something_remote_is_not_self_contained(tmp_path):
    notebook = write_notebook(tmp_path / "remote.ipynb", "# Remote\n\n<img src='https://example.org/a.png'>")
    result = report(notebook, tmp_path / "out")
    assert "not self-contained" in result.failed[0]


@pytest.mark.skipif(os.name != "posix", reason="needs Unix sockets")
def test_kernels_talk_over_sockets_of_their_own(tmp_path):
    show = "from ipykernel.kernelapp import IPKernelApp\nprint(IPKernelApp.instance().transport)"
    assert outputs_of(report(write_notebook(tmp_path / "socket.ipynb", show), tmp_path / "out")) == "ipc\n"
