"""The streaming softmax in plain PyTorch, tile by tile, against the softmax that meets all keys at once.

Scores x [M, N] are in the log2 domain: tau log2(e) q.k, so that 2^x is e^s. The recurrence is that of specification §2;
nothing of a kernel runs here but in `kernel_frame`. Evidence: modelled, there emulated or measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from workbench.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd

LOG2_E = math.log2(math.e)
LOWEST = torch.finfo(torch.float32).min
"""Start of the running maximum: finite, so that no row computes (-inf) - (-inf)."""
PATTERNS = ("random", "rising", "falling", "late spike")
"""Courses of the scores along the keys."""
DTYPES = {
    "fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16,
    "fp8_e4m3": torch.float8_e4m3fn,
}  # fmt: skip
LAZY_THRESHOLD = 8.0
"""What the kernels let a tile exceed the anchor by (log2)."""
WAVE_ROWS = 32
"""Rows of one wave, which rescale together or not at all."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How the recurrence is carried out."""

    tile: int = 64
    threshold: float | None = None
    """Lazy rescale: a row keeps its anchor until a tile exceeds it by more (log2). None: every new maximum counts."""
    whole_anchor: bool = False
    """Anchors are whole numbers, rounded up: every alpha is a power of two, and P rounds alike under any anchor."""
    start: float = LOWEST
    state: str = "fp64"
    """Dtype of scores, exponentials, m, l and O."""
    p: str = "fp64"
    """Dtype to which P is rounded for the second product."""
    sum_rounded: bool = False
    """l adds up P as rounded; otherwise as it was before."""


@dataclass(frozen=True)
class Step:
    """The state after a tile; every tensor in the recipe's state dtype."""

    keys: int
    """Keys seen so far."""
    m: torch.Tensor
    """[M] anchor: the running maximum, or an older one under a lazy rescale."""
    alpha: torch.Tensor
    """[M] 2^(old anchor - new anchor)."""
    ell: torch.Tensor
    """[M] denominator."""
    o: torch.Tensor
    """[M, d] not normalised."""
    largest_p: float


def walk(x: torch.Tensor, v: torch.Tensor, recipe: Recipe) -> list[Step]:
    """The recurrence over the tiles of x [M, N] (masked scores -inf) and v [N, d]."""
    state = DTYPES[recipe.state]
    x, v = x.to(state), v.to(state)
    m = torch.full(x.shape[:1], recipe.start, dtype=state)
    ell, o = torch.zeros_like(m), torch.zeros(x.shape[0], v.shape[1], dtype=state)
    steps = []
    for first in range(0, x.shape[1], recipe.tile):
        tile = x[:, first : first + recipe.tile]
        highest = tile.amax(1)
        highest = torch.maximum(m, highest.ceil() if recipe.whole_anchor else highest)
        if recipe.threshold is not None:
            highest = torch.where(highest - m > recipe.threshold, highest, m)
        alpha, m = torch.exp2(m - highest), highest
        p = torch.exp2(tile - m[:, None])
        rounded = p.to(DTYPES[recipe.p]).to(state)
        ell = alpha * ell + (rounded if recipe.sum_rounded else p).sum(1)
        o = alpha[:, None] * o + rounded @ v[first : first + recipe.tile]
        steps.append(Step(first + tile.shape[1], m, alpha, ell, o, float(p.max())))
    return steps


def normalised(step: Step, sink: torch.Tensor | None = None) -> torch.Tensor:
    """O / l [M, d]; 0 for a row without keys. sink [M], log2 domain: one more column, which carries no value."""
    ell, o = step.ell, step.o
    if sink is not None:
        m = torch.maximum(step.m, sink)
        alpha = torch.exp2(step.m - m)
        ell, o = alpha * ell + torch.exp2(sink - m), alpha[:, None] * o
    return o / torch.where(ell > 0, ell, torch.ones_like(ell))[:, None]


def whole(x: torch.Tensor, v: torch.Tensor, sink: torch.Tensor | None = None) -> torch.Tensor:
    """Softmax over all keys at once, times v; float64 [M, d]."""
    x = x.double() if sink is None else torch.cat([x.double(), sink.double()[:, None]], 1)
    return torch.softmax(x / LOG2_E, 1)[:, : v.shape[0]] @ v.double()


def scores(pattern: str, rows: int, keys: int, seed: int = 0) -> torch.Tensor:
    """Random scores [rows, keys] of unit spread (natural log) on one of PATTERNS; float64, log2 domain."""
    if pattern not in PATTERNS:
        raise ParameterError(f"there is no pattern {pattern!r}; there are {', '.join(PATTERNS)}")
    x = torch.randn(rows, keys, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * LOG2_E
    ramp = torch.arange(keys, dtype=torch.float64) / 64
    if pattern == "rising":
        x += 3 * ramp
    elif pattern == "falling":
        x -= 3 * ramp
    elif pattern == "late spike":
        x[:, keys * 3 // 4] += 20
    return x


def values(keys: int, channels: int, seed: int = 0) -> torch.Tensor:
    """Standard normal V [keys, channels] that bf16 holds exactly; float64."""
    generator = torch.Generator().manual_seed(seed + 1)
    return torch.randn(keys, channels, generator=generator).to(torch.bfloat16).double()


def trace_frame(pattern: str, keys: int, recipe: Recipe, *, rows: int = 64, seed: int = 0) -> pd.DataFrame:
    """A line per tile: state of row 0, its lazy anchor, and the largest error of O / l against the softmax so far."""
    import pandas as pd

    x, v = scores(pattern, rows, keys, seed), values(keys, 64, seed)
    lazy = walk(x, v, replace(recipe, threshold=LAZY_THRESHOLD))
    found = []
    for number, (step, late) in enumerate(zip(walk(x, v, recipe), lazy, strict=True)):
        exact = whole(x[:, : step.keys], v[: step.keys])
        found.append(
            {
                "pattern": pattern,
                "tile": number,
                "m": float(step.m[0]),
                "lazy_m": float(late.m[0]),
                "alpha": float(step.alpha[0]),
                "ell": float(step.ell[0]),
                "o": float(step.o[0, 0]),
                "error": float((normalised(step) - exact).abs().max()),
                "evidence": "modelled",
            }
        )
    return pd.DataFrame(found)


def rescale_frame(
    thresholds: Sequence[float], dtypes: Sequence[str], keys: int, *, rows: int = 64, seed: int = 0
) -> pd.DataFrame:
    """For each pattern, threshold (0: every new maximum) and dtype of P: rescales, largest P, relative RMS error."""
    import pandas as pd

    found = []
    for pattern in PATTERNS:
        x, v = scores(pattern, rows, keys, seed), values(keys, 64, seed)
        exact = whole(x, v)
        for threshold in thresholds:
            for dtype in dtypes:
                steps = walk(x, v, Recipe(threshold=threshold or None, state="fp32", p=dtype))
                changed = torch.stack([step.alpha != 1 for step in steps])[1:]
                by_wave = changed.reshape(len(changed), -1, WAVE_ROWS).any(2)
                found.append(
                    {
                        "pattern": pattern,
                        "threshold": threshold,
                        "p": dtype,
                        "rows_rescaled": float(changed.double().mean()),
                        "waves_rescaled": float(by_wave.double().mean()),
                        "largest_p": max(step.largest_p for step in steps),
                        "error": relative_rms(normalised(steps[-1]), exact),
                        "evidence": "modelled",
                    }
                )
    return pd.DataFrame(found)


def precision_frame(contexts: Sequence[int], seeds: int) -> pd.DataFrame:
    """Relative RMS error by dtype of P, length of the context and what l adds up; median and range over seeds."""
    import pandas as pd

    found = []
    for keys in contexts:
        for dtype in DTYPES:
            for sum_rounded in (False, True):
                recipe = Recipe(state="fp32" if dtype != "fp64" else "fp64", p=dtype, sum_rounded=sum_rounded)
                errors = []
                for seed in range(seeds):
                    x, v = scores("random", WAVE_ROWS, keys, seed), values(keys, 64, seed)
                    errors.append(relative_rms(normalised(walk(x, v, recipe)[-1]), whole(x, v)))
                found.append(
                    {
                        "keys": keys,
                        "p": dtype,
                        "l_adds": "P as rounded" if sum_rounded else "P before rounding",
                        "error": float(torch.tensor(errors).median()),
                        "least": min(errors),
                        "most": max(errors),
                        "evidence": "modelled",
                    }
                )
    return pd.DataFrame(found)


def sink_frame(keys: int, *, seed: int = 0) -> pd.DataFrame:
    """Three places where a sink can enter, by the largest difference from the softmax with one more column."""
    import pandas as pd

    x, v = scores("random", WAVE_ROWS, keys, seed), values(keys, 64, seed)
    sink = torch.linspace(-4, 12, WAVE_ROWS, dtype=torch.float64)
    exact = whole(x, v, sink)
    ways = {
        "after the last tile": normalised(walk(x, v, Recipe())[-1], sink),
        "as the state before the first tile": _with_sink_first(x, v, sink),
        "as a key whose value is 0": normalised(
            walk(torch.cat([x, sink[:, None]], 1), torch.cat([v, torch.zeros(1, v.shape[1])]), Recipe())[-1]
        ),
        "left out": normalised(walk(x, v, Recipe())[-1]),
    }
    found = [
        {"sink enters": name, "error": float((out - exact).abs().max()), "evidence": "modelled"}
        for name, out in ways.items()
    ]
    return pd.DataFrame(found)


def _with_sink_first(x: torch.Tensor, v: torch.Tensor, sink: torch.Tensor) -> torch.Tensor:
    """m starts at the sink and l at 1: the sink's own 2^(sink - m)."""
    first = torch.cat([sink[:, None], x], 1)
    return normalised(walk(first, torch.cat([torch.zeros(1, v.shape[1]), v]), Recipe())[-1])


def masked_frame(keys: int, *, seed: int = 0) -> pd.DataFrame:
    """Rows whose first tile, or all of whose keys, are masked, under both starts of the running maximum."""
    import pandas as pd

    found = []
    for name, seen in (("sees every key", 0), ("first tile masked", 64), ("sees no key", keys)):
        x, v = scores("random", WAVE_ROWS, keys, seed), values(keys, 64, seed)
        x[:, :seen] = -math.inf
        for label, start in (("-inf", -math.inf), ("lowest float32", LOWEST)):
            out = normalised(walk(x, v, Recipe(start=start))[-1])
            exact = torch.zeros_like(out) if seen == keys else whole(x, v)
            nan = float(out.isnan().double().mean())
            found.append(
                {
                    "row": name,
                    "m starts at": label,
                    "nan": nan,
                    "error": math.nan if nan else float((out - exact).abs().max()),
                    "evidence": "modelled",
                }
            )
    return pd.DataFrame(found)


def kernel_frame(keys: int, *, seed: int = 0) -> pd.DataFrame:
    """The 2D kernel on a problem of 16 query tokens: its error and that of the recurrence with P and output in bf16.

    Runs on the GPU where there is one, else in Triton's interpreter.
    """
    import pandas as pd

    from workbench.attention import run_unified
    from workbench.inputs import make_unified_inputs
    from workbench.problem import UnifiedAttentionProblem
    from workbench.reference import unified_reference
    from workbench.spec import Unified2DSpec

    device = "cuda" if torch.cuda.is_available() else "cpu"
    base = UnifiedAttentionProblem(((16, keys),), num_query_heads=4, num_kv_heads=1, head_size=64, block_size=16)
    found = []
    for use_sinks in (False, True):
        problem = base.with_changes(use_sinks=use_sinks)
        inputs = make_unified_inputs(problem, seed=seed, device=device)
        exact = unified_reference(problem, inputs)
        for lazy in (False, True):
            spec = Unified2DSpec(block_m=64, tile_size=64, lazy_rescale=lazy)
            result = run_unified(problem, inputs, lane="2d", spec=spec)
            found.append(
                {
                    "what": "2D kernel",
                    "rescale": "lazy" if lazy else "every new maximum",
                    "sinks": use_sinks,
                    "error": relative_rms(result.out.double(), exact),
                    "evidence": "measured" if result.backend == "gpu" else "emulated",
                }
            )
    x, v = scores("random", WAVE_ROWS, keys, seed), values(keys, 64, seed)
    exact = whole(x, v)
    out = normalised(walk(x, v, Recipe(state="fp32", p="bf16"))[-1]).to(torch.bfloat16).double()
    found.append(
        {
            "what": "recurrence in PyTorch",
            "rescale": "every new maximum",
            "sinks": False,
            "error": relative_rms(out, exact),
            "evidence": "modelled",
        }
    )
    return pd.DataFrame(found)


def relative_rms(actual: torch.Tensor, exact: torch.Tensor) -> float:
    """RMS over all elements of the error over the RMS of its row, as workbench.tolerance has it; inf if not finite."""
    error = actual.double() - exact
    if not bool(torch.isfinite(error).all()):
        return math.inf
    row: Any = exact.square().mean(-1, keepdim=True).sqrt()
    return float((error / row.clamp_min(1e-300)).square().mean().sqrt())
