"""Counters that kernels find at zero and leave at zero: how many programs of a group have arrived.

Clearing them before each launch would cost a launch. Instead every owner that may run beside others has its own:

- eager calls on one stream run one after another and share a buffer per (device, stream);
- a call captured in a graph may be replayed beside anything, so it gets counters of its own for good, out of a reserve
  that an eager call has set up; a graph never runs beside itself. Without a reserve, or once it is used up, the
  captured call allocates counters in the graph's memory and clears them on every replay: one more node, as correct.

A launch that dies in the middle leaves its counters dirty, but takes the CUDA or HIP context with it, and no counter
outlives that. A launch that is refused leaves them as they were.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

RESERVE = 2**18
"""Counters, 4 bytes each, that a device holds for captured calls."""
SMALLEST_BUFFER = 4096
ALIGNMENT = 4
"""Counters a captured call takes come in multiples of 16 bytes, as Triton assumes of addresses."""


@dataclass
class _Reserve:
    """Zeros, of which the first `taken` belong to captured calls."""

    counters: torch.Tensor
    taken: int = 0

    def take(self, count: int) -> torch.Tensor | None:
        """Counters that nobody else gets; None when too few are left."""
        padded = -(-count // ALIGNMENT) * ALIGNMENT
        if self.taken + padded > self.counters.numel():
            return None
        self.taken += padded
        return self.counters[self.taken - padded :][:count]


_lock = threading.Lock()
_reserves: dict[int, _Reserve] = {}
_buffers: dict[tuple[int, int], torch.Tensor] = {}
"""By device and stream handle. Only the launches of that stream touch them."""


def arrival_counters(like: torch.Tensor, count: int) -> torch.Tensor:
    """At least `count` int32 zeros on like's device for one launch on its current stream, which must leave zeros."""
    import torch

    if not like.is_cuda:
        return like.new_zeros(count, dtype=torch.int32)
    device = like.get_device()
    with _lock, torch.cuda.device(device):
        if torch.cuda.is_current_stream_capturing():
            return _for_graph(device, count)
        if device not in _reserves:
            _reserves[device] = _Reserve(_zeros(device, RESERVE))
            # Graphs use it on any stream, without waiting for this one.
            torch.cuda.current_stream().synchronize()
        return _for_stream(device, torch.cuda.current_stream().cuda_stream, count)


def _for_graph(device: int, count: int) -> torch.Tensor:
    own = _reserves[device].take(count) if device in _reserves else None
    return _zeros(device, count) if own is None else own


def _for_stream(device: int, stream: int, count: int) -> torch.Tensor:
    held = _buffers.get((device, stream))
    if held is None or held.numel() < count:
        # Cleared on this stream, so in front of the launch; the smaller buffer is freed in the stream's order.
        held = _buffers[device, stream] = _zeros(device, max(SMALLEST_BUFFER, count))
    return held


def _zeros(device: int, count: int) -> torch.Tensor:
    import torch

    return torch.zeros(count, dtype=torch.int32, device=f"cuda:{device}")
