"""Tables and pictures of rooflines; every one names its device and its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from workbench.model import share_of_roof
from workbench.parity.html_table import Table, plain
from workbench.parity.plots import Picture

if TYPE_CHECKING:
    from workbench.model import Ceilings
    from workbench.studies.roofline import Placed

_STYLE = {
    "decode": ("o", "#c2571a"),
    "prefill": ("s", "#1a7f4b"),
    "dense": ("D", "#1f5fbf"),
    "minimal bytes": ("v", "#5b6676"),
    "bytes beyond the L2": ("v", "#8a3ffc"),
    "published": ("*", "#b3261e"),
}


def ceiling_table(ceilings: Sequence[Ceilings]) -> Table:
    """The limits of each device and where they come from."""
    rows = []
    for roof in ceilings:
        for name, limit, unit in (("compute", roof.compute, "TFLOP/s"), ("memory", roof.memory, "TB/s")):
            rows.append(
                [
                    plain(roof.hardware),
                    plain(name),
                    plain(f"{limit.value * 1e-12:,.1f} {unit}", "num"),
                    plain(f"{roof.ridge:.0f}", "num"),
                    plain(limit.evidence),
                    plain(limit.source, "text"),
                ]
            )
    return Table(["device", "ceiling", "value", "ridge, FLOP/B", "evidence", "source"], rows)


def share_table(placed: Sequence[Placed], ceilings: Ceilings) -> Table:
    """What each timed point reaches of what its intensity allows, the lowest share first."""
    shares = {id(item): share_of_roof(item.point, ceilings) for item in placed}
    rows = []
    for item in sorted(placed, key=lambda each: shares[id(each)]):
        point = item.point
        rows.append(
            [
                plain(point.label),
                plain(item.kind),
                plain(f"{point.intensity:.1f}", "num"),
                plain(f"{(point.flop_per_s or 0) * 1e-12:.1f}", "num"),
                plain(f"{(point.byte_per_s or 0) * 1e-12:.2f}", "num"),
                plain(ceilings.binding(point.intensity)),
                plain(f"{100 * shares[id(item)]:.0f} %", "num"),
            ]
        )
    times = ", ".join(sorted({str(item.point.time_evidence) for item in placed}))
    roofs = ", ".join(sorted({ceilings.compute.evidence, ceilings.memory.evidence}))
    return Table(
        ["scenario", "kind", "FLOP/B", "TFLOP/s", "TB/s", "limited by", "share of roof"],
        rows,
        f"{ceilings.hardware}. Times {times}, minimal bytes static, ceilings {roofs}.",
    )


def limit_table(placed: Sequence[Placed], ceilings: Ceilings) -> Table:
    """What the ceilings allow at most for points without a time."""
    rows = [
        [
            plain(item.point.label),
            plain(item.kind),
            plain(f"{item.point.bytes / 1e9:.3f}", "num"),
            plain(item.point.bytes_evidence),
            plain(f"{item.point.intensity:.0f}", "num"),
            plain(ceilings.binding(item.point.intensity)),
            plain(f"{ceilings.attainable(item.point.intensity) * 1e-12:.0f}", "num"),
        ]
        for item in placed
        if item.point.seconds is None
    ]
    headings = ["scenario", "bytes counted", "GB", "evidence of the bytes", "FLOP/B", "limited by", "TFLOP/s at most"]
    return Table(headings, rows, f"Modelled limits on {ceilings.hardware}; no time of this kernel is known there.")


def roofline_plot(placed: Sequence[Placed], ceilings: Ceilings, title: str) -> Picture:
    """Throughput over intensity, both logarithmic, below the two ceilings; a point without a time sits on its limit."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.6), layout="constrained")
    axes = figure.subplots()
    intensities = [item.point.intensity for item in placed]
    low, high = min([*intensities, ceilings.ridge]) / 2, max([*intensities, ceilings.ridge]) * 2
    line = [low, ceilings.ridge, high]
    axes.plot(line, [ceilings.attainable(x) * 1e-12 for x in line], color="#1d2530", linewidth=1.4, zorder=1)
    evidence = ", ".join(sorted({ceilings.compute.evidence, ceilings.memory.evidence}))
    for kind in dict.fromkeys(item.kind for item in placed):
        points = [item.point for item in placed if item.kind == kind]
        marker, colour = _STYLE[kind]
        timed = [point for point in points if point.flop_per_s is not None]
        limits = [point for point in points if point.flop_per_s is None]
        _scatter(axes, timed, [point.flop_per_s or 0 for point in timed], marker, colour, kind, filled=True)
        heights = [ceilings.attainable(point.intensity) for point in limits]
        _scatter(axes, limits, heights, marker, colour, f"limit at {kind}", filled=False)
    _logarithmic(axes)
    axes.set_xlim(low, high)
    axes.set_xlabel("FLOP per byte")
    axes.set_ylabel("TFLOP/s")
    axes.set_title(f"{title}: {ceilings.hardware}, ceilings {evidence}", fontsize=10)
    axes.grid(color="#e6eaf0")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    return Picture(figure, f"Roofline of {ceilings.hardware}: {title}")


def _logarithmic(axes: Any) -> None:
    """Both axes, with plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())


def _scatter(
    axes: Any, points: Sequence[Any], flops: Sequence[float], marker: str, colour: str, label: str, *, filled: bool
) -> None:
    if not points:
        return
    axes.scatter(
        [point.intensity for point in points],
        [value * 1e-12 for value in flops],
        marker=marker,
        s=64 if marker == "*" else 26,
        facecolor=colour if filled else "white",
        edgecolor=colour,
        label=f"{label} ({_evidence(points)})",
        zorder=2,
    )


def _evidence(points: Sequence[Any]) -> str:
    """How the throughput was had; a limit is modelled, whatever its bytes are."""
    return ", ".join(sorted({str(point.time_evidence or "modelled") for point in points}))


def key_figure(placed: Sequence[Placed], ceilings: Ceilings) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`: what the kernels reach of what their intensity allows."""
    shares = sorted((100 * share_of_roof(item.point, ceilings), item.point.label) for item in placed)
    middle, (best, label) = median(share for share, _ in shares), shares[-1]
    roofs = ", ".join(sorted({ceilings.compute.evidence, ceilings.memory.evidence}))
    sentence = (
        f"On {ceilings.hardware} the median of {len(shares)} calls reaches {middle:.0f} % of the roof (ceilings "
        f"{roofs}), the best, {label}, {best:.0f} %."
    )
    return {"sentence": sentence, "evidence": "measured", "value": middle, "unit": "%"}


def conclusion(placed: Sequence[Placed], ceilings: Ceilings, modelled: Sequence[Placed], model_roof: Ceilings) -> str:
    """What follows for somebody who tunes a kernel, and what only hardware can tell, as Markdown."""
    lines = []
    for kind in ("decode", "prefill", "dense"):
        shares = [(share_of_roof(item.point, ceilings), item.point) for item in placed if item.kind == kind]
        if not shares:
            continue
        worst, best = min(shares, key=lambda row: row[0]), max(shares, key=lambda row: row[0])
        bound = ", ".join(sorted({ceilings.binding(point.intensity) for _, point in shares}))
        lines.append(
            f"- {kind.capitalize()} on {ceilings.hardware}: {100 * worst[0]:.0f} % ({worst[1].label}) to "
            f"{100 * best[0]:.0f} % ({best[1].label}) of the roof; limited by {bound}."
        )
    above = [item.point.label for item in placed if share_of_roof(item.point, ceilings) > 1.0]
    if above:
        lines.append(f"- {', '.join(above)} lie above a ceiling: their inputs come from a cache, not from memory.")
    small = [item.point.label for item in placed if (item.point.seconds or 1.0) < 20e-6]
    if small:
        lines.append(
            f"- {len(small)} of {len(placed)} calls last under 20 us, so that start and tail are much of them: "
            "a low share there asks for more parallelism, not for fewer bytes."
        )
    lines += [
        f"- {_modelled_sentence(modelled, model_roof)}",
        "- Only hardware can tell the time behind a limit, the bandwidth of the last-level cache between L2 and HBM, "
        "and what clock the matrix units hold under load. Measure the ceilings in the kernel's own session.",
    ]
    return "\n".join(lines)


def _modelled_sentence(modelled: Sequence[Placed], roof: Ceilings) -> str:
    beyond = [item.point for item in modelled if item.kind == "bytes beyond the L2"]
    memory = [point.label for point in beyond if roof.binding(point.intensity) == "memory"]
    if memory:
        return (
            f"On {roof.hardware} the bytes beyond the L2 make memory the limit of {', '.join(memory)} (modelled), "
            "unless the last-level cache serves them: start with the order of the work there."
        )
    return (
        f"On {roof.hardware} compute limits every modelled problem, even by the bytes beyond the L2 (modelled): "
        "a better order of the work saves latency and power there, and raises no ceiling."
    )
