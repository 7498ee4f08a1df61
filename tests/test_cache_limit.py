"""The limit of the cache of compiled kernels, on made-up entries."""

import os
import time

import pytest

from workbench import doctor
from workbench.compiler import cache, cache_limit
from workbench.compiler.artifact import CompiledKernel
from workbench.errors import ParameterError

MIB = 2**20


@pytest.fixture
def entries(tmp_path, monkeypatch):
    """Four entries of 1 MiB, the first used longest ago, and the file of a writer that was killed."""
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    folder = tmp_path / "compiled" / "ab"
    folder.mkdir(parents=True)
    paths = [folder / f"ab{index}.zip" for index in range(4)]
    for index, path in enumerate([*paths, folder / "lost.partial"]):
        path.write_bytes(bytes(MIB))
        os.utime(path, (time.time() - 10_000 + index,) * 2)
    return paths


def test_what_was_used_longest_ago_goes_first(entries):
    with entries[0].open("rb") as reader:
        assert cache_limit.hold_to(3 * MIB) == 2
        assert len(reader.read()) == MIB
    assert [path.exists() for path in entries] == [False, False, True, True]
    assert not list(entries[0].parent.glob("*.partial"))
    assert cache_limit.hold_to(3 * MIB) == 0


def test_reading_an_entry_keeps_it_and_storing_holds_the_limit(entries, monkeypatch):
    monkeypatch.setenv(cache_limit.LIMIT_VARIABLE, str(2 / 1024))
    texts = dict.fromkeys(("ttir", "ttgir", "llir", "assembly"), "")
    facts = {"metadata": {}, "arguments": (), "registers": None, "compile_seconds": 0.0}
    kernel = CompiledKernel(name="k", target="gfx950", triton_version="3.9.0", key="abk", binary=b"", **texts, **facts)
    cache.store(kernel)
    assert [path.exists() for path in entries] == [False, False, False, True]
    os.utime(cache.entry_path("abk"), (0, 0))
    assert cache.load("abk") == kernel
    assert cache.entry_path("abk").stat().st_mtime > entries[3].stat().st_mtime


def test_the_limit_is_held_now_and_then(entries, monkeypatch):
    monkeypatch.setenv(cache_limit.LIMIT_VARIABLE, str(2 / 1024))
    cache_limit.limit_now_and_then()
    assert cache_limit.cache_use().entries == 1
    entries[0].write_bytes(bytes(8 * MIB))
    cache_limit.limit_now_and_then()
    assert entries[0].exists()


@pytest.mark.parametrize("text", ["much", "-1", "nan", "inf"])
def test_a_limit_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv(cache_limit.LIMIT_VARIABLE, text)
    with pytest.raises(ParameterError, match="must be a number of GiB"):
        cache_limit.cache_limit()


@pytest.mark.usefixtures("entries")
def test_the_doctor_says_size_and_place(tmp_path):
    finding = doctor.find_cache()
    assert finding.ok
    assert finding.detail.startswith(f"4 kernels, 0.0 GiB of at most 20 in {tmp_path}")
