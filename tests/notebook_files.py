"""Notebooks for the tests of reports, written as they are needed."""

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

SWEEP = """
block_size: int = 16  # tokens per block
"""


def write_notebook(path, *cells, parameters=SWEEP, tagged=True):
    """A notebook with a parameters cell (unless it is None) before the other cells; a cell in # is Markdown."""
    notebook = new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    if parameters is not None:
        tags = {"tags": ["parameters"]} if tagged else {}
        notebook.cells.append(new_code_cell(parameters, metadata=tags))
    for source in cells:
        notebook.cells.append(new_markdown_cell(source) if source.startswith("# ") else new_code_cell(source))
    nbformat.write(notebook, str(path))
    return path
