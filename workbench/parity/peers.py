"""Where the workbench stands beside its peers in records of one device: each scenario's `auto` against the fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import TYPE_CHECKING

from workbench.parity.html_table import Cell, Table, plain
from workbench.parity.recording import noise_of
from workbench.parity.stats import Ratio, paired_ratio
from workbench.parity.tables import OWN
from workbench.problem import DenseAttentionProblem

if TYPE_CHECKING:
    from workbench.parity.plots import Picture
    from workbench.records import Record
    from workbench.scenarios import Scenario

UNIFIED_PEERS = ("aiter", "vllm")
"""Kernels that read the same paged cache. SDPA gets it gathered beforehand and solves another problem."""
DENSE_PEERS = ("sdpa_flash", "sdpa_cudnn")
_PEERS = (*UNIFIED_PEERS, *DENSE_PEERS)


@dataclass(frozen=True)
class Standing:
    """One scenario: our `auto`, the fastest right record of each peer, and time ratios of one session."""

    own: Record
    peers: dict[str, Record]
    ratios: dict[str, Ratio]
    """By peer: its time over ours, paired by round."""
    noise: float | None
    """How far from 1 the ratio of the first kernel timed to itself reaches; None where it was not taken."""

    @property
    def best(self) -> str | None:
        """The fastest peer; None where none was right."""
        return min(self.ratios, key=lambda name: self.ratios[name].value, default=None)


def peer_records(device: str, scenarios: Sequence[Scenario]) -> list[Record]:
    """Stored records of a device (workbench.records.stored_records) of scenarios with those names; none for "".

    ParameterError for a device that has none at all.
    """
    from workbench.errors import ParameterError
    from workbench.records import stored_devices, stored_records, stored_sets

    if not device:
        return []
    known = stored_sets(device)
    if not known:
        devices = ", ".join(stored_devices())
        raise ParameterError(
            f"there are no stored records of {device!r}; there are some of {devices}, and '' shows none"
        )
    names = {scenario.name for scenario in scenarios}
    sets = [name for name in dict.fromkeys(scenario.set for scenario in scenarios) if name in known]
    found = stored_records(device, sets) if sets else []
    return [record for record in found if record.scenario in names]


def standings(records: Sequence[Record]) -> list[Standing]:
    """The scenarios that were timed, in the records' order."""
    by_session: dict[str, list[Record]] = {}
    for record in records:
        if record.samples and record.status == "ok":
            by_session.setdefault(record.session, []).append(record)
    found = []
    for session in by_session.values():
        own = next((each for each in session if each.candidate == OWN and each.lane in ("auto", "dense")), None)
        if own is not None:
            found.append(_standing(own, session))
    return found


def _standing(own: Record, session: Sequence[Record]) -> Standing:
    peers: dict[str, Record] = {}
    for name in DENSE_PEERS if isinstance(own.problem, DenseAttentionProblem) else UNIFIED_PEERS:
        timed = [record for record in session if record.candidate == name]
        if timed:
            peers[name] = min(timed, key=lambda record: record.value("time") or 0.0)
    ratios = {name: paired_ratio(record.samples, own.samples) for name, record in peers.items()}
    return Standing(own, peers, ratios, noise_of(session))


def peer_table(records: Sequence[Record]) -> Table:
    """One row per scenario: our time and rate, each peer's fastest right lane over it, and both errors."""
    rows = standings(records)
    names = list(dict.fromkeys(name for row in rows for name in row.peers))
    headings = ["scenario", "time", "rate", *names, "A/A noise", "RMS error", "fastest peer's"]
    cells = [
        [
            plain(row.own.scenario),
            plain(f"{row.own.value('time'):.1f} us", "num"),
            _rate(row.own),
            *(_ratio(row.ratios.get(name)) for name in names),
            plain("–" if row.noise is None else f"{100 * row.noise:.1f} %", "num"),
            *(_error(each) for each in (row.own, row.peers[row.best] if row.best else None)),
        ]
        for row in rows
    ]
    caption = (
        f"{_conditions(rows)} Ratios: its fastest right lane's time / ours, median and 95 % interval." if rows else ""
    )
    return Table(headings, cells, caption, "no timed records of these scenarios are stored")


def peer_sentence(records: Sequence[Record]) -> str:
    """The geometric mean over the scenarios, the least of them, and where no peer was timed and why, as Markdown."""
    rows = standings(records)
    ratios = {row.own.scenario: row.ratios[row.best] for row in rows if row.best}
    if not ratios:
        return "No stored record of these scenarios was timed beside a peer."
    least = min(ratios, key=lambda name: ratios[name].value)
    mean = geometric_mean(ratio.value for ratio in ratios.values())
    text = (
        f"**The fastest peer takes {mean:.2f} times our time** in the geometric mean of {len(ratios)} scenarios; "
        f"{ratios[least].value:.2f} times in the least, {least} (measured)."
    )
    missed = {record.session for record in records if record.status == "wrong" and record.candidate in _PEERS}
    alone = [row.own for row in rows if not row.best]
    for reason, own in (
        ("no peer kept to the tolerance, so none was timed", [each for each in alone if each.session in missed]),
        ("no peer took part", [each for each in alone if each.session not in missed]),
    ):
        if own:
            text += f" On {', '.join(each.scenario for each in own)} {reason}."
    return f"{text} {_conditions(rows)}"


def peer_plot(records: Sequence[Record]) -> Picture:
    """Each peer's time over ours, with its interval, on a band of the noise."""
    from matplotlib.figure import Figure

    from workbench.parity.plots import Picture

    rows = standings(records)
    figure = Figure(figsize=(9, 1.2 + 0.3 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(rows):
        noise = row.noise or 0.0
        axes.fill_betweenx((place - 0.4, place + 0.4), 1 - noise, 1 + noise, color="#dde2ea", linewidth=0)
    for rank, name in enumerate(dict.fromkeys(name for row in rows for name in row.peers)):
        points = [(place, row.ratios[name]) for place, row in enumerate(rows) if name in row.ratios]
        values = [ratio.value for _, ratio in points]
        spread = [[r.value - r.low for _, r in points], [r.high - r.value for _, r in points]]
        places = [place + 0.18 * (rank - 0.5) for place, _ in points]
        axes.errorbar(values, places, xerr=spread, fmt="os"[rank % 2], markersize=5, label=name, linestyle="none")
    axes.axvline(1.0, color="#5b6676", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}x")
    axes.set_yticks(range(len(rows)), [row.own.scenario for row in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="x", color="#e6eaf0")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("its time / ours, measured, one session a scenario; right of 1x ours is faster; grey: noise")
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return Picture(figure, "Time of the peers over the workbench's, by scenario, from stored records")


def _conditions(rows: Sequence[Standing]) -> str:
    facts = rows[0].own.environment
    software = f"torch {facts.get('torch')}, Triton {facts.get('triton')}"
    commits = ", ".join(sorted({row.own.environment.get("commit", "")[:7] for row in rows}))
    versions = sorted({peer.environment.get("baseline", "") for row in rows for peer in row.peers.values()} - {""})
    return (
        f"Measured on {facts.get('device')}, {facts.get('rounds')} interleaved rounds, {facts.get('cache')} caches, "
        f"{', '.join((software, f'commit {commits}', *versions))}."
    )


def _rate(record: Record) -> Cell:
    from workbench.parity.flops import is_decode

    decode = is_decode(record.problem)
    rate = record.value("tbps" if decode else "tflops")
    return plain(f"{rate:.3g} {'TB/s' if decode else 'TFLOP/s'}", "num")


def _ratio(ratio: Ratio | None) -> Cell:
    if ratio is None:
        return plain("–", "num")
    colour = "wb-good" if ratio.low > 1.0 else "wb-poor" if ratio.high < 1.0 else ""
    ends = f"[{ratio.low:.2f}, {ratio.high:.2f}]"
    html = f'<span class="{colour}">{ratio.value:.2f}x</span><br><small>{ends}</small>'
    return Cell(html, f"{ratio.value:.2f}x {ends}", "num")


def _error(record: Record | None) -> Cell:
    return plain("–" if record is None else f"{record.value('rms_error'):.2e}", "num")
