"""Tier one: the 2D kernel or the 3D split-KV kernel (specification §6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from workbench.dispatch.grid import (
    LARGEST_BLOCK_M,
    WORKGROUPS_PER_CU,
    device_or_default,
    num_query_blocks,
    smallest_block_m,
)
from workbench.dispatch.tiles import fits_smallest_tile
from workbench.dispatch.tuned import Tuned, find_entry

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.problem import UnifiedAttentionProblem

Lane = Literal["2d", "3d"]
LANES: tuple[Lane, ...] = ("2d", "3d")

FILLING_WORKGROUPS = {"amd": WORKGROUPS_PER_CU, "nvidia": 3}
"""Workgroups per compute unit from which the 2D grid is left whole: §6's, and what an H200 showed."""
SHORT_CONTEXT = 512
"""Keys up to which splitting them does not pay for its second kernel."""


@dataclass(frozen=True)
class PathChoice:
    """The lane that `auto` takes, and why."""

    lane: Lane
    reasons: tuple[str, ...]
    grid: int
    """Workgroups of the 2D kernel at its smallest query tile."""
    target: int
    """Workgroups that fill the device."""


def admitted_lanes(problem: UnifiedAttentionProblem) -> tuple[Lane, ...]:
    """Lanes that can serve the problem: both, since they share all of §1, unless no query tile holds its GQA group."""
    return LANES if problem.group_size <= LARGEST_BLOCK_M else ()


@lru_cache(maxsize=1024)
def select_path(problem: UnifiedAttentionProblem, device: Device | None = None, *, tuned: Tuned = True) -> PathChoice:
    """2D for a short context, where its grid fills the device (FILLING_WORKGROUPS), and under a window; else 3D.

    On NVIDIA a windowed decode of at most one workgroup per compute unit is split all the same.
    A tuned lane goes before (workbench.dispatch.tuned); tuned=False leaves it out. Without a device the default one is
    assumed (workbench.device.DEFAULT_DEVICE).
    """
    entry = find_entry(problem, device, tuned)
    device, assumed = device_or_default(device)
    blocks = num_query_blocks(problem, smallest_block_m(problem))
    grid = blocks * problem.num_kv_heads
    target = device.compute_units * FILLING_WORKGROUPS[device.vendor]
    count = f"{blocks} query blocks x {problem.num_kv_heads} KV heads = {grid} workgroups"
    goal = f"the target of {target} ({FILLING_WORKGROUPS[device.vendor]} x {device.compute_units} compute units)"

    if entry is not None and entry.lane in LANES:
        return PathChoice(entry.lane, (f"{entry.lane.upper()}: {entry.why}",), grid, target)
    why_2d = []
    splits_windows = device.vendor == "nvidia" and fits_smallest_tile(problem) and grid <= device.compute_units
    if problem.sliding_window is not None and not splits_windows:
        why_2d.append(f"2D: a window of {problem.sliding_window} keys leaves little to split.")
    if problem.max_kv_len <= SHORT_CONTEXT:
        why_2d.append(f"2D: the longest context, {problem.max_kv_len} keys, is not over {SHORT_CONTEXT}.")
    if grid > target:
        why_2d.append(f"2D: {count} exceed {goal}.")
    if why_2d:
        return PathChoice("2d", (*assumed, *why_2d), grid, target)
    mask = "without a window" if problem.sliding_window is None else f"under a window of {problem.sliding_window}"
    why_3d = f"3D: {count} do not exceed {goal}, and {problem.max_kv_len} keys {mask} can be split."
    return PathChoice("3d", (*assumed, why_3d), grid, target)
