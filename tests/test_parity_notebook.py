"""The parity notebook through papermill, on scenarios as small as they get."""

import json

import nbformat

from workbench.records import read_records
from workbench.report import find_notebook, notebook_parameters, run_report
from workbench.report.html import external_references

TINY = {
    "name": "tiny",
    "seq_lens": [[1, 20], [3, 9]],
    "num_query_heads": 4,
    "num_kv_heads": 2,
    "head_size": 32,
    "block_size": 16,
    "dtype": "fp16",
}


def tiny_set(path, *scenarios):
    path.write_text(
        json.dumps({"set": path.stem, "kind": "unified", "description": "For a test.", "scenarios": list(scenarios)})
    )
    return str(path)


def test_the_notebook_keeps_the_house_rules():
    notebook = nbformat.read(str(find_notebook("parity")), as_version=4)
    assert len(notebook.cells) <= 20
    assert all(not cell.get("outputs") for cell in notebook.cells)
    assert all("def " not in cell.source and "lambda" not in cell.source for cell in notebook.cells)
    assert all(parameter.help for parameter in notebook_parameters(find_notebook("parity")).values())


def test_the_report_holds_three_tables_and_the_records(tmp_path, capfd):
    given = {
        "set_name": tiny_set(tmp_path / "mine.json", TINY),
        "device": "cpu",
        "jobs": "1",
        "baselines": "sdpa,aiter",
    }
    result = run_report("parity", given, tmp_path / "out")
    assert result.failed == ()
    assert result.status == "ok"
    records = read_records(result.records)
    assert [(record.lane, record.status) for record in records if record.candidate == "workbench"] == [
        ("auto", "ok"),
        ("2d", "ok"),
        ("3d", "ok"),
    ]
    html = result.html.read_text()
    for heading in ("auto vs auto", "2d vs 2d, 3d vs 3d, dense", "2d", "3d"):
        assert f"{heading}<" in html.replace("\n", "")
    assert "1 of 1 scenarios pass in all admitted lanes" in html
    assert "aiter needs a GPU" in html
    assert "Times are not measured" in html
    assert html.count("wb-ok") >= 3
    assert external_references(html) == []
    assert "1 of 1 scenarios done, tiny" in capfd.readouterr().err


def test_a_failing_scenario_is_a_row_and_the_report_has_failed(tmp_path):
    """A cache that is too small for its sequences fails alone; the other scenario is still judged."""
    cramped = {**TINY, "name": "cramped", "num_blocks": 1}
    given = {"set_name": tiny_set(tmp_path / "mine.json", TINY, cramped), "device": "cpu", "jobs": 1, "size": "full"}
    result = run_report("parity", {**given, "lanes": ["2d"], "baselines": "none"}, tmp_path / "out", progress=False)
    assert result.status == "failed"
    assert len(result.failed) == 1
    assert result.failed[0].startswith("cramped, lane 2d: runtime_error:")
    assert "1 of 2 scenarios pass in all admitted lanes" in result.html.read_text()
    assert {record.scenario: record.status for record in read_records(result.records)} == {
        "tiny": "ok",
        "cramped": "runtime_error",
    }
