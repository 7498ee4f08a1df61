"""The dense kernel's levers of the softmax: a one-instruction 2^x, and a rescale that a wave votes away."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.gfx950.cfg import control_flow
from workbench.gfx950.isa import mix_of
from workbench.gfx950.votes import voted_away
from workbench.spec import DenseGeometry
from workbench.studies.dense_levers import dense, emulated_problem
from workbench.studies.lever_study import emulate_checked

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    import torch

    from workbench.gfx950.cfg import ControlFlow, Loop
    from workbench.gfx950.emulator import EmulationResult
    from workbench.problem import DenseAttentionProblem
    from workbench.studies.dense_levers import Size
    from workbench.studies.lever_study import LeverStudy

LOG2_E = math.log2(math.e)
SMALLEST_NORMAL_LOG2 = -126
"""Of float32 and bf16: what v_exp_f32 would return below it is denormal, and it returns 0."""
SMALLEST_LOG2 = {"bf16": -133, "fp16": -24}
"""Smallest number above 0 that P can be rounded to."""
WAVE_ROWS = 32
THRESHOLD_LOG2 = 8.0
"""Growth of a row's maximum up to which a lazy rescale keeps the old anchor."""
_A_FEW = 4
"""Vector instructions that a block may hold for the branch itself."""
SCALES = (1.0, 4.0, 16.0, 64.0)
"""Factors on the queries: the wider the scores, the more a maximum grows, and the smaller P gets."""


def exponential_frame(lowest: int = -150, highest: int = -100, steps: int = 4) -> pd.DataFrame:
    """2^x in float32 as one v_exp_f32, guarded as the kernel guards it, and exactly; x a multiple of 1 / steps.

    Modelled: the emulator's v_exp_f32 rounds correctly; that of a device may differ in the last bit.
    """
    import numpy as np
    import pandas as pd

    from workbench.gfx950.emulator.vfloat import exp2

    x = np.arange(lowest * steps, highest * steps + 1).astype(np.float32) / np.float32(steps)
    low = x < SMALLEST_NORMAL_LOG2
    guarded = exp2(x + np.where(low, np.float32(64), np.float32(0))) * np.where(
        low, np.float32(2.0**-64), np.float32(1)
    )
    frame = pd.DataFrame({"x": x, "exact": np.exp2(x.astype(np.float64)), "fast": exp2(x), "guarded": guarded})
    return frame.assign(evidence="modelled")


def log2_scores(problem: DenseAttentionProblem, factor: float = 1.0, head: int = 0, seed: int = 0) -> torch.Tensor:
    """Scores of one query head in the log2 domain, [queries, keys], float64, masked ones -inf; queries times factor."""
    import torch

    from workbench.inputs import make_dense_inputs

    inputs = make_dense_inputs(problem, seed=seed)
    q, k = inputs.q[0, :, head].double(), inputs.k[0, :, head // problem.group_size].double()
    scores = q @ k.T * (problem.softmax_scale or 0.0) * factor * LOG2_E
    if problem.causal:
        rows = torch.arange(problem.seqlen_q)[:, None] + problem.causal_offset
        scores = scores.masked_fill(torch.arange(problem.seqlen_kv)[None] > rows, -math.inf)
    return scores


def rescales(scores: torch.Tensor, tile: int, threshold: float) -> torch.Tensor:
    """Whether a wave rescales at a tile, [tiles, waves]: some row exceeds its anchor by more than the threshold.

    scores [rows, keys] in the log2 domain. Every wave rescales at the first tile. Modelled.
    """
    import torch

    anchor = torch.full(scores.shape[:1], -math.inf, dtype=scores.dtype)
    found = []
    for first in range(0, scores.shape[1], tile):
        highest = scores[:, first : first + tile].amax(1)
        grown = highest > anchor + threshold
        anchor = torch.where(grown, highest, anchor)
        found.append(grown.reshape(-1, WAVE_ROWS).any(1))
    return torch.stack(found)


@dataclass(frozen=True)
class Votes:
    """How often the waves of an emulated launch met a block that they may branch around, and how often they entered."""

    met: int
    entered: int

    @property
    def share(self) -> float:
        """Entered over met."""
        return self.entered / self.met if self.met else math.nan


def votes_of(launch: EmulationResult) -> Votes:
    """Of the blocks that hold vector arithmetic and that a wave skips when no lane needs them. Emulated."""
    code, executed = launch.program.code, launch.details.executed
    flow = control_flow(code)
    met, entered = 0, 0
    for loop in flow.loops:
        if loop.children or not mix_of(flow.instructions(loop)).family("mfma"):
            continue
        header = executed[flow.blocks[loop.header].start]
        for block in _arithmetic(flow, loop):
            met += header
            entered += executed[flow.blocks[block].start]
    return Votes(met, entered)


def _arithmetic(flow: ControlFlow, loop: Loop) -> list[int]:
    """Blocks that a vote skips and that multiply something."""
    found = []
    for number in sorted(voted_away(flow, loop)):
        block = flow.blocks[number]
        if mix_of(flow.kernel.instructions[block.start : block.end]).family("packed", "valu") > _A_FEW:
            found.append(number)
    return found


def vote_frame(study: LeverStudy, variant: str, size: Size = "small", scales: Sequence[float] = SCALES) -> pd.DataFrame:
    """A line per factor on the queries: share of the rescales that waves entered, and the error.

    The share is of all tiles of all waves; in the first tile every wave rescales. Emulated, and modelled in float64.
    """
    import pandas as pd
    import torch

    outcome = study.outcomes[variant]
    spec = outcome.variant.spec
    if not isinstance(spec, DenseGeometry):
        return pd.DataFrame()
    found = []
    for factor in scales:
        problem = emulated_problem(outcome.variant.problem, size)
        emulated = emulate_checked(problem, spec, "dense", study.triton_version, query_factor=factor)
        votes = votes_of(emulated.launches[0])
        heads = range(problem.num_query_heads)
        counted = torch.stack([_shares(log2_scores(problem, factor, head), spec) for head in heads])
        found.append(
            {
                "factor": factor,
                "emulated": votes.share,
                "modelled": float(counted.mean()),
                "correct": emulated.comparison.ok,
                "relative RMS error": emulated.comparison.relative_rms,
            }
        )
    return pd.DataFrame(found)


def _shares(scores: torch.Tensor, spec: DenseGeometry) -> torch.Tensor:
    """Share of the rescales of each block of rows, over the tiles that some row of it sees."""
    import torch

    found = []
    for block in scores.split(spec.block_m):
        seen = int(torch.isfinite(block).any(0).sum())
        found.append(rescales(block[:, : -(-seen // spec.block_n) * spec.block_n], spec.block_n, THRESHOLD_LOG2))
    return torch.cat([each.double().flatten() for each in found])


def threshold_frame(
    problem: DenseAttentionProblem, scales: Sequence[float] = SCALES, keys: int = 4096, tile: int = 64
) -> pd.DataFrame:
    """Share of the tiles after the first at which a wave rescales; 256 rows that all see `keys` keys. Modelled."""
    import pandas as pd

    long = dense(problem).with_changes(
        batch=1, num_query_heads=1, num_kv_heads=1, seqlen_q=256, seqlen_kv=keys, causal=False
    )
    found = []
    for factor in scales:
        scores = log2_scores(long, factor)
        for threshold in (0.0, THRESHOLD_LOG2):
            later = rescales(scores, tile, threshold)[1:]
            found.append({"factor": factor, "threshold": threshold, "share": float(later.double().mean())})
    return pd.DataFrame(found).assign(evidence="modelled")


def exponent_frame(study: LeverStudy, size: Size = "small", scales: Sequence[float] = SCALES) -> pd.DataFrame:
    """A line per factor on the queries: how far below 0 the exponents reach, and whether the outputs differ.

    `below normal`: share of visible probabilities under 2^-126 (modelled). The rest is emulated.
    """
    import pandas as pd
    import torch

    slow, fast = (study.outcomes[name].variant for name in ("exp2_fast=false", "exp2_fast=true"))
    if slow.spec is None or fast.spec is None:
        return pd.DataFrame()
    found = []
    for factor in scales:
        problem = emulated_problem(fast.problem, size)
        scores = log2_scores(problem, factor)
        exponents = (scores - scores.amax(1, keepdim=True))[torch.isfinite(scores)]
        both = [
            emulate_checked(problem, spec, "dense", study.triton_version, query_factor=factor)
            for spec in (slow.spec, fast.spec)
        ]
        differing = (both[0].out != both[1].out).sum().item()
        found.append(
            {
                "factor": factor,
                "lowest exponent": float(exponents.min()),
                "below normal": float((exponents < SMALLEST_NORMAL_LOG2).double().mean()),
                "outputs that differ": differing,
                "outputs": both[0].out.numel(),
                "error guarded": both[0].comparison.relative_rms,
                "error fast": both[1].comparison.relative_rms,
                "correct": all(each.comparison.ok for each in both),
            }
        )
    return pd.DataFrame(found)
