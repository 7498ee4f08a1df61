"""A profile's explanation in a terminal, through rich."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group as Lines
from rich.table import Table
from rich.text import Text

from workbench.profile.derive import Derivation, Group, Metric
from workbench.profile.explain import (
    Change,
    all_quiet,
    changes,
    findings,
    format_metric,
    label,
    launches_line,
    pair_kernels,
    sentence,
    shown_groups,
)

if TYPE_CHECKING:
    from rich.console import RenderableType


def show_profile(derivation: Derivation, title: str, every: bool = False) -> RenderableType:
    """Findings, hardware facts, and a table for each kernel."""
    groups = shown_groups(derivation, every)
    parts: list[RenderableType] = [Text(title, style="bold"), *_findings(derivation, groups)]
    parts += [Text(f"hardware: {line}", style="dim") for line in derivation.agents]
    total = sum(group.duration_ns or 0 for group in derivation.groups)
    for group in groups:
        parts += [Text(), _kernel_table(group, total), *_not_derived(group)]
    hidden = len(derivation.groups) - len(groups)
    if hidden:
        parts.append(Text(f"\n{hidden} shorter-running kernels are not shown; name them with --kernel", style="dim"))
    return Lines(*parts)


def show_comparison(first: Derivation, second: Derivation, titles: tuple[str, str]) -> RenderableType:
    """The kernels that two profiles share, side by side."""
    pairs, alone = pair_kernels(first, second)
    parts: list[RenderableType] = [Text(f"first: {titles[0]}\nsecond: {titles[1]}", style="bold")]
    for name, derivation in zip(("first", "second"), (first, second), strict=True):
        parts += [Text(f"{name}, {line}", style="yellow") for line in findings(derivation, shown_groups(derivation))]
        parts += [Text(f"{name}, hardware: {line}", style="dim") for line in derivation.agents]
    for one, other in pairs:
        rows, only = changes(one, other)
        parts += [Text(), _pair_table(one, other, rows), *(Text(line, style="dim") for line in only)]
    parts += [Text(line, style="dim") for line in alone]
    if not pairs:
        parts.append(Text("The two profiles have no kernel in common.", style="red"))
    return Lines(*parts)


def _findings(derivation: Derivation, groups: Sequence[Group]) -> list[RenderableType]:
    found = findings(derivation, groups)
    if not found:
        return [Text(all_quiet(groups))]
    return [Text("Findings", style="bold yellow"), *(Text(f"- {line}") for line in found)]


def _kernel_table(group: Group, total_ns: float) -> Table:
    table = Table(title=f"{label(group)} on {group.architecture}", title_justify="left", title_style="bold cyan")
    table.caption, table.caption_justify = launches_line(group, total_ns), "left"
    table.add_column("figure")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("evidence")
    table.add_column("what it means", overflow="fold")
    for metric in group.metrics:
        if metric.value is not None:
            table.add_row(metric.title, _value(metric), metric.evidence, _meaning(metric, group.architecture))
    return table


def _value(metric: Metric) -> Text:
    return Text(format_metric(metric), style="bold red" if metric.suspect else "")


def _meaning(metric: Metric, architecture: str) -> Text:
    text = Text(sentence(metric, architecture))
    return text.append(f" ({metric.note})", style="dim") if metric.note else text


def _not_derived(group: Group) -> list[RenderableType]:
    """One line for all figures that lack the same thing."""
    reasons: dict[str, list[str]] = {}
    if sum(metric.value is not None for metric in group.metrics) <= 1:
        return [Text(f"{len(group.metrics) - 1} figures lack their counters; --csv lists what each needs", style="dim")]
    for metric in group.metrics:
        if metric.value is None:
            reasons.setdefault(metric.note, []).append(metric.title)
    return [Text(f"{', '.join(titles)}: {note}", style="dim") for note, titles in reasons.items()]


def _pair_table(one: Group, other: Group, rows: Sequence[Change]) -> Table:
    names = [label(group) for group in (one, other)]
    title = names[0] if names[0] == names[1] else f"{names[0]} | {names[1]}"
    table = Table(title=title, title_justify="left", title_style="bold cyan")
    table.add_column("figure")
    for name, group in zip(("first", "second"), (one, other), strict=True):
        evidence = group.metrics[0].evidence if group.metrics else ""
        table.add_column(f"{name}\n{group.architecture}, {evidence}\n{group.launches} launches", justify="right")
    table.add_column("second / first", justify="right")
    table.add_column("notes", overflow="fold")
    for change in rows:
        notes = "; ".join(
            f"{name}: {metric.note}"
            for name, metric in (("first", change.first), ("second", change.second))
            if metric.note
        )
        ratio = "-" if change.ratio is None else f"{change.ratio:.3f} x"
        table.add_row(change.title, _value(change.first), _value(change.second), ratio, notes)
    return table
