"""Cold caches: so many copies of the inputs that each is gone from the caches before its turn comes again.

One pass over the copies is one sample. Where the copies that may be held do not fill the last-level cache twice over,
a buffer larger than any such cache is read before each pass, so that every copy is met cold once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from workbench.device import Device

LARGEST_CACHE_BYTES = 256 * 2**20
"""The last-level cache of gfx950, the largest of the GPUs described here; assumed where a device states none."""
MARGIN = 2
"""Caches are no perfect queue: so many times their size must pass before a line counts as gone."""
MAX_COPIES = 64
SHARE_OF_FREE_MEMORY = 4
"""A quarter of what is free is for copies."""


@dataclass(frozen=True)
class Rotation:
    """How the inputs are rotated."""

    copies: int
    covers: bool
    """Whether a pass over the copies alone empties the last-level cache of them."""

    def describe(self) -> str:
        """One sentence for the records."""
        how = "one set of inputs" if self.copies == 1 else f"{self.copies} copies of the inputs in turn"
        return f"Cold caches: {how}." if self.covers else f"Cold caches: {how}, behind a read of another buffer."


def choose_rotation(touched: int, held: int, free: int, cache: int | None) -> Rotation:
    """Copies for inputs of which a call touches `touched` bytes, where one more copy takes `held` bytes of `free`.

    `cache` is the device's last-level cache in bytes, None if it states none.
    """
    needed = MARGIN * (cache or LARGEST_CACHE_BYTES)
    wanted = -(-needed // max(touched, 1))
    affordable = 1 + free // SHARE_OF_FREE_MEMORY // max(held, 1)
    copies = max(1, min(wanted, affordable, MAX_COPIES))
    return Rotation(copies, covers=copies * touched >= needed)


def rotation_here(touched: int, held: int) -> Rotation:
    """The rotation for the current GPU and its free memory."""
    from workbench.device import detect_device

    device: Device | None = detect_device()
    free, _ = torch.cuda.mem_get_info()
    return choose_rotation(touched, held, free, None if device is None else device.last_level_cache_bytes)
