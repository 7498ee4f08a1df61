"""Put the passes of one program together: which dispatches of different passes are the same launch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from workbench.errors import ProfileError
from workbench.profile.agents import Agent, agent_for
from workbench.profile.table import Part, Profile, Row, short_name, unique

if TYPE_CHECKING:
    import pandas as pd

# Tools whose files may lie together: they are forms of one profiling.
_FAMILIES = {"rocprofv3": "rocprofv3", "rocpd": "rocprofv3", "rocprof": "rocprof", "rocprof-compute": "rocprof"}
_LAUNCH_COLUMNS = ("kernel", "grid", "workgroup", "vgpr", "agpr", "sgpr", "lds", "scratch", "agent", "architecture")


def assemble(parts: Sequence[tuple[str, Part]], skipped: Sequence[str] = ()) -> Profile:
    """One profile from (source, part) pairs."""
    import pandas as pd

    counted = [(source, part) for source, part in parts if part.rows]
    tools = {_FAMILIES.get(part.tool, part.tool) for _, part in counted}
    evidence = {part.evidence for _, part in counted}
    if len(tools) > 1 or len(evidence) > 1:
        named = ", ".join(f"{source} ({part.tool})" for source, part in counted[:6])
        raise ProfileError(f"the folder holds profiles of several tools, which are not one profile: {named}; give one")
    agents = {label: agent for _, part in parts for label, agent in part.agents.items()}
    table = pd.concat([_frame(source, part, agents) for source, part in counted], ignore_index=True)
    table = _label_passes(table)
    problems = [problem for _, part in parts for problem in part.problems]
    table, unmatched = _number_launches(table)
    problems += unmatched
    if table["counter"].isna().all():
        problems.append("no counters were collected, only launches and their times: no figure of the hardware follows")
    if skipped:
        problems.append(f"passed over, as they hold no profile: {', '.join(skipped)}")
    return Profile(
        table=table.drop(columns="run"),
        dispatches=_dispatches(table),
        sources=tuple(source for source, _ in parts),
        problems=unique(problems),
        agents=agents,
        evidence=evidence.pop(),
        tool=counted[0][1].tool,
    )


def _frame(source: str, part: Part, agents: Mapping[str, Agent]) -> pd.DataFrame:
    import pandas as pd

    # Columns first: `pd.DataFrame(list of tuples)` guesses types cell by cell and is many times slower.
    columns: dict[str, Any] = dict(zip(Row._fields, zip(*part.rows, strict=True), strict=True))
    frame = pd.DataFrame(columns)
    named: dict[str, str] = {}
    for label in frame["agent"].unique():
        facts = agent_for(label, agents)
        named[label] = part.architectures.get(label) or (facts.architecture if facts else "")
    frame["architecture"] = frame["agent"].map(named)
    return frame.assign(source=source)


def _label_passes(table: pd.DataFrame) -> pd.DataFrame:
    """Give every row its pass, and number the processes in each.

    Files in one folder that count the same are processes of one pass; process ids differ from pass to pass.
    """
    labels: dict[tuple[object, ...], str] = {}
    by_source: dict[str, str] = {}
    for source, rows in table.groupby("source", sort=False):
        key = (PurePath(str(source)).parent, frozenset(rows["counter"].unique()))
        by_source[str(source)] = labels.setdefault(key, str(source))
    label = table["source"].map(by_source)
    name = label.where(table["run"] == "", label + " #" + table["run"])
    process = table["source"] + "\0" + table["process"]
    number = process.groupby(label, sort=False).transform(lambda own: own.factorize()[0])
    return table.assign(**{"pass": name, "process": number})


def _number_launches(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """With the column `launch`, equal for one launch in all passes; and what does not match up.

    Dispatches of a kernel are matched by number where one pass has all the numbers that the others have, else by order.
    """
    import pandas as pd

    problems = []
    columns = ["kernel", "agent", "process", "pass", "dispatch"]
    found = []
    counted = table.loc[table["value"].notna() | table["counter"].isna(), columns].drop_duplicates()
    for (kernel, agent, process), rows in counted.groupby(columns[:3], sort=False):
        passes = {name: sorted(own) for name, own in rows.groupby("pass", sort=False)["dispatch"]}
        most = max(passes.values(), key=len)
        by_number = set().union(*passes.values()) <= set(most)
        for name, dispatches in passes.items():
            for i, dispatch in enumerate(dispatches):
                found.append((kernel, agent, process, name, dispatch, dispatch if by_number else most[i]))
        problems += _unequal(str(kernel), {str(name): len(own) for name, own in passes.items()})
    numbered = pd.DataFrame(found, columns=[*columns, "first"])
    numbered["launch"] = numbered.groupby(["process", "first", "agent"]).ngroup()
    launch = numbered.set_index(columns)["launch"].reindex(pd.MultiIndex.from_frame(table[columns])).to_numpy()
    return table.assign(launch=launch).dropna(subset="launch").astype({"launch": int}), problems


def _unequal(kernel: str, counts: Mapping[str, int]) -> list[str]:
    if len(set(counts.values())) <= 1:
        return []
    by_count: dict[int, list[str]] = defaultdict(list)
    for name, count in counts.items():
        by_count[count].append(name)
    said = "; ".join(
        f"{count} in {', '.join(names[:3])}{' and others' if len(names) > 3 else ''}"
        for count, names in sorted(by_count.items(), reverse=True)
    )
    return [f"passes saw different numbers of dispatches of {short_name(kernel)}: {said}"]


def _dispatches(table: pd.DataFrame) -> pd.DataFrame:
    """One row a launch: its shape, its duration in the first pass that timed it, and the number of passes."""
    groups = table.groupby("launch", sort=True)
    frame = groups[["dispatch", *_LAUNCH_COLUMNS, "duration_ns"]].first()
    frame["passes"] = groups["pass"].nunique()
    return frame.reset_index()
