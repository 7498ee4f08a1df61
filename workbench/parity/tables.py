"""The tables of the parity report, from records."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean
from typing import TYPE_CHECKING

from workbench.parity.baselines import BASELINES
from workbench.parity.flops import is_decode
from workbench.parity.html_table import Cell, Table, folded, plain, tag
from workbench.problem import UnifiedAttentionProblem
from workbench.records import Record

if TYPE_CHECKING:
    from workbench.scenarios import Scenario

OWN = "workbench"
_COLOURS = {"ok": "ok", "wrong": "bad", "compile_error": "bad", "runtime_error": "bad", "unsupported": "warn"}
_NONE = plain("–", "num")
_STAND_INS = {"interpreter": "by Triton's interpreter ", "emulator": "by the gfx950 emulator "}


def lane_table(records: Sequence[Record], lane: str) -> Table:
    """One row per scenario that ran in the lane: status, errors, what was chosen and why, and speed where measured."""
    rows = [record for record in records if record.lane == lane and record.candidate == OWN]
    timed = any(record.samples for record in rows)
    compared = rivals(rows) if timed else []
    headings = ["scenario", "status", "max error", "RMS error", "worst element", "of its limit"]
    if timed:
        headings += ["time", "rate", *(f"vs {rival.split('/')[0]}" for rival in compared)]
    headings += ["ran", "geometry and why"]
    cells = [
        _error_cells(record) + (_speed_cells(record, compared) if timed else []) + _choice(record) for record in rows
    ]
    return Table(headings, cells, _caption(rows, timed), f"no scenario of this set runs in lane {lane}")


def baseline_table(records: Sequence[Record]) -> Table:
    """One row per baseline: whether it is here, how it was run, how it fared. A missing one is a row that says so."""
    rows = []
    for name in BASELINES:
        own = [record for record in records if record.candidate == name]
        if own:
            ran = [record for record in own if record.status != "skipped"]
            passed = sum(record.status == "ok" for record in ran)
            if ran:
                status = tag(f"{passed} of {len(ran)} right", "ok" if passed == len(ran) else "bad")
            else:
                status = tag("not run", "warn")
            why = sorted({record.message for record in own if record.message})
            rows.append([plain(name), status, folded(BASELINES[name].note, why), _geomean(records, name)])
    return Table(["baseline", "status", "how, and why not", "geomean: its time / ours"], rows, empty="no baselines")


def scenario_table(scenarios: Sequence[Scenario]) -> Table:
    """What is run: lengths, heads, features, and what the small size was scaled from."""
    rows = []
    for scenario in scenarios:
        before = "" if scenario.scaled_from is None else _shape(scenario.scaled_from)
        problem = scenario.problem
        heads = f"{problem.num_query_heads}/{problem.num_kv_heads}"
        cells = [
            plain(scenario.name),
            plain(_shape(problem), "text"),
            plain(heads, "num"),
            plain(problem.head_size, "num"),
        ]
        rows.append([*cells, plain(_types(problem)), plain(_features(problem), "text"), plain(before, "text")])
    headings = ["scenario", "lengths (query of keys)", "heads", "head size", "dtype", "features", "full size"]
    if all(scenario.scaled_from is None for scenario in scenarios):
        headings, rows = headings[:-1], [row[:-1] for row in rows]
    return Table(headings, rows, empty="the set is empty")


def failure_table(records: Sequence[Record]) -> Table:
    """Every own record that is not ok, with its message."""
    rows = [
        [plain(record.scenario), plain(record.lane), _status(record), plain(record.message, "text")]
        for record in records
        if record.status != "ok" and record.candidate == OWN
    ]
    return Table(["scenario", "lane", "status", "message"], rows, empty="No scenario failed and none was left out.")


def _error_cells(record: Record) -> list[Cell]:
    worst, allowed = record.value("worst_error"), record.value("allowed_error")
    share = _NONE if worst is None or not allowed else plain(f"{100 * worst / allowed:.0f} %", "num")
    index = plain(list(record.worst_index)) if record.worst_index else plain("–")
    figures = [_number(record, "max_abs_error"), _number(record, "rms_error")]
    return [plain(record.scenario), _status(record), *figures, index, share]


def _speed_cells(record: Record, compared: Sequence[str]) -> list[Cell]:
    time = record.value("time")
    if time is None:
        return [_NONE] * (2 + len(compared))
    rate, unit = (record.value("tbps"), "TB/s") if is_decode(record.problem) else (record.value("tflops"), "TFLOP/s")
    figures = [plain(f"{time:.1f} us", "num"), plain(f"{rate:.3g} {unit}", "num")]
    return figures + [_ratio(record, rival) for rival in compared]


def _ratio(record: Record, rival: str) -> Cell:
    name = f"speedup_over_{rival}"
    value, low, high = (record.value(name + end) for end in ("", "_low", "_high"))
    if value is None or low is None or high is None:
        return _NONE
    colour = "wb-good" if low > 1.0 else "wb-poor" if high < 1.0 else ""
    text = f"{value:.2f}x [{low:.2f}, {high:.2f}]"
    return Cell(f'<span class="{colour}">{value:.2f}x</span><br><small>[{low:.2f}, {high:.2f}]</small>', text, "num")


def _choice(record: Record) -> list[Cell]:
    geometry = record.message if record.spec is None else record.spec.describe()
    why = next((reason for reason in record.reasons if reason.startswith(("2D:", "3D:"))), "")
    rest = [reason for reason in record.reasons if reason != why]
    return [plain(record.path or "–"), folded(geometry, rest, why)]


def _status(record: Record) -> Cell:
    return tag(record.status, _COLOURS.get(record.status, ""))


def _number(record: Record, name: str) -> Cell:
    value = record.value(name)
    return _NONE if value is None else plain(f"{value:.2e}", "num")


def rivals(rows: Sequence[Record]) -> list[str]:
    """Baselines that the sessions timed, as `name/lane`; one that knows lanes is compared in the same lane only."""
    found: dict[str, None] = {}
    for record in rows:
        for metric in record.metrics:
            rival = metric.removeprefix("speedup_over_")
            name, _, lane = rival.partition("/")
            ours = name in BASELINES and (lane == record.lane or not BASELINES[name].knows_lanes)
            if ours and not rival.endswith(("_low", "_high")):
                found.setdefault(rival)
    return list(found)


def _caption(rows: Sequence[Record], timed: bool) -> str:
    if not rows:
        return ""
    first = rows[0]
    device = first.environment.get("device", "")
    by = _STAND_INS.get(first.backend, "")
    errors = f"Errors against float64: {first.evidence} {by}on {device}, the worse of two inputs."
    if not timed:
        return f"{errors} Times: not measured."
    return (
        f"{errors} Times: measured on {device}, {first.environment.get('rounds')} interleaved rounds, "
        f"{first.environment.get('cache')} caches. Ratios: its time / ours, median and 95 % interval."
    )


def _geomean(records: Sequence[Record], baseline: str) -> Cell:
    ratios = [
        value
        for record in records
        if record.candidate == OWN and record.lane in ("auto", "dense")
        for value in (record.value(f"speedup_over_{baseline}/{record.lane}"),)
        if value is not None
    ]
    if not ratios:
        return plain("not measured")
    return plain(f"{geometric_mean(ratios):.2f}x over {len(ratios)} (measured)")


def _shape(problem: object) -> str:
    if not isinstance(problem, UnifiedAttentionProblem):
        return f"{problem.batch} x {problem.seqlen_q} of {problem.seqlen_kv}"  # type: ignore[attr-defined]
    counts: dict[tuple[int, int], int] = {}
    for lengths in problem.seq_lens:
        counts[lengths] = counts.get(lengths, 0) + 1
    shown = [f"{f'{count} x ' if count > 1 else ''}{query} of {kv}" for (query, kv), count in list(counts.items())[:6]]
    return ", ".join(shown) + (f", and {len(counts) - 6} more" if len(counts) > 6 else "")


def _types(problem: object) -> str:
    kv = getattr(problem, "kv_dtype", None)
    dtype: str = problem.dtype  # type: ignore[attr-defined]
    return dtype if kv in (None, dtype) else f"{dtype}, KV {kv}"


def _features(problem: object) -> str:
    found = []
    if getattr(problem, "sliding_window", None):
        found.append(f"window {problem.sliding_window}")  # type: ignore[attr-defined]
    if getattr(problem, "softcap", 0.0):
        found.append(f"softcap {problem.softcap:g}")  # type: ignore[attr-defined]
    for flag, name in (("use_alibi", "ALiBi"), ("use_qq_bias", "QQ-bias"), ("use_sinks", "sinks")):
        if getattr(problem, flag, False):
            found.append(name)
    if not getattr(problem, "causal", True):
        found.append("not causal")
    return ", ".join(found)
