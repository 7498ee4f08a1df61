"""Tuned choices: which spec, and which lane, a sweep on a device found faster than the heuristics.

A table holds for one device and one Triton version. `data/tuned/<device>.json` carries one table per Triton version:

    {"device": "h200",
     "tables": {"3.6.0": {"<key>": {"lane": "3d", "specs": {"3d": {"type": "Unified3DSpec", ...}}, "why": "...", ...}}}}

An entry's key says for which problems it holds: kernel path, heads, head size, dtypes, block size and features as they
are; query length, query tokens, key length and number of sequences by the power of two that holds them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from workbench.device import Device
from workbench.environment import triton_version
from workbench.errors import DeviceError, SpecError, TuneError, WorkbenchError
from workbench.json_text import parse_json
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.resources import data_path
from workbench.spec import DenseGeometry, KernelSpec, ceil_power_of_two

Problem = UnifiedAttentionProblem | DenseAttentionProblem
LANES = ("2d", "3d", "dense")


@dataclass(frozen=True)
class TunedEntry:
    """What won for the problems of one key."""

    key: str
    lane: str | None
    """The lane that `auto` takes; None leaves it to the heuristics."""
    specs: tuple[tuple[str, KernelSpec], ...]
    """(lane, spec) for each lane in which a spec beat the heuristics."""
    why: str
    """The measurement behind it, as a sentence."""

    def spec(self, lane: str) -> KernelSpec | None:
        """The winner in a lane."""
        return dict(self.specs).get(lane)


@dataclass(frozen=True, eq=False)
class TunedTable:
    """The entries for one device and one Triton version. Two tables are equal only if they are the same object."""

    device: str
    triton: str
    entries: Mapping[str, TunedEntry]

    def find(self, problem: Problem, device: Device | None) -> TunedEntry | None:
        """The entry for a problem on a device; None where there is none, or the table is for another device."""
        if device is None or device.name != self.device:
            return None
        return self.entries.get(problem_key(problem))


Tuned = bool | TunedTable
"""True: the table in data/tuned for the device and the Triton that is installed. False: the heuristics alone."""


def find_entry(problem: Problem, device: Device | None, tuned: Tuned) -> TunedEntry | None:
    """The entry that applies, if any. DeviceError for what is no description of a device, such as its name."""
    if device is not None and not isinstance(device, Device):
        raise DeviceError(f"device must be a workbench.device.Device, got {device!r}; write load_device('mi355x')")
    if device is None or tuned is False:
        return None
    table = installed_table(device.name) if tuned is True else tuned
    return None if table is None else table.find(problem, device)


def tuned_spec(
    problem: Problem, device: Device | None, lane: str, tuned: Tuned, *, portable: bool = False
) -> tuple[KernelSpec | None, tuple[str, ...]]:
    """The tuned spec for a lane and why; (None, reasons) where the heuristics decide.

    There are reasons without a spec where an entry exists but its spec does not serve this very problem. `portable`
    takes only specs in plain Triton.
    """
    from workbench.spec import TritonSpec

    entry = find_entry(problem, device, tuned)
    spec = None if entry is None else entry.spec(lane)
    if entry is None or spec is None or (portable and not isinstance(spec, TritonSpec)):
        return None, ()
    try:
        check: Any = getattr(spec, "check", None)
        if check is not None:
            check(problem)
        if isinstance(spec, DenseGeometry):
            _check_order(problem, spec, device)
    except SpecError as error:
        return None, (f"Not the tuned spec of this key, which does not serve this problem: {error}.",)
    return spec, (entry.why,)


def _check_order(problem: Any, spec: DenseGeometry, device: Device | None) -> None:
    """SpecError where the spec's order of work items asks for what this problem does not have."""
    from workbench.dispatch.work_order import select_work_order

    if spec.grid == "persistent":
        select_work_order(problem, spec, device)


def problem_key(problem: Problem) -> str:
    """For which problems an entry holds."""
    common = f"d{problem.head_size} g{problem.group_size} kv{problem.num_kv_heads}"
    if isinstance(problem, DenseAttentionProblem):
        lengths = f"B{_up(problem.batch)} Sq{_up(problem.seqlen_q)} Skv{_up(problem.seqlen_kv)}"
        mask = f"causal-{problem.alignment}" if problem.causal else "full"
        return " ".join(("dense", common, problem.dtype, mask, lengths, *_features(problem)))
    dtypes = f"{problem.dtype}/{problem.q_dtype}/{problem.kv_dtype}"
    lengths = (
        f"q{_up(problem.max_query_len)} tokens{_up(problem.total_query_tokens)} "
        f"k{_up(problem.max_kv_len)} seqs{_up(problem.num_seqs)}"
    )
    return " ".join(("unified", common, f"b{problem.block_size}", dtypes, lengths, *_features(problem)))


def _features(problem: Problem) -> list[str]:
    flags = {
        "softcap": getattr(problem, "softcap", 0.0) > 0.0,
        "alibi": getattr(problem, "use_alibi", False),
        "qq_bias": getattr(problem, "use_qq_bias", False),
        "sinks": problem.use_sinks,
        "i64": getattr(problem, "needs_i64_addressing", False),
    }
    window = problem.sliding_window
    return ([] if window is None else [f"window{_up(window)}"]) + [name for name, on in flags.items() if on]


def _up(length: int) -> int:
    """The power of two that holds a length; 0 for 0."""
    return ceil_power_of_two(length) if length > 0 else 0


def table_path(device: str) -> Path:
    """Where the dispatcher looks for a device's table."""
    return data_path("tuned", f"{device.lower().replace(' ', '-').replace('/', '-')}.json")


@lru_cache
def installed_table(device: str) -> TunedTable | None:
    """The table in data/tuned for a device and the installed Triton. Read once per process."""
    path = table_path(device)
    return read_table(path, triton_version()) if path.is_file() else None


def read_table(path: Path, triton: str) -> TunedTable | None:
    """The table of a file for a Triton version, None if it has none. TuneError names what is malformed."""
    content = read_tables(path)
    entries = content["tables"].get(triton)
    if entries is None:
        return None
    try:
        found = {key: _entry(key, value) for key, value in entries.items()}
    except (KeyError, TypeError, AttributeError, ValueError, WorkbenchError) as error:
        raise TuneError(
            f"{path}: an entry for Triton {triton} is malformed ({error}); tune again with --update, or remove the file"
        ) from None
    return TunedTable(content["device"], triton, found)


def read_tables(path: Path) -> dict[str, Any]:
    """The content of a file of tables, as it is written. TuneError where it is none."""
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TuneError(f"{path} is no table of tuned specs: {error}") from None
    if not isinstance(content, dict) or set(content) != {"device", "tables"}:
        raise TuneError(f"{path} is no table of tuned specs: the top must be an object with device and tables")
    if not isinstance(content["device"], str) or not isinstance(content["tables"], dict):
        raise TuneError(f"{path} is no table of tuned specs: device must be a name, tables an object by Triton version")
    return content


def _entry(key: str, value: Mapping[str, Any]) -> TunedEntry:
    from workbench.records.parquet import from_json

    specs = tuple((lane, from_json(json.dumps(spec))) for lane, spec in value["specs"].items())
    lane = value["lane"]
    if any(name not in LANES for name, _ in specs) or lane not in (None, *LANES):
        raise TuneError(f"{key}: lanes are {', '.join(LANES)}")
    return TunedEntry(key, lane, specs, value["why"])
