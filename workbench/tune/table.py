"""What a sweep found, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf

from rich.table import Table
from rich.text import Text

from workbench.bench.table import candidate, ratio_text
from workbench.records import Record
from workbench.tune.winners import Winner


def winner_table(winners: Sequence[Winner]) -> Table:
    """One row per key and lane that something won."""
    table = Table(title="Winners (measured)", caption="Ratio: the heuristics' time over the winner's.")
    table.add_column("problems", overflow="fold")
    table.add_column("lane")
    table.add_column("ratio [95 %]", justify="right", no_wrap=True)
    table.add_column("spec", overflow="fold")
    for winner in winners:
        if winner.is_empty:
            table.add_row(winner.key, "–", "–", Text("the heuristics' choice stands", "dim"))
        for name, ratio in winner.ratios.items():
            record = winner.specs.get(name if name != "auto" else winner.lane or "")
            lane = f"auto -> {winner.lane}" if name == "auto" else name
            spec = record.spec.describe() if record is not None and record.spec is not None else "the heuristics' spec"
            table.add_row(winner.key, lane, ratio_text(ratio), Text(spec))
    return table


def static_table(records: Sequence[Record], best: int = 10) -> Table:
    """The candidates that pruning leaves, by scenario and lane, those with the most resident waves first (static)."""
    table = Table(title="Candidates by static facts alone", caption=_STATIC_CAPTION, caption_justify="left")
    for heading in ("scenario", "lane", "candidate"):
        table.add_column(heading, overflow="fold")
    for heading in ("VGPRs", "spills", "LDS", "waves/CU"):
        table.add_column(heading, justify="right")
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.message.startswith("not timed"):
            groups.setdefault((record.scenario, record.lane), []).append(record)
    for (scenario, lane), group in groups.items():
        for record in sorted(group, key=static_rank)[:best]:
            cells = [record.value(name) for name in ("vgprs", "spill_bytes", "lds_bytes", "resident_waves")]
            shown = ["–" if value is None else f"{value:.0f}" for value in cells]
            table.add_row(scenario, lane, candidate(record.candidate), *shown)
        table.add_section()
    return table


_STATIC_CAPTION = (
    "Order: fewer spilled bytes, then more resident waves per compute unit, then fewer registers. None of this is a "
    "time: which of them is fastest takes the hardware, so nothing is written to the winners."
)


def static_rank(record: Record) -> tuple[float, float, float]:
    """Sort key: what is likely better by static facts comes first, what is unknown last."""
    spills, vgprs = (inf if (value := record.value(name)) is None else value for name in ("spill_bytes", "vgprs"))
    return spills, -(record.value("resident_waves") or 0.0), vgprs


def tally(records: Sequence[Record]) -> str:
    """How many were tried, and what became of them."""
    tried = [record for record in records if record.candidate != "workbench"]
    fates = Counter(_fate(record) for record in tried)
    return f"{len(tried)} records: " + ", ".join(f"{count} {fate}" for fate, count in fates.most_common())


def _fate(record: Record) -> str:
    if record.status == "skipped":
        return "pruned" if record.message.startswith("pruned") else "left after pruning"
    words = {"ok": "timed", "unsupported": "refused by their spec", "compile_error": "do not compile"}
    return words.get(record.status, record.status.replace("_", " "))
