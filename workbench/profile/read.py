"""Read a profiler's file, or a folder of passes. What a file is, its content says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from workbench.errors import ProfileError
from workbench.profile.agents import EVERY_AGENT, agent_key, agent_of_facts, agent_of_system, checked
from workbench.profile.assemble import assemble
from workbench.profile.ncu_csv import read_details, read_raw
from workbench.profile.rocm_csv import read_long, read_trace, read_wide
from workbench.profile.rocm_json import read_json
from workbench.profile.rocpd import MAGIC, read_rocpd
from workbench.profile.table import Part, Profile
from workbench.profile.text import ACCEPTED, CsvTable, column_key, decode, find_table, load

_PROFILES = frozenset((".csv", ".json", ".db"))
_MAYBE_PROFILES = frozenset((".txt", ".log"))
"""Endings of files that are read where they hold a profile, and passed over in silence where not."""
_FACTS_ONLY = "facts"


def read(path: str | Path) -> Profile:
    """The profile in a file or below a folder.

    Beside a single file its agent_info (rocprofv3) or sysinfo (rocprof-compute) is read too. In a folder, files that
    hold no profile are named among the problems. ProfileError if there is no such file, if nothing in it is a profile,
    if a file is damaged, empty or without a dispatch, and if files of several tools lie in one folder.
    """
    where = Path(path)
    if not where.exists():
        raise ProfileError(f"{where} does not exist; give {ACCEPTED}, or a folder of passes")
    parts, skipped = _folder_parts(where) if where.is_dir() else (_file_parts(where), [])
    if not any(part.rows for _, part in parts):
        held = ", ".join(label for label, _ in parts) or ", ".join(skipped) or "nothing"
        raise ProfileError(f"{where} holds no dispatch of a kernel (it holds {held}); give {ACCEPTED}")
    return assemble(parts, skipped)


def _file_parts(path: Path) -> list[tuple[str, Part]]:
    parts = [(path.name, _read_file(path))]
    names = {path.name.replace(kind, "agent_info") for kind in ("counter_collection", "kernel_trace")}
    companions = (path.with_name(name) for name in sorted(names - {path.name}))
    parts += [(each.name, _read_file(each)) for each in companions if each.is_file()]
    system = path.with_name("sysinfo.csv")
    if parts[0][1].tool in ("rocprof", "rocprof-compute") and system.is_file():
        parts.append((system.name, _read_file(system)))
    return parts


def _folder_parts(folder: Path) -> tuple[list[tuple[str, Part]], list[str]]:
    parts, skipped = [], []
    for path in sorted(
        path for path in folder.rglob("*") if path.is_file() and path.suffix in _PROFILES | _MAYBE_PROFILES
    ):
        label = str(path.relative_to(folder))
        try:
            part = _read_file(path)
        except ProfileError:
            if path.suffix in _MAYBE_PROFILES:
                continue
            if not _is_foreign(path):
                raise
            skipped.append(label)
            continue
        if part.tool == "other":
            skipped.append(label)
        else:
            parts.append((label, part))
    # The merged file of a workload comes first: its columns are the ones that rocprof-compute itself uses.
    parts.sort(key=lambda item: Path(item[0]).name != "pmc_perf.csv")
    return parts, skipped


def _is_foreign(path: Path) -> bool:
    """Whether a file that could not be read is another kind of file, rather than a damaged profile."""
    try:
        find_table(path, decode(path, load(path)))
    except ProfileError as error:
        return path.suffix == ".csv" and "no known kind" in str(error)
    return False


def _read_file(path: Path) -> Part:
    raw = load(path)
    if raw.startswith(MAGIC):
        return read_rocpd(path)
    text = decode(path, raw)
    if text.lstrip()[:1] in ("{", "["):
        return read_json(path, text)
    table = find_table(path, text)
    part = _READERS[table.kind](table)
    if not part.rows and part.tool not in (_FACTS_ONLY, "other"):
        raise ProfileError(f"{path} has a header but no dispatch: nothing was profiled, or the file is truncated")
    return part


def _read_agents(table: CsvTable) -> Part:
    part = Part(_FACTS_ONLY)
    keys = [column_key(name) for name in table.header]
    for cells in table.rows():
        facts = dict(zip(keys, cells, strict=True))
        agent = agent_of_facts(facts, table.path.name)
        if agent is not None:
            part.agents[agent_key(facts["node_id"])], problems = checked(agent)
            part.problems += problems
    return part


def _read_system(table: CsvTable) -> Part:
    part = Part(_FACTS_ONLY)
    keys = [column_key(name) for name in table.header]
    for cells in table.rows():
        part.agents[EVERY_AGENT], problems = agent_of_system(dict(zip(keys, cells, strict=True)), table.path.name)
        part.problems += problems
    return part


_READERS: dict[str, Callable[[CsvTable], Part]] = {
    "long": read_long,
    "trace": read_trace,
    "wide": read_wide,
    "agents": _read_agents,
    "system": _read_system,
    "ncu raw": read_raw,
    "ncu details": read_details,
    "other": lambda _: Part("other"),
}
