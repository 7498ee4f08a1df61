"""All notebooks without running them: their code is Python, and what they import from this project is there."""

import ast
import json
from importlib import import_module

import nbformat
import pytest

from workbench.report import find_notebook, known_notebooks
from workbench.report.find import describe_notebook


@pytest.mark.parametrize("name", known_notebooks())
def test_what_a_notebook_imports_is_there(name):
    cells = nbformat.read(str(find_notebook(name)), as_version=4).cells
    tree = ast.parse("\n".join(cell.source for cell in cells if cell.cell_type == "code"))
    wanted = [
        (node.module, alias.name) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    ours = [(module, imported) for module, imported in wanted if module.partition(".")[0] == "workbench"]
    assert ours
    missing = [found for found in ours if not hasattr(import_module(found[0]), found[1]) and not is_module(*found)]
    assert missing == []


def is_module(package, name):
    """Whether the name is a module of that package."""
    try:
        import_module(f"{package}.{name}")
    except ModuleNotFoundError:
        return False
    return True


def test_a_question_is_told_as_it_reads(tmp_path):
    cell = {
        "cell_type": "markdown",
        "source": ["# Grids\n", "\n", "Does `a` gain, as [L2](l2.ipynb) **says**?\n", "\n", "More."],
    }
    path = tmp_path / "mine.ipynb"
    path.write_text(json.dumps({"cells": [cell]}))
    assert describe_notebook(path).question == "Does a gain, as L2 says?"
