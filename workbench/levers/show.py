"""The registry and the table of levers in a terminal and as CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import ROUNDED
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from workbench.errors import ReportError
from workbench.inspection.text import format_value
from workbench.levers.facts import FACTS
from workbench.levers.registry import INSTRUMENTS
from workbench.levers.table import spell
from workbench.published import load_published

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from workbench.levers.facts import Fact, Value
    from workbench.levers.registry import KernelLevers, Lever
    from workbench.levers.table import Row

WORDS_WIDTH = 70
FACT_WIDTH = 10
LISTED = (("seen by", "instruments"), ("published", "published"), ("unavailable", "unavailable"))
TEXT_WIDTH = 14
VOTED = "voted: blocks that a wave branches around when none of its lanes needs them are skipped"


def registry_list(kernel: KernelLevers) -> Group:
    """A kernel's levers, each under its field: prose reads better in full lines than in a table's columns."""
    heading = Text(f"{kernel.kernel}: {kernel.title} ({kernel.spec.rpartition('.')[2]})", style="bold underline")
    limits = [Text(f"{limit.where}: {limit.why}") for limit in kernel.unavailable]
    return Group(heading, *limits, *(_block(registry_row(lever, kernel)) for lever in kernel.levers), "")


def _block(row: dict[str, str]) -> Group:
    title = Text.assemble((row["field"], "bold"), f" = {row['values']}", (f"   {row['lever']}", "italic"))
    lines = [("", row["changes"])]
    lines += [(f"{name}: ", row[key]) for name, key in LISTED if row[key]]
    return Group("", title, *(Padding(Text(label + text), (0, 0, 0, 4)) for label, text in lines))


def registry_row(lever: Lever, kernel: KernelLevers) -> dict[str, str]:
    """The cells of one lever."""
    return {
        "kernel": kernel.kernel,
        "spec": kernel.spec,
        "lever": lever.name,
        "field": lever.field,
        "values": ", ".join(map(spell, lever.values)),
        "changes": lever.changes,
        "instruments": ", ".join(INSTRUMENTS[key] for key in lever.instruments),
        "published": "; ".join(_published(lever)),
        "unavailable": "; ".join(f"{limit.where}: {limit.why}" for limit in lever.unavailable),
    }


def _published(lever: Lever) -> list[str]:
    return [
        f"{row.config}: {row.metric} {row.value} {row.unit if row.unit != '1' else ''}".rstrip() + f" ({row.hardware})"
        for topic in lever.published
        for row in load_published(topic)
    ]


def fact_table(rows: Sequence[Row], title: str) -> Table:
    """A row per setting, a column per fact, and in words what the lever did. Columns without any value are left out."""
    columns = [fact for fact in FACTS if any(row.facts.get(fact.key) is not None for row in rows)]
    table = Table(
        title=title, title_justify="left", caption=f"{legend(columns)}\n{VOTED}", caption_justify="left", box=ROUNDED,
        padding=0, show_lines=True,
    )  # fmt: skip
    table.add_column("Triton", no_wrap=True)
    table.add_column("setting", no_wrap=True)
    for fact in columns:
        is_text = fact.kind == "text"
        table.add_column(
            fact.title, justify="left" if is_text else "right", max_width=TEXT_WIDTH if is_text else FACT_WIDTH
        )
    table.add_column("what the lever does", width=WORDS_WIDTH)
    for row in rows:
        cells = [Text(_cell(fact, row.facts.get(fact.key))) for fact in columns]
        words = row.words if row.status == "ok" else f"{row.status}: {row.words}"
        style = None if row.lever else "bold"
        table.add_row(row.triton_version, Text(row.label), *cells, Text(words), style=style)
    return table


def legend(facts: Sequence[Fact]) -> str:
    """Which columns are of which evidence."""
    kinds = dict.fromkeys(fact.evidence for fact in facts)
    return "\n".join(f"{kind}: {', '.join(fact.title for fact in facts if fact.evidence == kind)}" for kind in kinds)


def _cell(fact: Fact, value: Value) -> str:
    if fact.kind == "ratio" and isinstance(value, float):
        return f"{value:.2f}"
    return format_value(value)


def write_csv(lines: Sequence[dict[str, str]], path: Path) -> None:
    """Write rows of one form to a new file; ReportError if it exists or cannot be written."""
    import csv

    try:
        with path.open("x", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(lines[0]))
            writer.writeheader()
            writer.writerows(lines)
    except FileExistsError:
        raise ReportError(f"{path} exists; name a file that does not, or remove it first") from None
    except OSError as error:
        raise ReportError(f"cannot write {path}: {error.strerror}; name a file in a directory that exists") from None


def csv_rows(rows: Sequence[Row]) -> list[dict[str, str]]:
    """A line per setting; every fact's column names its evidence."""
    lines = []
    for row in rows:
        line = {"triton": row.triton_version, "setting": row.label, "status": row.status}
        for fact in FACTS:
            value = row.facts.get(fact.key)
            line[f"{fact.key} ({fact.evidence})"] = "" if value is None else str(value)
        lines.append(line | {"words": row.words})
    return lines
