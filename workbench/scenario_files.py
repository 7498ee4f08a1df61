"""Scenario files: JSON with one set of named problems.

    {"set": "mine", "kind": "unified", "description": "what the set is for",
     "common": {"num_query_heads": 16, "num_kv_heads": 2, "head_size": 128, "block_size": 16},
     "scenarios": [{"name": "decode", "seq_lens": [[1, 4096], [1, 512, 8]], "use_sinks": true}]}

`kind` is unified or dense and says whose fields a scenario may have: those of UnifiedAttentionProblem or
DenseAttentionProblem. `common` holds the fields that all scenarios share unless they say otherwise; null unsets one.
An entry of `seq_lens` is [query_len, kv_len], or [query_len, kv_len, count] for a run of equal sequences.
A dense scenario may give `seqlen` for equal seqlen_q and seqlen_kv.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from workbench.errors import ProblemError, ScenarioError
from workbench.json_text import parse_json
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem

Problem = UnifiedAttentionProblem | DenseAttentionProblem

PROBLEM_OF_KIND: dict[str, type[UnifiedAttentionProblem] | type[DenseAttentionProblem]] = {
    "unified": UnifiedAttentionProblem,
    "dense": DenseAttentionProblem,
}
MOST_SEQUENCES = 2**20
"""Of one entry of `seq_lens`."""
_TOP_LEVEL = ("set", "kind", "description", "common", "scenarios")


@dataclass(frozen=True)
class ScenarioFile:
    """A validated file."""

    set: str
    kind: str
    description: str
    problems: dict[str, Problem]
    """By scenario name, in the file's order."""


def read_scenario_file(path: Path) -> ScenarioFile:
    """Read and validate one file. ScenarioError names the file, the scenario, the field and what is accepted."""
    content = _read_json(path)
    if not isinstance(content, dict):
        raise ScenarioError(f"{path}: the file must hold one JSON object with {', '.join(_TOP_LEVEL)}")
    _refuse_unknown(f"{path}", content, _TOP_LEVEL)
    set_name = _text(path, content, "set")
    kind = _text(path, content, "kind")
    if kind not in PROBLEM_OF_KIND:
        raise ScenarioError(f"{path}: kind must be one of {', '.join(PROBLEM_OF_KIND)}, got {kind!r}")
    common = content.get("common", {})
    entries = content.get("scenarios")
    if not isinstance(common, dict):
        raise ScenarioError(f"{path}: common must be an object of problem fields, got {common!r}")
    if not isinstance(entries, list) or not entries:
        raise ScenarioError(f"{path}: scenarios must be a list of at least one object, got {entries!r}")
    _refuse_unknown(f"{path}: common", common, accepted_fields(kind))

    problems: dict[str, Problem] = {}
    for index, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name or not name.isprintable():
            raise ScenarioError(f"{path}: scenario {index} must be an object with a printable name, got {entry!r}")
        if name in problems:
            raise ScenarioError(f"{path}: two scenarios are called {name!r}; names must differ")
        overrides = {field: value for field, value in entry.items() if field != "name"}
        problems[name] = _problem(f"{path}: scenario {name!r}", kind, common | overrides)
    description = content.get("description", "")
    if not isinstance(description, str):
        raise ScenarioError(f"{path}: description must be a string, got {description!r}")
    return ScenarioFile(set_name, kind, description, problems)


def accepted_fields(kind: str) -> tuple[str, ...]:
    """Fields that a scenario of this kind may have beside its name."""
    names = tuple(field.name for field in fields(PROBLEM_OF_KIND[kind]))
    return (*names, "seqlen") if kind == "dense" else names


def _read_json(path: Path) -> Any:
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read ({error.strerror}); give the path of a scenario file") from None
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: is not UTF-8 text; a scenario file is JSON") from None
    except json.JSONDecodeError as error:
        raise ScenarioError(f"{path}: line {error.lineno}: not valid JSON, {error.msg}") from None
    except ValueError as error:
        raise ScenarioError(f"{path}: not readable as JSON, {error}") from None


def _text(path: Path, content: dict[str, Any], field: str) -> str:
    value = content.get(field)
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ScenarioError(f"{path}: {field} must be a printable string, got {value!r}")
    return value


def _refuse_unknown(where: str, given: dict[str, Any], accepted: tuple[str, ...]) -> None:
    unknown = sorted(set(given) - set(accepted))
    if unknown:
        raise ScenarioError(f"{where}: unknown {', '.join(unknown)}; accepted are {', '.join(accepted)}")


def _problem(where: str, kind: str, given: dict[str, Any]) -> Problem:
    _refuse_unknown(where, given, accepted_fields(kind))
    values = {field: value for field, value in given.items() if value is not None}
    for field, value in values.items():
        accepted, matches = _FIELD_CHECKS[field]
        if not matches(value):
            raise ScenarioError(f"{where}: {field} must be {accepted}, got {value!r}")
    if "seqlen" in values:
        if "seqlen_q" in values or "seqlen_kv" in values:
            raise ScenarioError(f"{where}: give either seqlen, or seqlen_q and seqlen_kv")
        values["seqlen_q"] = values["seqlen_kv"] = values.pop("seqlen")
    if "seq_lens" in values:
        values["seq_lens"] = _expand(values["seq_lens"])
    problem_class = PROBLEM_OF_KIND[kind]
    missing = [field.name for field in fields(problem_class) if field.default is MISSING and field.name not in values]
    if missing:
        raise ScenarioError(f"{where}: lacks {', '.join(missing)}; add it to the scenario or to common")
    try:
        return problem_class(**values)
    except ProblemError as error:
        raise ScenarioError(f"{where}: {error}") from None


def _expand(runs: list[list[int]]) -> tuple[tuple[int, int], ...]:
    """[[q, kv], [q, kv, count]] as one (q, kv) per sequence."""
    return tuple((run[0], run[1]) for run in runs for _ in range(run[2] if len(run) == 3 else 1))


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_seq_lens(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(run, list)
        and len(run) in (2, 3)
        and all(map(_is_int, run))
        and (len(run) == 2 or 1 <= run[2] <= MOST_SEQUENCES)
        for run in value
    )


_Check = tuple[str, Callable[[object], bool]]
_INTEGER: _Check = ("an integer", _is_int)
_NUMBER: _Check = ("a number", lambda value: _is_int(value) or isinstance(value, float))
_FLAG: _Check = ("true or false", lambda value: isinstance(value, bool))
_STRING: _Check = ("a string", lambda value: isinstance(value, str))

_FIELD_CHECKS: dict[str, _Check] = {
    "seq_lens": (f"a list of [query_len, kv_len] or [query_len, kv_len, count <= {MOST_SEQUENCES}]", _is_seq_lens),
    **dict.fromkeys(("dtype", "q_dtype", "kv_dtype", "alignment"), _STRING),
    **dict.fromkeys(("softmax_scale", "softcap"), _NUMBER),
    **dict.fromkeys(("use_alibi", "use_qq_bias", "use_sinks", "causal"), _FLAG),
    **dict.fromkeys(("num_query_heads", "num_kv_heads", "head_size", "block_size", "num_blocks"), _INTEGER),
    **dict.fromkeys(("sliding_window", "qq_bias_size", "batch", "seqlen", "seqlen_q", "seqlen_kv"), _INTEGER),
}
