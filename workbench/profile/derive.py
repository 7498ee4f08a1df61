"""Figures from counters: sums over dispatches first, then the ratio; never a mean of ratios."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from workbench.errors import ProfileError
from workbench.profile.agents import Agent, agent_for, agent_of_device, shared
from workbench.profile.counts import Counts, count_kernels
from workbench.profile.definitions import ANY_NVIDIA, Definition, Definitions, architectures, definitions
from workbench.profile.formula import DURATION, Formula, Undefined
from workbench.profile.table import Profile, unique

if TYPE_CHECKING:
    import pandas as pd

    from workbench.records.record import Evidence

By = Literal["kernel", "dispatch"]
_HARDWARE = {
    "XCD": "the number of XCDs (partition mode)",
    "CU": "the number of compute units",
    "SE": "the number of shader engines",
    "SIMD": "the number of SIMDs of a compute unit",
}


@dataclass(frozen=True)
class Metric:
    """One derived figure. `value` is None where the counts give none; `note` then says what is missing."""

    name: str
    title: str
    value: float | None
    unit: str
    note: str
    evidence: Evidence
    suspect: bool = False
    """The value is impossible: above 100 %, below 0, or beyond what a GPU can do."""
    used: int = 0
    """Launches that the value is made of."""


@dataclass(frozen=True)
class Group:
    """The figures of one kernel, or of one of its dispatches."""

    kernel: str
    architecture: str
    dispatch: int | None
    """Number of the dispatch in the file; None for the kernel as a whole."""
    launches: int
    duration_ns: float | None
    """Sum over the launches, each counted once; None where the files hold no times."""
    shape: Mapping[str, str]
    """Grid, workgroup, registers, LDS and scratch: the value, or its range over the launches."""
    metrics: tuple[Metric, ...]
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Metric:
        """The figure of that name; KeyError if the architecture does not define it."""
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise KeyError(name)


@dataclass(frozen=True)
class Derivation:
    """The figures of a profile, longest-running kernel first."""

    groups: tuple[Group, ...]
    agents: tuple[str, ...]
    """What the hardware figures in the formulas were, one line an agent."""
    problems: tuple[str, ...]

    def find(self, kernel: str) -> Group:
        """The group of a kernel by its whole name. ProfileError if there is none."""
        for group in self.groups:
            if group.kernel == kernel:
                return group
        raise ProfileError(f"no kernel {kernel!r}; there are {', '.join(group.kernel for group in self.groups)}")

    def to_frame(self) -> pd.DataFrame:
        """One row a group and figure: architecture, kernel, dispatch, launches, metric, value, unit, used, note, ..."""
        import pandas as pd

        rows: list[dict[str, Any]] = []
        for group in self.groups:
            where = {"architecture": group.architecture, "kernel": group.kernel, "dispatch": group.dispatch}
            for metric in group.metrics:
                figures = {
                    key: getattr(metric, key) for key in ("value", "unit", "used", "suspect", "note", "evidence")
                }
                rows.append({**where, "launches": group.launches, "metric": metric.name, **figures})
        frame = pd.DataFrame(rows)
        return frame.astype({"dispatch": "Int64", "value": "float64"}) if rows else frame


def derive(profile: Profile, arch: str | None = None, by: By = "kernel", device: str | None = None) -> Derivation:
    """Every figure that is defined for the architecture, of each kernel or of each dispatch.

    arch: needed where the files name no GPU. device: a device description, such as mi300x, for compute units and XCDs
    where no agent_info or sysinfo tells them; it stands for the whole GPU, not for a partition of it. What it states
    replaces what the files say. ProfileError if the architecture is unknown or contradicts the files.
    """
    if by not in ("kernel", "dispatch"):
        raise ProfileError(f"by must be 'kernel' or 'dispatch', got {by!r}")
    named = agent_of_device(device) if device else None
    groups: list[Group] = []
    agents: list[str] = []
    for architecture, table in _by_architecture(profile, arch, named):
        known = definitions(architecture)
        hardware = _hardware(table["agent"].unique(), profile, architecture, named)
        if any(formula.constants for metric in known.metrics for formula in metric.formulas):
            agents.append(hardware.describe())
        constants = {**known.constants, **{name: value for name, value in hardware.constants().items() if value}}
        for kernel, counts in count_kernels(table, known).items():
            groups += _groups(profile, kernel, counts, known, constants, by)
    groups.sort(key=lambda group: (group.dispatch or 0) if by == "dispatch" else -(group.duration_ns or 0))
    return Derivation(tuple(groups), unique(agents), profile.problems)


def _by_architecture(profile: Profile, arch: str | None, named: Agent | None) -> Iterable[tuple[str, pd.DataFrame]]:
    wanted = arch or (named.architecture if named else None)
    if named and arch and named.architecture != arch:
        raise ProfileError(
            f"the device is a {named.architecture}, but the architecture given is {arch}; give one of them"
        )
    if wanted:
        definitions(wanted)
    said = profile.architectures
    if wanted and said and said != (wanted,):
        raise ProfileError(f"the files are of {', '.join(said)}, but {wanted} was given; leave it out")
    for architecture, table in profile.table.groupby("architecture", sort=True):
        name = str(architecture) or wanted
        if not name and profile.tool == "ncu":
            name = ANY_NVIDIA
        if not name:
            raise ProfileError(
                "the files do not name the GPU's architecture, and formulas differ between them; give --arch, one of "
                f"{', '.join(each for each in architectures() if each.startswith('gfx'))}, or put agent_info.csv beside"
            )
        yield name, table


def _hardware(labels: Iterable[str], profile: Profile, architecture: str, named: Agent | None) -> Agent:
    """What formulas may know of the GPU: the named device's, else what the files agree on, else nothing."""
    if named:
        return named
    found = [agent_for(str(label), profile.agents) for label in labels]
    agreed = shared(agent for agent in found if agent)
    return replace(agreed or Agent(""), architecture=architecture)


def _groups(
    profile: Profile, kernel: str, counts: Counts, known: Definitions, constants: Mapping[str, float], by: By
) -> list[Group]:
    own = profile.dispatches[profile.dispatches["launch"].isin(counts.launches)]
    parts = (
        [(None, own)]
        if by == "kernel"
        else [(int(d), own[own["launch"] == n]) for n, d in zip(own["launch"], own["dispatch"], strict=True)]
    )
    groups = []
    for dispatch, rows in parts:
        launches = frozenset(int(launch) for launch in rows["launch"])
        times = rows["duration_ns"].dropna()
        metrics = (_derive_metric(each, counts, launches, known, constants, profile.evidence) for each in known.metrics)
        groups.append(
            Group(
                kernel=kernel,
                architecture=known.architecture,
                dispatch=dispatch,
                launches=len(launches),
                duration_ns=float(times.sum()) if len(times) else None,
                shape=_shape(rows),
                metrics=tuple(metrics),
                notes=unique(counts.notes),
            )
        )
    return groups


def _shape(rows: pd.DataFrame) -> dict[str, str]:
    shape = {}
    for name in ("grid", "workgroup", "vgpr", "agpr", "sgpr", "lds", "scratch"):
        values = list(dict.fromkeys(rows[name].dropna()))
        if values and isinstance(values[0], str):
            shape[name] = values[0] if len(values) == 1 else f"{len(values)} sizes"
        elif values:
            shape[name] = f"{min(values):.0f}" if len(values) == 1 else f"{min(values):.0f}..{max(values):.0f}"
    return {name: value for name, value in shape.items() if value}


def _derive_metric(
    definition: Definition,
    counts: Counts,
    launches: frozenset[int],
    known: Definitions,
    constants: Mapping[str, float],
    evidence: Evidence,
) -> Metric:
    empty = Metric(definition.name, definition.title, None, definition.unit, "", evidence)
    missing = {formula: _missing(formula, counts, constants, known) for formula in definition.formulas}
    usable = [formula for formula, names in missing.items() if not names]
    if not usable:
        first, *others = (", ".join(names) for names in missing.values())
        other = f"; or {min(others, key=lambda names: names.count(','))}" if others else ""
        return replace(empty, note=f"n/a, needs {first}{other}")
    formula = usable[0]
    needed = [*formula.counters, *(name for name in formula.optional if counts.find(name))]
    chosen = counts.choose(needed, one_pass=definition.one_pass)
    if chosen is None:
        return replace(empty, note=f"n/a, needs {', '.join(needed)} in one pass")
    columns = {name: column for name, (_, column) in chosen.items()}
    used = sorted(launches.intersection(*(column.keys() for column in columns.values())))
    if not used:
        return replace(empty, note="n/a, no launch has all of: " + ", ".join(needed))
    values = {name: [column[launch] for launch in used] for name, column in columns.items()}
    unlikely = _contradiction(values, counts, used, known)
    if unlikely:
        return replace(empty, note=unlikely)
    try:
        value = formula.evaluate(values, constants, len(used))
    except Undefined as reason:
        because = (
            f"{definition.undefined} ({reason})" if definition.undefined and "is 0" in str(reason) else str(reason)
        )
        return replace(empty, note=f"n/a: {because}", used=len(used))
    left_out = [name for name in formula.optional if name not in chosen and name not in known.absent]
    note, suspect = _note(value, len(used), len(launches), definition, formula, chosen, left_out)
    return replace(empty, value=value, used=len(used), note=note, suspect=suspect)


def _missing(formula: Formula, counts: Counts, constants: Mapping[str, float], known: Definitions) -> list[str]:
    """Counters and hardware figures that the formula lacks, in words."""
    names = ["time stamps" if name == DURATION else name for name in formula.counters if not counts.find(name)]
    if formula.optional and not any(counts.find(name) for name in formula.optional):
        names.append(f"one of {', '.join(name for name in formula.optional if name not in known.absent)}")
    return names + [_HARDWARE.get(name, name) for name in formula.constants if name not in constants]


def _contradiction(values: Mapping[str, list[float]], counts: Counts, used: Iterable[int], known: Definitions) -> str:
    """Why zeros among the values cannot be counts; empty where they can."""
    for each in known.contradictions:
        if not set(each.zero) <= values.keys() or any(any(values[name]) for name in each.zero):
            continue
        chosen = counts.choose([each.positive], one_pass=False) if counts.find(each.positive) else None
        if chosen and any(chosen[each.positive][1].get(launch, 0) > 0 for launch in used):
            return f"n/a: {' and '.join(each.zero)} 0 beside a positive {each.positive}, so not collected"
    return ""


def _note(
    value: float,
    used: int,
    launches: int,
    definition: Definition,
    formula: Formula,
    chosen: Mapping[str, Any],
    left_out: list[str],
) -> tuple[str, bool]:
    """What must be known of the value, and whether it is impossible."""
    notes = []
    suspect = definition.is_impossible(value)
    if suspect:
        most = 100 if definition.most is None else definition.most
        notes.append(f"IMPOSSIBLE: outside 0 to {most:g} {definition.unit}; {definition.beyond}")
    if used < launches:
        notes.append(f"{used} of {launches} used, the other launches lack a counter")
    if left_out:
        notes.append(f"not collected, so left out: {', '.join(left_out)}")
    passes = {place for place, _ in chosen.values()}
    if len(passes) > 1:
        notes.append(f"counters from {len(passes)} passes")
    if formula is not definition.formulas[0] and not formula.text.startswith("single("):
        notes.append(f"from {', '.join((*formula.counters, *formula.optional))}")
    return "; ".join(notes), suspect
