"""Timing on a GPU: every candidate in one session, interleaved round by round, raw samples kept.

Each candidate is captured in a CUDA or HIP graph, so that a sample holds no launch overhead of the host. A round
replays every graph once between two events. Samples of one round are neighbours in time, hence ratios are taken per
round. What ran just before leaves its clock and its caches behind, so the order is drawn anew for every round: no call
always follows the same one, as it would in a rotation. A call that cannot be captured is launched from the host,
between two waits for the whole device: its samples hold the launches, and work on any stream.

Cache state: `warm` repeats the call within the graph and replays it once untimed, so that inputs smaller than the
caches are in them; `cold` calls it once on each of several copies of the inputs (workbench.parity.rotation), and where
these do not fill the caches, reads a buffer larger than any of them first. Where one copy is all, a cold sample holds
the start of the graph, a few microseconds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from workbench.errors import BackendUnavailable
from workbench.parity.rotation import LARGEST_CACHE_BYTES, MARGIN, Rotation, rotation_here

FLUSH_BYTES = MARGIN * LARGEST_CACHE_BYTES
_WARM_UP_CALLS = 3


@dataclass(frozen=True)
class TimingPlan:
    """How many samples of which length."""

    rounds: int = 30
    sample_us: float = 1000.0
    """A warm sample repeats its call until it lasts about so long."""
    max_calls: int = 100
    cache: Literal["warm", "cold"] = "warm"


@dataclass(frozen=True)
class TimedCall:
    """A call ready to be replayed."""

    replay: Callable[[], Any]
    calls: int
    """Calls per replay."""
    result: Any
    """What the captured calls returned, a list with one item for each copy of the inputs: a replay writes it again.
    None where nothing was captured."""
    captured: bool
    note: str = ""
    flush: bool = False
    """Cold: another buffer is read before each replay."""


class Timer:
    """What times calls: graphs and events of a GPU. A stand-in with another clock overrides every method."""

    def check(self, device: torch.device) -> None:
        """Raise BackendUnavailable where calls on this device cannot be timed."""
        if device.type != "cuda":
            raise BackendUnavailable(
                "timing needs a GPU: times on the CPU say nothing about a kernel; without one, `workbench report "
                "parity` checks results and `workbench inspect` and `workbench emulate` explain the machine code"
            )

    def rotation(self, touched: int, held: int) -> Rotation:
        """How cold caches are had: see workbench.parity.rotation."""
        return rotation_here(touched, held)

    def capture(self, calls: Sequence[Callable[[], Any]], plan: TimingPlan, *, flush: bool = False) -> TimedCall:
        """See `capture`."""
        return capture(calls, plan, flush=flush)

    def interleave(self, calls: Mapping[str, TimedCall], plan: TimingPlan) -> dict[str, tuple[float, ...]]:
        """See `interleave`."""
        return interleave(calls, plan)


def capture(calls: Sequence[Callable[[], Any]], plan: TimingPlan, *, flush: bool = False) -> TimedCall:
    """Capture the calls in a graph, one after the other; if they cannot be captured, `note` says so.

    With warm caches they are repeated until a sample is as long as planned. `flush`: a buffer is read before each
    replay.
    """
    once = _in_turn(calls)
    for _ in range(_WARM_UP_CALLS):
        once()
    torch.cuda.synchronize()
    times = 1 if plan.cache == "cold" else _times_per_sample(once, len(calls), plan)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            result = _repeated(once, times)()
    except RuntimeError as error:
        torch.cuda.synchronize()
        note = f"Not captured in a graph ({str(error).splitlines()[0]}); its times hold the host's launches."
        return TimedCall(_repeated(once, times), times * len(calls), None, captured=False, note=note, flush=flush)
    return TimedCall(graph.replay, times * len(calls), result, captured=True, flush=flush)


def interleave(calls: Mapping[str, TimedCall], plan: TimingPlan) -> dict[str, tuple[float, ...]]:
    """Microseconds per call, one sample per round and name."""
    order = list(calls)
    shuffle = random.Random(plan.rounds).shuffle  # noqa: S311 - an order of measurements, not a secret
    flushing = any(timed.flush for timed in calls.values())
    other = torch.empty(FLUSH_BYTES // 4, dtype=torch.float32, device="cuda") if flushing else None
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(plan.rounds):
        shuffle(order)
        elapsed_us = {}
        for name in order:
            timed = calls[name]
            if plan.cache == "warm":
                timed.replay()
            elif timed.flush and other is not None:
                # Read, not written: lines to write back would be dealt with while the call is timed.
                other.sum()
            elapsed_us[name] = _between_events(timed.replay) if timed.captured else _between_waits(timed.replay)
        torch.cuda.synchronize()
        for name, elapsed in elapsed_us.items():
            samples[name].append(elapsed() / calls[name].calls)
    return {name: tuple(values) for name, values in samples.items()}


def _between_events(replay: Callable[[], Any]) -> Callable[[], float]:
    """Microseconds of the replay on the current stream, to be asked for after a synchronisation."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    replay()
    end.record()
    return lambda: start.elapsed_time(end) * 1e3


def _between_waits(replay: Callable[[], Any]) -> Callable[[], float]:
    """Microseconds on the host's clock from an idle device to an idle device."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    replay()
    torch.cuda.synchronize()
    elapsed = (time.perf_counter() - start) * 1e6
    return lambda: elapsed


def _times_per_sample(once: Callable[[], Any], calls: int, plan: TimingPlan) -> int:
    elapsed = _between_events(_repeated(once, _WARM_UP_CALLS))
    torch.cuda.synchronize()
    once_us = max(elapsed() / _WARM_UP_CALLS, 1.0)
    return max(1, min(plan.max_calls // calls, round(plan.sample_us / once_us)))


def _in_turn(calls: Sequence[Callable[[], Any]]) -> Callable[[], list[Any]]:
    return lambda: [call() for call in calls]


def _repeated(call: Callable[[], Any], times: int) -> Callable[[], Any]:
    def replay() -> Any:
        for _ in range(times):
            result = call()
        return result

    return replay
