"""What the studies of single levers of the unified kernels share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from workbench.dispatch.grid import block_q
from workbench.errors import ParameterError
from workbench.levers.registry import find_kernel
from workbench.levers.table import base_of
from workbench.problem import UnifiedAttentionProblem
from workbench.studies.lever_figures import VOTED
from workbench.studies.lever_study import LeverStudy, spec_variants, study_variants

if TYPE_CHECKING:
    from workbench.problem import DenseAttentionProblem
    from workbench.scenarios import Scenario
    from workbench.spec import KernelSpec
    from workbench.studies.lever_study import Progress

GLUON, PORTABLE = "gfx950-unified-2d", "unified-2d"
KERNELS = {"Gluon": GLUON, "portable": PORTABLE}
"""Name in tables -> name in the registry of levers."""
Size = Literal["small", "full"]


def paged(scenario: Scenario) -> UnifiedAttentionProblem:
    """The scenario's problem on a cache that just holds it; ParameterError for a dense one.

    A cache of 2^31 bytes has other code, see workbench.studies.addressing.
    """
    if not isinstance(scenario.problem, UnifiedAttentionProblem):
        raise ParameterError(f"{scenario.name} is dense; this study is of the unified kernels: `workbench scenarios`")
    return scenario.problem.with_changes(num_blocks=scenario.problem.blocks_needed)


def small_paged(problem: UnifiedAttentionProblem | DenseAttentionProblem, queries: int = 32, keys: int = 320) -> Any:
    """The same problem with one KV head and one short sequence, which the emulator runs in seconds."""
    if not isinstance(problem, UnifiedAttentionProblem):
        raise ParameterError("this study is of the unified kernels, and the problem is dense")
    return problem.with_changes(
        seq_lens=((queries, keys),), num_query_heads=problem.group_size, num_kv_heads=1, num_blocks=None
    )


def block_positions(problem: UnifiedAttentionProblem, block_m: int) -> Iterator[tuple[int, int]]:
    """First and last position, context counted, of the rows of each query block of one KV head.

    A row at position p sees the keys up to p; under a window of W those from p + 1 - W on.
    """
    positions = block_q(problem, block_m)
    for query_len, kv_len in problem.seq_lens:
        for first in range(kv_len - query_len, kv_len, positions):
            yield first, min(first + positions, kv_len) - 1


def base_spec(kernel: str, problem: UnifiedAttentionProblem) -> KernelSpec:
    """What dispatch picks for the problem on an MI355X; kernel: `Gluon` or `portable`."""
    if kernel not in KERNELS:
        raise ParameterError(f"there is no kernel {kernel!r}; there are {', '.join(KERNELS)}")
    return base_of(find_kernel(KERNELS[kernel]), problem)


def changed_study(
    problem: UnifiedAttentionProblem,
    base: KernelSpec,
    changes: Mapping[str, Mapping[str, Any]],
    *,
    published: Sequence[str] = (),
    emulated: Callable[[Any], Any] | None = small_paged,
    timing: bool | str = True,
    triton_version: str = "",
    seed: int = 0,
    on_step: Progress | None = None,
) -> LeverStudy:
    """All named changes of the base side by side.

    emulated: from the problem to the emulator's; None leaves it out. timing: whether to time where a GPU here can, or
    in words why not.
    """
    return study_variants(
        spec_variants(problem, base, changes),
        published=published,
        small=emulated,
        timing=timing,
        triton_version=triton_version,
        seed=seed,
        on_step=on_step,
    )


def cycles(study: LeverStudy, variant: str, figure: str = "cycles per 64 keys") -> float | None:
    """Modelled cycles of one wave for 64 keys, without the blocks that a vote skips where there are any."""
    voted = study.value(variant, figure + VOTED)
    return study.value(variant, figure) if voted is None else voted


def time_note(study: LeverStudy) -> str:
    """What the study's times were taken on, and why variants have none: sentences for a caption."""
    lines = [line for name in study.outcomes if (line := study.find(name, "time")) is not None]
    missing = [line for line in lines if line.value is None]
    hardware = dict.fromkeys(line.of.partition(", ")[0] for line in lines if line.value is not None)
    told = f"Times: {', '.join(hardware)}." if hardware else ""
    if not missing:
        return told
    reasons = "; ".join(dict.fromkeys(line.text for line in missing))
    whose = "" if len(missing) == len(lines) else f" of {', '.join(line.variant for line in missing)}"
    return f"{told} No times{whose}: {reasons}.".strip()
