"""Strict notebook parameters: read from the cell tagged `parameters`, checked before any kernel starts.

The cell holds assignments of literals. A type annotation (str, int, float, bool, None, list[T], Literal[...] and unions
of them) says what is accepted; without one the default's type does. The comment behind a default is its help.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from workbench.errors import ParameterError
from workbench.json_text import parse_json
from workbench.report.parameter_types import ParameterType, parse_type, type_of_default


@dataclass(frozen=True)
class Parameter:
    """One declared parameter of a notebook."""

    name: str
    type: ParameterType
    default: Any
    help: str = ""

    def describe(self) -> str:
        """`name: type = default   help`, as it is listed to the user."""
        declared = f"{self.name}: {self.type.text} = {self.default!r}"
        return f"{declared}   {self.help}" if self.help else declared


def notebook_parameters(path: Path) -> dict[str, Parameter]:
    """The parameters that the notebook declares. ParameterError if it has no parameters cell, or a malformed one."""
    try:
        cells = parse_json(path.read_text(encoding="utf-8"))["cells"]
        tagged = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", ())]
        sources = ["".join(cell["source"]) for cell in tagged if cell["cell_type"] == "code"]
    except OSError as error:
        raise ParameterError(f"{path} cannot be read: {error.strerror}; give an .ipynb file") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ParameterError(f"{path} is not a Jupyter notebook ({type(error).__name__}: {error})") from error
    if len(sources) != 1:
        found = "no code cell" if not sources else f"{len(sources)} code cells"
        raise ParameterError(
            f"{path.name} has {found} tagged 'parameters', so it cannot be run as a report; "
            "tag the one cell that assigns the defaults (JupyterLab: Property Inspector, Cell tags)"
        )
    return declared_parameters(sources[0], path.name)


def declared_parameters(source: str, where: str = "notebook") -> dict[str, Parameter]:
    """Parse the source of a parameters cell."""
    try:
        statements = ast.parse(source).body
        comments = _trailing_comments(source)
    except (SyntaxError, tokenize.TokenError) as error:
        raise ParameterError(f"{where}: the parameters cell is not valid Python: {error}") from error
    found = {}
    for statement in statements:
        if isinstance(statement, ast.Import | ast.ImportFrom) or _is_docstring(statement):
            continue
        parameter = _declared(statement, comments.get(statement.end_lineno or 0, ""), where)
        found[parameter.name] = parameter
    return found


def bind_parameters(declared: Mapping[str, Parameter], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Values for all parameters: the given ones, converted and checked, over the defaults.

    Text is converted to the declared type. ParameterError names every unknown or ill-typed parameter and lists the
    known ones.
    """
    problems = [_unknown(name, declared) for name in given if name not in declared]
    values = {name: parameter.default for name, parameter in declared.items()}
    for name, value in given.items():
        if name in declared:
            try:
                values[name] = declared[name].type.convert(value)
            except ValueError as error:
                problems.append(f"{name}: {error}")
    if problems:
        listed = "\n".join(f"  {parameter.describe()}" for parameter in declared.values()) or "  (none)"
        raise ParameterError(f"{where}: {'; '.join(problems)}\nParameters of {where}:\n{listed}")
    return values


def _unknown(name: str, declared: Mapping[str, Parameter]) -> str:
    close = get_close_matches(name.lower(), declared, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"unknown parameter {name!r}{hint}"


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _declared(statement: ast.stmt, comment: str, where: str) -> Parameter:
    target: ast.expr | None = None
    if isinstance(statement, ast.AnnAssign):
        target, annotation = statement.target, statement.annotation
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, annotation = statement.targets[0], None
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or not isinstance(target, ast.Name):
        raise ParameterError(
            f"{where}: line {statement.lineno} of the parameters cell must be `name: type = default  # help`, "
            f"got `{ast.unparse(statement)}`"
        )
    try:
        default = ast.literal_eval(statement.value) if statement.value is not None else None
        declared_type = type_of_default(default) if annotation is None else parse_type(annotation)
        if statement.value is None:
            raise ValueError("it has no default")
        default = declared_type.convert(default, from_text=False)
    except ValueError as error:
        raise ParameterError(f"{where}: parameter {target.id!r} is declared wrongly: {error}") from error
    return Parameter(target.id, declared_type, default, comment)


def _trailing_comments(source: str) -> dict[int, str]:
    """Line number to the text of the comment that ends the line."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string.lstrip("# ").rstrip() for token in tokens if token.type == tokenize.COMMENT}
