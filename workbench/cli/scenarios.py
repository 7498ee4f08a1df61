"""`workbench scenarios`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from workbench.cli.options import Size, SizeOption
from workbench.cli.select import choose
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem

if TYPE_CHECKING:
    from workbench.scenarios import Scenario


def scenarios(
    set_name: Annotated[
        str | None,
        typer.Argument(metavar="SET|FILE", help="A set by its name, all, or a .json file; without it, the sets."),
    ] = None,
    size: SizeOption = Size.FULL,
) -> None:
    """List the scenario sets, or the scenarios of one set or file."""
    table = _table_of_sets() if set_name is None else _table_of_scenarios(choose(None, set_name, size))
    Console().print(table)


def _table_of_sets() -> Table:
    from workbench.scenarios import load_set, set_description, set_names

    table = Table("set", "scenarios", "what for")
    for name in set_names():
        table.add_row(name, str(len(load_set(name))), set_description(name))
    return table


def _table_of_scenarios(found: tuple[Scenario, ...]) -> Table:
    longest = max(len(scenario.name) for scenario in found)  # a name that is cut cannot be typed
    table = Table(Column("scenario", min_width=longest), "problem")
    for scenario in found:
        problem = scenario.problem
        heads = f"{problem.num_query_heads}/{problem.num_kv_heads} heads of {problem.head_size}"
        if isinstance(problem, DenseAttentionProblem):
            shape, dtype, features = _dense_cells(problem)
        else:
            shape, dtype, features = _unified_cells(problem)
        table.add_row(scenario.name, ", ".join([shape, heads, dtype, *features]))
    return table


def _dense_cells(problem: DenseAttentionProblem) -> tuple[str, str, list[str]]:
    features = ["causal" if problem.causal else "full"]
    if problem.seqlen_q != problem.seqlen_kv:
        features.append(problem.alignment)
    if problem.sliding_window is not None:
        features.append(f"window {problem.sliding_window}")
    if problem.use_sinks:
        features.append("sinks")
    return f"B {problem.batch}, Sq {problem.seqlen_q}, Skv {problem.seqlen_kv}", problem.dtype, features


def _unified_cells(problem: UnifiedAttentionProblem) -> tuple[str, str, list[str]]:
    shape = f"{problem.num_seqs} seqs, q <= {problem.max_query_len}, kv <= {problem.max_kv_len}"
    dtypes = dict.fromkeys((problem.dtype, f"q {problem.q_dtype}", f"kv {problem.kv_dtype}"))
    own = [name for name in dtypes if name.rpartition(" ")[2] != problem.dtype]
    features = [f"blocks of {problem.block_size}"]
    if problem.sliding_window is not None:
        features.append(f"window {problem.sliding_window}")
    if problem.softcap:
        features.append(f"softcap {problem.softcap:g}")
    flags = {"ALiBi": problem.use_alibi, "QQ-bias": problem.use_qq_bias, "sinks": problem.use_sinks}
    features += [name for name, on in flags.items() if on]
    return shape, ", ".join([problem.dtype, *own]), features
