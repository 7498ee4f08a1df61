"""An interpreter of the vendor's pseudo-code, as tinygrad carries it, for one lane: the oracle of the opcode tests."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from tinygrad.runtime.autogen.amd.cdna.str_pcode import PCODE

from tests.emulator_pcode_functions import FLOAT_TYPES, FUNCTIONS, from_bits, to_bits

PSEUDO_CODE = {
    str(name).split(".")[-1].removesuffix("_E32").removesuffix("_E64").lower(): text for name, text in PCODE.items()
}

_TOKEN = re.compile(
    r"\d+'(?:0x[0-9a-f]+|\d+\.\d+|\d+)\w*|\d+'[A-Z]\w*|0x[0-9a-fA-F]+(?:ULL|LL|U)?|\d+\.\d+F?|\d+(?:ULL|LL|U)?"
    r"|[A-Za-z_]\w*|<<|>>|<=|>=|==|!=|<>|&&|\|\||\*\*|[-+]=|[-+*/%&|^~!?:<>(){}\[\],.=]"
)
_LEVELS: list[dict[str, Callable[[Any, Any], Any]]] = [
    {"||": lambda x, y: int(bool(x) or bool(y))},
    {"&&": lambda x, y: int(bool(x) and bool(y))},
    {"|": lambda x, y: x | y},
    {"^": lambda x, y: x ^ y},
    {"&": lambda x, y: x & y},
    {"==": lambda x, y: int(x == y), "!=": lambda x, y: int(x != y), "<>": lambda x, y: int(x < y or x > y)},
    {"<": lambda x, y: int(x < y), "<=": lambda x, y: int(x <= y), ">": lambda x, y: int(x > y),
     ">=": lambda x, y: int(x >= y)},
    {"<<": lambda x, y: x << int(y), ">>": lambda x, y: x >> int(y)},
    {"+": lambda x, y: x + y, "-": lambda x, y: x - y},
    {"*": lambda x, y: x * y, "/": lambda x, y: x / y},
    {"**": lambda x, y: x**y},
]  # fmt: skip
"""Binary operators, loosest first."""


class Bits(int):
    """An integer with a width, for concatenation."""

    width: int

    def __new__(cls, value: int, width: int) -> Bits:
        self = super().__new__(cls, value & (1 << width) - 1)
        self.width = width
        return self


class Concatenation(Bits):
    """Bits put together: a conversion of them to floating point takes them as they are."""


class _Break(Exception):
    """A `break` in a loop of the pseudo-code."""


class Lane:
    """The names of one evaluation: S0, S1, S2 and D0 as raw bits, SCC, VCC and whatever the pseudo-code sets."""

    def __init__(self, **names: Any) -> None:
        self.names: dict[str, Any] = {
            "laneId": 0, "INF": float("inf"), "PI": np.pi, "EXEC": 1, "VCC": 0, "SCC": 0, "OPSEL": 0, "D0": 0,
            "IEEE": 1, "WAVE_MODE": 1, **names,
        }  # fmt: skip

    def run(self, name: str) -> Lane:
        """Execute the pseudo-code of an opcode."""
        with np.errstate(all="ignore"):
            self._block(_lines(name), 0)
        return self

    def _block(self, lines: list[str], at: int, active: bool = True) -> int:
        """Execute from line `at` to the end of the block; returns the line that ends it."""
        while at < len(lines):
            line = lines[at]
            if line.startswith("if "):
                at = self._if(lines, at, active)
            elif line.startswith("for "):
                at = self._for(lines, at, active)
            elif line.startswith(("elsif ", "else", "endif", "endfor")):
                return at
            elif active and line == "break":
                raise _Break
            elif active:
                self._statement(line)
            at += 1
        return at

    def _if(self, lines: list[str], at: int, active: bool) -> int:
        done = False
        while lines[at] != "endif":
            line = lines[at]
            chosen = active and not done
            if chosen and line != "else":
                chosen = bool(self.evaluate(line.split(" ", 1)[1].removesuffix(" then")))
            at = self._block(lines, at + 1, chosen)
            done |= chosen
        return at

    def _for(self, lines: list[str], at: int, active: bool) -> int:
        end = self._block(lines, at + 1, False)
        match = re.fullmatch(r"for (\w+) in (\d+) : (\d+) do", lines[at])
        if active and match:
            try:
                for value in range(int(match[2]), int(match[3]) + 1):
                    self.names[match[1]] = value
                    self._block(lines, at + 1)
            except _Break:
                pass
        return end

    def _statement(self, line: str) -> None:
        if line.startswith("declare "):
            self.names[line.split()[1]] = 0
            return
        parts = re.split(r"(?<![=<>!])(\+=|-=|=)(?!=)", line)
        value = self.evaluate(parts[-1])
        for target, operator in zip(parts[-3::-2], parts[-2::-2], strict=True):
            if operator != "=":
                old = self.evaluate(target)
                value = old + value if operator == "+=" else old - value
            self._store(target.strip(), value)

    def _store(self, target: str, value: Any) -> None:
        if target.startswith("{"):
            high, low = (part.strip() for part in target.strip("{} ").split(","))
            width = int(re.sub(r"\D", "", low.split(".")[1]))
            self._store(high, value >> width)
            self._store(low, value)
            return
        name, *postfix = re.split(r"(?=[.\[])", target, maxsplit=1)
        if not postfix:
            self.names[name] = value
            return
        low, width, kind = 0, 0, ""
        for part in re.findall(r"\.\w+|\[[^\]]*\]", postfix[0]):
            if part[0] == ".":
                kind, width = part[1:], width or int(re.sub(r"\D", "", part.replace("fp8", "8")))
                continue
            ends = [int(self.evaluate(end)) for end in part.strip("[]").split(":")]
            low, width = ends[-1], ends[0] - ends[-1] + 1
        old, keep = to_bits(self.names.get(name, 0)), (1 << width) - 1
        bits = to_bits(value, kind if kind in FLOAT_TYPES else f"u{width}") & keep
        # A write of the whole of a register's low part clears what lies above, a write of a part of it does not.
        base = 0 if "[" not in postfix[0] else old & ~(keep << low)
        self.names[name] = base | bits << low

    def evaluate(self, text: str) -> Any:
        return _expression(text)(self.names)


Value = Callable[[dict[str, Any]], Any]


@functools.cache
def _expression(text: str) -> Value:
    parser = _Parser(_TOKEN.findall(text))
    value = parser.ternary()
    if parser.at != len(parser.tokens):
        raise ValueError(f"cannot read {text!r} from token {parser.at}")
    return value


class _Parser:
    """Recursive descent; every method returns the function that evaluates what it has read."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at = tokens, 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if wanted and token != wanted:
            raise ValueError(f"{wanted!r} expected at {self.tokens[self.at :]}")
        self.at += 1
        return token

    def ternary(self) -> Value:
        condition = self.binary(0)
        if self.peek() != "?":
            return condition
        self.take()
        yes = self.ternary()
        self.take(":")
        no = self.ternary()
        return lambda names: yes(names) if condition(names) else no(names)

    def binary(self, level: int) -> Value:
        if level == len(_LEVELS):
            return self.unary()
        value = self.binary(level + 1)
        while self.peek() in _LEVELS[level]:
            value = _joined(_LEVELS[level][self.take()], value, self.binary(level + 1))
        return value

    def unary(self) -> Value:
        if self.peek() not in ("-", "+", "!", "~"):
            return self.postfix(self.primary())
        operator, value = self.take(), self.unary()
        return lambda names: _UNARY[operator](value(names))

    def arguments(self, close: str) -> list[Value]:
        found = []
        while self.peek() != close:
            found.append(self.ternary())
            if self.peek() == ",":
                self.take()
        self.take(close)
        return found

    def primary(self) -> Value:
        if self.peek() == "(":
            self.take()
            value = self.ternary()
            self.take(")")
            return value
        word = self.take()
        if word.startswith("{"):
            parts = self.arguments("}")
            return lambda names: _concatenated([part(names) for part in parts])
        if match := re.fullmatch(r"(\d+)'([UIBF])", word):
            kind, width = match[2].lower(), int(match[1])
            self.take("(")
            (inner,) = self.arguments(")")
            return lambda names: _cast(inner(names), kind, width)
        if word[0].isdigit():
            constant = _constant(word)
            return lambda names: constant
        if self.peek() == "(":
            self.take()
            values = self.arguments(")")
            return lambda names: _call(word, [value(names) for value in values])
        return lambda names: names[word]

    def postfix(self, value: Value) -> Value:
        while self.peek() in (".", "["):
            if self.take() == ".":
                value = _typed(value, self.take())
                continue
            high = low = self.ternary()
            if self.peek() == ":":
                self.take()
                low = self.ternary()
            self.take("]")
            value = _sliced(value, high, low)
        return value


_UNARY: dict[str, Callable[[Any], Any]] = {
    "-": lambda x: -x,
    "+": lambda x: x,
    "!": lambda x: int(not x),
    "~": lambda x: Bits(~x, x.width) if isinstance(x, Bits) else ~x,
}


def _joined(operator: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    return lambda names: operator(left(names), right(names))


def _concatenated(parts: list[Any]) -> Concatenation:
    value = functools.reduce(lambda high, low: high << low.width | low, parts)
    return Concatenation(value, sum(part.width for part in parts))


def _constant(token: str) -> Any:
    if match := re.fullmatch(r"(\d+)'(\d+\.\d+)", token):
        return from_bits(to_bits(float(match[2]), f"f{match[1]}"), f"f{match[1]}")
    if match := re.fullmatch(r"(\d+)'(0x[0-9a-f]+|\d+)U?", token):
        return Bits(int(match[2], 0), int(match[1]))
    if "." in token:
        return np.float32(token[:-1]) if token.endswith("F") else float(token)
    return int(re.sub(r"(ULL|LL|U)$", "", token), 0)


def _typed(value: Value, kind: str) -> Value:
    def read(names: dict[str, Any]) -> Any:
        whole = value(names)
        if kind == "IEEE" or (kind in FLOAT_TYPES and isinstance(whole, np.floating)):
            return whole
        part = from_bits(to_bits(whole), kind)
        return Bits(part, int(kind[1:])) if isinstance(part, int) and kind[0] in "ub" else part

    return read


def _sliced(value: Value, high: Value, low: Value) -> Value:
    def read(names: dict[str, Any]) -> Bits:
        first = int(low(names))
        return Bits(to_bits(value(names)) >> first, int(high(names)) - first + 1)

    return read


def _cast(value: Any, kind: str, width: int) -> Any:
    """A conversion of the number, not of its bits."""
    if kind == "f" and isinstance(value, Concatenation):
        return from_bits(value, f"f{width}")
    if kind == "f":
        return {16: np.float16, 32: np.float32, 64: np.float64}[width](value)
    if kind == "b":
        return Bits(to_bits(value), width)
    bits = int(value) & (1 << width) - 1
    return bits - (1 << width) if kind == "i" and bits >> width - 1 else Bits(bits, width)


def _call(name: str, values: list[Any]) -> Any:
    if name in FUNCTIONS:
        result = FUNCTIONS[name](*values)
        return Bits(result, 8) if name.endswith(("_to_fp8", "_to_bf8", "fp8_scale", "bf8_scale")) else result
    # A call of another instruction.
    kind = name.rsplit("_", 1)[1]
    sources = {f"S{i}": to_bits(value, kind) for i, value in enumerate(values)}
    return from_bits(Lane(**sources).run(name).names["D0"], kind)


@functools.cache
def _lines(name: str) -> list[str]:
    """One statement a line, without what sets rounding modes (each conversion rounds by its own)."""
    text = re.sub(r"//[^\n]*", "", PSEUDO_CODE[name])
    text = text.replace("VGPR[laneId][VDST.u32]", "D0").replace("VGPR[laneId][SRC0.u32]", "S0")
    lines = [line.strip() for line in re.split(r"[;\n]", text)]
    return [line for line in lines if line and "ROUND_MODE" not in line]
