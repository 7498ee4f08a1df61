"""What raw samples say: a median, and the ratio of two interleaved series with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from workbench.errors import RecordError

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Ratio:
    """Median of per-round ratios with its bootstrap interval."""

    value: float
    low: float
    high: float


def paired_ratio(numerator: Sequence[float], denominator: Sequence[float], *, seed: int = 0) -> Ratio:
    """Median over rounds of numerator / denominator with a percentile bootstrap interval of 95 %.

    Rounds are resampled, so a drift of the clock that both series share cancels. RecordError unless both series have
    the same rounds, at least one.
    """
    import numpy as np

    if len(numerator) != len(denominator) or len(numerator) == 0:
        raise RecordError(
            f"a paired ratio needs the same rounds on both sides, got {len(numerator)} and {len(denominator)} samples"
        )
    ratios = np.asarray(numerator, dtype=np.float64) / np.asarray(denominator, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(len(ratios), size=(RESAMPLES, len(ratios)))
    medians = np.median(ratios[picks], axis=1)
    tail = (1.0 - LEVEL) / 2
    low, high = np.quantile(medians, (tail, 1.0 - tail))
    return Ratio(float(median(ratios)), float(low), float(high))


def independent_ratio(numerator: Sequence[float], denominator: Sequence[float], *, seed: int = 0) -> Ratio:
    """Ratio of the medians of two series that were not taken side by side, with a bootstrap interval of 95 %.

    Each side is resampled on its own, so what drifted between the two sessions stays in the ratio. RecordError for an
    empty series.
    """
    import numpy as np

    if len(numerator) == 0 or len(denominator) == 0:
        raise RecordError(f"a ratio needs samples on both sides, got {len(numerator)} and {len(denominator)}")
    random = np.random.default_rng(seed)
    sides = []
    for series in (numerator, denominator):
        values = np.asarray(series, dtype=np.float64)
        sides.append(np.median(values[random.integers(len(values), size=(RESAMPLES, len(values)))], axis=1))
    tail = (1.0 - LEVEL) / 2
    low, high = np.quantile(sides[0] / sides[1], (tail, 1.0 - tail))
    return Ratio(float(median(numerator) / median(denominator)), float(low), float(high))
