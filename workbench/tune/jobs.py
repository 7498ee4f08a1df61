"""What a worker of a sweep does: time a chunk of specs beside the dispatcher's choice, on a GPU of its own."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from workbench.errors import BackendUnavailable

if TYPE_CHECKING:
    from workbench.parity.timing import TimingPlan
    from workbench.records import Record
    from workbench.scenarios import Scenario
    from workbench.spec import KernelSpec

OWN = "workbench"
POLL_SECONDS = 0.2
BROKEN_CONTEXT_EXIT = 70
"""Exit code of a worker whose GPU context a kernel has broken: nothing that it ran afterwards would tell anything."""


@dataclass(frozen=True)
class Entry:
    """One contestant: its name in the records, its lane, its spec."""

    name: str
    lane: str
    spec: KernelSpec


@dataclass(frozen=True)
class MeasureJob:
    """One interleaved session; the first entry is what the others are held against."""

    scenario: Scenario
    entries: tuple[Entry, ...]
    plan: TimingPlan
    seed: int = 0


def measure_on_a_gpu(job: MeasureJob) -> list[Record]:
    """Check every entry against the reference, time those that pass: one record each, in the order of the entries.

    Takes a GPU that no other worker of this host holds, the same one as before where it is free.
    """
    import torch

    from workbench.parity.harness import Contestant, run_contestants

    contestants = [Contestant(entry.name, entry.lane, spec=entry.spec) for entry in job.entries]
    with _ONE_AT_A_TIME, claimed_gpu() as index, torch.cuda.device(index):
        records = run_contestants(job.scenario, contestants, device=f"cuda:{index}", seed=job.seed, plan=job.plan)
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            os._exit(BROKEN_CONTEXT_EXIT)
    return records


_held_before: dict[str, int] = {}
_ONE_AT_A_TIME = Lock()
"""A capture in one thread would record what another thread of the process launches."""


@contextmanager
def claimed_gpu(count: int | None = None) -> Iterator[int]:
    """The index of a GPU that this process alone uses until the end of the block, among all workers of this host.

    Waits for one. A worker prefers the GPU that it had before, so that each stays with one. BackendUnavailable where
    PyTorch sees none.
    """
    import fcntl

    if count is None:
        import torch

        count = torch.cuda.device_count()
    if count == 0:
        raise BackendUnavailable("this worker sees no GPU; start the workers where there are some")
    folder = Path(tempfile.gettempdir()) / f"workbench-gpus-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    while True:
        for index in sorted(range(count), key=lambda index: index != _held_before.get("gpu")):
            with (folder / _lock_name(index)).open("w") as lock, suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _held_before["gpu"] = index
                yield index
                return
        time.sleep(POLL_SECONDS)


def _lock_name(index: int) -> str:
    """A name for the GPU itself, for a process may see a part of the host's GPUs under indices of its own."""
    for variable in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        visible = [name for name in os.environ.get(variable, "").split(",") if name]
        if index < len(visible):
            return f"{visible[index]}.lock"
    return f"{index}.lock"
