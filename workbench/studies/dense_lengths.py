"""Ragged lengths on the clock: the kernel that dispatch picks for a GPU, beside lengths that fill its tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.parity.html_table import Table
from workbench.studies.dense_levers import dense
from workbench.studies.frames import frame_table

if TYPE_CHECKING:
    import pandas as pd

    from workbench.device import Device
    from workbench.records import Record
    from workbench.scenarios import Scenario

LENGTHS = ((1024, 1000), (5120, 5000), (8192, 8100))
"""(Aligned, ragged) queries and keys."""
_COLUMNS = ["aligned", "ragged", "full", "rate", "ratio", "hardware", "evidence"]


def length_times(scenario: Scenario) -> pd.DataFrame:
    """A line per pair of LENGTHS of the scenario's heads: rates of both, and their ratio. Measured.

    Rates count what the mask leaves, so that padding lowers them. Each length is timed by itself. Without a GPU: of
    the stored records, if there are any.
    """
    import pandas as pd

    from workbench.device import detect_device, load_device
    from workbench.records import stored_devices

    here = detect_device()
    devices = [here] if here else [load_device(name) for name in stored_devices()]
    found = []
    for device in devices:
        for pair in LENGTHS:
            records = [_timed(scenario, length, device, stored=here is None) for length in pair]
            if all(record is not None and record.samples for record in records):
                found.append(_line(pair, [record for record in records if record is not None]))
    return pd.DataFrame(found, columns=_COLUMNS)


def length_time_table(frame: pd.DataFrame) -> Table:
    """A line per pair. Measured."""
    columns = {
        "aligned": "aligned", "ragged": "ragged", "full": "aligned, TFLOP/s", "rate": "ragged, TFLOP/s",
        "ratio": "ragged over aligned", "hardware": "hardware", "evidence": "evidence",
    }  # fmt: skip
    formats = {"aligned": ",d", "ragged": ",d", "full": ".0f", "rate": ".0f", "ratio": ".3f"}
    empty = "Nothing was timed: no GPU is here, and no record of these heads is stored."
    return frame_table(frame, columns, "Rates count the scores that the mask leaves.", formats, empty=empty)


def length_time_bullet(frame: pd.DataFrame) -> str:
    """The ratios in words, to be put behind a conclusion; empty where nothing was timed."""
    if not len(frame):
        return ""
    told = ", ".join(f"{row.ratio:.2f}x at {row.ragged:,} of {row.aligned:,}" for row in frame.itertuples())
    return f"\n- Rate of a ragged length over the next aligned one: {told} (measured, {frame['hardware'].iloc[0]})."


def _timed(scenario: Scenario, length: int, device: Device, *, stored: bool) -> Record | None:
    from workbench.dispatch import select_dense_spec
    from workbench.parity.harness import Contestant
    from workbench.scenarios import Scenario
    from workbench.studies.times import stored_records_of, timed_records

    problem = dense(scenario.problem).with_changes(seqlen_q=length, seqlen_kv=length)
    contestants = [Contestant(f"length {length}", "dense", select_dense_spec(problem, device).spec)]
    if stored:
        found = stored_records_of(problem, contestants)
    else:
        found = timed_records(Scenario(f"{scenario.name}, {length}", "study", problem), contestants)
    return found[0] if found else None


def _line(pair: tuple[int, int], records: list[Record]) -> dict[str, object]:
    full, rate = (float(record.metrics["tflops"].value) for record in records)
    return {
        "aligned": pair[0],
        "ragged": pair[1],
        "full": full,
        "rate": rate,
        "ratio": rate / full,
        "hardware": records[0].environment.get("device", ""),
        "evidence": "measured",
    }
