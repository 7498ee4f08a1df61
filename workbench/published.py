"""Figures that others published, each with its source and its hardware; never blended with figures of our own."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields

from workbench.resources import data_path


@dataclass(frozen=True)
class Published:
    """One published figure. `value` is text, since some rows hold a series such as 30/29/11/0."""

    topic: str
    kernel: str
    config: str
    metric: str
    value: str
    unit: str
    hardware: str
    source: str


def load_published(topic: str | None = None) -> tuple[Published, ...]:
    """All rows of data/published.csv, or those of one topic, in the file's order."""
    names = [field.name for field in fields(Published)]
    with data_path("published.csv").open(newline="") as file:
        rows = [Published(**{name: row[name] for name in names}) for row in csv.DictReader(file)]
    return tuple(row for row in rows if topic in (None, row.topic))
