"""Workgroups per CU over the VGPRs of a lane, as a small drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.gfx950.occupancy import what_if

if TYPE_CHECKING:
    from workbench.gfx950.occupancy import Occupancy

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 360, 110, 28, 26


def staircase(occupancy: Occupancy) -> str:
    """SVG: the steps that registers make at this LDS and these waves, and where the kernel stands."""
    limits = occupancy.limits
    widths = range(limits.vgpr_granule, limits.vgprs + 1, limits.vgpr_granule)
    counts = {vgprs: what_if(occupancy, vgprs=vgprs).workgroups_per_cu for vgprs in widths}
    top = max(1, *counts.values())

    def place(vgprs: float, count: float) -> tuple[float, float]:
        across = _LEFT + vgprs / limits.vgprs * (_WIDTH - _LEFT - 8)
        return across, _HEIGHT - _BOTTOM - count / top * (_HEIGHT - _BOTTOM - 14)

    path, last = [], 0
    for vgprs, count in counts.items():
        path += [place(last, count), place(vgprs, count)]
        last = vgprs
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in path)
    x, y = place(min(occupancy.vgprs, limits.vgprs), occupancy.workgroups_per_cu)
    ticks = "".join(_tick(*place(vgprs, 0), str(vgprs)) for vgprs in range(0, limits.vgprs + 1, 128))
    levels = "".join(
        f'<text x="{_LEFT - 6}" y="{place(0, count)[1] + 4:.1f}" text-anchor="end">{count}</text>' for count in (0, top)
    )
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" font-size="10" fill="currentColor" role="img">'
        f'<text x="{_LEFT}" y="10">workgroups per CU by VGPRs</text>{ticks}{levels}'
        f'<polyline points="{points}" fill="none" stroke="#07c" stroke-width="1.5"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#d80"/></svg>'
    )


def _tick(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y + 14:.1f}" text-anchor="middle">{text}</text>'
