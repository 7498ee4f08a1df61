"""The pages of docs/ and the README: their links, their commands, and the examples of docs/extending.md carried out."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_lines import check_command
from fake_timer import FakeTimer
from notebook_files import write_notebook

from workbench.bench import bench_scenarios
from workbench.compiler import compile_kernel
from workbench.compiler.normalise import machine_code_digest
from workbench.compiler.variants import build_requests
from workbench.device import load_device
from workbench.parity import TimingPlan
from workbench.parity.baselines import BASELINES
from workbench.problem import UnifiedAttentionProblem
from workbench.report import notebook_parameters
from workbench.route import route_rows
from workbench.scenarios import Scenario, find, load_file
from workbench.spec import DenseSpec

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXTENDING = (ROOT / "docs" / "extending.md").read_text()
LARGEST_PICTURE = 150_000
BOTH_WAYS = """
from workbench.compiler import compile_kernel
from workbench.compiler.normalise import machine_code_digest
from workbench.compiler.variants import build_requests
from workbench.levers import find_kernel
from workbench.scenarios import find
from workbench.spec import DenseSpec

for value in find_kernel("dense").lever("load_v_late").values:
    (request,) = build_requests(find("dense_headline").problem, DenseSpec(load_v_late=value))
    print(machine_code_digest(compile_kernel(request).assembly))
"""


def blocks(text):
    """(what stands behind the fence, content) of each code block, less its indentation."""
    found = re.findall(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", text, re.MULTILINE)
    return [(info, re.sub(rf"^{indent}", "", body, flags=re.MULTILINE)) for indent, info, body in found]


def commands(text):
    """Commands of code blocks, and those in a sentence that come with an option; less comments and pipes."""
    lines = [line for info, body in blocks(text) if not info for line in body.splitlines()]
    lines += [line for line in re.findall(r"`([^`\n]+)`", text) if " -" in line]
    return [re.split(r" #| \| ", line)[0] for line in lines if line.startswith("workbench ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
class TestPages:
    def test_links_and_pictures_lead_somewhere(self, page):
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
            path, _, anchor = target.partition("#")
            if "://" in target:
                continue
            linked = page if not path else page.parent / path
            assert linked.exists(), target
            if linked.suffix == ".png":
                assert linked.stat().st_size < LARGEST_PICTURE
            if anchor:
                headings = re.findall(r"^#+ (.+)$", linked.read_text(), re.MULTILINE)
                assert anchor in [re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings]

    def test_commands_are_ones_that_the_workbench_takes(self, page, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for line in commands(page.read_text()):
            check_command(shlex.split(line)[1:])


def test_every_picture_is_shown():
    shown = {target for page in PAGES for target in re.findall(r"\]\((pictures/[^)]+)\)", page.read_text())}
    assert shown == {f"pictures/{path.name}" for path in (ROOT / "docs" / "pictures").glob("*.png")}


class TestExtending:
    @pytest.mark.slow
    def test_a_lever(self, tmp_path):
        for name in ("workbench", "kernels", "data"):
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "measured"))
        shutil.copy(ROOT / "pyproject.toml", tmp_path)
        changes = [(info.split()[1], body) for info, body in blocks(EXTENDING) if info.startswith("diff ")]
        assert len(changes) == 7
        for path, body in changes:
            change(tmp_path / path, body)
        (tmp_path / "workbench" / "kernels").symlink_to(tmp_path / "kernels")
        run = subprocess.run(
            [sys.executable, "-c", BOTH_WAYS],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        default, late = run.stdout.split()
        (shipped,) = build_requests(find("dense_headline").problem, DenseSpec())
        assert default == machine_code_digest(compile_kernel(shipped).assembly)
        assert late != default

    def test_a_scenario_and_a_device(self, tmp_path):
        (mine,) = [body for info, body in blocks(EXTENDING) if info.startswith("json ")]
        (tmp_path / "mine.json").write_text(mine)
        half = json.loads((ROOT / "data" / "devices" / "mi355x.json").read_text())
        half |= {"name": "half", "title": "Half an MI355X"}
        half["figures"]["compute_units"]["value"] = 128
        (tmp_path / "half.json").write_text(json.dumps(half))
        scenarios = load_file(tmp_path / "mine.json")
        whole, part = load_device("mi355x"), load_device(tmp_path / "half.json")
        for device, target, segments in ((whole, 1024, 16), (part, 512, 8)):
            (row,) = route_rows(scenarios, device)
            assert (row["lane"], row["workgroups"], row["target"]) == ("3d", 154, target)
            assert row["launch grid"][2] == segments

    def test_a_baseline(self, monkeypatch):
        (code,) = [body for info, body in blocks(EXTENDING) if "class Eager" in body]
        found = {}
        exec(code, found)  # noqa: S102
        monkeypatch.setitem(BASELINES, "eager", found["Eager"]())
        paged = Scenario("paged", "tests", UnifiedAttentionProblem(((1, 40), (3, 20)), 4, 2, 32, 16))
        records = bench_scenarios(
            [paged], ("2d",), baselines=["eager"], plan=TimingPlan(), device="cpu", timer=FakeTimer({"eager/2d": 400.0})
        )
        assert [record.status for record in records] == ["ok", "ok"]
        assert records[1].samples

    def blocks_of_a_study(self):
        return [body for info, body in blocks(EXTENDING.partition("## A study")[2]) if info == "python"]

    def test_a_table_of_variants(self, monkeypatch):
        taken = []
        monkeypatch.setattr("workbench.studies.lever_study.study_variants", taken.extend)
        monkeypatch.setattr("workbench.studies.lever_views.figure_table", lambda study: study)
        exec("from workbench.scenarios import find\n" + self.blocks_of_a_study()[2], {})  # noqa: S102
        assert [(each.name, each.spec.num_stages) for each in taken] == [("one tile", 1), ("two tiles", 2)]

    def test_a_study(self, tmp_path, capsys):
        parameters, last, _ = self.blocks_of_a_study()
        notebook = write_notebook(tmp_path / "mine.ipynb", last, parameters=parameters)
        declared = notebook_parameters(notebook)
        assert [(name, each.help) for name, each in declared.items()] == [("scenario", "what is routed")]
        exec(last, {"scenario": "prefill_d128_b16"})  # noqa: S102 - as a report runs it with -p scenario prefill_d128_b16
        assert capsys.readouterr().out == "prefill_d128_b16 takes the 2d lane. [static]\n"


def change(path, body):
    """Carry out a change that is given as lines with ' ', '-' or '+' before them."""
    lines = body.splitlines()
    before = "\n".join(line[1:] for line in lines if line[:1] in " -")
    after = "\n".join(line[1:] for line in lines if line[:1] in " +")
    text = path.read_text()
    assert text.count(before + "\n") == 1, f"{path}: {before!r}"
    path.write_text(text.replace(before + "\n", after + "\n"))
