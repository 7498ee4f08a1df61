"""Machine code without what does not run: comments, line tables, debug sections, paths, temporary labels."""

from __future__ import annotations

import hashlib
import re

_DROPPED_DIRECTIVES = re.compile(r"\.(loc|file|ident|cfi_\w+|cv_\w+|addrsig\w*)\b")
# Labels that only debug information refers to; their numbers follow the line table.
_DROPPED_LABELS = re.compile(r"[.$]L(__)?(tmp|func_begin)\d+:")
_DROPPED_SECTION = re.compile(r'\.section\s+"?\.(debug|note)')
_SECTION = re.compile(r"\.(section|text|data|amdgpu_metadata)\b")
_AMD_COMMENT = re.compile(r"(;|//).*$")
_PTX_COMMENT = re.compile(r"//.*$")


def normalise_assembly(text: str) -> str:
    """Instructions, branch labels, directives and kernel metadata of AMD assembly or PTX, one per line."""
    comment = _PTX_COMMENT if re.search(r"^\s*\.version\b", text, re.MULTILINE) else _AMD_COMMENT
    lines = []
    in_dropped_section = False
    for raw_line in text.splitlines():
        line = " ".join(comment.sub("", raw_line).split())
        if _SECTION.match(line):
            in_dropped_section = bool(_DROPPED_SECTION.match(line))
        elif in_dropped_section and line == "}":
            # PTX encloses a section in braces; what follows is outside of it.
            in_dropped_section = False
            continue
        if in_dropped_section or not line or _DROPPED_DIRECTIVES.match(line) or _DROPPED_LABELS.match(line):
            continue
        lines.append(line)
    return "\n".join(lines) + "\n"


def machine_code_digest(assembly: str) -> str:
    """SHA-256 of the normalised assembly."""
    return hashlib.sha256(normalise_assembly(assembly).encode()).hexdigest()
