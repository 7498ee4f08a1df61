"""LDS bank conflicts of a spec's kernel on a small problem, told apart by the product that a read feeds. Emulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.gfx950.asm import parse_assembly
from workbench.gfx950.cfg import control_flow
from workbench.gfx950.dataflow import reads_by_product
from workbench.gfx950.isa import mix_of
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem

if TYPE_CHECKING:
    from workbench.compiler import CompiledKernel
    from workbench.gfx950.emulator import EmulationResult
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
        lengths = f"{problem.seqlen_q} queries against {problem.seqlen_kv} keys"
    else:
        lengths = " and ".join(f"{queries} queries against {keys} keys" for queries, keys in problem.seq_lens)
    return f"{problem.num_query_heads} query heads, {lengths}"


def conflict_cycles(kernel: KernelLevers, problem: Problem, spec: KernelSpec, triton_version: str) -> dict[str, int]:
    """Conflict cycles of the K read, the V read, and of all else, over the whole launch.

    A read is of K where it feeds the QK product of a loop, of V where it feeds the PV product. Reads outside loops and
    writes are the rest. SpecError where the spec does not serve the problem.
    """
    from workbench.compiler import compile_kernel
    from workbench.compiler.variants import build_requests

    request = build_requests(problem, spec, triton_version=triton_version)[0]
    compiled = compile_kernel(request)
    emulation = _run(kernel, problem, spec, triton_version)
    facts = _facts_by_line(compiled)
    totals = {"conflicts_k": 0, "conflicts_v": 0, "conflicts_other": 0}
    for line, row in emulation.details.by_line().items():
        totals[facts.get(line, "conflicts_other")] += row["conflict_cycles"]
    return totals


def _facts_by_line(compiled: CompiledKernel) -> dict[int, str]:
    """Assembly line of each LDS read within an innermost loop that holds products -> the fact it adds to."""
    flow = control_flow(parse_assembly(compiled.assembly, name=compiled.name).kernel(compiled.name))
    found: dict[int, str] = {}
    for loop in flow.loops:
        instructions = flow.instructions(loop)
        if not loop.children and mix_of(instructions).family("mfma"):
            roles = reads_by_product(instructions)
            found |= {instructions[place].line: _FACTS[role] for place, role in roles.items()}
    return found


def _run(kernel: KernelLevers, problem: Problem, spec: KernelSpec, triton_version: str) -> EmulationResult:
    from workbench.attention import run_dense, run_unified
    from workbench.gfx950.emulator import EmulatorOptions
    from workbench.inputs import make_dense_inputs, make_unified_inputs

    options = EmulatorOptions(triton_version=triton_version, strict=False, check_races=False)
    if isinstance(problem, DenseAttentionProblem):
        dense = make_dense_inputs(problem, seed=0)
        return run_dense(problem, dense, spec=spec, backend="emulator", emulator=options).emulation[0]  # type: ignore[arg-type]
    paged = make_unified_inputs(problem, seed=0)
    result = run_unified(problem, paged, lane=kernel.lane, spec=spec, backend="emulator", emulator=options)  # type: ignore[arg-type]
    return result.emulation[0]
