"""How the emulator's attention tests run a problem: everything poisoned, nothing overlooked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch

from workbench.attention import AttentionResult, backends, dense, run_dense, run_unified, unified
from workbench.compiler import triton_versions
from workbench.dtypes import torch_dtype
from workbench.gfx950.emulator import EmulationResult, EmulatorOptions
from workbench.inputs import DenseInputs, UnifiedInputs
from workbench.launch import KernelLaunch
from workbench.poison import fill_nan, output_shape, poisoned_like
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.spec import DenseSpec, Unified2DSpec, Unified3DSpec

VERSIONS = tuple(triton_versions())
SMALL: dict[str, Any] = {"block_m": 16, "tile_size": 32, "num_warps": 2}
SPECS: dict[str, Unified2DSpec | Unified3DSpec] = {
    "2d": Unified2DSpec(**SMALL),
    "3d": Unified3DSpec(**SMALL, num_segments=4),
}
GRID = DenseSpec(block_m=64, block_n=32, grid="default")
PERSISTENT = GRID.with_changes(grid="persistent", num_persistent=3)
CANARY = 171.0
# Pipelined loads past a branch: code in front of the branch that finds no tile reads the LDS of one, and drops it. Had
# it used what it read, that would be another kind of finding.
AHEAD_OF_THE_BRANCH = ("lds-uninitialised",)
_COPIED_BYTES = 2**20


def in_turn(cases: Iterable[Any]) -> list[tuple[Any, str]]:
    """Each case with one Triton version, the versions in turn: what differs between them is the code, not the case."""
    return [(case, VERSIONS[index % len(VERSIONS)]) for index, case in enumerate(cases)]


def run(
    problem: UnifiedAttentionProblem | DenseAttentionProblem,
    inputs: UnifiedInputs | DenseInputs,
    spec: Any,
    options: EmulatorOptions,
    allowed: Collection[str] = (),
) -> AttentionResult:
    """Run on the emulator into a NaN-filled output between two canaries.

    Fails on any finding of a kind that is not allowed, on a changed input, and on a store beside the output.
    """
    shape = output_shape(problem)
    held = torch.full((shape[0] + 2, *shape[1:]), CANARY, dtype=torch_dtype(problem.dtype))
    out = fill_nan(held[1:-1])
    cache = inputs.k if isinstance(inputs, DenseInputs) else inputs.k_cache
    before = inputs.clone() if cache.nbytes <= _COPIED_BYTES else None
    attention: Any = run_dense if isinstance(problem, DenseAttentionProblem) else run_unified
    with watched(allowed):
        result: AttentionResult = attention(problem, inputs, spec=spec, backend="emulator", out=out, emulator=options)
    assert result.backend == "emulator"
    assert (held[[0, -1]] == CANARY).all()
    assert before is None or inputs.changed_since(before) == ()
    return result


def run_packed(operands: Sequence[torch.Tensor], options: EmulatorOptions, **arguments: Any) -> torch.Tensor:
    """The same for packed dense sequences q, k, v; arguments: of dense_attention."""
    before = [tensor.clone() for tensor in operands]
    with watched():
        out = dense.dense_attention(
            *operands, spec=GRID, backend="emulator", out=poisoned_like(operands[0]), emulator=options, **arguments
        )
    assert all(map(torch.equal, operands, before))
    return out


@contextmanager
def watched(allowed: Collection[str] = ()) -> Iterator[None]:
    """Inside, workspaces start as NaN, and no launch may give rise to a finding, suspicions included."""

    def execute(launches: Sequence[KernelLaunch], *rest: Any) -> tuple[EmulationResult, ...]:
        for launch in launches:
            for name, value in launch.args.items():
                if name.startswith("p_segm_"):
                    fill_nan(value)
        emulation = backends.execute(launches, *rest)
        assert len(emulation) == len(launches)
        for result in emulation:
            assert {finding.kind for finding in result.findings} <= set(allowed), result.describe()
        return emulation

    with patch.object(unified, "execute", execute), patch.object(dense, "execute", execute):
        yield
