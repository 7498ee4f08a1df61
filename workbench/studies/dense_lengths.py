"""Ragged lengths on the clock: the kernel that dispatch picks for a GPU, beside lengths that fill its tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.parity.html_table import Table
from workbench.studies.dense_levers import dense
from workbench.studies.frames import frame_table

if TYPE_CHECKING:
    import pandas as pd

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

    from workbench.records import hardware_of

    found = []
    for pair in LENGTHS:
        aligned, ragged = ({hardware_of(each): each for each in _timed(scenario, length)} for length in pair)
        found += [_line(pair, aligned[name], ragged[name]) for name in aligned if name in ragged]
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
    told = [
        f"\n- Rate of a ragged length over the next aligned one: "
        f"{', '.join(f'{row.ratio:.2f} at {row.ragged:,} of {row.aligned:,}' for row in one.itertuples())} (measured, "
        f"{hardware}). Each length has a session of its own: a few percent say nothing."
        for hardware, one in frame.groupby("hardware", sort=False)
    ]
    return "".join(told)


def _timed(scenario: Scenario, length: int) -> list[Record]:
    """One record with samples; without a GPU one of each device that has a stored one."""
    from workbench.device import detect_device
    from workbench.dispatch import select_dense_spec
    from workbench.parity.harness import Contestant
    from workbench.records import stored_study_records
    from workbench.scenarios import Scenario
    from workbench.studies.times import timed_records

    problem, device = dense(scenario.problem).with_changes(seqlen_q=length, seqlen_kv=length), detect_device()
    name = f"length {length}"
    if device is None:
        found = stored_study_records(problem, name)
    else:
        contestants = [Contestant(name, "dense", select_dense_spec(problem, device).spec)]
        found = timed_records(Scenario(f"{scenario.name}, {length}", "study", problem), contestants)
    return [record for record in found if record.samples and record.value("tflops")]


def _line(pair: tuple[int, int], *records: Record) -> dict[str, object]:
    from workbench.records import hardware_of

    full, rate = (float(record.metrics["tflops"].value) for record in records)
    return {
        "aligned": pair[0],
        "ragged": pair[1],
        "full": full,
        "rate": rate,
        "ratio": rate / full,
        "hardware": hardware_of(records[0]),
        "evidence": "measured",
    }
