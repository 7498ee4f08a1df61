"""KEY=VALUE on the command line, read as changes to the fields of a spec."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from workbench.errors import SpecError
from workbench.spec import KernelSpec

_WORDS = {"true": True, "on": True, "false": False, "off": False}
_LONGEST_NUMBER = 18
Spec = TypeVar("Spec", bound=KernelSpec)


def change_spec(spec: Spec, pairs: Sequence[str]) -> Spec:
    """A copy of the spec with `field=value` texts applied, each one or several with commas between.

    SpecError for unknown fields and values of another type.
    """
    changes: dict[str, Any] = {}
    hints = get_type_hints(type(spec))
    for pair in chain.from_iterable(text.split(",") for text in pairs):
        name, equals, text = pair.partition("=")
        if not equals:
            raise SpecError(
                f"{pair!r} is no change to a spec; write field=value, such as num_warps=8 (words such as "
                "portable are for bench)"
            )
        changes[name] = read_value(name, text, hints.get(name, str))
    return spec.with_changes(**changes)


def read_value(name: str, text: str, hint: Any) -> Any:
    """The value that a text stands for under a field's type; SpecError lists what is accepted."""
    accepted = _accepted(hint)
    if text.lower() == "none" and NoneType in accepted:
        return None
    if bool in accepted and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if int in accepted and len(text) <= _LONGEST_NUMBER and text.removeprefix("-").isdecimal():
        return int(text)
    if float in accepted and (number := _number(text)) is not None:
        return number
    if str in accepted or text in accepted:
        return text
    raise SpecError(f"{name}={text}: the value must be {' or '.join(map(_spell, accepted))}")


def _accepted(hint: Any) -> tuple[Any, ...]:
    """Types and literal values that a type is made of."""
    if get_origin(hint) is Literal or not get_args(hint):
        return get_args(hint) or (hint,)
    return tuple(each for part in get_args(hint) for each in _accepted(part))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _spell(kind: Any) -> str:
    words = {NoneType: "none", bool: "true or false", int: "an integer", float: "a number", str: "a word"}
    return words.get(kind, repr(kind))
