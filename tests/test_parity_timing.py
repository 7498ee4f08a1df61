"""The order and the arithmetic of a timing session, on a clock that is made up."""

import pytest
import torch

from workbench.parity.rotation import Rotation, choose_rotation
from workbench.parity.timing import TimedCall, TimingPlan, interleave


class Clock:
    """Stands in for the device: a replay lasts as long as its name says, in milliseconds."""

    def __init__(self):
        self.now = 0.0
        self.log = []

    def event(self, enable_timing):
        clock = self

        class Event:
            def record(self):
                self.at = clock.now

            def elapsed_time(self, end):
                return end.at - self.at

        return Event()

    def buffer(self, size, **options):
        clock = self

        class Buffer:
            def sum(self):
                clock.log.append("flush")

        return Buffer()

    def call(self, name, milliseconds, calls, *, flush=False):
        def replay():
            self.log.append(name)
            self.now += milliseconds

        return TimedCall(replay, calls, None, captured=True, flush=flush)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(torch.cuda, "Event", clock.event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch, "empty", clock.buffer)
    return clock


def test_every_round_times_each_call_once_and_no_call_always_follows_the_same(clock):
    calls = {name: clock.call(name, 1.0, 1) for name in "abcd"}
    interleave(calls, TimingPlan(rounds=20))
    timed = clock.log[1::2]
    assert clock.log[::2] == timed, "each is replayed once untimed"
    rounds = ["".join(timed[start : start + 4]) for start in range(0, 80, 4)]
    assert {"".join(sorted(names)) for names in rounds} == {"abcd"}
    before_a = {names[names.index("a") - 1] for names in rounds if names[0] != "a"}
    assert before_a == {"b", "c", "d"}


def test_cold_rounds_warm_nothing_and_flush_what_the_copies_do_not_cover(clock):
    interleave({"a": clock.call("a", 1.0, 8)}, TimingPlan(rounds=3, cache="cold"))
    assert clock.log == ["a", "a", "a"]
    clock.log.clear()
    interleave({"b": clock.call("b", 1.0, 1, flush=True)}, TimingPlan(rounds=2, cache="cold"))
    assert clock.log == ["flush", "b", "flush", "b"]


MIB = 2**20
GIB = 2**30


@pytest.mark.parametrize(
    ("touched", "held", "free", "cache", "copies", "covers"),
    [
        (8 * MIB, 8 * MIB, 100 * GIB, 60 * MIB, 15, True),
        (8 * MIB, 8 * MIB, 100 * GIB, 256 * MIB, 64, True),
        (8 * MIB, 8 * MIB, 100 * GIB, None, 64, True),
        (MIB, MIB, 100 * GIB, 60 * MIB, 64, False),  # more copies than are kept
        (8 * MIB, 8 * GIB, 100 * GIB, 60 * MIB, 4, False),  # a window over a long cache: more memory than there is
        (2 * GIB, 2 * GIB, GIB, 60 * MIB, 1, True),  # no call leaves its beginning in the cache
    ],
)
def test_inputs_rotate_past_the_last_level_cache_twice(touched, held, free, cache, copies, covers):
    assert choose_rotation(touched, held, free, cache) == Rotation(copies, covers)


def test_a_sample_is_microseconds_per_call(clock):
    calls = {"short": clock.call("short", 2.0, 100), "long": clock.call("long", 5.0, 1)}
    samples = interleave(calls, TimingPlan(rounds=3))
    assert samples["short"] == pytest.approx((20.0,) * 3)
    assert samples["long"] == pytest.approx((5000.0,) * 3)


@pytest.mark.gpu
def test_a_call_that_waits_for_the_device_is_timed_from_the_host():
    from workbench.parity.timing import capture

    tensor = torch.ones(2**20, device="cuda")
    timed = capture([lambda: tensor.sum().item()], TimingPlan(rounds=2))
    assert not timed.captured
    assert "Not captured in a graph" in timed.note
    (samples,) = interleave({"waits": timed}, TimingPlan(rounds=2)).values()
    assert min(samples) > 0


@pytest.mark.gpu
def test_a_cold_sample_is_slower_than_a_warm_one():
    from workbench.parity.timing import capture

    source, target = torch.ones(2, 4 * 2**20, device="cuda")
    medians = {}
    for cache in ("warm", "cold"):
        plan = TimingPlan(rounds=15, cache=cache)
        timed = capture([lambda: target.copy_(source)], plan, flush=cache == "cold")
        (samples,) = interleave({"copy": timed}, plan).values()
        medians[cache] = sorted(samples)[7]
    assert medians["cold"] > medians["warm"]
