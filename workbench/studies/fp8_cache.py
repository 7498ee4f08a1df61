"""An fp8 cache: what its rounding costs in accuracy, with Q in bf16 and in fp8, and what the kernels do with it.

The accuracy frames compute attention in PyTorch: operands rounded, products exact, P rounded to the dtype in which it
is multiplied. Evidence: modelled; figures of kernels have their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from workbench.dtypes import FP8_MAX
from workbench.studies.streaming_softmax import relative_rms

if TYPE_CHECKING:
    import pandas as pd

    from workbench.problem import UnifiedAttentionProblem
    from workbench.studies.lever_study import LeverStudy, Variant

HEAD_SIZE = 64
ROWS = 32
E4M3 = torch.float8_e4m3fn
FP8 = "fp8_e4m3"


@dataclass(frozen=True)
class Way:
    """Dtypes of the operands of both products."""

    q: torch.dtype
    kv: torch.dtype
    p: torch.dtype


WAYS = {
    "bf16 cache": Way(torch.bfloat16, torch.bfloat16, torch.bfloat16),
    "fp8 cache, dequantised": Way(torch.bfloat16, E4M3, torch.bfloat16),
    "fp8 cache, P in fp16": Way(torch.bfloat16, E4M3, torch.float16),
    "fp8 Q and cache, native QK": Way(E4M3, E4M3, torch.bfloat16),
    "all in fp8": Way(E4M3, E4M3, E4M3),
}
"""What is compared; the last one is no kernel of the workbench."""


def rounded(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """x as the dtype holds it, back in float64; fp8 with one scale for the whole tensor, its largest value at 448."""
    scale = float(x.abs().max()) / FP8_MAX if dtype is E4M3 else 1.0
    return (x / scale).to(dtype).double() * scale


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, p: torch.dtype | None = None) -> torch.Tensor:
    """Attention in float64 [M, d]; P, whose largest value in a row is 1, is rounded to a dtype if one is given."""
    scores = q @ k.T
    weights = torch.exp(scores - scores.amax(1, keepdim=True))
    total = weights.sum(1, keepdim=True)
    return (weights if p is None else weights.to(p).double()) @ v / total


def accuracy_frame(spreads: Sequence[float], contexts: Sequence[int], seeds: int) -> pd.DataFrame:
    """Relative RMS error by way, spread of the scores and context, over seeds.

    `error` is against float64 on the values before any rounding, `own` on the operands as rounded: what the arithmetic
    behind them adds.
    """
    import pandas as pd

    found = []
    for spread in spreads:
        for keys in contexts:
            for name, way in WAYS.items():
                errors, own = zip(*(_errors(way, spread, keys, seed) for seed in range(seeds)), strict=True)
                found.append(
                    {
                        "way": name,
                        "spread": spread,
                        "keys": keys,
                        "error": float(torch.tensor(errors).median()),
                        "least": min(errors),
                        "most": max(errors),
                        "own": float(torch.tensor(own).median()),
                        "evidence": "modelled",
                    }
                )
    return pd.DataFrame(found)


def _errors(way: Way, spread: float, keys: int, seed: int) -> tuple[float, float]:
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(count, HEAD_SIZE, generator=generator, dtype=torch.float64) for count in (ROWS, keys, keys))
    q = q * spread / HEAD_SIZE**0.5
    operands = rounded(q, way.q), rounded(k, way.kv), rounded(v, way.kv)
    out = attention(*operands, way.p)
    return relative_rms(out, attention(q, k, v)), relative_rms(out, attention(*operands))


def cache_variants(problem: UnifiedAttentionProblem) -> list[Variant]:
    """The problem with a bf16 cache, with an fp8 cache, and with Q in fp8 too, by the portable and the Gluon kernel.

    Every cache holds just the sequences: one over 2^31 bytes has other code.
    """
    from workbench.device import load_device
    from workbench.dispatch import select_spec
    from workbench.studies.lever_study import spec_variants

    device = load_device("mi355x")
    problem = problem.with_changes(num_blocks=problem.blocks_needed)
    plain = problem.with_changes(kv_dtype="bf16", q_dtype="bf16")
    cached = problem.with_changes(kv_dtype=FP8, q_dtype="bf16")
    native = problem.with_changes(kv_dtype=FP8, q_dtype=FP8)
    found: list[Variant] = []
    for kernel, portable in (("Gluon", False), ("portable", True)):
        in_fp16 = [(cached, "fp8, in fp16", {"fp8_in_fp16": True})] if portable else []
        for one, name, changes in (
            (plain, "bf16", {}),
            (cached, "fp8, dequantised", {}),
            *in_fp16,
            (native, "fp8, native QK", {"fp8_native_qk": True}),
        ):
            # The native product keeps the geometry of the dequantising kernel.
            base = select_spec(cached if one is native else one, device, "2d", portable=portable).spec
            found += spec_variants(one, base, {f"{kernel}: {name}": changes})
    return found


def conversions(study: LeverStudy, variant: str) -> int | None:
    """Instructions of the hot loop that convert from fp8."""
    inspection = study.outcomes[variant].inspection
    if inspection is None:
        return None
    return sum("cvt" in each.mnemonic and "fp8" in each.mnemonic for each in inspection.hot_instructions)


def bytes_frame(problems: dict[str, UnifiedAttentionProblem], device_name: str) -> pd.DataFrame:
    """Least bytes with either cache, and what the data sheet allows at most. Static and modelled."""
    import pandas as pd

    from workbench.device import load_device
    from workbench.model import datasheet_ceilings
    from workbench.parity.flops import work_of

    device = load_device(device_name)
    ceilings = datasheet_ceilings(device)
    found = []
    for name, problem in problems.items():
        wide, narrow = (work_of(problem.with_changes(kv_dtype=dtype, q_dtype="bf16")) for dtype in ("bf16", FP8))
        limits = [ceilings.attainable(work.flops / work.bytes) for work in (wide, narrow)]
        found.append(
            {
                "scenario": name,
                "bf16_bytes": wide.bytes,
                "fp8_bytes": narrow.bytes,
                "ratio": wide.bytes / narrow.bytes,
                "limited_by": ceilings.binding(narrow.flops / narrow.bytes),
                "gain": limits[1] / limits[0],
                "hardware": device.title,
                "evidence": "bytes static; limits modelled",
            }
        )
    return pd.DataFrame(found)
