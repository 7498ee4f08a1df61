"""rocprofv3's JSON: counters, kernels and agents are numbered, and joined here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.errors import ProfileError
from workbench.json_text import parse_json
from workbench.profile.agents import agent_of_facts, checked
from workbench.profile.rocm_csv import UNITS
from workbench.profile.table import Part, Row, clean_name
from workbench.profile.text import ACCEPTED

_TOP = "rocprofiler-sdk-tool"


def read_json(path: Path, text: str) -> Part:
    """Counter records, else the kernel trace. ProfileError if the text is cut or is another tool's JSON."""
    try:
        content = parse_json(text)
    except ValueError as error:
        raise ProfileError(f"{path} is truncated or no JSON: {error}; get the whole file again") from None
    if not isinstance(content, dict) or _TOP not in content:
        raise ProfileError(f"{path} is JSON, but not rocprofv3's (no {_TOP!r} at the top); accepted are {ACCEPTED}")
    part = Part("rocprofv3")
    processes = content[_TOP] if isinstance(content[_TOP], list) else [content[_TOP]]
    try:
        for process in processes:
            _add_process(part, process, path.name)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ProfileError(f"{path} misses what rocprofv3's JSON has: {type(error).__name__} {error}") from None
    return part


def _add_process(part: Part, process: Mapping[str, Any], source: str) -> None:
    handles = {}
    for facts in process.get("agents", ()):
        agent = agent_of_facts(facts, source)
        if agent is not None:
            label = str(facts["node_id"])
            handles[facts["id"]["handle"]] = label
            part.agents[label], problems = checked(agent)
            part.problems += problems
    symbols = {symbol["kernel_id"]: symbol for symbol in process.get("kernel_symbols", ()) if symbol}
    counters = {counter["id"]["handle"]: counter["name"] for counter in process.get("counters", ())}
    pid = str(process.get("metadata", {}).get("pid", ""))
    times = {
        record["dispatch_info"]["dispatch_id"]: _duration(record)
        for record in process.get("buffer_records", {}).get("kernel_dispatch", ())
    }
    collected = process.get("callback_records", {}).get("counter_collection", ())
    for collection in collected:
        data = collection["dispatch_data"]
        common = _launch(data, symbols, handles, pid)
        if math.isnan(common["duration_ns"]):
            common["duration_ns"] = times.get(common["dispatch"], math.nan)
        for record in collection["records"]:
            name = counters[record["counter_id"]["handle"]]
            part.rows.append(Row(counter=name, value=float(record["value"]), unit=UNITS.get(name, ""), **common))
    if not collected:
        for record in process.get("buffer_records", {}).get("kernel_dispatch", ()):
            part.rows.append(Row(counter=None, value=math.nan, unit="", **_launch(record, symbols, handles, pid)))


def _launch(
    data: Mapping[str, Any], symbols: Mapping[int, Any], handles: Mapping[int, str], pid: str
) -> dict[str, Any]:
    info = data["dispatch_info"]
    symbol = symbols.get(info["kernel_id"], {})
    handle = info["agent_id"]["handle"]
    name = symbol.get("formatted_kernel_name") or symbol.get("kernel_name") or f"kernel {info['kernel_id']}"
    return {
        "dispatch": int(info["dispatch_id"]),
        "kernel": clean_name(name),
        "grid": _extents(info["grid_size"]),
        "workgroup": _extents(info["workgroup_size"]),
        "vgpr": symbol.get("arch_vgpr_count"),
        "agpr": symbol.get("accum_vgpr_count"),
        "sgpr": symbol.get("sgpr_count"),
        "lds": info.get("group_segment_size"),
        "scratch": info.get("private_segment_size"),
        "duration_ns": _duration(data),
        "agent": handles.get(handle, str(handle)),
        "process": pid,
    }


def _extents(size: Mapping[str, int]) -> str:
    return "x".join(str(size[axis]) for axis in "xyz")


def _duration(record: Mapping[str, Any]) -> float:
    start, end = record.get("start_timestamp", 0), record.get("end_timestamp", 0)
    return float(end - start) if end > start else math.nan
