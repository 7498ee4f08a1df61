"""Whether the fields of a dataclass hold what their annotations say: a flag that is the word "no" would be on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from functools import lru_cache
from numbers import Integral, Real
from types import NoneType
from typing import Any, get_args, get_type_hints

from workbench.errors import WorkbenchError

_KINDS: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "True or False"),
    int: ((Integral,), "an integer"),
    float: ((Real,), "a number"),
    NoneType: ((NoneType,), "None"),
}


def check_field_types(instance: Any, error: type[WorkbenchError], kinds: tuple[type, ...]) -> None:
    """Raise `error` for the first field of one of the kinds (bool, int, float, each with None or without) that is not.

    A bool is no number. Fields of other types are left to their own checks.
    """
    for name, parts in _fields(type(instance)):  # type: ignore[arg-type]
        value = getattr(instance, name)
        if parts[0] in kinds and not any(_is(value, part) for part in parts):
            words = " or ".join(_KINDS[part][1] for part in parts)
            raise error(f"{name} must be {words}, got {value!r}")


def check_field_names(instance: Any, error: type[WorkbenchError], names: Iterable[str]) -> None:
    """Raise `error` for the first name that is no field of the dataclass; the text lists those there are."""
    known = [field.name for field in fields(instance)]
    for name in names:
        if name not in known:
            raise error(f"{type(instance).__name__} has no field {name!r}; it has {', '.join(known)}")


def _is(value: object, kind: Any) -> bool:
    return isinstance(value, _KINDS[kind][0]) and (kind is bool or not isinstance(value, bool))


@lru_cache(maxsize=32)
def _fields(kind: type) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Name and types of the fields that are made of the known kinds alone."""
    hints = {name: get_args(hint) or (hint,) for name, hint in get_type_hints(kind).items()}
    return tuple((name, parts) for name, parts in hints.items() if all(part in _KINDS for part in parts))
