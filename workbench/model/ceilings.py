"""The two ceilings of a roofline: matrix throughput and memory bandwidth, from a data sheet or measured here."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.device import device_named
from workbench.errors import BackendUnavailable, ModelError

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.parity.timing import TimingPlan
    from workbench.records.record import Evidence

COPY_BYTES = 2**30
"""Larger than any last-level cache."""
MATRIX_EXTENT = 8192


@dataclass(frozen=True)
class Ceiling:
    """One limit, in FLOP/s or byte/s, and how it was had."""

    value: float
    evidence: Evidence
    source: str

    def __post_init__(self) -> None:
        if self.value <= 0.0:
            raise ModelError(f"a ceiling must be positive, got {self.value}")


@dataclass(frozen=True)
class Ceilings:
    """The roofline of one device."""

    hardware: str
    compute: Ceiling
    """FLOP/s."""
    memory: Ceiling
    """byte/s."""

    @property
    def ridge(self) -> float:
        """FLOP per byte from which on matrix throughput and not bandwidth is the limit."""
        return self.compute.value / self.memory.value

    def attainable(self, intensity: float) -> float:
        """FLOP/s that `intensity` FLOP per byte allow: min(compute, memory * intensity)."""
        return min(self.compute.value, self.memory.value * intensity)

    def binding(self, intensity: float) -> str:
        """The ceiling that limits: `memory` or `compute`."""
        return "memory" if intensity < self.ridge else "compute"


def datasheet_ceilings(device: Device) -> Ceilings:
    """What the vendor states. ModelError for a device without those figures."""
    missing = [name for name in ("peak_bf16_flops", "hbm_bytes_per_s") if getattr(device, name) is None]
    if missing:
        raise ModelError(
            f"the description of {device.name} has no {' and no '.join(missing)}; "
            "give a described device, or measure the ceilings on it"
        )
    return Ceilings(
        device.title,
        Ceiling(float(device.peak_bf16_flops or 0), "published", device.source_of("peak_bf16_flops")),
        Ceiling(float(device.hbm_bytes_per_s or 0), "published", device.source_of("hbm_bytes_per_s")),
    )


def measure_ceilings(
    plan: TimingPlan | None = None, *, copy_bytes: int = COPY_BYTES, extent: int = MATRIX_EXTENT
) -> Ceilings:
    """Bandwidth of a copy (read and written bytes) and throughput of a bf16 matrix product, on this GPU, now.

    The product is extent x extent on random data: zeros draw less power and clock higher. Medians over interleaved
    rounds. BackendUnavailable without a GPU.
    """
    import torch

    from workbench.parity.timing import TimingPlan, capture, interleave

    if not torch.cuda.is_available():
        raise BackendUnavailable("ceilings are measured on a GPU and PyTorch sees none; use datasheet_ceilings")
    plan = plan or TimingPlan()
    # A graph does not own what it reads: the calls hold their tensors until the last replay.
    calls = {"copy": _copy(copy_bytes), "product": _product(extent)}
    graphs = {name: capture([call], plan) for name, call in calls.items()}
    medians = {name: statistics.median(samples) * 1e-6 for name, samples in interleave(graphs, plan).items()}
    name = torch.cuda.get_device_name()
    described = device_named(name)
    return Ceilings(
        described.title if described else name,
        Ceiling(2 * extent**3 / medians["product"], "measured", f"bf16 product of random {extent} x {extent} matrices"),
        Ceiling(2 * copy_bytes / medians["copy"], "measured", f"negated copy of {copy_bytes} bytes, read and written"),
    )


def _copy(size: int) -> Any:
    """A copy by a kernel, as an attention kernel reads and writes; a copy engine would be slower."""
    import torch

    source = torch.zeros(size // 4, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    return lambda: torch.neg(source, out=target)


def _product(extent: int) -> Any:
    import torch

    generator = torch.Generator("cuda").manual_seed(0)
    a, b = (torch.randn(extent, extent, device="cuda", generator=generator).bfloat16() for _ in range(2))
    out = torch.empty_like(a)
    return lambda: torch.mm(a, b, out=out)
