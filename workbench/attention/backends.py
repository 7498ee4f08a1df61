"""What executes a launch plan, and which of them a call gets."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import BackendUnavailable, TensorError
from workbench.launch import KernelLaunch, run_in_interpreter, run_on_gpu

if TYPE_CHECKING:
    import torch

    from workbench.device import Device
    from workbench.gfx950.emulator import EmulationResult, EmulatorOptions
    from workbench.spec import KernelSpec

BACKENDS = ("auto", "gpu", "interpreter", "emulator")
EMULATED_DEVICE = "mi355x"


@dataclass(frozen=True, eq=False)
class AttentionResult:
    """One executed call: its output, what ran, and why that was chosen."""

    out: torch.Tensor
    lane: str
    """'2d', '3d' or 'dense'."""
    spec: KernelSpec
    backend: str
    reasons: tuple[str, ...]
    emulation: tuple[EmulationResult, ...] = ()
    """One for each launch that the emulator ran: counters and findings."""


def resolve_backend(backend: str, tensor: torch.Tensor, emulator: EmulatorOptions | None = None) -> str:
    """The backend that serves tensors on this device. An explicit request is met or refused, never replaced."""
    if backend not in BACKENDS:
        raise BackendUnavailable(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    if emulator is not None and backend != "emulator":
        raise BackendUnavailable(f"emulator options go with backend='emulator', got backend={backend!r}")
    kind = tensor.device.type
    if kind not in ("cuda", "cpu"):
        raise TensorError(f"tensors must be on a GPU ('cuda', also on ROCm) or the CPU, got {tensor.device}")
    if backend == "auto":
        return "gpu" if kind == "cuda" else "interpreter"
    if backend == "gpu" and kind == "cpu":
        raise BackendUnavailable(_why_no_gpu())
    if backend in ("interpreter", "emulator") and kind != "cpu":
        raise BackendUnavailable(f"the {backend} runs on CPU tensors, got {tensor.device}; move them with .cpu()")
    return backend


def _why_no_gpu() -> str:
    import torch

    if torch.cuda.is_available():
        return "backend='gpu' needs GPU tensors, got CPU tensors; move them with .cuda()"
    return (
        "backend='gpu' was asked for, but PyTorch sees no GPU device; check the driver, a CUDA or ROCm build of torch, "
        "and CUDA_VISIBLE_DEVICES / HIP_VISIBLE_DEVICES, or use backend='interpreter'"
    )


@functools.cache
def _device_at(index: int) -> Device:
    from workbench.device import detect_device

    device = detect_device(index)
    if device is None:
        raise BackendUnavailable(_why_no_gpu())
    return device


def device_of(tensor: torch.Tensor) -> Device | None:
    """The GPU that holds the tensor; None for the CPU."""
    return _device_at(tensor.device.index or 0) if tensor.device.type == "cuda" else None


def device_for(backend: str, tensor: torch.Tensor) -> Device | None:
    """The device to dispatch for: the one that is emulated, else the one that holds the tensor."""
    if backend != "emulator":
        return device_of(tensor)
    from workbench.device import load_device

    return load_device(EMULATED_DEVICE)


def execute(
    launches: Sequence[KernelLaunch], backend: str, tensor: torch.Tensor, emulator: EmulatorOptions | None = None
) -> tuple[EmulationResult, ...]:
    """Run a plan on a resolved backend; on a GPU asynchronously, on the current stream of the tensor's device.

    Returns what the emulator counted, nothing elsewhere.
    """
    if backend == "interpreter":
        run_in_interpreter(launches)
        return ()
    if backend == "emulator":
        from workbench.gfx950.emulator.plan import emulate_plan

        return tuple(emulate_plan(launches, emulator))
    import torch

    with torch.cuda.device(tensor.device):
        run_on_gpu(launches, _device_at(tensor.device.index or 0).vendor)
    return ()
