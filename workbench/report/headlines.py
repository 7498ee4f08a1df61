"""The key figure of a study, said by its notebook in one sentence that a report's index can quote."""

from __future__ import annotations

import html
import math
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from workbench.errors import ReportError
from workbench.records import EVIDENCE_KINDS

HEADLINE_MIME = "application/vnd.attention-workbench.headline+json"

_BOX = (
    '<div style="border-left:4px solid #1f5fbf;padding:.5em 1em;margin:.5em 0;background:#f5f7fa;color:#1d2430">'
    '<strong>{sentence}</strong> <span style="color:#5b6676">{evidence}</span></div>'
)


@dataclass(frozen=True)
class Headline:
    """A sentence with its evidence; ReportError where it says nothing or claims an unknown kind of evidence."""

    sentence: str
    evidence: str
    """`measured`, `emulated`, `modelled`, `static` or `published`."""
    value: float | None = None
    """The figure that the sentence turns on, so that two reports can be compared by it."""
    unit: str | None = None
    """The figure's unit: "1" for a plain number, "%" for a share of 100."""

    def __post_init__(self) -> None:
        if not isinstance(self.sentence, str) or not self.sentence.strip():
            raise ReportError(f"a headline is one sentence of text, got {self.sentence!r}")
        if self.evidence not in EVIDENCE_KINDS:
            close = get_close_matches(str(self.evidence), EVIDENCE_KINDS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ReportError(
                f"a headline's evidence is one of {', '.join(EVIDENCE_KINDS)}, got {self.evidence!r}{hint}"
            )
        if (self.value is None) != (self.unit is None):
            raise ReportError(
                f"a headline's value and unit come together, got value={self.value!r} and unit={self.unit!r}; "
                'a plain number has unit="1"'
            )
        if self.value is not None and not math.isfinite(self.value):
            raise ReportError(f"a headline's value is a finite number, got {self.value!r}")

    def payload(self) -> dict[str, Any]:
        """As it is stored in the notebook."""
        return {"sentence": self.sentence, "evidence": self.evidence, "value": self.value, "unit": self.unit}


def headline(sentence: str, *, evidence: str, value: float | None = None, unit: str | None = None) -> None:
    """Show the key figure of a study, and leave it in the executed notebook for the index of `workbench report all`.

    sentence: plain text, figure included. evidence: how the figure was had. value, unit: the figure alone, for
    `workbench report compare`. Outside Jupyter the sentence is printed.
    Raises ReportError for an empty sentence, an unknown kind of evidence, or a value without its unit.
    """
    # Figures often come as NumPy scalars, which JSON does not know.
    said = Headline(" ".join(str(sentence).split()), evidence, None if value is None else float(value), unit)
    text = f"{said.sentence} [{said.evidence}]"
    if not _in_notebook():
        sys.stdout.write(f"{text}\n")
        return
    from IPython.display import display

    box = _BOX.format(sentence=html.escape(said.sentence), evidence=said.evidence)
    display({HEADLINE_MIME: said.payload(), "text/html": box, "text/plain": text}, raw=True)


def read_headlines(notebook: Path) -> tuple[Headline, ...]:
    """The headlines in an executed notebook, in the order in which they were said."""
    import nbformat

    cells = nbformat.read(str(notebook), as_version=4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    said = [output["data"][HEADLINE_MIME] for output in outputs if HEADLINE_MIME in output.get("data", {})]
    return tuple(Headline(**payload) for payload in said)


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs this; the answer loads nothing."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module else None
    return getattr(shell, "kernel", None) is not None
