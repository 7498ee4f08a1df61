"""A state as Python code that runs it, and as the command that inspects it."""

from __future__ import annotations

import shlex
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from workbench.errors import WorkbenchError
from workbench.explorer.plan import changed_fields
from workbench.explorer.problem_edits import LENGTHS
from workbench.explorer.state import AUTO
from workbench.problem import DenseAttentionProblem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from workbench.explorer.plan import Plan

_WIDTH = 100


def python_code(plan: Plan) -> str:
    """A script: the problem, the spec, a call. Fields at their defaults are left out."""
    if plan.spec is None:
        return f"# {plan.error}\n"
    kind = "dense" if isinstance(plan.problem, DenseAttentionProblem) else "unified"
    lane = "" if kind == "dense" else f"lane={plan.lane!r}, "
    on_gpu = f'# device="cuda" and no backend on a GPU with {plan.device.arch}; the emulator is for small problems.\n'
    emulated = plan.state.target == "gfx950"
    backend = ", backend='emulator'" if emulated else ""
    return (
        "import workbench\n\n"
        f"# {plan.state.scenario}, {plan.state.size} size{_edited(plan)}\n"
        f"problem = {_construction(plan.problem)}\n"
        f"spec = {_construction(plan.spec)}\n"
        f"{on_gpu if emulated else ''}"
        f"inputs = workbench.make_{kind}_inputs(problem, device={'cpu' if emulated else 'cuda'!r})\n"
        f"result = workbench.run_{kind}(problem, inputs, {lane}spec=spec{backend})\n"
    )


def command_line(plan: Plan) -> str:
    """The `workbench inspect` command of the state; nothing where it takes an edited problem or another kernel."""
    state = plan.state
    if state.edits or state.kernel != AUTO or plan.spec is None or plan.device.vendor != "amd":
        return ""
    words = ["workbench", "inspect", "--scenario", state.scenario]
    words += ["--size", state.size] if state.size != "full" else []
    words += ["--target", state.target] if state.target != "gfx950" else []
    words += ["--triton", state.triton] if state.triton else []
    words += [word for name, text in changed_fields(plan).items() for word in ("--spec", f"{name}={text}")]
    return shlex.join(words)


def _edited(plan: Plan) -> str:
    return f", with {', '.join(name for name, _ in plan.state.edits)} changed" if plan.state.edits else ""


def _construction(value: Any) -> str:
    """`workbench.Name(field=value, ...)`, over several lines where one would be long."""
    kind, arguments = type(value), {field.name: getattr(value, field.name) for field in fields(value)}
    # Backwards, because some defaults follow from fields before them.
    for field in reversed(fields(value)):
        without = {name: each for name, each in arguments.items() if name != field.name}
        if field.default is not MISSING and _gives(kind, without, value):
            arguments = without
    return _call(f"workbench.{kind.__name__}", [f"{name}={_spelled(name, each)}" for name, each in arguments.items()])


def _gives(kind: type[Any], arguments: dict[str, Any], value: Any) -> bool:
    try:
        return bool(kind(**arguments) == value)
    except WorkbenchError:
        return False


def _call(name: str, arguments: Iterable[str]) -> str:
    arguments = list(arguments)
    line = f"{name}({', '.join(arguments)})"
    return line if len(line) <= _WIDTH else f"{name}(\n    " + ",\n    ".join(arguments) + ",\n)"


def _spelled(name: str, value: Any) -> str:
    """A literal; equal sequences as a product, since there can be hundreds of them."""
    if name == LENGTHS and len(set(value)) == 1 and len(value) > 1:
        return f"({value[0]!r},) * {len(value)}"
    return repr(value)
