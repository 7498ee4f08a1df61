"""Tables and pictures of profiles; every one names its device or architecture and its evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from workbench.parity.flops import work_of
from workbench.parity.html_table import Table, plain
from workbench.parity.plots import Picture
from workbench.profile.explain import format_metric, format_value, label, sentence
from workbench.studies.profile_study import least_bytes, metric_of, moved

if TYPE_CHECKING:
    from workbench.profile import Group, Metric
    from workbench.studies.profile_study import Explained

SHARES: tuple[tuple[str, ...], ...] = (
    ("l2_hit_rate",),
    ("tensor_utilisation", "mfma_utilisation"),
    ("occupancy",),
    ("dram_utilisation",),
    ("memory_stall",),
)
"""Percentages that are set side by side: the names of each on the makers' GPUs."""
_COLOURS = ("#1f5fbf", "#c2571a")
_LEAST_COLOUR = "#b3bccb"
_NOTHING = "not counted"


def source_table(studies: Iterable[Explained]) -> Table:
    """What was read, and what is wrong with it."""
    rows = []
    for study in studies:
        table = study.profile.table
        counters = table["counter"].dropna().nunique()
        kernels = ", ".join(f"{label(group)} ({group.launches})" for group in study.groups)
        problems = "; ".join(study.derivation.problems) or "none"
        rows.append(
            [
                plain(study.name),
                plain(study.profile.tool),
                plain(study.main.architecture),
                plain(kernels, "text"),
                plain(counters, "num"),
                plain(study.profile.evidence),
                plain(problems, "text" if study.derivation.problems else ""),
            ]
        )
    headings = [
        "profile",
        "format, by content",
        "architecture",
        "kernels (launches)",
        "counters",
        "evidence",
        "problems",
    ]
    return Table(headings, rows)


def figure_table(study: Explained) -> Table:
    """Every figure that the counts give, kernel by kernel, and what it means."""
    rows = [
        [
            plain(label(group)),
            plain(metric.title),
            plain(format_metric(metric), "num"),
            plain(metric.evidence),
            plain(_meaning(metric, group), "text long"),
        ]
        for group in study.groups
        for metric in group.metrics
        if metric.value is not None
    ]
    headings = ["kernel", "figure", "value", "evidence", "what it means"]
    return Table(headings, rows, f"{study.name} on {study.main.architecture}. {study.remark}".strip())


def missing_table(study: Explained) -> Table:
    """The figures of the longest-running kernel that the counts do not give, by what they lack."""
    reasons: dict[str, list[str]] = {}
    for metric in study.main.metrics:
        if metric.value is None:
            reasons.setdefault(metric.note.removeprefix("n/a, ").removeprefix("n/a: "), []).append(metric.title)
    rows = [[plain(", ".join(titles), "text"), plain(reason, "text long")] for reason, titles in reasons.items()]
    caption = f"{label(study.main)} of {study.name}, {study.profile.evidence}."
    return Table(["not derived", "why"], rows, caption, empty="Every figure has its counters.")


def bytes_table(studies: Iterable[Explained]) -> Table:
    """Bytes that each kernel moved a launch, under the least that the whole call has to move."""
    rows = []
    for study in studies:
        if study.scenario is not None:
            least = least_bytes(study.scenario.problem)
            rows.append(_bytes_row(study.name, "least, whole call", least.read, least.written, "static"))
        for group in study.groups:
            counts = moved(group, "read"), moved(group, "written")
            rows.append(_bytes_row(study.name, label(group), *counts, study.profile.evidence))
    return Table(
        ["profile", "bytes of", "MB read a launch", "MB written a launch", "evidence"],
        rows,
        "Least: Q, K and V once, O once. Read and written beyond the L2: on NVIDIA at DRAM, on AMD through the fabric, "
        "where the Infinity Cache serves a part.",
    )


def work_table(study: Explained) -> Table:
    """Matrix work that was executed, beside what the visible pairs of query and key need."""
    rows = []
    if study.scenario is not None:
        flops = format_value(work_of(study.scenario.problem).flops, "FLOP")
        rows.append([plain("visible pairs, whole call"), plain(flops, "num"), plain("static")])
    for group in study.groups:
        metric = metric_of(group, "mfma_flops")
        if metric is not None:
            rows.append([plain(label(group)), plain(format_metric(metric), "num"), plain(metric.evidence)])
    return Table(["matrix work of", "value", "evidence"], rows, f"{study.name}, over all launches.")


def share_plot(studies: Sequence[Explained]) -> Picture:
    """The longest-running kernel of each profile, percentage by percentage."""
    from matplotlib.figure import Figure

    shown = [names for names in SHARES if any(metric_of(study.main, *names) for study in studies)]
    figure = Figure(figsize=(9, 1.0 + 0.62 * max(len(shown), 1)), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / len(studies)
    for index, (study, colour) in enumerate(zip(studies, _COLOURS, strict=False)):
        found = [(place, metric_of(study.main, *names)) for place, names in enumerate(shown)]
        values = {place + (index + 0.5) * height - 0.4: metric for place, metric in found if metric}
        _share_bars(axes, values, height, colour, f"{study.name}: {label(study.main)} ({study.profile.evidence})")
    titles = [next(m.title for s in studies if (m := metric_of(s.main, *names))) for names in shown]
    axes.set_yticks(range(len(shown)), titles)
    axes.set_ylim(max(len(shown), 1) - 0.5, -0.5)
    axes.set_xlim(0, 108)
    axes.set_xlabel("%")
    architectures = ", ".join(dict.fromkeys(study.main.architecture for study in studies))
    axes.set_title(f"longest-running kernel of each profile, on {architectures}", fontsize=10)
    _plain_axes(axes)
    figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=len(studies))
    return Picture(figure, f"Percentages of the longest-running kernels on {architectures}")


def bytes_plot(studies: Sequence[Explained]) -> Picture:
    """Bytes read and written a launch by the longest-running kernel, above the least of the call; scales differ."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.7), layout="constrained")
    for axes, study in zip(figure.subplots(1, len(studies), squeeze=False)[0], studies, strict=True):
        _bytes_bars(axes, study)
    _one_legend(figure)
    return Picture(figure, "Bytes a launch, counted and least: " + ", ".join(study.name for study in studies))


def key_figure(study: Explained) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`: the bytes read beside the least, or the matrix or memory share."""
    head = f"{study.name} on {study.main.architecture}"
    evidence = study.profile.evidence
    read, memory = moved(study.main, "read"), metric_of(study.main, "dram_utilisation")
    share = "" if memory is None else f", at {format_metric(memory)} of the memory's peak"
    if study.scenario is not None and read is not None:
        ratio = read / least_bytes(study.scenario.problem).read
        sentence = f"{head} reads {ratio:.2f} times the least bytes that its problem needs{share}."
        return {"sentence": sentence, "evidence": evidence, "value": ratio, "unit": "x"}
    figures = [metric for metric in (memory, metric_of(study.main, *SHARES[1])) if metric is not None]
    if not figures:
        return {"sentence": f"The profile of {head} counts neither bytes nor matrix work.", "evidence": evidence}
    metric = figures[0]
    sentence = f"{head}: {metric.title} {format_metric(metric)}."
    return {"sentence": sentence, "evidence": evidence, "value": metric.value, "unit": metric.unit}


def conclusion(studies: Sequence[Explained], emulated: Explained | None) -> str:
    """What follows for somebody who tunes a kernel, and what only hardware can tell, as Markdown."""
    lines = [line for study in studies for line in (_limit_line(study), _bytes_line(study)) if line]
    lines.append(
        "Low occupancy is no fault by itself: attention kernels live on few warps with many registers. It matters "
        "where the matrix units and memory both wait."
    )
    if emulated is not None:
        lines.append(
            f"The emulator counts what the code executes (emulated: {label(emulated.main)} for "
            f"{emulated.main.architecture}): matrix work on masked rows, LDS conflicts and waves can be tuned "
            "without a GPU."
        )
    lines.append(
        "Only hardware can tell times, hit rates, stalls and utilisation. A profiler fixes clocks and may empty "
        "caches, so decide what is faster with the parity report, and why with the profile."
    )
    return "\n".join(f"- {line}" for line in lines)


def _meaning(metric: Metric, group: Group) -> str:
    text = sentence(metric, group.architecture)
    return f"{text} ({metric.note})" if metric.note else text


def _bytes_row(name: str, what: str, read: float | None, written: float | None, evidence: str) -> list[Any]:
    figures = [_NOTHING if value is None else f"{value / 1e6:,.3f}" for value in (read, written)]
    return [plain(name), plain(what), *(plain(figure, "num") for figure in figures), plain(evidence)]


def _share_bars(axes: Any, values: dict[float, Metric], height: float, colour: str, legend: str) -> None:
    widths = [metric.value for metric in values.values()]
    axes.barh(list(values), widths, height=0.9 * height, color=colour, label=legend)
    for place, metric in values.items():
        axes.text((metric.value or 0) + 0.8, place, f"{metric.value:.1f}", va="center", fontsize=8)


def _bytes_bars(axes: Any, study: Explained) -> None:
    """Two pairs of bars: read and written, counted above least."""
    least = least_bytes(study.scenario.problem) if study.scenario else None
    counted = [moved(study.main, direction) for direction in ("read", "written")]
    rows = [(f"kernel ({study.profile.evidence})", _COLOURS[0], counted, -0.2)]
    if least is not None:
        rows.append(("least, whole call (static)", _LEAST_COLOUR, [least.read, least.written], 0.2))
    for legend, colour, values, shift in rows:
        megabytes = {place + shift: value / 1e6 for place, value in enumerate(values) if value is not None}
        axes.barh(list(megabytes), list(megabytes.values()), height=0.36, color=colour, label=legend)
        for place, value in megabytes.items():
            axes.text(value, place, f" {value:,.1f}", va="center", fontsize=8)
    axes.set_yticks([0, 1], ["read", "written"])
    axes.set_ylim(1.5, -0.5)
    axes.margins(x=0.22)
    axes.set_xlabel("MB a launch")
    axes.set_title(f"{study.name}: {label(study.main)}, {study.main.architecture}", fontsize=9)
    _plain_axes(axes)


def _one_legend(figure: Any) -> None:
    """Below all panels, each entry once."""
    entries: dict[str, Any] = {}
    for axes in figure.axes:
        handles, names = axes.get_legend_handles_labels()
        entries |= dict(zip(names, handles, strict=True))
    figure.legend(entries.values(), entries.keys(), frameon=False, fontsize=8, loc="outside lower center", ncols=3)


def _plain_axes(axes: Any) -> None:
    axes.grid(axis="x", color="#e6eaf0")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _limit_line(study: Explained) -> str:
    """Which of the two, memory or matrix units, the counts point at."""
    group = study.main
    memory, matrix = metric_of(group, "dram_utilisation"), metric_of(group, *SHARES[1])
    hits = metric_of(group, "l2_hit_rate")
    figures = [metric for metric in (memory, matrix, hits) if metric is not None]
    if not figures:
        return ""
    said = ", ".join(f"{metric.title} {format_metric(metric)}" for metric in figures)
    head = f"{study.name}, `{label(group)}` on {group.architecture} ({study.profile.evidence}): {said}."
    return f"{head} {_advice(memory, matrix)}".strip()


def _advice(memory: Metric | None, matrix: Metric | None) -> str:
    if memory is not None and (memory.value or 0) >= 80:
        return "Memory is close to its peak: only fewer bytes make it faster, not a better schedule."
    if matrix is not None and (matrix.value or 0) >= 70:
        return "The matrix units are close to their peak: only less masked work makes it faster."
    if memory is None or matrix is None:
        return ""
    return (
        "Neither is close to its peak: look at what the warps wait for, and at the softmax between the two products, "
        "before bytes or matrix instructions."
    )


def _bytes_line(study: Explained) -> str:
    read = moved(study.main, "read")
    if study.scenario is None or read is None:
        return ""
    least = least_bytes(study.scenario.problem).read
    if read <= 1.05 * least:
        advice = "K and V are read about once: no order of the work saves more there."
    else:
        advice = "More than once: the order of the work, or what groups share, can save some."
    return (
        f"{study.name} reads {read / 1e6:,.1f} MB a launch ({study.profile.evidence}) beside {least / 1e6:,.1f} MB "
        f"that it must (static). {advice}"
    )
