"""The code of an assembly file: a scanner that assigns every instruction to its function and its source line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from workbench.gfx950.machine_code import Instruction, SourceLine

_MODIFIER = re.compile(r"\w+:")
_LABEL = re.compile(r"([\w.$]+):")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)(?:\s+(\d+))?")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')
_INSTRUCTION = re.compile(r"([a-z_]\w*)(?=\s|$)\s*([^;]*)")
_FIGURE = re.compile(r"; (\w+):? =? ?(\d+)\b")
_TEXT_SECTION = re.compile(r"\.text\b|\.section\s+\.text")


@dataclass
class Function:
    """What stands between a function's label and its end."""

    instructions: list[Instruction] = field(default_factory=list)
    labels: list[tuple[str, int]] = field(default_factory=list)
    comments: dict[str, str] = field(default_factory=dict)
    """LLVM's figures behind the code: `; Occupancy: 2` and the like."""


def collect_code(lines: list[str], functions: set[str]) -> dict[str, Function]:
    """Instructions, labels and LLVM's figures of each of these functions."""
    scanner = _Scanner(functions)
    for number, line in enumerate(lines, start=1):
        scanner.take(number, line.strip())
    return scanner.found


def split_operands(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split what follows a mnemonic into operands and the modifiers behind the last one."""
    parts = _split(text, ",") if "[" in text or "(" in text else [part.strip() for part in text.split(",")]
    if len(parts) == 1 and "(" in text:
        return tuple(part for part in _split(text, " ") if part != "&"), ()
    operands: list[str] = []
    modifiers: list[str] = []
    for part in filter(None, parts):
        first, *rest = _split(part, " ")
        (modifiers if _MODIFIER.match(first) else operands).append(first)
        modifiers.extend(rest)
    return tuple(operands), tuple(modifiers)


def _split(text: str, separator: str) -> list[str]:
    """Split outside brackets, without empty parts."""
    if separator not in text or ("[" not in text and "(" not in text):
        return [part for part in map(str.strip, text.split(separator)) if part]
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "[(") - (character in "])")
        if character == separator and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


class _Scanner:
    def __init__(self, functions: set[str]) -> None:
        self.found: dict[str, Function] = {}
        self._functions = functions
        self._function: Function | None = None
        self._files: dict[str, str] = {}
        self._source: SourceLine | None = None
        self._open = self._in_text = True
        self._in_macro = False

    def take(self, number: int, word: str) -> None:
        """One line without the space around it."""
        if self._in_macro or word.startswith(".macro"):
            self._in_macro = not word.startswith(".endm")
        elif word.startswith(";"):
            self._take_comment(word)
        elif label := _LABEL.match(word):
            self._take_label(label[1])
        elif word.startswith("."):
            self._take_directive(word)
        elif self._function is not None and self._open and self._in_text and (match := _INSTRUCTION.match(word)):
            place = len(self._function.instructions)
            operands = split_operands(match[2].split("//")[0].rstrip())
            self._function.instructions.append(Instruction(place, number, match[1], *operands, self._source))

    def _take_comment(self, word: str) -> None:
        if self._function is not None and (figure := _FIGURE.match(word)):
            self._function.comments.setdefault(figure[1], figure[2])

    def _take_label(self, label: str) -> None:
        if label in self._functions:
            self._function = self.found.setdefault(label, Function())
            self._open, self._source = True, None
        elif label.startswith(".Lfunc_end"):
            self._open = False
        elif self._function is not None and self._open and self._in_text:
            self._function.labels.append((label, len(self._function.instructions)))

    def _take_directive(self, word: str) -> None:
        if loc := _LOC.match(word):
            # Line 0 is the compiler's way to say that no source line applies.
            known = self._files.get(loc[1], "?")
            self._source = None if loc[2] == "0" else SourceLine(known, int(loc[2]), int(loc[3] or 0))
        elif file := _FILE.match(word):
            self._files[file[1]] = f"{file[2]}/{file[3]}" if file[3] else file[2]
        elif word.startswith((".text", ".section")):
            self._in_text = _TEXT_SECTION.match(word) is not None
        elif word.startswith(".size"):
            self._open = False
