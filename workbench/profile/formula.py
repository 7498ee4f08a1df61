"""Arithmetic over counters: formulas are data, parsed with `ast` and evaluated here; nothing is executed.

A counter's name is an identifier with or without dots; it stands for the sum over the dispatches. The operators are
+ - * /, and there are three functions:

pooled(rate, weight)   sum(rate * weight) / sum(weight): several dispatches of a figure that is a ratio already
single(rate)           such a figure where there is one dispatch; undefined for several, since ratios are not averaged
collected(a, b, ...)   the sum of those counters that were collected; at least one must be
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence

from workbench.errors import ProfileError

CONSTANTS = ("XCD", "CU", "SIMD", "SE", "WAVE_SLOTS", "LANES")
"""Names of hardware figures; every other name is a counter."""
DURATION, LAUNCHES = "duration_ns", "launches"
"""Names that stand for the dispatches themselves: their time, and how many there are."""

Values = Mapping[str, Sequence[float]]
"""Counter -> one value a dispatch."""
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


class Undefined(Exception):
    """The formula has no value for these counts; the text says why."""


class Formula:
    """One formula. ProfileError if the text is anything but such arithmetic."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._tree = ast.parse(text, mode="eval").body
        except SyntaxError as error:
            raise ProfileError(f"{text!r} is no formula: {error.msg}") from None
        self._names: dict[str, None] = {}
        self.optional: tuple[str, ...] = ()
        """Counters of `collected`, of which one is enough."""
        self._check(self._tree)
        names = [name for name in self._names if name not in CONSTANTS]
        self.counters = tuple(name for name in names if name not in (*self.optional, LAUNCHES))
        """Counters that must have been collected, `duration_ns` among them."""
        self.constants = tuple(name for name in self._names if name in CONSTANTS)

    def evaluate(self, values: Values, constants: Mapping[str, float], launches: int) -> float:
        """The figure over `launches` dispatches. Undefined where it divides by 0 or averages ratios."""
        return self._value(self._tree, values, {**constants, LAUNCHES: float(launches)})

    def _check(self, node: ast.AST) -> None:
        if isinstance(node, ast.BinOp) and isinstance(node.op, (*_OPERATORS, ast.Div)):
            self._check(node.left)
            self._check(node.right)
        elif isinstance(node, ast.Call) and self._is_call(node):
            for argument in node.args:
                self._names[_name(argument)] = None
            if isinstance(node.func, ast.Name) and node.func.id == "collected":
                self.optional += tuple(_name(argument) for argument in node.args)
        elif isinstance(node, ast.Name | ast.Attribute):
            self._names[_name(node)] = None
        elif not (isinstance(node, ast.Constant) and type(node.value) in (int, float)):
            raise ProfileError(f"{self.text!r}: {ast.unparse(node)!r} is not allowed; formulas have + - * / and names")

    def _is_call(self, node: ast.Call) -> bool:
        arity = {"pooled": 2, "single": 1}
        if not isinstance(node.func, ast.Name) or node.keywords:
            return False
        count = arity.get(node.func.id, len(node.args) if node.func.id == "collected" and node.args else -1)
        return len(node.args) == count and all(isinstance(each, ast.Name | ast.Attribute) for each in node.args)

    def _value(self, node: ast.AST, values: Values, constants: Mapping[str, float]) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return float(node.value)
        if isinstance(node, ast.BinOp):
            left, right = (self._value(side, values, constants) for side in (node.left, node.right))
            if not isinstance(node.op, ast.Div):
                return _OPERATORS[type(node.op)](left, right)
            if right == 0:
                raise Undefined(f"{ast.unparse(node.right)} is 0")
            return left / right
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return _FUNCTIONS[node.func.id]([_name(argument) for argument in node.args], values)
        name = _name(node)
        return constants[name] if name in constants else sum(values[name])


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    if isinstance(node, ast.Name):
        return node.id
    raise ProfileError(f"{ast.unparse(node)!r} is no counter's name")


def _pooled(names: Sequence[str], values: Values) -> float:
    rates, weights = (values[name] for name in names)
    total = sum(weights)
    if total == 0:
        raise Undefined(f"{names[1]} is 0")
    return sum(rate * weight for rate, weight in zip(rates, weights, strict=True)) / total


def _single(names: Sequence[str], values: Values) -> float:
    rates = values[names[0]]
    if len(rates) != 1:
        raise Undefined(
            f"{len(rates)} launches give {min(rates):.4g} to {max(rates):.4g} {names[0]}, and nothing to weigh them "
            "by; look at them by dispatch"
        )
    return rates[0]


def _collected(names: Sequence[str], values: Values) -> float:
    return sum(sum(values[name]) for name in names if name in values)


_FUNCTIONS: dict[str, Callable[[Sequence[str], Values], float]] = {
    "pooled": _pooled,
    "single": _single,
    "collected": _collected,
}
