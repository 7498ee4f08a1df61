"""The measured records that come with the workbench: data/measured/<device>/<scenario set>.parquet."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence

from workbench.errors import ParameterError, RecordError
from workbench.records.parquet import read_records
from workbench.records.record import Problem, Record
from workbench.spec import KernelSpec

_STORED = "stored"


def stored_devices() -> tuple[str, ...]:
    """Devices that there are stored records of."""
    from workbench.resources import data_path

    return tuple(sorted(folder.name for folder in data_path("measured").iterdir() if folder.is_dir()))


def stored_sets(device: str) -> tuple[str, ...]:
    """Scenario sets that the device has records of."""
    from workbench.resources import data_path

    return tuple(sorted(file.stem for file in data_path("measured", device).glob("*.parquet")))


def stored_records(device: str, sets: Sequence[str]) -> list[Record]:
    """The records of a device, of those sets that are there. ParameterError if there are none."""
    from workbench.resources import data_path

    known = stored_sets(device)
    found = [
        record
        for name in sets
        if name in known
        for record in read_records(data_path("measured", device, f"{name}.parquet"))
    ]
    if not found:
        raise ParameterError(
            f"no measured records of {device} for {', '.join(sets) or 'no set'}; "
            f"there are some of {', '.join(stored_devices())}"
        )
    return found


@functools.lru_cache(maxsize=1)
def _study_records() -> tuple[Record, ...]:
    from workbench.resources import data_path

    found: list[Record] = []
    for file in sorted(data_path("measured").glob("*/studies/*.parquet")):
        try:
            found += read_records(file)
        except RecordError as error:
            warnings.warn(f"its times are left out: {error}", stacklevel=2)
    return tuple(each.with_changes(environment={**each.environment, _STORED: "yes"}) for each in found)


def stored_study_records(problem: Problem, candidate: str, spec: KernelSpec | None = None) -> list[Record]:
    """What studies once measured of a candidate of that name: data/measured/<device>/studies/<study>.parquet.

    spec: of this one alone; None takes that of the device's dispatch at the time, whatever it was. The environment of
    each says that it was stored, see `hardware_of`.
    """
    found = [each for each in _study_records() if each.problem == problem and each.candidate == candidate]
    return [each for each in found if spec is None or each.spec == spec]


def hardware_of(record: Record) -> str:
    """What a record was measured on, and whether it came with the workbench: `NVIDIA H200 (stored record)`."""
    device = record.environment.get("device") or "unknown device"
    return f"{device} (stored record)" if _STORED in record.environment else device
