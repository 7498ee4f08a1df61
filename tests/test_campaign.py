"""The campaign on made-up steps: no GPU is needed."""

import json
import sys

import pytest
from command_lines import check_command
from typer.testing import CliRunner

from workbench import campaign
from workbench.campaign import Step, check_gpu, choose, plan_campaign, run_campaign
from workbench.cli.app import app
from workbench.errors import BackendUnavailable, DeviceError, ParameterError, ReportError


def step(name, code=0, product=None):
    script = f"import pathlib, sys; pathlib.Path('count-{name}').open('a').write('x'); sys.exit({code})"
    return Step(name, (sys.executable, "-c", script), product)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "checkout_root", lambda: tmp_path)
    return tmp_path / "measured"


def test_every_command_is_one_that_the_workbench_takes(tmp_path):
    for each in plan_campaign(tmp_path):
        if each.command[1:3] == ("-m", "workbench"):
            check_command(each.command[3:])


def test_a_step_that_fails_stops_no_other_and_is_run_again(folder, tmp_path):
    steps = [step("one"), step("two", code=3), step("three")]
    assert [outcome.code for outcome in run_campaign(steps, folder)] == [0, 3, 0]
    assert [outcome.code for outcome in run_campaign([*steps[:1], step("two"), steps[2]], folder)] == [0, 0, 0]
    assert [len((tmp_path / f"count-{each.name}").read_text()) for each in steps] == [1, 2, 1]
    assert len(json.loads((folder / campaign.STATUS).read_text())["steps"]) == 3
    assert "count-two" in (folder / "logs" / "two.log").read_text()


def test_what_a_failed_step_wrote_is_kept_and_its_failure_too(folder, tmp_path):
    product = tmp_path / "records.parquet"
    product.write_text("records")
    said = []
    assert run_campaign([step("bench", product=product)], folder, said.append) == ()
    assert said == ["1 of 1, bench: done before"]


def test_a_folder_of_something_else_is_left_alone(folder):
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    with pytest.raises(ReportError, match=r"no folder of a campaign.*--out"):
        run_campaign([step("one")], folder)
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]


def test_steps_are_chosen_by_name_or_by_kind(tmp_path):
    steps = plan_campaign(tmp_path)
    assert [each.name for each in choose(steps, ["bench serving", "reports"], [])] == ["bench serving", "reports"]
    assert {each.name.split()[0] for each in choose(steps, [], ["bench", "tests"])} == {
        "doctor",
        "profile",
        "tune",
        "reports",
    }
    with pytest.raises(ParameterError, match="there is no step bnch"):
        choose(steps, ["bnch"], [])
    with pytest.raises(ParameterError, match="leave no step"):
        choose(steps, ["bench"], ["bench"])


def test_a_profile_that_failed_is_tried_into_a_new_folder(tmp_path):
    (tmp_path / "profiles" / "dense_headline").mkdir(parents=True)
    (last,) = choose(plan_campaign(tmp_path), ["profile dense_headline"], [])
    assert last.command[-1].endswith("dense_headline-2")


def test_the_gpu_is_checked_before_anything_runs(monkeypatch):
    monkeypatch.setattr(campaign, "detect_device", lambda: None)
    with pytest.raises(BackendUnavailable, match=r"sees no GPU here; asked for was an AMD Instinct MI355X \(gfx950\)"):
        check_gpu("mi355x")
    monkeypatch.setattr(campaign, "detect_device", lambda: campaign.load_device("h200"))
    assert check_gpu().name == check_gpu("h100").name == "h200"
    with pytest.raises(BackendUnavailable, match="here is NVIDIA H200"):
        check_gpu("mi355x")


def test_a_dry_run_needs_no_gpu():
    result = CliRunner().invoke(app, ["measure", "--dry-run", "--only", "reports"])
    assert result.exit_code == 0
    assert "report all --size full" in result.output


def test_a_dry_run_refuses_what_a_run_would(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    for option, value, error in (("--expect", "nosuch", DeviceError), ("--out", tmp_path / "thesis.txt", ReportError)):
        result = CliRunner().invoke(app, ["measure", "--dry-run", option, str(value)])
        assert isinstance(result.exception, error)
        assert str(value) in str(result.exception)
        assert result.output == ""
