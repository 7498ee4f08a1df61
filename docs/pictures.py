"""Draws the tour's pictures anew, each from the report that the tour tells of: `python docs/pictures.py`."""

from __future__ import annotations

import base64
import io
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from workbench.report import run_report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDER = Path(__file__).parent / "pictures"
WIDTH = 1200
COLOURS = 96
"""Plots have few; a palette makes a third of the file."""


@dataclass(frozen=True)
class Picture:
    """A figure of a report, counted from 0."""

    name: str
    notebook: str
    figure: int
    parameters: Mapping[str, Any] = field(default_factory=dict)


PICTURES = (
    Picture("lanes", "routing", 0),
    Picture("pads", "dense_lds_k_pad", 0, {"copies": "dispatched"}),
    Picture("banks", "dense_lds_k_pad", 1, {"copies": "dispatched"}),
    Picture(
        "study",
        "compile_study",
        0,
        {"scenario": "single_batch_d128_S4096", "lever": "waves_per_eu", "values": ["1", "2", "3"]},
    ),
    Picture("parity", "parity", 0, {"size": "small"}),
)


def figures(notebook: Path) -> Iterator[Image.Image]:
    """The figures of an executed notebook."""
    for cell in json.loads(notebook.read_text())["cells"]:
        for output in cell.get("outputs", ()):
            if png := output.get("data", {}).get("image/png"):
                yield Image.open(io.BytesIO(base64.b64decode("".join(png))))


def save(figure: Image.Image, path: Path) -> None:
    """Write a figure small enough for a page."""
    height = round(figure.height * WIDTH / figure.width)
    small = figure.convert("RGB").resize((WIDTH, height), Image.Resampling.LANCZOS)
    small.quantize(COLOURS).save(path, optimize=True)


def main() -> None:
    """Run each report once and take its figures."""
    FOLDER.mkdir(exist_ok=True)
    done: dict[str, list[Image.Image]] = {}
    with tempfile.TemporaryDirectory() as reports:
        for picture in PICTURES:
            if picture.notebook not in done:
                report = run_report(picture.notebook, picture.parameters, reports)
                if report.failed:
                    sys.exit(f"{picture.notebook} failed: {report.failed[0]}")
                done[picture.notebook] = list(figures(report.notebook))
            save(done[picture.notebook][picture.figure], FOLDER / f"{picture.name}.png")


if __name__ == "__main__":
    main()
