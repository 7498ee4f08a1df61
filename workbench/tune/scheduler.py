"""A sweep's executors: processes of this machine, or a Dask cluster with the same interface."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import BackendUnavailable
from workbench.tune.futures import LocalPool

if TYPE_CHECKING:
    from workbench.device import Device

CONNECT_SECONDS = 20


@dataclass(frozen=True)
class Workers:
    """Where the jobs of a sweep run."""

    compiling: Executor
    measuring: Executor
    width: int
    """Jobs under way at once."""
    measuring_width: int
    device: Device | None
    """The GPU that every worker has; None where none has one."""
    triton: str


def worker_facts() -> tuple[Device | None, int, str]:
    """The GPU of the calling process, how many of them its host has, and the Triton version."""
    import torch

    from workbench.device import detect_device
    from workbench.environment import triton_version

    return detect_device(), torch.cuda.device_count(), triton_version()


@contextmanager
def local_workers(jobs: int | None = None) -> Iterator[Workers]:
    """Processes of this machine: `jobs` to compile (default: one per CPU), one per GPU to measure."""
    device, gpus, triton = worker_facts()
    width = jobs or os.cpu_count() or 1
    with LocalPool(width) as compiling, LocalPool(max(gpus, 1)) as measuring:
        yield Workers(compiling, measuring, width, max(gpus, 1), device, triton)


@contextmanager
def dask_workers(address: str) -> Iterator[Workers]:
    """The workers of a Dask scheduler, as tcp://host:8786. BackendUnavailable where it cannot be used as it is."""
    try:
        from distributed import Client
    except ImportError:
        raise BackendUnavailable(
            "--scheduler needs Dask, which is not installed; type: pip install 'attention-workbench[dask]'"
        ) from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except (OSError, TimeoutError, ValueError) as error:
        raise BackendUnavailable(
            f"no Dask scheduler answers at {address} ({error}); start one with `dask scheduler`, and a worker for each "
            f"GPU with `dask worker {address} --nthreads 1`"
        ) from None
    with client:
        found = client.run(worker_facts)
        device, triton = _the_same(address, found)
        executor = client.get_executor(pure=False, retries=0)
        with executor:
            yield Workers(executor, executor, 2 * len(found), len(found), device, triton)


def _the_same(address: str, found: dict[str, tuple[Device | None, int, str]]) -> tuple[Device | None, str]:
    """The device and Triton version that all workers share."""
    if not found:
        raise BackendUnavailable(
            f"the Dask scheduler at {address} has no workers; start one for each GPU with "
            f"`dask worker {address} --nthreads 1`"
        )
    kinds = {(device.name if device else "no GPU", triton) for device, _, triton in found.values()}
    if len(kinds) > 1:
        listed = "; ".join(f"{name} with Triton {triton or 'missing'}" for name, triton in sorted(kinds))
        raise BackendUnavailable(
            f"the workers at {address} differ ({listed}), and a sweep is for one device and one Triton version; give "
            "each kind a scheduler of its own"
        )
    device, _, triton = next(iter(found.values()))
    return device, triton
