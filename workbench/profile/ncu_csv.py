"""Nsight Compute's --csv: the raw page (a row a launch, a second row of units) and the details page (a row a metric).

Program output and `==PROF==` lines may lie before, between and after the rows.
"""

from __future__ import annotations

import math
import re
from collections import Counter

from workbench.errors import ProfileError
from workbench.profile.table import Part, Row
from workbench.profile.text import CsvTable, column_key, integer, number, uses_decimal_comma

# Unit as ncu writes it -> (factor, base unit).
_TIME = {"s": 1e9, "second": 1e9, "ms": 1e6, "msecond": 1e6, "us": 1e3, "usecond": 1e3, "ns": 1.0, "nsecond": 1.0}
_PREFIX = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SCALED = re.compile(r"([KkMGT]?)(byte|B|inst|cycle|sector|hz|Hz)((?:/.*)?)$")
_KEYS = frozenset((
    "id", "process_id", "process_name", "host_name", "kernel_name", "kernel_time", "context", "stream", "block_size",
    "grid_size", "device", "cc", "section_name", "metric_name", "metric_unit", "metric_value", "rule_name",
    "rule_type", "rule_description",
))  # fmt: skip
# Field -> metrics of either page that hold it; several are added.
_REGISTERS = ("launch__registers_per_thread", "Registers Per Thread")
_LDS = (
    "launch__shared_mem_per_block_dynamic", "launch__shared_mem_per_block_static",
    "Dynamic Shared Memory Per Block", "Static Shared Memory Per Block",
)  # fmt: skip
_DURATION = ("gpu__time_duration.sum", "Duration", "gpu__time_duration.avg")

Measured = dict[str, tuple[float, str]]
"""Metric -> (value, unit) of one launch."""


def base_unit(value: float, unit: str) -> tuple[float, str]:
    """A value in the unit without prefix: times in ns, sizes in byte."""
    if unit in _TIME:
        return value * _TIME[unit], "ns"
    scaled = _SCALED.match(unit)
    if scaled is None:
        return value, unit
    prefix, name, rest = scaled.groups()
    return value * _PREFIX[prefix], {"B": "byte", "Hz": "hz"}.get(name, name) + rest


def read_raw(table: CsvTable) -> Part:
    """The raw page. Metrics that are not numbers (names, policies) are left out."""
    part = Part("ncu")
    names = _distinct(table.header, part, table.path.name)
    lines = _launch_lines(table, part)
    units = lines.pop(0) if lines and not lines[0][0].strip() else [""] * len(names)
    comma = uses_decimal_comma(cell for cells in lines for cell in cells[2:])
    for cells in lines:
        measured: Measured = {}
        for name, unit, cell in zip(names, units, cells, strict=True):
            if column_key(name) not in _KEYS:
                _measure(measured, name, unit, cell, comma)
        _add_launch(part, dict(zip((column_key(name) for name in names), cells, strict=True)), measured)
    return part


def read_details(table: CsvTable) -> Part:
    """The details page: lines of one ID are one launch; a metric that a section repeats counts once."""
    part = Part("ncu")
    keys = [column_key(name) for name in table.header]
    launches: dict[str, tuple[dict[str, str], Measured]] = {}
    lines = [dict(zip(keys, cells, strict=True)) for cells in _launch_lines(table, part)]
    comma = uses_decimal_comma(line["metric_value"] for line in lines)
    for line in lines:
        _, measured = launches.setdefault(line["id"], (line, {}))
        name = line["metric_name"]
        if not name:
            continue
        before = measured.get(name)
        _measure(measured, name, line.get("metric_unit", ""), line["metric_value"], comma)
        if before and measured[name] != before:
            # Sections give one label to two metrics, such as a throughput in % and in bytes a second.
            measured[f"{line.get('section_name', '')}: {name}"] = measured[name]
            measured[name] = before
    for line, measured in launches.values():
        _add_launch(part, line, measured)
    return part


def _launch_lines(table: CsvTable, part: Part) -> list[list[str]]:
    """The rows of launches (and of units), without what the program printed between them."""
    rows: list[list[str]] = []
    foreign, torn = 0, None
    for line, cells in table.lines():
        is_row = integer(cells[0]) is not None or (not rows and not cells[0].strip())
        if is_row and len(cells) == len(table.header):
            rows.append(cells)
        elif is_row and len(cells) > 1:
            torn = (line, len(cells))
        else:
            foreign += not cells[0].startswith("==")
    if torn:
        raise ProfileError(
            f"{table.path} is truncated or damaged: line {torn[0]} has {torn[1]} of the {len(table.header)} cells that "
            "the header names; get the whole file again"
        )
    if foreign:
        part.problems.append(f"{table.path.name}: {foreign} lines of other output below the header were passed over")
    return rows


def _distinct(header: list[str], part: Part, source: str) -> list[str]:
    seen: Counter[str] = Counter()
    names = []
    for name in header:
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    repeated = [name for name, count in seen.items() if count > 1]
    if repeated:
        part.problems.append(f"{source}: repeated columns, the first of each counts: {', '.join(repeated)}")
    return names


def _measure(measured: Measured, name: str, unit: str, cell: str, comma: bool) -> None:
    try:
        value = number(cell, decimal_comma=comma)
    except ValueError:
        return
    measured[name] = base_unit(value, unit)


def _add_launch(part: Part, keys: dict[str, str], measured: Measured) -> None:
    agent = keys.get("device", "") or "0"
    architecture = _architecture(keys.get("cc", ""), measured)
    if architecture:
        part.architectures[agent] = architecture
    registers = next((measured[name][0] for name in _REGISTERS if name in measured), math.nan)
    shared = [measured[name][0] for name in _LDS if name in measured]
    common = {
        "dispatch": int(keys["id"]),
        "kernel": keys["kernel_name"],
        "grid": "x".join(re.findall(r"\d+", keys.get("grid_size", ""))),
        "workgroup": "x".join(re.findall(r"\d+", keys.get("block_size", ""))),
        "vgpr": None if math.isnan(registers) else int(registers),
        "agpr": None,
        "sgpr": None,
        "lds": int(sum(shared)) if shared else None,
        "scratch": None,
        "duration_ns": next((measured[name][0] for name in _DURATION if name in measured), math.nan),
        "agent": agent,
        "process": keys.get("process_id", ""),
    }
    for name, (value, unit) in measured.items():
        part.rows.append(Row(counter=name, value=value, unit=unit, **common))  # type: ignore[arg-type]
    if not measured:
        part.rows.append(Row(counter=None, value=math.nan, unit="", **common))  # type: ignore[arg-type]


def _architecture(capability: str, measured: Measured) -> str:
    if re.fullmatch(r"\d+\.\d+", capability):
        return f"sm_{capability.replace('.', '')}"
    parts = [measured.get(f"device__attribute_compute_capability_{part}") for part in ("major", "minor")]
    return f"sm_{parts[0][0]:.0f}{parts[1][0]:.0f}" if parts[0] and parts[1] else ""
