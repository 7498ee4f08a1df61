"""Fields that can be changed, each with its values and what it does: of a spec by the lever registry, of a problem."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from itertools import pairwise
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints

from workbench.errors import SpecError
from workbench.explorer.problem_edits import spell_value
from workbench.levers import load_kernels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.levers import KernelLevers, Lever
    from workbench.scenario_files import Problem
    from workbench.spec import KernelSpec

Kind = Literal["switch", "choice", "text"]
Group = Literal["levers", "geometry", "problem"]

COUNTS = (0, 1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 128, 256, 512)
"""Integers that are offered wherever the spec takes them."""


@dataclass(frozen=True)
class Field:
    """One field, as a control shows it."""

    name: str
    group: Group
    kind: Kind
    value: str
    base: str
    """Its value unless it is changed: of dispatch, or of the scenario."""
    options: tuple[str, ...] = ()
    """Values of a choice."""
    help: str = ""

    @property
    def is_changed(self) -> bool:
        return self.value != self.base


def kernel_of_spec(spec_class: type[KernelSpec]) -> KernelLevers | None:
    """The registry's kernel of a spec's class; None where the registry has none."""
    return next((kernel for kernel in load_kernels() if kernel.spec_class is spec_class), None)


def spec_fields(base: KernelSpec, changed: dict[str, str]) -> tuple[Field, ...]:
    """Every field of a spec: levers before the rest, switches before choices. `changed` need not fit each other."""
    kernel = kernel_of_spec(type(base))
    levers = {lever.field: lever for lever in kernel.levers} if kernel else {}
    names = [field.name for field in fields(base)]
    order = [*levers, *(name for name in names if name not in levers)]
    found = [_spec_field(base, name, levers.get(name), changed) for name in order]
    return tuple(sorted(found, key=lambda field: (field.group != "levers", field.kind != "switch")))


def problem_fields(base: Problem, problem: Problem) -> tuple[Field, ...]:
    """Every field of a problem."""
    hints = get_type_hints(type(base))
    docs = field_docs(type(base))
    found = []
    for field in fields(base):
        value, original = spell_value(getattr(problem, field.name)), spell_value(getattr(base, field.name))
        kind, options = _kind_and_words(hints[field.name])
        if options and original not in options:
            options = (*options, original)
        found.append(Field(field.name, "problem", kind, value, original, options, docs.get(field.name, "")))
    return tuple(found)


def _spec_field(base: KernelSpec, name: str, lever: Lever | None, changed: dict[str, str]) -> Field:
    hint = get_type_hints(type(base))[name]
    original = spell_value(getattr(base, name))
    value = changed.get(name, original)
    kind, options = _kind_and_words(hint)
    if kind != "switch":
        words = [spell_value(each) for each in lever.values] if lever else []
        offered = dict.fromkeys([*options, *words, *_accepted_counts(base, name, hint), original, value])
        kind, options = "choice", tuple(sorted(offered, key=_by_size))
    docs = lever.changes if lever else field_docs(type(base)).get(name, "")
    return Field(name, "levers" if lever else "geometry", kind, value, original, options, docs)


def _kind_and_words(hint: Any) -> tuple[Kind, tuple[str, ...]]:
    """A switch, a choice of words, or text; an optional switch is a choice of three."""
    parts = get_args(hint) or (hint,)
    if hint is bool:
        return "switch", ()
    words = [part for each in parts for part in (get_args(each) or (each,)) if isinstance(part, str)]
    if bool in parts:
        words = ["false", "true"]
    if not words:
        return "text", ()
    return "choice", (*(["none"] if NoneType in parts else []), *words)


def _accepted_counts(base: KernelSpec, name: str, hint: Any) -> list[str]:
    """Integers that the spec takes, if need be with one of its switches the other way round."""
    if int not in (get_args(hint) or (hint,)):
        return []
    none = ["none"] if NoneType in get_args(hint) else []
    return none + [str(count) for count in COUNTS if any(_fits(one, name, count) for one in _neighbours(base))]


def _neighbours(spec: KernelSpec) -> Iterator[dict[str, Any]]:
    """The spec, and the spec with each switch turned, as values of its fields."""
    values = {field.name: getattr(spec, field.name) for field in fields(spec)}
    yield {"spec": spec}
    for name, value in values.items():
        if isinstance(value, bool):
            yield {"spec": spec, name: not value}


def _fits(neighbour: dict[str, Any], name: str, value: int) -> bool:
    changes = {key: each for key, each in neighbour.items() if key != "spec"}
    try:
        neighbour["spec"].with_changes(**changes, **{name: value})
    except SpecError:
        return False
    return True


def _by_size(text: str) -> tuple[int, int, str]:
    """`none` first, then numbers by size, then words."""
    if text == "none":
        return 0, 0, ""
    return (1, int(text), "") if text.isdigit() else (2, 0, text)


def field_docs(of_class: type[Any]) -> dict[str, str]:
    """The text below each field of a dataclass and its bases, on one line."""
    docs: dict[str, str] = {}
    for each in reversed(of_class.__mro__[:-1]):
        docs |= _own_docs(each.__module__, each.__name__)
    return docs


@cache
def _own_docs(module: str, name: str) -> dict[str, str]:
    source = inspect.getsource(getattr(import_module(module), name))
    definition = ast.parse(textwrap.dedent(source)).body[0]
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    docs = {}
    for statement, below in pairwise(body):
        text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else None
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and isinstance(text, str):
            docs[statement.target.id] = " ".join(text.split())
    return docs
