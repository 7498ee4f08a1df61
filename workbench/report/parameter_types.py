"""Types that a notebook parameter may declare, read from the annotation's syntax tree; nothing is evaluated."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

_CLASSES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "None": (type(None),),
}
_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


class ParameterType(ABC):
    """Accepts values of one declared type."""

    text: str
    """The type as the notebook writes it."""

    @abstractmethod
    def convert(self, value: Any, from_text: bool = True) -> Any:
        """The value as this type; ValueError says what is accepted. from_text allows conversion of a string."""

    def refuse(self, value: Any) -> ValueError:
        return ValueError(f"expected {self.text}, got {value!r}")


@dataclass(frozen=True)
class Scalar(ParameterType):
    """str, int, float, bool or None."""

    text: str

    def convert(self, value: Any, from_text: bool = True) -> Any:
        if from_text and isinstance(value, str) and self.text != "str":
            value = self._parse(value)
        # bool is a subclass of int, but True is no block size.
        fits = isinstance(value, _CLASSES[self.text]) and (self.text == "bool" or not isinstance(value, bool))
        if isinstance(value, int) and abs(value) >= 2**63:
            raise ValueError(f"expected an integer of at most 63 bits, got {value}")
        if not fits or value != value:  # nothing can be done with NaN, and it equals not even itself
            raise self.refuse(value)
        return float(value) if self.text == "float" else value

    def _parse(self, text: str) -> Any:
        lowered = text.strip().lower()
        try:
            if self.text == "int":
                return int(lowered)
            if self.text == "float":
                return float(lowered)
        except ValueError:
            raise self.refuse(text) from None
        if self.text == "bool" and lowered in _TRUE + _FALSE:
            return lowered in _TRUE
        if self.text == "None" and lowered in ("none", ""):
            return None
        raise self.refuse(text)


@dataclass(frozen=True)
class Choice(ParameterType):
    """Literal[...]."""

    options: tuple[Any, ...]

    @property
    def text(self) -> str:  # type: ignore[override]
        return " | ".join(repr(option) for option in self.options)

    def convert(self, value: Any, from_text: bool = True) -> Any:
        for option in self.options:
            same = type(value) is type(option) and value == option
            if same or (from_text and isinstance(value, str) and value == str(option)):
                return option
        raise ValueError(f"expected one of {', '.join(map(repr, self.options))}, got {value!r}")


@dataclass(frozen=True)
class ListOf(ParameterType):
    """list[T]; as text, its items separated by commas."""

    item: ParameterType

    @property
    def text(self) -> str:  # type: ignore[override]
        return f"list[{self.item.text}]"

    def convert(self, value: Any, from_text: bool = True) -> Any:
        if from_text and isinstance(value, str):
            stripped = value.strip().removeprefix("[").removesuffix("]")
            value = [part.strip().strip("'\"") for part in stripped.split(",")] if stripped else []
        if not isinstance(value, list | tuple):
            raise self.refuse(value)
        return [self.item.convert(part, from_text) for part in value]


@dataclass(frozen=True)
class OneOf(ParameterType):
    """A union; the first member that accepts the value wins, with str tried last."""

    members: tuple[ParameterType, ...]

    @property
    def text(self) -> str:  # type: ignore[override]
        return " | ".join(member.text for member in self.members)

    def convert(self, value: Any, from_text: bool = True) -> Any:
        for member in sorted(self.members, key=lambda member: member.text == "str"):
            try:
                return member.convert(value, from_text)
            except ValueError:
                continue
        raise self.refuse(value)


def parse_type(annotation: ast.expr) -> ParameterType:
    """The type of an annotation. ValueError if it is none of the known forms."""
    if isinstance(annotation, ast.Constant) and annotation.value is None:
        return Scalar("None")
    if isinstance(annotation, ast.Name) and annotation.id in ("str", "int", "float", "bool"):
        return Scalar(annotation.id)
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return OneOf((parse_type(annotation.left), parse_type(annotation.right)))
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name):
        if annotation.value.id == "list":
            return ListOf(parse_type(annotation.slice))
        if annotation.value.id == "Literal":
            items = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
            return Choice(tuple(ast.literal_eval(item) for item in items))
    raise ValueError(
        f"its type `{ast.unparse(annotation)}` is not one of str, int, float, bool, None, list[...], Literal[...]"
    )


def type_of_default(default: Any) -> ParameterType:
    """The type that an unannotated default stands for. ValueError if it tells none."""
    if isinstance(default, bool | int | float | str):
        return Scalar(type(default).__name__)
    if isinstance(default, list) and default:
        return ListOf(type_of_default(default[0]))
    raise ValueError(f"its default {default!r} tells no type; write an annotation, e.g. `name: int | None = None`")
