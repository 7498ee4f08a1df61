"""Where a notebook is: by name in the checkout or the installed package, or by path."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from workbench.errors import ReportError
from workbench.resources import notebooks_path


def known_notebooks() -> tuple[str, ...]:
    """Names of the notebooks that come with the workbench."""
    return tuple(sorted(path.stem for path in notebooks_path().glob("*.ipynb")))


def find_notebook(name: str | Path) -> Path:
    """Path of a notebook given by name (`parity`) or by path (`mine.ipynb`). ReportError if there is none."""
    given = Path(name)
    if given.suffix == ".ipynb":
        if given.is_file():
            return given.resolve()
        raise ReportError(f"no notebook at {given}; give an existing .ipynb file or one of: {_listed()}")
    if str(name) in known_notebooks():
        return notebooks_path(f"{name}.ipynb")
    close = get_close_matches(str(name), known_notebooks(), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    raise ReportError(f"no notebook is named {str(name)!r}{hint} Known notebooks: {_listed()}")


def _listed() -> str:
    return ", ".join(known_notebooks()) or "none (this installation carries no notebooks)"
