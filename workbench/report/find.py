"""Where a notebook is, by name or by path, and what it says of itself before it runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from workbench.errors import ReportError
from workbench.json_text import parse_json
from workbench.resources import notebooks_path

RESERVED = ("all", "compare", "list", "open")
"""Words of `workbench report`, which no notebook may have for its name."""


@dataclass(frozen=True)
class Description:
    """What a notebook says of itself."""

    title: str
    """The heading of its first Markdown cell, else the file's name."""
    question: str
    """The first paragraph below that heading; empty if there is none."""
    measures: bool = True
    """Whether it times or otherwise occupies a GPU where there is one: `"workbench": {"measures": false}` in the
    notebook's metadata says that it does not."""
    interactive: bool = False
    """Whether it waits for a reader's clicks (`"workbench": {"interactive": true}`): `report all` leaves it out unless
    it is named."""


def known_notebooks() -> tuple[str, ...]:
    """Names of the notebooks that come with the workbench. ReportError if one has a reserved name."""
    names = tuple(sorted(path.stem for path in notebooks_path().glob("*.ipynb")))
    for name in names:
        _refuse_reserved(name)
    return names


def find_notebook(name: str | Path) -> Path:
    """Path of a notebook given by name (`parity`) or by path (`mine.ipynb`). ReportError if there is none."""
    given = Path(name)
    if given.suffix == ".ipynb":
        _refuse_reserved(given.stem)
        if given.is_file():
            return given.resolve()
        raise ReportError(f"no notebook at {given}; give an existing .ipynb file or one of: {_listed()}")
    _refuse_reserved(str(name))
    if str(name) in known_notebooks():
        return notebooks_path(f"{name}.ipynb")
    close = get_close_matches(str(name), known_notebooks(), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    raise ReportError(f"no notebook is named {str(name)!r}{hint} Known notebooks: {_listed()}")


def describe_notebook(path: Path) -> Description:
    """Title, question and needs of a notebook. A file that cannot be read is described by its name alone."""
    try:
        notebook = parse_json(path.read_text(encoding="utf-8"))
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
        text = "".join(cells[0]["source"]) if cells else ""
        flags = notebook.get("metadata", {}).get("workbench", {})
        measures, interactive = bool(flags.get("measures", True)), bool(flags.get("interactive", False))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Description(path.stem, "")
    heading, _, rest = text.strip().partition("\n")
    if not heading.startswith("#"):
        return Description(path.stem, _paragraph(text), measures, interactive)
    return Description(heading.lstrip("# ").strip() or path.stem, _paragraph(rest), measures, interactive)


def _paragraph(text: str) -> str:
    """The first paragraph on one line, as it reads: links by their text, code and emphasis without their marks."""
    line = " ".join(text.strip().partition("\n\n")[0].split())
    return re.sub(r"`|\*\*", "", re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", line))


def _refuse_reserved(name: str) -> None:
    if name in RESERVED:
        raise ReportError(
            f"`workbench report {name}` is a command of its own, so no notebook can have that name: rename "
            f"{name}.ipynb; `workbench report {name} --help` tells what the command does"
        )


def _listed() -> str:
    return ", ".join(known_notebooks()) or "none (this installation carries no notebooks)"
