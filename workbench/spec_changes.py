"""KEY=VALUE on the command line, read as changes to the fields of a spec."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

from workbench.errors import SpecError
from workbench.spec import KernelSpec

_WORDS = {"true": True, "on": True, "false": False, "off": False}
Spec = TypeVar("Spec", bound=KernelSpec)


def change_spec(spec: Spec, pairs: Sequence[str]) -> Spec:
    """A copy of the spec with `field=value` texts applied; SpecError for unknown fields and values of another type."""
    changes: dict[str, Any] = {}
    hints = get_type_hints(type(spec))
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise SpecError(f"{pair!r} is no change to a spec; write field=value, such as num_warps=8")
        changes[name] = _value(name, text, hints.get(name, str))
    return spec.with_changes(**changes)


def _value(name: str, text: str, hint: Any) -> Any:
    accepted = get_args(hint) or (hint,)
    if text.lower() == "none" and NoneType in accepted:
        return None
    if bool in accepted and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if int in accepted and text.removeprefix("-").isdigit():
        return int(text)
    if str in accepted or text in accepted:
        return text
    raise SpecError(f"{name}={text}: the value must be {' or '.join(map(_spell, accepted))}")


def _spell(kind: Any) -> str:
    words = {NoneType: "none", bool: "true or false", int: "an integer", str: "a word"}
    return words.get(kind, repr(kind))
