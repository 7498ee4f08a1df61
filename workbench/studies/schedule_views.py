"""Pictures of hot-loop schedules: a timeline of classes, one variant above the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.inspection.schedule import schedule
from workbench.parity.plots import Picture

if TYPE_CHECKING:
    from workbench.inspection import Inspection
    from workbench.inspection.schedule import Slot

# Lane -> characters of the schedule, and its colour.
_LANES: dict[str, tuple[str, str]] = {
    "QK MFMA": ("M", "#1f5fbf"),
    "PV MFMA": ("M", "#1a7f4b"),
    "v_exp": ("e", "#c2571a"),
    "packed": ("p", "#b3261e"),
    "mask": ("m", "#8a3ffc"),
    "cross-lane": ("c", "#7a5b00"),
    "other": (".", "#9aa3ad"),
    "LDS": ("rs", "#0f7c8a"),
    "HBM to LDS": ("D", "#d6338a"),
    "wait, barrier, setprio": ("w|P", "#22272e"),
}
_LANE_INCHES = 0.2
_HEIGHT = 0.84


def schedule_plot(inspections: Sequence[Inspection], labels: Sequence[str], title: str) -> Picture:
    """Each instruction of each hot loop as a mark at its place in program order, in the lane of its class. Static.

    Shaded are blocks that a wave branches around when none of its lanes needs them.
    """
    from matplotlib.figure import Figure

    slots = [schedule(inspection) for inspection in inspections]
    shown = [lane for lane in _LANES if any(_lane(slot) == lane for loop in slots for slot in loop)]
    height = 0.7 + len(slots) * (0.35 + _LANE_INCHES * len(shown))
    figure = Figure(figsize=(9, height), layout="constrained")
    axes = figure.subplots(len(slots), 1, sharex=True, squeeze=False)[:, 0]
    for one, loop, label in zip(axes, slots, labels, strict=True):
        _draw(one, loop, shown)
        one.set_title(label, fontsize=8, loc="left")
    axes[-1].set_xlim(0, max((len(loop) for loop in slots), default=1))
    axes[-1].set_xlabel("instruction of the hot loop, in program order (static)", fontsize=8)
    figure.suptitle(title, fontsize=10)
    counts = ", ".join(f"{label}: {len(loop)} instructions" for label, loop in zip(labels, slots, strict=True))
    return Picture(figure, f"{title}. {counts}")


def _lane(slot: Slot) -> str:
    if slot.symbol == "M":
        return "QK MFMA" if slot.product == "QK" else "PV MFMA"
    return next(lane for lane, (symbols, _) in _LANES.items() if slot.symbol in symbols)


def _draw(axes: Any, loop: Sequence[Slot], shown: Sequence[str]) -> None:
    for row, lane in enumerate(shown):
        places = [(place, 1) for place, slot in enumerate(loop) if _lane(slot) == lane]
        axes.broken_barh(places, (row - _HEIGHT / 2, _HEIGHT), facecolors=_LANES[lane][1], linewidth=0)
    for place, slot in enumerate(loop):
        if slot.skipped:
            axes.axvspan(place, place + 1, color="#000000", alpha=0.08, linewidth=0)
    axes.set_yticks(range(len(shown)), shown, fontsize=7)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.spines[["top", "right"]].set_visible(False)
