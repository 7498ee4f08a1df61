"""What an installation holds, and that the three descriptions of the environment say the same."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from workbench.resources import data_path, notebooks_path

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "workbench", "kernels", "data", "notebooks")


def requirements(*groups: list[str]) -> dict[str, Requirement]:
    """Requirements by canonical name."""
    parsed = [Requirement(line) for group in groups for line in group]
    return {canonicalize_name(requirement.name): requirement for requirement in parsed}


def declared() -> dict[str, Requirement]:
    return requirements(PYPROJECT["project"]["dependencies"])


def constrained() -> dict[str, Requirement]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return requirements([line for line in lines if line and not line.startswith("#")])


def environment() -> tuple[list[str], list[str]]:
    """environment.yml as (conda packages, lines for pip)."""
    entries = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    (pip,) = (entry["pip"] for entry in entries if isinstance(entry, dict))
    return [entry for entry in entries if isinstance(entry, str)], pip


def test_conda_environment_lists_what_pyproject_declares():
    conda, pip = environment()
    assert f"python{PYPROJECT['project']['requires-python']}" in conda
    options = [line for line in pip if line.startswith("-")]
    assert options == ["--constraint constraints.txt", "--editable .[dev]"]
    listed = requirements([line for line in pip if not line.startswith("-")])
    assert {name: str(found) for name, found in listed.items()} == {
        name: str(found) for name, found in declared().items()
    }


def test_constraints_pin_every_dependency_within_what_pyproject_accepts():
    pins = constrained()
    wanted = requirements(PYPROJECT["project"]["dependencies"], PYPROJECT["project"]["optional-dependencies"]["dev"])
    for name, requirement in wanted.items():
        assert name in pins, f"{name} is not in constraints.txt"
        for bound in pins[name].specifier:
            assert requirement.specifier.contains(bound.version), f"{name}: {bound} against {requirement}"


def test_constraints_are_exact_but_for_triton():
    """Triton alone is a range, for the builds of torch that pin it."""
    ranges = [name for name, pin in constrained().items() if [bound.operator for bound in pin.specifier] != ["=="]]
    assert ranges == ["triton"]


def test_no_file_of_the_environment_names_a_package_index():
    for name in ("pyproject.toml", "constraints.txt", "environment.yml", "Makefile"):
        text = (ROOT / name).read_text()
        assert "index-url" not in text
        assert "find-links" not in text


def test_pyproject_lists_every_package_directory():
    inits = [path.parent.relative_to(ROOT) for path in (ROOT / "workbench").rglob("__init__.py")]
    inits += [Path("workbench") / path.parent.relative_to(ROOT) for path in (ROOT / "kernels").rglob("__init__.py")]
    expected = {".".join(folder.parts) for folder in inits}
    assert set(SETUPTOOLS["packages"]) == expected | {"workbench._data", "workbench._notebooks"}


def test_every_module_lies_in_a_package():
    folders = {path.parent for path in (ROOT / "workbench").rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from a copy of the sources so that the checkout stays clean."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder / "dist"),
        str(source),
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    (built,) = (folder / "dist").glob("*.whl")
    return built


def files_below(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and ".ipynb_checkpoints" not in path.parts
    }


@pytest.mark.parametrize(
    ("installed", "folder"),
    [
        ("workbench", ROOT / "workbench"),
        ("workbench/kernels", ROOT / "kernels"),
        ("workbench/_data", ROOT / "data"),
        ("workbench/_notebooks", ROOT / "notebooks"),
    ],
)
def test_wheel_holds_every_file(wheel, installed, folder):
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {f"{installed}/{name}" for name in files_below(folder)} - held == set()


def test_wheel_puts_nothing_beside_the_package(wheel):
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert len(tops) == 2
    assert {top.partition("-")[0] for top in tops} == {"workbench", "attention_workbench"}


REPORT_WHERE = """
import workbench, workbench.kernels.probe
from workbench.resources import checkout_root, data_path, notebooks_path
print(workbench.kernels.probe.__file__)
print(data_path())
print(notebooks_path())
print(checkout_root())
print(len(workbench.load_set("default")))
print(workbench.load_device("mi355x").arch)
"""


def where(path: Path | None, folder: Path) -> list[str]:
    """Where the workbench finds its parts when Python starts in `folder` with `path` in front of its import path."""
    code = REPORT_WHERE if path is None else f"import sys; sys.path.insert(0, {str(path)!r})\n{REPORT_WHERE}"
    command = [sys.executable, "-P", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_wheel_works_away_from_the_checkout(wheel, tmp_path):
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(target), str(wheel)], check=True)
    kernel, data, notebooks, checkout, scenarios, arch = where(target, tmp_path)
    assert Path(kernel) == target / "workbench/kernels/probe.py"
    assert Path(data) == target / "workbench/_data"
    assert Path(notebooks) == target / "workbench/_notebooks"
    assert checkout == "None"
    assert int(scenarios) == 13
    assert arch == "gfx950"


def test_editable_install_uses_the_checkout(tmp_path):
    kernel, data, notebooks, checkout, *_ = where(None, tmp_path)
    assert Path(kernel) == ROOT / "kernels/probe.py"
    assert Path(data) == data_path() == ROOT / "data"
    assert Path(notebooks) == notebooks_path() == ROOT / "notebooks"
    assert Path(checkout) == ROOT
