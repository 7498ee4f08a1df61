"""The project's own laws, where a rule can be checked by a machine."""

import ast
import json
import re
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAX_LINES = 600
MAX_NOTEBOOK_CELLS = 20

DEVICE_CODE = sorted((ROOT / "kernels").rglob("*.py"))
HOST_CODE = sorted((ROOT / "workbench").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

# What a module may not import, at any depth of nesting. The first says what is computed, so it knows no kernel;
# dispatch is a pure function of problem and device, so it knows no tensor.
FORBIDDEN_IMPORTS = {
    "workbench/problem.py": ("torch", "triton", "workbench.kernels", "workbench.spec"),
    "workbench/spec.py": ("torch", "triton", "workbench.kernels"),
    "workbench/reference.py": ("triton", "workbench.kernels", "workbench.attention", "workbench.launch"),
    "workbench/dispatch": ("torch", "triton", "workbench.kernels", "workbench.attention", "workbench.tune"),
    "workbench/attention": ("workbench.parity", "workbench.report", "workbench.cli"),
    "workbench/compiler": ("workbench.parity", "workbench.report", "workbench.cli"),
    "workbench/parity": ("workbench.bench", "workbench.tune", "workbench.report", "workbench.cli"),
    "workbench/bench": ("workbench.tune", "workbench.report", "workbench.cli"),
    "workbench/tune": ("workbench.report", "workbench.cli"),
    "workbench/report": ("workbench.cli",),
}
IMPORTS_OF_DEVICE_CODE = ("triton", "workbench.kernels", "__future__", "typing")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def by_path(paths: list[Path]) -> dict:
    return {"argvalues": paths, "ids": [relative(path) for path in paths]}


def package(path: Path) -> str:
    """The package that a file's relative imports start from."""
    parts = path.relative_to(ROOT).parent.parts
    return ".".join(("workbench", *parts) if parts[0] == "kernels" else parts)


def imports(path: Path) -> set[str]:
    """Every module that a file imports, inside functions too; `from a import b` counts as a and a.b."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package(path))
            found |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return found


def is_within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def test_there_is_code_to_check():
    assert DEVICE_CODE
    assert HOST_CODE


@pytest.mark.parametrize("path", **by_path(DEVICE_CODE + HOST_CODE + TESTS))
def test_files_stay_short(path):
    assert len(path.read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", **by_path(DEVICE_CODE + HOST_CODE))
def test_nothing_is_left_for_later(path):
    left = re.findall(r"\b(?:TODO|FIXME|XXX|HACK)\b|NotImplementedError", path.read_text())
    assert left == []


@pytest.mark.parametrize("path", **by_path(DEVICE_CODE))
def test_device_code_imports_triton_alone(path):
    assert [module for module in imports(path) if not is_within(module, IMPORTS_OF_DEVICE_CODE)] == []


@pytest.mark.parametrize("where", FORBIDDEN_IMPORTS)
def test_imports_go_one_way(where):
    root = ROOT / where
    files = sorted(root.rglob("*.py")) if root.is_dir() else [root]
    wrong = {
        relative(path): sorted(module for module in imports(path) if is_within(module, FORBIDDEN_IMPORTS[where]))
        for path in files
    }
    assert {path: modules for path, modules in wrong.items() if modules} == {}


@pytest.mark.parametrize("path", **by_path(NOTEBOOKS))
class TestNotebooks:
    def cells(self, path: Path) -> list[dict]:
        return json.loads(path.read_text())["cells"]

    def code(self, path: Path) -> list[dict]:
        return [cell for cell in self.cells(path) if cell["cell_type"] == "code"]

    def test_outputs_are_stripped(self, path):
        assert [cell for cell in self.code(path) if cell["outputs"] or cell["execution_count"] is not None] == []

    def test_has_one_parameters_cell(self, path):
        tagged = [cell for cell in self.code(path) if "parameters" in cell["metadata"].get("tags", [])]
        assert len(tagged) == 1

    def test_is_short(self, path):
        assert len(self.cells(path)) <= MAX_NOTEBOOK_CELLS

    def test_defines_nothing(self, path):
        """What is worth a name is worth a module and a test."""
        tree = ast.parse("\n".join("".join(cell["source"]) for cell in self.code(path)))
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        assert [node for node in ast.walk(tree) if isinstance(node, kinds)] == []
