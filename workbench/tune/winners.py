"""From the records of a sweep to entries of the dispatcher's table, and the file that holds them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any

from workbench.bench.verdict import judge
from workbench.dispatch.tuned import installed_table, read_tables
from workbench.errors import TuneError
from workbench.parity.recording import noise_of
from workbench.parity.stats import Ratio, paired_ratio
from workbench.records import Record
from workbench.records.parquet import to_json
from workbench.resources import checkout_root
from workbench.tune.jobs import OWN


@dataclass(frozen=True)
class Winner:
    """What the final sessions of one key say: the lane that `auto` should take, and the specs that won their lanes."""

    key: str
    lane: str | None
    """None: the heuristics' lane is not beaten."""
    specs: Mapping[str, Record]
    """Lane -> a record of the spec that beat the heuristics there."""
    ratios: Mapping[str, Ratio]
    """Lane -> time of the heuristics' spec in that lane over the winner's; `auto` -> that of their own choice."""
    scenarios: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing beat the heuristics."""
        return self.lane is None and not self.specs


def find_winner(key: str, sessions: Sequence[Sequence[Record]]) -> Winner:
    """The winner over the final sessions of a key, one session for each scenario of it.

    A spec wins a lane if it is the fastest there in the geometric mean over the sessions, faster than the heuristics'
    spec in at least one, slower in none, all outside the noise. The lane is set likewise: of what dispatch would run in
    each lane, its winner or else the heuristics' spec, the fastest against what the heuristics take for `auto`.
    """
    scenarios = tuple(session[0].scenario for session in sessions)
    specs: dict[str, Record] = {}
    ratios: dict[str, Ratio] = {}
    dispatched: list[_Name] = []
    for lane in dict.fromkeys(record.lane for session in sessions for record in session if record.lane != "auto"):
        names = dict.fromkeys((record.candidate, lane) for record in sessions[0] if record.lane == lane)
        best = _fastest(sessions, names, (OWN, lane))
        verdict = _beats(sessions, best, (OWN, lane)) if best else None
        if best is not None and best[0] != OWN and verdict is not None:
            specs[lane], ratios[lane] = _record(sessions[0], best), verdict
        dispatched.append(best if best is not None and lane in specs else (OWN, lane))
    taken: str | None = None
    best = _fastest(sessions, dispatched, (OWN, "auto"))
    verdict = _beats(sessions, best, (OWN, "auto")) if best else None
    if best is not None and verdict is not None and not _is_own_choice(sessions[0], best):
        taken, ratios["auto"] = best[1], verdict
    return Winner(key, taken, specs, ratios, scenarios)


_Name = tuple[str, str]


def _is_own_choice(session: Sequence[Record], name: _Name) -> bool:
    """Whether a candidate runs what the heuristics take for `auto`: a ratio between the two is noise."""
    return bool(_record(session, name).spec == _record(session, (OWN, "auto")).spec)


def _fastest(sessions: Sequence[Sequence[Record]], names: Iterable[_Name], reference: _Name) -> _Name | None:
    """Of these, the one with the highest geometric mean of its ratios to the reference; timed in every session."""
    means: dict[_Name, float] = {}
    for name in sorted(names):
        ratios = [_ratio(session, reference, name) for session in sessions]
        if all(ratio is not None for ratio in ratios):
            means[name] = fmean(log(ratio.value) for ratio in ratios if ratio is not None)
    return max(means, key=lambda name: means[name]) if means else None


def _beats(sessions: Sequence[Sequence[Record]], name: _Name, reference: _Name) -> Ratio | None:
    """The mean ratio where the verdict of every session allows it, else None."""
    ratios: list[Ratio] = []
    words = []
    for session in sessions:
        ratio = _ratio(session, reference, name)
        if ratio is None:
            return None
        ratios.append(ratio)
        words.append(judge(ratio, noise_of(session) or 0.0))
    if "slower" in words or "faster" not in words:
        return None
    return Ratio(*(exp(fmean(log(getattr(ratio, end)) for ratio in ratios)) for end in ("value", "low", "high")))


def _ratio(session: Sequence[Record], reference: _Name, name: _Name) -> Ratio | None:
    found = [_record(session, each) for each in (reference, name)]
    if any(record is None or not record.samples for record in found):
        return None
    return paired_ratio(found[0].samples, found[1].samples)


def _record(session: Sequence[Record], name: _Name) -> Any:
    return next((record for record in session if (record.candidate, record.lane) == name), None)


def entry_of(winner: Winner, facts: Mapping[str, str]) -> dict[str, Any]:
    """The winner as an entry of the file."""
    return {
        "lane": winner.lane,
        "specs": {lane: json.loads(to_json(record.spec)) for lane, record in winner.specs.items()},
        "why": _sentence(winner, facts),
        "ratios": {name: [ratio.value, ratio.low, ratio.high] for name, ratio in winner.ratios.items()},
        "scenarios": list(winner.scenarios),
        "evidence": "measured",
        "environment": {
            name: facts.get(name, "") for name in ("device", "driver", "torch", "triton", "commit", "dirty")
        },
    }


def _sentence(winner: Winner, facts: Mapping[str, str]) -> str:
    measured = ", ".join(
        f"{ratio.value:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}] {'the choice' if name == 'auto' else name}"
        for name, ratio in winner.ratios.items()
    )
    return (
        f"Tuned for {winner.key} (measured on {facts.get('device')}, Triton {facts.get('triton')}): {measured} of the "
        "heuristics."
    )


def default_path(device: str) -> Path:
    """data/tuned/<device>.json of the checkout. TuneError outside of one: nothing is written into an installation."""
    from workbench.dispatch.tuned import table_path

    if checkout_root() is None:
        raise TuneError("this workbench is installed, not a checkout: say where the winners go with --out FILE.json")
    return table_path(device)


def check_free(path: Path, device: str, triton: str, keys: Sequence[str], *, update: bool) -> None:
    """TuneError where the file is another device's, or holds one of the keys and `update` is off."""
    if not path.exists():
        return
    content = read_tables(path)
    if content["device"] != device:
        raise TuneError(
            f"{path} holds the winners of {content['device']}, not of {device}; name another file with --out"
        )
    held = [key for key in dict.fromkeys(keys) if key in content["tables"].get(triton, {})]
    if held and not update:
        raise TuneError(
            f"{path} already holds winners for {len(held)} of the keys with Triton {triton}, such as {held[0]!r}; pass "
            "--update to replace them, or name another file with --out"
        )


def write_winners(
    path: Path,
    device: str,
    triton: str,
    winners: Sequence[Winner],
    facts: Mapping[str, str],
    *,
    update: bool = False,
) -> Path:
    """Put the winners into the file beside what it holds. A key that nothing won loses its entry, with `update`.

    TuneError as `check_free`.
    """
    check_free(path, device, triton, [winner.key for winner in winners], update=update)
    content: dict[str, Any] = read_tables(path) if path.exists() else {"device": device, "tables": {}}
    table = content["tables"].setdefault(triton, {})
    for winner in winners:
        table.pop(winner.key, None)
        if not winner.is_empty:
            table[winner.key] = entry_of(winner, facts)
    content["tables"] = {
        version: dict(sorted(content["tables"][version].items())) for version in sorted(content["tables"])
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(path)
    forget_tables()
    return path


def forget_tables() -> None:
    """Let the dispatcher of this process read its tables anew."""
    from workbench.dispatch import select_path, select_spec

    installed_table.cache_clear()
    select_path.cache_clear()
    select_spec.cache_clear()
