"""Tables and pictures of the study of the order of copies; every one names its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.parity.plots import Picture
from workbench.studies.dma_order import K_FIRST, STREAMS, V_FIRST, copies, iteration
from workbench.studies.frames import BLUE, GREEN, GREY, ORANGE, frame_table, panels, tidy, variant_table
from workbench.studies.lever_views import check_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from workbench.inspection import Inspection
    from workbench.parity.html_table import Table
    from workbench.studies.lever_study import LeverStudy

_DIFFER = {
    "vmcnt waits": "vmcnt waits",
    "barriers": "barriers",
    "VGPRs": "VGPRs",
    "LDS": "LDS, bytes",
    "cycles per 64 keys": "cycles",
    "time": "time, us",
}
_COLOURS = {"K": BLUE, "V": GREEN, "table": GREY}
_SHADES = {"QK": "#9dbdf0", "PV": "#9fd6b3"}
_EXPONENTIAL = "#f8dfc8"


def timeline_picture(study: LeverStudy) -> Picture:
    """The loads of an iteration as bars from issue to wait, over the products and exponentials, a row per order."""
    names = study.names
    figure, grid = panels(len(names), 1, 0.7 + 1.15 * len(names), sharex=True)
    told, furthest = [], 0
    for axes, name, inspection in zip(grid[:, 0], names, study.inspections(), strict=True):
        furthest = max(furthest, _timeline(axes, inspection))
        tidy(axes, title=name, grid="")
        axes.set_yticks(range(len(STREAMS)), STREAMS)
        axes.set_ylim(len(STREAMS) - 0.4, -0.9)
        told.append(f"{name}: {_windows(inspection)}")
    grid[-1, 0].set_xlim(0, furthest + 8)
    grid[-1, 0].set_xlabel(
        "instruction from the first load of an iteration on (static); shaded: blue QK, green PV products, orange v_exp",
        fontsize=8,
    )
    title = f"Loads under way from issue to wait, Triton {study.triton_version}; beside each wait, how many it leaves"
    figure.suptitle(title, fontsize=10)
    return Picture(figure, f"{title}. Fewest instructions to arrive in: {'; '.join(told)}")


def _timeline(axes: Any, inspection: Inspection) -> int:
    """Draw one order; returns the last place that was drawn."""
    slots, found = iteration(inspection), copies(inspection)
    end = max([len(slots), *(copy.awaited for copy in found)])
    for place in range(end):
        slot = slots[place % len(slots)]
        shade = _SHADES.get(slot.product) if slot.symbol == "M" else _EXPONENTIAL if slot.symbol == "e" else None
        if shade:
            axes.axvspan(place, place + 1, color=shade, linewidth=0)
    axes.axvline(len(slots), color="#9aa3ad", linewidth=0.8, linestyle="--")
    for row, stream in enumerate(STREAMS):
        own = [copy for copy in found if copy.stream == stream]
        step = 0.8 / max(len(own), 1)
        for number, copy in enumerate(own):
            span = (row - 0.4 + step * number, 0.8 * step)
            axes.broken_barh([(copy.issued, max(copy.instructions, 2))], span, facecolors=_COLOURS[stream])
    for awaited, left in sorted({(copy.awaited, copy.left) for copy in found}):
        axes.axvline(awaited, color=ORANGE, linewidth=1)
        axes.text(awaited, -0.5, f"{left} ", fontsize=6, color=ORANGE, ha="right", va="bottom")
    return end


def _windows(inspection: Inspection) -> str:
    least = {stream: [copy.instructions for copy in copies(inspection) if copy.stream == stream] for stream in STREAMS}
    return ", ".join(f"{stream} {min(counts)}" for stream, counts in least.items() if counts)


def slack_table(frame: pd.DataFrame) -> Table:
    """What stands between the issue of a load and the wait for it. Static, cycles modelled."""
    columns = {
        "triton": "Triton", "variant": "order", "stream": "load of", "issued": "issued at", "left": "wait leaves",
        "instructions": "instructions", "qk": "QK", "pv": "PV", "exponentials": "v_exp", "cycles": "cycles",
        "evidence": "evidence",
    }  # fmt: skip
    caption = (
        "From the issue of a load to the wait that asks for it, for the load of its kind that has least: instructions, "
        "products and exponentials of the wave. Cycles: what all waves of the SIMD issue in between, at least, if "
        "each does the same."
    )
    return frame_table(frame, columns, caption, {"cycles": ",d"})


def order_table(study: LeverStudy) -> Table:
    """What else differs between the orders, and their times where a gfx950 is."""
    return variant_table(study, _DIFFER, f"Triton {study.triton_version}.")


def wait_table(frame: pd.DataFrame) -> Table:
    """Waits of a launch and its check. Emulated."""
    columns = {
        "variant": "order", "waves": "waves", "partial": "waits that leave loads", "full": "for all",
        "idle": "for none", "instructions": "instructions", "right": "right",
        "of_limit": "error", "faults": "hazards", "evidence": "evidence",
    }  # fmt: skip
    caption = (
        "Executed waits of the KV loop, over all waves; what was under way at each follows the loop's order (static). "
        "The emulator delivers a load as late as its wait allows. Error: the worst as a share of its limit."
    )
    return frame_table(frame, columns, caption, {"instructions": ",d", "of_limit": ".0%"})


def window(frame: pd.DataFrame, triton: str, variant: str, stream: str) -> pd.Series[Any]:
    """The line of one compiler, order and stream."""
    one = frame[(frame["triton"] == triton) & (frame["variant"] == variant) & (frame["stream"] == stream)]
    return one.iloc[0]


def conclusion(studies: Sequence[LeverStudy], slack: pd.DataFrame, waits: pd.DataFrame) -> str:
    """What follows for somebody who orders copies, as Markdown, from the study's own figures."""
    found = [_order(study, slack) for study in studies]
    found += [_early(study, slack) for study in studies]
    partial = waits.set_index("variant")["partial"]
    found.append(
        f"- {check_text(studies[0])} Waits that left loads under way: {partial[V_FIRST]} with V first, "
        f"{partial[K_FIRST]} with K first (emulated). {_same_work(studies[0])}"
    )
    found.append(
        "- Why the order decides: loads are counted, not named, so the wait for the last one issued is a wait for all. "
        "What is needed last must be issued last. With one K buffer there is no order to choose: "
        f"{studies[0].outcomes['one K buffer, K first'].message}."
    )
    found.append(
        "- A second V buffer gives V a whole iteration too and takes a barrier out with V first, for a tile more of "
        "LDS: "
        + ", ".join(
            f"{study.value(name, 'waves per SIMD'):.0f} waves per SIMD and {study.value(name, 'LDS') or 0:,.0f} bytes "
            f"with `{name}`"
            for study in studies[:1]
            for name in (V_FIRST, "two V buffers, V first")
        )
        + " (static)."
    )
    found.append(
        "- Nothing is published of this order alone: the specification gives the reason (§7.1) and no figure. Its "
        "1.035x is of partial waits and raised priority together, in the dense kernel on an MI355X."
    )
    found.append(f"- {_clock(studies[0])}")
    return "\n".join(found)


def _order(study: LeverStudy, slack: pd.DataFrame) -> str:
    first, second = (window(slack, study.triton_version, variant, "K") for variant in (V_FIRST, K_FIRST))
    full = window(slack, study.triton_version, "V first, full waits", "K")
    return (
        f"- Triton {study.triton_version}: with V first the next K has {first['instructions']} instructions and "
        f"{first['qk'] + first['pv']} products of its wave to arrive in, with K first {second['instructions']} and "
        f"{second['qk'] + second['pv']} (static). K first undoes the prefetch: V first with full waits leaves it "
        f"{full['instructions']} and {full['qk'] + full['pv']}."
    )


def _early(study: LeverStudy, slack: pd.DataFrame) -> str:
    v = window(slack, study.triton_version, V_FIRST, "V")
    text = (
        f"- V itself has {v['instructions']} instructions, {v['qk']} QK products and {v['exponentials']} v_exp "
        f"(Triton {study.triton_version}, static). "
    )
    if v["exponentials"] == 0:
        text += (
            "The source waits for V behind the exponentials; the compiler lets them sink below the wait, so that V's "
            "latency has hardly more than the QK products to hide behind, in either order."
        )
    return text


def _same_work(study: LeverStudy) -> str:
    ratio = study.over_baseline(K_FIRST, "wave-instructions")
    if ratio is None:
        return ""
    return (
        f"K first executes {1 / ratio:.4f} times the instructions of V first (emulated): hardly a count tells the two "
        "apart."
    )


def _clock(study: LeverStudy) -> str:
    ratio = study.over_baseline(K_FIRST, "time")
    line = study.find(V_FIRST, "time")
    if ratio is not None and line is not None:
        return f"V first took {ratio:.3f} of the time of K first (measured, {line.of})."
    return (
        "Only hardware can tell what the shorter window costs: it depends on the latency of a load under the traffic "
        "of all compute units, and on what the other waves of the SIMD fill in. On an MI355X this notebook times all "
        "orders in one session." + (f" No times here: {line.text}." if line is not None else "")
    )


def key_figure(study: LeverStudy, slack: pd.DataFrame) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`."""
    first, second = (window(slack, study.triton_version, variant, "K") for variant in (V_FIRST, K_FIRST))
    return {
        "sentence": f"With V copied first the next K has {first['instructions']} instructions to arrive in, with K "
        f"first {second['instructions']} (Triton {study.triton_version}).",
        "evidence": "static",
        "value": float(first["instructions"] / second["instructions"]),
        "unit": "x",
    }
