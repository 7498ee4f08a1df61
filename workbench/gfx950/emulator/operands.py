"""Operands of the gfx950 assembly syntax: registers, ranges, constants, modifiers, labels."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

VCC, M0, SCC, EXEC = 106, 124, 125, 126
"""Rows of the scalar register file; SCC takes the encoding that the ISA leaves unused."""
NUM_SCALAR_ROWS = 128

_SPECIAL = {
    "vcc": (VCC, 2), "vcc_lo": (VCC, 1), "vcc_hi": (VCC + 1, 1),
    "exec": (EXEC, 2), "exec_lo": (EXEC, 1), "exec_hi": (EXEC + 1, 1),
    "m0": (M0, 1), "scc": (SCC, 1), "src_scc": (SCC, 1),
    "flat_scratch": (102, 2), "flat_scratch_lo": (102, 1), "flat_scratch_hi": (103, 1),
    "xnack_mask": (104, 2), "xnack_mask_lo": (104, 1), "xnack_mask_hi": (105, 1),
}  # fmt: skip
_REGISTER = re.compile(r"^([vsa])(?:(\d+)|\[(\d+)(?::(\d+))?\])$")
_FLOAT = re.compile(r"^-?\d+\.\d*(?:e[-+]?\d+)?$")


@dataclass(frozen=True)
class Operand:
    """kind: 'v', 'a' or 's' (register rows), 'const', 'label', 'off' or 'call' (hwreg, sendmsg)."""

    kind: str
    index: int = 0
    count: int = 1
    value: int | float = 0
    """Of a constant: an int is raw bits or an integer, a float is an inline float constant."""
    neg: bool = False
    abs: bool = False
    sext: bool = False
    label: str = ""

    @property
    def is_vector(self) -> bool:
        return self.kind in "va"

    def bits32(self) -> int:
        """The constant as a 32-bit pattern."""
        if isinstance(self.value, float):
            return int(struct.unpack("<I", struct.pack("<f", self.value))[0])
        return self.value & 0xFFFFFFFF

    def bits64(self, as_float: bool) -> int:
        """The constant as a 64-bit pattern: integers are sign-extended from 32 bits, floats widened to double."""
        if isinstance(self.value, float):
            return int(struct.unpack("<Q", struct.pack("<d", self.value))[0])
        if as_float and not -16 <= self.value <= 64:
            return (self.value & 0xFFFFFFFF) << 32
        return self.value & 0xFFFFFFFFFFFFFFFF

    def bits16(self) -> int:
        """The constant as the 16-bit pattern that a half-precision operation sees."""
        if isinstance(self.value, float):
            return int(struct.unpack("<H", struct.pack("<e", self.value))[0])
        return self.value & 0xFFFF


def split_top_level(text: str, separator: str) -> list[str]:
    """Split outside brackets, braces and bars; empty pieces are dropped."""
    pieces, depth, current = [], 0, ""
    for char in text:
        if char in "[({":
            depth += 1
        elif char in "])}":
            depth -= 1
        if char == separator and depth == 0:
            pieces.append(current)
            current = ""
        else:
            current += char
    pieces.append(current)
    return [piece for piece in pieces if piece.strip()]


@lru_cache(maxsize=4096)
def parse_operand(word: str) -> Operand:
    """One operand; ValueError when it is none of the known forms."""
    if match := _REGISTER.match(word):
        first = int(match[2] or match[3])
        last = int(match[4]) if match[4] else first
        return Operand(match[1], first, last - first + 1)
    if word in _SPECIAL:
        index, count = _SPECIAL[word]
        return Operand("s", index, count)
    if word == "off":
        return Operand("off")
    if _FLOAT.match(word):
        return Operand("const", value=float(word))
    try:
        return Operand("const", value=int(word, 0))
    except ValueError:
        pass
    return _parse_wrapped(word)


def _parse_wrapped(word: str) -> Operand:
    if word.startswith("-"):
        inner = parse_operand(word[1:])
        return replace(inner, neg=not inner.neg)
    if word.startswith("|") and word.endswith("|") and len(word) > 2:
        return replace(parse_operand(word[1:-1]), abs=True)
    changes: tuple[tuple[str, dict[str, Any]], ...] = (
        ("neg", {"neg": True}),
        ("abs", {"abs": True}),
        ("sext", {"sext": True}),
    )
    for name, change in changes:
        if word.startswith(f"{name}(") and word.endswith(")"):
            return replace(parse_operand(word[len(name) + 1 : -1]), **change)
    if re.match(r"^(hwreg|sendmsg|swizzle)\(", word):
        return Operand("call", label=word)
    if re.match(r"^[A-Za-z_.$][\w.$@]*$", word):
        return Operand("label", label=word)
    raise ValueError(f"operand `{word}` is not understood")
