import math

import numpy as np
import pytest

from workbench.errors import RecordError
from workbench.parity import paired_ratio


def test_a_shared_drift_cancels_in_the_paired_ratio():
    """Both series slow down threefold over the timing; one is 5 % slower in every round."""
    rng = np.random.default_rng(0)
    drift = np.linspace(1.0, 3.0, 30)
    fast = 100.0 * drift * (1 + 0.002 * rng.standard_normal(30))
    slow = 105.0 * drift * (1 + 0.002 * rng.standard_normal(30))
    ratio = paired_ratio(slow, fast)
    assert ratio.low <= 1.05 <= ratio.high
    assert ratio.high - ratio.low < 0.01
    assert ratio.low > 1.0


def test_a_series_against_itself_is_within_noise():
    rng = np.random.default_rng(1)
    one, two = (100.0 + rng.standard_normal((2, 40))).tolist()
    ratio = paired_ratio(one, two)
    assert ratio.low <= 1.0 <= ratio.high


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(100):
        first = 1.2 * np.exp(0.05 * rng.standard_normal(30))
        ratio = paired_ratio(first, np.exp(0.05 * rng.standard_normal(30)))
        hits += ratio.low <= 1.2 <= ratio.high
    assert 85 <= hits <= 100


def test_one_round_has_no_width():
    assert paired_ratio([3.0], [2.0]).low == paired_ratio([3.0], [2.0]).high == math.fsum([1.5])


@pytest.mark.parametrize(("one", "two"), [([], []), ([1.0, 2.0], [1.0])])
def test_unpaired_series_are_refused(one, two):
    with pytest.raises(RecordError, match="same rounds"):
        paired_ratio(one, two)
