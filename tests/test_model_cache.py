"""The caches of the L2 model, held against a plain LRU of one list per set."""

import numpy as np
import pytest

from workbench.device import load_device
from workbench.errors import ModelError
from workbench.model import CacheGeometry, l2_geometry
from workbench.model.cache import lru_hits, sample_sets


def plain_lru(geometry, xcds, lines):
    held, hits = {}, []
    for xcd, line, chosen in zip(xcds.tolist(), lines.tolist(), geometry.set_of(lines).tolist(), strict=True):
        ways = held.setdefault((xcd, chosen), [])
        hits.append(line in ways)
        if line in ways:
            ways.remove(line)
        ways.append(line)
        del ways[: -geometry.ways]
    return hits


@pytest.mark.parametrize("set_index", ["hashed", "modulo"])
def test_hits_are_those_of_a_list_per_set(set_index):
    rng = np.random.default_rng(0)
    geometry = CacheGeometry(xcds=2, bytes_per_xcd=8 * 3 * 128, ways=3, line_bytes=128, set_index=set_index)
    xcds = rng.integers(0, 2, 3000)
    lines = np.repeat(rng.integers(0, 60, 1500), 2)  # repeats in a row, and more lines than ways
    hits = lru_hits(geometry, xcds, lines)
    assert hits.tolist() == plain_lru(geometry, xcds, lines)
    assert 0.3 < hits.mean() < 0.9


def test_a_cyclic_walk_over_one_line_too_many_never_hits():
    geometry = CacheGeometry(xcds=1, bytes_per_xcd=4 * 128, ways=4, line_bytes=128)
    fits, too_many = (np.tile(np.arange(extent), 10) for extent in (4, 5))
    assert lru_hits(geometry, np.zeros_like(fits), fits).sum() == 36
    assert lru_hits(geometry, np.zeros_like(too_many), too_many).sum() == 0
    assert len(lru_hits(geometry, too_many[:0], too_many[:0])) == 0


def test_modulo_leaves_sets_idle_under_a_stride_and_hashing_does_not():
    strided = np.arange(0, 16 * 4096, 16)
    geometry = {
        index: CacheGeometry(xcds=1, bytes_per_xcd=4 << 20, ways=16, line_bytes=128, set_index=index)
        for index in ("modulo", "hashed")
    }
    assert len(np.unique(geometry["modulo"].set_of(strided))) == 2048 // 16
    counts = np.bincount(geometry["hashed"].set_of(strided), minlength=2048)
    assert counts.max() <= 12  # 2 a set on average
    assert (counts == 0).mean() < 0.2


def test_the_geometry_of_a_device_and_its_what_ifs():
    mi355x = l2_geometry(load_device("mi355x"))
    assert (mi355x.xcds, mi355x.bytes_per_xcd, mi355x.ways, mi355x.line_bytes, mi355x.sets) == (
        8,
        4 << 20,
        16,
        128,
        2048,
    )
    assert l2_geometry(load_device("mi355x"), xcds=4).xcds == 4
    with pytest.raises(ModelError, match=r"h200 does not say ways and line_bytes of its L2; give ways=\.\.\., line"):
        l2_geometry(load_device("h200"))
    assert l2_geometry(load_device("h200"), ways=16, line_bytes=128).xcds == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ways": 0}, "ways must be an integer >= 1, got 0"),
        ({"bytes_per_xcd": 1000}, "whole sets of 16 ways x 128 bytes, got 1000"),
        ({"set_index": "xor"}, "set_index must be 'hashed' or 'modulo', got 'xor'"),
    ],
)
def test_a_geometry_that_cannot_be(changes, message):
    with pytest.raises(ModelError, match=message):
        l2_geometry(load_device("mi355x"), **changes)


def test_sampled_sets():
    geometry = l2_geometry(load_device("mi355x"))
    assert sample_sets(geometry, 32, 0).sum() == 32
    assert sample_sets(geometry, 10**6, 0).all()
    assert (sample_sets(geometry, 32, 0) != sample_sets(geometry, 32, 1)).any()
    with pytest.raises(ModelError, match="at least one set must be simulated, got 0"):
        sample_sets(geometry, 0, 0)
