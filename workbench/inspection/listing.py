"""Assembly with its source beside it, one line per instruction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.gfx950.isa import classify

if TYPE_CHECKING:
    from workbench.gfx950.machine_code import SourceLine
    from workbench.inspection.inspection import Inspection


@dataclass(frozen=True)
class Line:
    """One instruction, ready to be shown."""

    number: int
    """Line of the assembly file."""
    label: str
    """Label in front of the instruction, if a branch jumps to it."""
    loop: str
    """`hot`, the depth of another loop, or nothing outside loops."""
    text: str
    family: str
    class_name: str
    place: str
    """`file:line` where it differs from the instruction before, else nothing."""
    source_text: str
    """That source line's text, if the file can be read here."""


def listing(inspection: Inspection, *, hot_only: bool = False) -> list[Line]:
    """Lines of the kernel, or of its hot loop alone."""
    flow = inspection.flow
    if flow is None:
        return []
    loops: dict[int, str] = {}
    for loop in flow.loops:
        loops.update(dict.fromkeys(loop.blocks, str(loop.depth)))
    if inspection.hot:
        loops.update(dict.fromkeys(inspection.hot.blocks, "hot"))
    sources = _Sources()
    lines: list[Line] = []
    before: SourceLine | None = None
    for block in flow.blocks:
        if hot_only and loops.get(block.index) != "hot":
            continue
        label = block.label or ""
        for instruction in flow.kernel.instructions[block.start : block.end]:
            kind = classify(instruction)
            place, text = sources.describe(instruction.source, before)
            line = Line(
                instruction.line,
                label,
                loops.get(block.index, ""),
                instruction.text,
                kind.family,
                kind.name,
                place,
                text,
            )
            lines.append(line)
            before, label = instruction.source, ""
    return lines


class _Sources:
    """Texts of source files, each read once. A file that is not here has no text."""

    def __init__(self) -> None:
        self._files: dict[str, list[str]] = {}

    def describe(self, source: SourceLine | None, before: SourceLine | None) -> tuple[str, str]:
        """(`file:line`, text) of a source line, both empty where it is that of the instruction before."""
        if source is None or (before and (source.file, source.line) == (before.file, before.line)):
            return "", ""
        if source.file not in self._files:
            try:
                self._files[source.file] = Path(source.file).read_text(errors="replace").splitlines()
            except OSError:
                self._files[source.file] = []
        texts = self._files[source.file]
        text = texts[source.line - 1].strip() if source.line <= len(texts) else ""
        return f"{Path(source.file).name}:{source.line}", text
