"""Records as a DataFrame: one row per record, one column per metric."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from workbench.records.record import Record

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = ("scenario", "candidate", "lane", "path", "status", "evidence", "backend", "target", "message", "session")


def to_frame(records: Iterable[Record]) -> pd.DataFrame:
    """One row per record. Metric columns are named `<metric> [<unit>, <evidence>]`, so two kinds never share one."""
    import pandas as pd

    rows = []
    for record in records:
        row: dict[str, object] = {name: getattr(record, name) for name in _COLUMNS}
        row["spec"] = None if record.spec is None else record.spec.describe()
        row["device"] = record.environment.get("device", "")
        row["samples"] = len(record.samples)
        for name, metric in record.metrics.items():
            row[f"{name} [{metric.unit}, {metric.evidence}]"] = metric.value
        rows.append(row)
    return pd.DataFrame(rows)
