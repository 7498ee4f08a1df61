"""The order and the arithmetic of a timing session, on a clock that is made up."""

import pytest
import torch

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

    def call(self, name, milliseconds, calls):
        def replay():
            self.log.append(name)
            self.now += milliseconds

        return TimedCall(replay, calls, None, captured=True)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    empty = torch.empty
    monkeypatch.setattr(torch.cuda, "Event", clock.event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch, "empty", lambda *size, device, **options: empty(0, **options))
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


def test_cold_rounds_flush_instead_of_warming(clock):
    interleave({"a": clock.call("a", 1.0, 1)}, TimingPlan(rounds=3, cache="cold"))
    assert clock.log == ["a", "a", "a"]


def test_a_sample_is_microseconds_per_call(clock):
    calls = {"short": clock.call("short", 2.0, 100), "long": clock.call("long", 5.0, 1)}
    samples = interleave(calls, TimingPlan(rounds=3))
    assert samples["short"] == pytest.approx((20.0,) * 3)
    assert samples["long"] == pytest.approx((5000.0,) * 3)


@pytest.mark.gpu
def test_a_call_that_waits_for_the_device_is_timed_from_the_host():
    from workbench.parity.timing import capture

    tensor = torch.ones(2**20, device="cuda")
    timed = capture(lambda: tensor.sum().item(), TimingPlan(rounds=2))
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
        (samples,) = interleave({"copy": capture(lambda: target.copy_(source), plan)}, plan).values()
        medians[cache] = sorted(samples)[7]
    assert medians["cold"] > medians["warm"]
