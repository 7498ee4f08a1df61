"""Fields of a problem as text and back. Lengths are written as in scenario files: [[1, 4096], [1, 512, 8]]."""

from __future__ import annotations

import json
from dataclasses import fields
from itertools import groupby
from typing import TYPE_CHECKING, Any, get_type_hints

from workbench.errors import ProblemError, SpecError
from workbench.problem import UnifiedAttentionProblem
from workbench.spec_changes import read_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from workbench.explorer.state import Pairs
    from workbench.scenario_files import Problem

LENGTHS = "seq_lens"
_DERIVED = {
    "softmax_scale": ("head_size",),
    "q_dtype": ("dtype",),
    "kv_dtype": ("dtype",),
    "num_blocks": (LENGTHS, "block_size"),
    "qq_bias_size": (LENGTHS, "use_qq_bias"),
}
"""Field -> those from which its default follows: an edit of one of them lets it follow again."""


def edit_problem(problem: Problem, edits: Pairs) -> Problem:
    """A copy with the fields changed; ProblemError for what no problem can have."""
    given = dict(edits)
    known = [field.name for field in fields(problem)]
    changes: dict[str, Any] = {name: _read(problem, name, text, known) for name, text in given.items()}
    for name, sources in _DERIVED.items():
        if name in known and name not in given and any(source in given for source in sources):
            changes[name] = None
    return problem.with_changes(**changes)


def spell_value(value: object) -> str:
    """A field's value as text that `edit_problem` reads."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return spell_lengths(value)
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def spell_lengths(seq_lens: Iterable[tuple[int, int]]) -> str:
    """(query length, key length) of each sequence, equal neighbours counted."""
    runs = [[*pair, len(list(group))] for pair, group in groupby(seq_lens)]
    return json.dumps([run[:2] if run[2] == 1 else run for run in runs])


def _read(problem: Problem, name: str, text: str, known: Sequence[str]) -> Any:
    if name not in known:
        raise ProblemError(f"{type(problem).__name__} has no field {name!r}; it has {', '.join(known)}")
    if name == LENGTHS and isinstance(problem, UnifiedAttentionProblem):
        return _lengths(text)
    try:
        return read_value(name, text.strip(), get_type_hints(type(problem))[name])
    except SpecError as error:
        raise ProblemError(str(error)) from None


def _lengths(text: str) -> tuple[tuple[int, int], ...]:
    try:
        entries = json.loads(text)
        runs = [(entry[:2], entry[2] if len(entry) == 3 else 1) for entry in entries if len(entry) in (2, 3)]
        if len(runs) != len(entries):
            raise ValueError
        return tuple((query, keys) for (query, keys), count in runs for _ in range(count))
    except (ValueError, TypeError):
        raise ProblemError(
            f"{LENGTHS} must be [query_len, kv_len] pairs in a list, with a third number for a run of equal ones, such "
            f"as [[1, 4096], [1, 512, 8]]; got {text!r}"
        ) from None
