"""Test doubles for the jobs of a sweep: facts and times are made up, from what a spec says of itself."""

from __future__ import annotations

import os

from tests.fake_timer import FakeTimer
from workbench.attention import AttentionResult
from workbench.parity.harness import Contestant, run_contestants
from workbench.reference import unified_eager
from workbench.tune.compiled import Compiled

BEST = 50.0


def fake_compile(job):
    """A kernel that spills with eight warps and does not compile with one."""
    warps = job.spec.num_warps
    if warps == 1:
        return Compiled(error="CompilationError: no kernel of one warp")
    return Compiled(warps, 1024, vgprs=64, spill_bytes=16 if warps == 8 else 0)


def time_of(entry):
    """Two stages and the smallest tile are best; one stage is worst."""
    return BEST + {1: 40.0, 2: 0.0}.get(entry.spec.num_stages, 20.0) + entry.spec.tile_size / 16


def eager(problem, inputs, *, lane, spec, backend, out):  # noqa: ARG001 - the signature of every candidate
    """Stands in for the kernel of any spec."""
    out.copy_(unified_eager(problem, inputs))
    return AttentionResult(out, "2d" if lane == "auto" else lane, spec, "interpreter", ("Eager.",))


def fake_measure(job):
    """The real checks, of an eager stand-in, and made-up times."""
    times = {f"{entry.name}/{entry.lane}": time_of(entry) for entry in job.entries}
    contestants = [Contestant(entry.name, entry.lane, spec=entry.spec, candidate=eager) for entry in job.entries]
    records = run_contestants(
        job.scenario, contestants, device="cpu", seed=job.seed, plan=job.plan, timer=FakeTimer(times)
    )
    return [record.with_changes(reasons=(*record.reasons, f"worker {os.getpid()}")) for record in records]
