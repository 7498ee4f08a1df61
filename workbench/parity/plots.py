"""Pictures of the parity report. Colours are told apart without hue as well: each lane has its own marker row."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.parity.tables import OWN, rivals
from workbench.records import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {"auto": "#1f5fbf", "2d": "#c2571a", "3d": "#1a7f4b", "dense": "#1f5fbf"}
_RIVAL_COLOURS = ("#1f5fbf", "#c2571a", "#1a7f4b", "#8a3ffc", "#b3261e", "#0f7c8a", "#7a5b00", "#5b6676")
_MARKERS = {"2d": "o", "3d": "s", "dense": "D"}
_ROW_INCHES = 0.34
_FLOOR = 1e-3
_WIDTH_INCHES = 9.0
_SCREEN_DPI = 100
_FILE_DPI = 180


@dataclass(frozen=True)
class Picture:
    """A figure that a notebook shows as PNG, whatever matplotlib backend is active."""

    figure: Figure
    alt: str

    def _repr_png_(self) -> tuple[bytes, dict[str, object]]:
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format="png", dpi=_FILE_DPI)
        return buffer.getvalue(), {"width": int(_WIDTH_INCHES * _SCREEN_DPI), "alt": self.alt}

    def __repr__(self) -> str:
        return self.alt


def error_plot(records: Sequence[Record]) -> Picture:
    """Worst error of each scenario as a share of its limit; the marker tells the path that ran."""
    own = [record for record in records if record.candidate == OWN and record.value("worst_error") is not None]
    names = list(dict.fromkeys(record.scenario for record in own))
    figure, axes = _axes(len(names))
    lanes = [lane for lane in _COLOURS if any(record.lane == lane for record in own)]
    for record in own:
        share = (record.value("worst_error") or 0.0) / (record.value("allowed_error") or 1.0)
        offset = (lanes.index(record.lane) - (len(lanes) - 1) / 2) * 0.22
        axes.plot(
            max(share, _FLOOR),
            names.index(record.scenario) + offset,
            _MARKERS.get(record.path or "", "x"),
            color=_COLOURS[record.lane],
            markersize=5,
        )
    axes.axvline(1.0, color="#b3261e", linewidth=1)
    _share_axis(axes)
    evidence = ", ".join(sorted({record.evidence for record in own}))
    axes.set_xlabel(f"worst error as a share of its limit ({evidence}); right of the line is wrong")
    _finish(axes, names)
    _legend(axes, lanes, sorted({record.path for record in own if record.path}))
    return Picture(figure, "Worst error of each scenario and lane as a share of its limit")


def ratio_plot(records: Sequence[Record]) -> Picture:
    """Time of each baseline over ours in each scenario's first lane, with its interval."""
    first: dict[str, Record] = {}
    for record in records:
        if record.candidate == OWN:
            first.setdefault(record.scenario, record)
    own = [record for record in first.values() if record.samples]
    names = [record.scenario for record in own]
    compared = rivals(own)
    figure, axes = _axes(len(names))
    for rank, rival in enumerate(compared):
        points = [(row, record) for row, record in enumerate(own) if record.value(f"speedup_over_{rival}") is not None]
        values = [record.value(f"speedup_over_{rival}") or 0.0 for _, record in points]
        lows = [record.value(f"speedup_over_{rival}_low") or 0.0 for _, record in points]
        highs = [record.value(f"speedup_over_{rival}_high") or 0.0 for _, record in points]
        axes.errorbar(
            values,
            [row + (rank - (len(compared) - 1) / 2) * 0.6 / max(len(compared), 1) for row, _ in points],
            xerr=[
                [value - low for value, low in zip(values, lows, strict=True)],
                [high - value for value, high in zip(values, highs, strict=True)],
            ],
            fmt="os^Dv<>P"[rank % 8],
            color=_RIVAL_COLOURS[rank % len(_RIVAL_COLOURS)],
            markersize=4,
            label=rival.split("/")[0],
            linestyle="none",
        )
    axes.axvline(1.0, color="#5b6676", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}x")
    device = own[0].environment.get("device", "") if own else ""
    lanes = " and ".join(dict.fromkeys(record.lane for record in own))
    axes.set_xlabel(f"its time / ours (lane {lanes}), same session, measured on {device}; right of 1x ours is faster")
    _finish(axes, names)
    if compared:
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return Picture(figure, "Time of each baseline over the workbench's")


def _axes(rows: int) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH_INCHES, max(2.0, 0.9 + _ROW_INCHES * rows)), layout="constrained")
    return figure, figure.subplots()


def _share_axis(axes: Any) -> None:
    """Logarithmic, in per cent; finer labels while they have room."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_xscale("log")
    low, high = min(0.1, axes.get_xlim()[0]), max(2.0, axes.get_xlim()[1])
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 100 else (1.0,)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")


def _finish(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="x", color="#e6eaf0")
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _legend(axes: Any, lanes: Sequence[str], paths: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=_COLOURS[lane], linewidth=4, label=f"lane {lane}") for lane in lanes]
    handles += [
        Line2D([], [], color="#5b6676", marker=_MARKERS.get(path, "x"), linestyle="none", label=f"{path} ran")
        for path in paths
    ]
    axes.legend(handles=handles, frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
