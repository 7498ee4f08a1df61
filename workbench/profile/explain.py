"""What a profile says, in words: findings first, then each kernel's figures with their meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.profile.definitions import definitions
from workbench.profile.derive import Derivation, Group, Metric
from workbench.profile.table import short_name

SHOWN_KERNELS = 6
"""Kernels that are explained when none is asked for by name: the longest-running ones."""
_MOST_OF_TIME = 0.01


@dataclass(frozen=True)
class Change:
    """One figure of two profiles; `ratio` is the second over the first, None where the two may not be divided."""

    title: str
    first: Metric
    second: Metric
    ratio: float | None


def format_metric(metric: Metric) -> str:
    """The value with its unit, `n/a` where there is none."""
    if metric.value is None:
        return "n/a"
    return format_value(metric.value, metric.unit)


def format_value(value: float, unit: str) -> str:
    """A value in the unit that reads best."""
    if unit == "ns":
        return format_time(value)
    if unit == "%":
        return f"{value:.2f} %"
    if unit == "FLOP":
        return f"{value:.4g} FLOP"
    if abs(value) >= 1000:
        return f"{value:,.0f} {unit}"
    return f"{value:.4g} {unit}"


def format_time(ns: float | None) -> str:
    """A time from nanoseconds; `not known` for None."""
    if ns is None:
        return "not known"
    for scale, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= scale:
            return f"{ns / scale:.4g} {unit}"
    return f"{ns:.4g} ns"


def sentence(metric: Metric, architecture: str) -> str:
    """What the figure is and what its value says."""
    definition = definitions(architecture).metric(metric.name)
    if metric.value is None:
        return definition.meaning
    reading = definition.reading(metric.value)
    return f"{definition.meaning}: {reading.says}" if reading and not metric.suspect else definition.meaning


def shown_groups(derivation: Derivation, every: bool = False) -> list[Group]:
    """The kernels to explain: those that take a hundredth of the time or more, and at most SHOWN_KERNELS."""
    total = sum(group.duration_ns or 0 for group in derivation.groups)
    if every or not total:
        return list(derivation.groups)
    return [g for g in derivation.groups if (g.duration_ns or 0) >= _MOST_OF_TIME * total][:SHOWN_KERNELS]


def findings(derivation: Derivation, groups: Sequence[Group]) -> list[str]:
    """What to look at first: faults of the files, impossible values, then what the figures of each kernel say."""
    found = [f"the files: {problem}" for problem in derivation.problems]
    for group in groups:
        name = label(group)
        found += [f"{name}: {note}" for note in group.notes]
        found += [
            f"{name}: {metric.title} {format_metric(metric)} is {metric.note}"
            for metric in group.metrics
            if metric.suspect
        ]
        found += [
            f"{name}: {metric.title}: {metric.note}" for metric in group.metrics if 0 < metric.used < group.launches
        ]
    for group in groups:
        known = definitions(group.architecture)
        for metric in group.metrics:
            reading = known.metric(metric.name).reading(metric.value) if metric.value is not None else None
            if reading and reading.finding and not metric.suspect:
                found.append(f"{label(group)}: {metric.title} {format_metric(metric)}: {reading.says}")
    return found


def all_quiet(groups: Sequence[Group]) -> str:
    """What to say without a finding: that nothing stands out, or that too little was counted to say so."""
    metrics = [metric for group in groups for metric in group.metrics]
    known = sum(metric.value is not None for metric in metrics)
    if 2 * known >= len(metrics):
        return "Nothing stands out."
    return (
        f"Too little was counted to judge: {len(metrics) - known} of {len(metrics)} figures lack their counters. "
        "Nothing stands out in the others."
    )


def label(group: Group) -> str:
    """The kernel's short name, with the dispatch where the group is one."""
    name = short_name(group.kernel)
    return name if group.dispatch is None else f"{name} #{group.dispatch}"


def launches_line(group: Group, total_ns: float) -> str:
    """Launches, time and shape in one line."""
    line = f"{group.launches} launch{'es' if group.launches != 1 else ''}, time {format_time(group.duration_ns)}"
    if group.duration_ns and total_ns and group.dispatch is None:
        line += f" ({100 * group.duration_ns / total_ns:.1f} % of all)"
    shape = ", ".join(f"{name} {value}" for name, value in group.shape.items())
    return f"{line}; {shape}" if shape else line


def pair_kernels(first: Derivation, second: Derivation) -> tuple[list[tuple[Group, Group]], list[str]]:
    """Kernels of one name in both profiles, and a line on each that is in one alone.

    One kernel on each side is a pair under any names: two builds of it may be called differently.
    """
    if len(first.groups) == len(second.groups) == 1:
        return [(first.groups[0], second.groups[0])], []
    others = {(group.kernel, group.dispatch): group for group in second.groups}
    pairs, alone = [], []
    for group in first.groups:
        match = others.pop((group.kernel, group.dispatch), None)
        if match:
            pairs.append((group, match))
        else:
            alone.append(f"{label(group)} is in the first profile alone")
    return pairs, alone + [f"{label(group)} is in the second profile alone" for group in others.values()]


def changes(first: Group, second: Group) -> tuple[list[Change], list[str]]:
    """The figures that both kernels have, side by side, and a line on those that one alone has.

    Totals are given for one launch. Figures of two architectures or of two kinds of evidence stand beside each other
    without a ratio.
    """
    theirs = {metric.name: metric for metric in second.metrics}
    both = [(metric, theirs[metric.name]) for metric in first.metrics if metric.name in theirs]
    pairs = [(_a_launch(one, first), _a_launch(other, second)) for one, other in both if _has_both(one, other)]
    alike = first.architecture == second.architecture
    result = []
    for one, other in pairs:
        comparable = alike and one.evidence == other.evidence and not (one.suspect or other.suspect)
        ratio = other.value / one.value if comparable and one.value and other.value is not None else None
        result.append(Change(one.title, one, other, ratio))
    shown = {one.name for one, _ in pairs}
    alone = [
        f"in the {name} alone: {', '.join(titles)}"
        for name, group in (("first", first), ("second", second))
        if (titles := [m.title for m in group.metrics if m.value is not None and m.name not in shown])
    ]
    return result, alone


def _has_both(one: Metric, other: Metric) -> bool:
    return one.value is not None and other.value is not None


def _a_launch(metric: Metric, group: Group) -> Metric:
    if metric.value is None or not definitions(group.architecture).metric(metric.name).total:
        return metric
    return replace(metric, title=f"{metric.title}, a launch", value=metric.value / metric.used)
