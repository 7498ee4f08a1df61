"""Segments of the split-KV kernel: what they do to occupancy and traffic, and whether the merge is exact.

Bytes of the workspace, float32, written by the segments and read once by the merge:

    2 * 4 * tokens * query heads * segments * (head size padded + 2)

Segments without tiles write a sum and a maximum alone; they are counted in full here, so this is an upper bound.
Evidence: bytes and grids static, steps modelled (see workbench.studies.routing), errors emulated or measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from workbench.dispatch.grid import WORKGROUPS_PER_CU
from workbench.errors import ParameterError, UnsupportedError
from workbench.spec import Unified2DSpec, Unified3DSpec, head_pad
from workbench.studies.streaming_softmax import DTYPES, Recipe, Step, normalised, scores, values, walk, whole

if TYPE_CHECKING:
    import pandas as pd

    from workbench.device import Device
    from workbench.problem import UnifiedAttentionProblem

RECURRENCES = {
    "fp64": Recipe(),
    "fp32": Recipe(state="fp32", p="fp32"),
    "bf16": Recipe(state="fp32", p="bf16"),
    "bf16, whole anchors": Recipe(state="fp32", p="bf16", whole_anchor=True),
}
"""Name -> the recurrence; its output is rounded to the dtype of its P."""
SMALL: dict[str, Any] = {"block_m": 16, "tile_size": 32, "num_warps": 2}


def workspace_bytes(problem: UnifiedAttentionProblem, segments: int) -> int:
    """Bytes that go to the workspace and come back."""
    rows = problem.total_query_tokens * problem.num_query_heads
    return 2 * 4 * rows * segments * (head_pad(problem.head_size) + 2)


def base_3d(problem: UnifiedAttentionProblem, device: Device) -> Unified3DSpec:
    """What dispatch has for the 3D lane."""
    from workbench.dispatch import select_spec

    spec = select_spec(problem, device, "3d").spec
    if not isinstance(spec, Unified3DSpec):
        raise UnsupportedError(f"the 3D lane has a {type(spec).__name__}")
    return spec


def segment_frame(
    problem: UnifiedAttentionProblem, device: Device, counts: Sequence[int], per_cu: int = WORKGROUPS_PER_CU
) -> pd.DataFrame:
    """A line per number of segments: grid, slots with work, steps of the longest queue, bytes of the workspace.

    per_cu: slots for workgroups on a compute unit, by default the number that dispatch assumes.
    """
    import pandas as pd

    from workbench.dispatch import grid_3d
    from workbench.dispatch.grid import visible_keys
    from workbench.parity.flops import work_of

    base = base_3d(problem, device)
    tiles = -(-visible_keys(problem, base.block_m) // base.tile_size)
    slots = per_cu * device.compute_units
    needed = work_of(problem).bytes
    found = []
    for count in counts:
        blocks, heads, _ = grid_3d(problem, base.block_m, count)
        each = -(-tiles // count)
        # Segments behind the last tile end at once and take no slot.
        busy = -(-tiles // each)
        grid = blocks * heads * busy
        rounds = -(-grid // slots)
        moved = workspace_bytes(problem, count)
        found.append(
            {
                "segments": count,
                "per_cu": per_cu,
                "chosen": count == base.num_segments,
                "workgroups": blocks * heads * count,
                "empty": blocks * heads * (count - busy),
                "busy": grid / (rounds * slots),
                "tiles": each,
                "rounds": rounds,
                "steps": rounds * each,
                "workspace": moved,
                "needed": needed,
                "extra": moved / needed,
                "evidence": "static; busy, rounds and steps modelled",
            }
        )
    return pd.DataFrame(found)


def merged(parts: Sequence[Step]) -> Step:
    """One state from those of several segments: all re-based to the largest anchor, then added."""
    m = torch.stack([part.m for part in parts]).amax(0)
    weights = [torch.exp2(part.m - m) for part in parts]
    ell = torch.stack([weight * part.ell for weight, part in zip(weights, parts, strict=True)]).sum(0)
    o = torch.stack([weight[:, None] * part.o for weight, part in zip(weights, parts, strict=True)]).sum(0)
    return replace(parts[-1], m=m, ell=ell, o=o)


def recurrence_frame(counts: Sequence[int], keys: int, *, seed: int = 0) -> pd.DataFrame:
    """The merge in PyTorch: largest error, and largest difference from one segment. Modelled."""
    import pandas as pd

    x, v = scores("random", 32, keys, seed), values(keys, 64, seed)
    exact = whole(x, v)
    found = []
    for what, recipe in RECURRENCES.items():
        dtype = DTYPES[recipe.p]
        alone = normalised(walk(x, v, recipe)[-1]).to(dtype)
        for count in counts:
            each = -(-keys // (count * recipe.tile)) * recipe.tile
            parts = [
                walk(x[:, first : first + each], v[first : first + each], recipe)[-1] for first in range(0, keys, each)
            ]
            out = normalised(merged(parts)).to(dtype)
            found.append(
                {
                    "what": f"recurrence, {what}",
                    "segments": count,
                    "equal": float((out == alone).double().mean()),
                    "ulps": largest_ulps(out, alone),
                    "error": float((out.double() - exact).abs().max()),
                    "evidence": "modelled",
                }
            )
    return pd.DataFrame(found)


def kernel_frame(
    counts: Sequence[int], keys: int, *, backend: str = "auto", fused: bool = False, seed: int = 0
) -> pd.DataFrame:
    """The 3D kernel against the 2D kernel of the same geometry, bit by bit, in float32 and bf16, and against float64.

    backend: as workbench.run_unified; 'auto' is the GPU where there is one, else the interpreter. fused: merge in the
    same launch. The problem: two sequences of one query token, 4 query heads on 1, d64, pages of 16.
    """
    import pandas as pd

    from workbench.attention import run_unified
    from workbench.inputs import make_unified_inputs
    from workbench.problem import UnifiedAttentionProblem
    from workbench.reference import unified_reference

    device = "cuda" if backend in ("auto", "gpu") and torch.cuda.is_available() else "cpu"
    found = []
    for dtype in ("fp32", "bf16"):
        problem = UnifiedAttentionProblem(
            ((1, keys), (1, keys // 2 + 3)),
            num_query_heads=4,
            num_kv_heads=1,
            head_size=64,
            block_size=16,
            dtype=dtype,
        )
        inputs = make_unified_inputs(problem, seed=seed, device=device)
        exact = unified_reference(problem, inputs)
        flat = run_unified(problem, inputs, spec=Unified2DSpec(**SMALL), backend=backend)
        for count in counts:
            spec = Unified3DSpec(**SMALL, num_segments=count, fused_reduce=fused)
            result = run_unified(problem, inputs, spec=spec, backend=backend)
            found.append(
                {
                    "what": f"3D kernel{', fused' if fused else ''}, {dtype}, {result.backend}",
                    "segments": count,
                    "equal": float((result.out == flat.out).double().mean()),
                    "ulps": largest_ulps(result.out, flat.out),
                    "error": float((result.out.double() - exact).abs().max()),
                    "evidence": "measured" if result.backend == "gpu" else "emulated",
                }
            )
    return pd.DataFrame(found)


def largest_ulps(a: torch.Tensor, b: torch.Tensor) -> float:
    """Largest |a - b| [..., d] in units in the last place of a number as large as its row's RMS.

    ParameterError for unequal dtypes.
    """
    if a.dtype != b.dtype:
        raise ParameterError(f"units in the last place need one dtype, got {a.dtype} and {b.dtype}")
    rms = b.double().square().mean(-1, keepdim=True).sqrt().clamp_min(torch.finfo(b.dtype).smallest_normal)
    unit = torch.finfo(b.dtype).eps * torch.exp2(torch.log2(rms).floor())
    return float(((a.double() - b.double()).abs() / unit).max())
