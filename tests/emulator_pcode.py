"""Vendor pseudo-code (as tinygrad carries it) for opcodes whose result is one expression, evaluated in Python."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np


class Word(int):
    """Bits that can be sliced and read as a type: `word[4 : 0].u32`, `word.i32`."""

    def __getitem__(self, place: slice) -> Word:
        return Word(self >> place.stop & (1 << place.start - place.stop + 1) - 1)

    def __getattr__(self, name: str) -> Any:
        match = re.fullmatch(r"([uibf])(\d+)", name)
        if match is None:
            raise AttributeError(name)
        kind, width = match[1], int(match[2])
        bits = int(self) & (1 << width) - 1
        if kind == "f":
            return np.array([bits], f"u{width // 8}").view(f"f{width // 8}")[0]
        return bits - (1 << width) if kind == "i" and bits >> width - 1 else Word(bits)


def fma(a: Any, b: Any, c: Any) -> np.float32:
    """Exact product and sum, rounded once to float32."""
    if not all(np.isfinite(x) for x in (a, b, c)):
        return np.float32(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return np.float32(np.float64(a) * np.float64(b) + np.float64(c))
    return _nearest(exact)


def _nearest(exact: Fraction) -> np.float32:
    middle = np.float32(float(exact))
    around = [np.nextafter(middle, np.float32(-np.inf)), middle, np.nextafter(middle, np.float32(np.inf))]
    finite = [x for x in around if np.isfinite(x)]
    if not np.isfinite(middle):
        return middle
    even = {x: int(np.array([x]).view(np.uint32)[0]) & 1 for x in finite}
    return min(finite, key=lambda x: (abs(Fraction(float(x)) - exact), even[x]))


_FUNCTIONS = {
    "fma": fma,
    "cat": lambda high, low: Word(int(high) << 32 | int(low)),
    "u32_to_f32": np.float32,
    "i32_to_f32": np.float32,
    "castU": lambda x: Word(int(x) & 0xFFFFFFFF),
    "castI": int,
}


def evaluate(pcode: str, sources: list[int]) -> tuple[int, int]:
    """(result bits, width) of `D0.t = expression`."""
    target, _, expression = pcode.split("\n", 1)[0].rstrip(";").partition(" = ")
    kind, width = re.fullmatch(r"D0\.([uibf])(\d+)", target).groups()  # type: ignore[union-attr]
    expression = re.sub(r"\{ (.+?), (.+?) \}", r"cat(\1, \2)", expression)
    expression = re.sub(r"\b\d+'([UI])\(", r"cast\1(", expression)
    expression = re.sub(r"\b(0x[0-9a-f]+|\d+)(?:U|LL|ULL)\b", r"\1", expression)
    if " ? " in expression:
        condition, rest = expression.split(" ? ")
        yes, no = rest.split(" : ")
        expression = f"({yes}) if ({condition}) else ({no})"
    names = {f"S{i}": Word(source) for i, source in enumerate(sources)}
    with np.errstate(all="ignore"):
        value = eval(expression, {"__builtins__": {}}, {**names, **_FUNCTIONS})  # noqa: S307
        if kind == "f":
            return int(np.array([value], f"f{int(width) // 8}").view(f"u{int(width) // 8}")[0]), int(width)
    return int(value) & (1 << int(width)) - 1, int(width)
