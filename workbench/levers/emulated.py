"""LDS bank conflicts of a spec's kernel on a small problem, told apart by the product that a read feeds. Emulated."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from workbench.gfx950.cfg import control_flow
from workbench.gfx950.dataflow import reads_by_product
from workbench.gfx950.isa import mix_of
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem

if TYPE_CHECKING:
    from workbench.gfx950.emulator import EmulationResult
    from workbench.gfx950.machine_code import Kernel
    from workbench.levers.registry import KernelLevers
    from workbench.spec import KernelSpec

Problem = DenseAttentionProblem | UnifiedAttentionProblem

DENSE_LENGTHS = (256, 512)
"""Queries and keys: one block of rows, with tiles on both sides of the masks' border."""
PREFILL = ((128, 512),)
DECODE = ((1, 512), (1, 300))
_FACTS = {"fresh": "conflicts_k", "carried": "conflicts_v"}


def small_problem(problem: Problem) -> Problem:
    """The same problem with one KV head and at most 512 keys; all else, masks and biases too, stays."""
    if isinstance(problem, DenseAttentionProblem):
        seqlen_q, seqlen_kv = DENSE_LENGTHS
        return problem.with_changes(
            batch=1,
            num_query_heads=min(problem.group_size, 2),
            num_kv_heads=1,
            seqlen_q=seqlen_q,
            seqlen_kv=seqlen_kv,
        )
    return problem.with_changes(
        seq_lens=PREFILL if problem.max_query_len > 1 else DECODE,
        num_query_heads=problem.group_size,
        num_kv_heads=1,
        num_blocks=None,
        qq_bias_size=None,
    )


def describe(problem: Problem) -> str:
    """`2 query heads, 256 queries against 512 keys`."""
    if isinstance(problem, DenseAttentionProblem):
        lengths = f"{_queries(problem.seqlen_q)} against {problem.seqlen_kv} keys"
    else:
        counts = Counter(problem.seq_lens)
        lengths = " and ".join(
            f"{f'{count} times ' if count > 1 else ''}{_queries(queries)} against {keys} keys"
            for (queries, keys), count in counts.items()
        )
    return f"{problem.num_query_heads} query heads, {lengths}"


def _queries(count: int) -> str:
    return "1 query" if count == 1 else f"{count} queries"


def conflict_cycles(kernel: KernelLevers, problem: Problem, spec: KernelSpec, triton_version: str) -> dict[str, int]:
    """Conflict cycles of the K read, the V read, and of all else, over the whole launch.

    A read is of K where it feeds the QK product of a loop, of V where it feeds the PV product. Reads outside loops and
    writes are the rest. SpecError where the spec does not serve the problem.
    """
    return conflicts_of_spec(kernel.lane, problem, spec, triton_version)


def conflicts_of_spec(lane: str, problem: Problem, spec: KernelSpec, triton_version: str) -> dict[str, int]:
    """The same by lane (`dense`, `2d` or `3d`), for a spec of any kernel."""
    return conflicts_by_product(_run(lane, problem, spec, triton_version))


def conflicts_by_product(emulation: EmulationResult) -> dict[str, int]:
    """Conflict cycles of an emulated launch: `conflicts_k`, `conflicts_v`, `conflicts_other`, told apart as above."""
    facts = _facts_by_place(emulation.program.code)
    totals = {"conflicts_k": 0, "conflicts_v": 0, "conflicts_other": 0}
    for place, cycles in enumerate(emulation.details.conflict_cycles):
        totals[facts.get(place, "conflicts_other")] += cycles
    return totals


def _facts_by_place(code: Kernel) -> dict[int, str]:
    """Place of each LDS read within an innermost loop that holds products -> the fact it adds to."""
    flow = control_flow(code)
    found: dict[int, str] = {}
    for loop in flow.loops:
        instructions = flow.instructions(loop)
        if not loop.children and mix_of(instructions).family("mfma"):
            roles = reads_by_product(instructions)
            found |= {instructions[place].index: _FACTS[role] for place, role in roles.items()}
    return found


def _run(lane: str, problem: Problem, spec: KernelSpec, triton_version: str) -> EmulationResult:
    from workbench.attention import run_dense, run_unified
    from workbench.gfx950.emulator import EmulatorOptions
    from workbench.inputs import make_dense_inputs, make_unified_inputs

    options = EmulatorOptions(triton_version=triton_version, strict=False, check_races=False)
    if isinstance(problem, DenseAttentionProblem):
        dense = make_dense_inputs(problem, seed=0)
        return run_dense(problem, dense, spec=spec, backend="emulator", emulator=options).emulation[0]  # type: ignore[arg-type]
    paged = make_unified_inputs(problem, seed=0, poison=False)
    result = run_unified(problem, paged, lane=lane, spec=spec, backend="emulator", emulator=options)  # type: ignore[arg-type]
    return result.emulation[0]
