"""Records and modelled points on the roofline of their device: what is read, what is modelled, which ceilings apply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from workbench.device import Device, detect_device, device_named
from workbench.errors import ParameterError
from workbench.model import (
    Ceilings,
    L2Assumptions,
    Point,
    datasheet_ceilings,
    measure_ceilings,
    model_l2,
    point_from_record,
)
from workbench.model.roofline import point_from_problem
from workbench.problem import DenseAttentionProblem
from workbench.published import load_published
from workbench.records import Record, read_records, stored_sets
from workbench.resources import data_path

if TYPE_CHECKING:
    from workbench.scenarios import Scenario

OWN = "workbench"
LANES = ("auto", "dense")
CeilingChoice = Literal["auto", "datasheet", "measured"]


@dataclass(frozen=True)
class Placed:
    """A point, and the kind of kernel that it is drawn as."""

    point: Point
    kind: str
    """`decode`, `prefill` or `dense`; for modelled points whose bytes they are."""


def roofline_records(device: str, sets: Sequence[str], path: str = "") -> list[Record]:
    """The records that a roofline takes: own ones with samples, one lane a problem (auto, or dense), of one device.

    device, sets: a folder of data/measured and the files in it. path: a Parquet file of records to read instead.
    ParameterError if there are none, or if the file holds several devices.
    """
    if path:
        files = [Path(path)]
    else:
        known = stored_sets(device)
        unknown = [name for name in sets if name not in known]
        if unknown or not sets:
            raise ParameterError(
                f"no measured records of {device} for {', '.join(unknown) or 'no set'}; "
                f"there are {', '.join(known) or 'none'}, and records= takes a file of your own"
            )
        files = [data_path("measured", device, f"{name}.parquet") for name in sets]
    records = [
        record
        for file in files
        for record in read_records(file)
        if record.candidate == OWN and record.lane in LANES and record.samples and record.evidence == "measured"
    ]
    devices = {record.environment.get("device", "") for record in records}
    if len(devices) != 1:
        where = ", ".join(str(file) for file in files)
        raise ParameterError(
            f"{where}: measured records of {len(devices)} devices ({', '.join(sorted(devices)) or 'none'}); "
            "a roofline takes those of one"
        )
    return records


def place_records(records: Sequence[Record]) -> list[Placed]:
    """The records' points, by kind of kernel."""
    from workbench.parity.flops import is_decode

    return [
        Placed(
            point_from_record(record),
            "dense" if record.lane == "dense" else "decode" if is_decode(record.problem) else "prefill",
        )
        for record in records
    ]


def ceilings_for(records: Sequence[Record], choice: CeilingChoice) -> Ceilings:
    """The ceilings of the device that the records come from.

    auto: measured here and now if that device is here, else its data sheet. ParameterError for `measured` on another
    machine, and for a device without a description.
    """
    name = records[0].environment.get("device", "")
    device = device_named(name)
    here = detect_device()
    is_here = here is not None and device is not None and here.title == device.title
    if choice == "measured" or (choice == "auto" and is_here):
        if not is_here:
            raise ParameterError(
                f"ceilings='measured' needs the {name} that the records come from; here is "
                f"{here.title if here else 'no GPU'}. Use 'datasheet'"
            )
        return measure_ceilings()
    if device is None:
        raise ParameterError(f"there is no description of {name!r} in data/devices; add one, or measure on it")
    return datasheet_ceilings(device)


def modelled_points(
    scenarios: Sequence[Scenario],
    device: Device,
    assumptions: L2Assumptions,
    on_done: Callable[[int, int, str], None] | None = None,
) -> list[Placed]:
    """Each dense scenario at its minimal bytes and at those that the L2 model lets past the L2; no time is known."""
    from workbench.dispatch import select_dense_spec, select_work_order

    placed = []
    for done, scenario in enumerate(scenarios):
        problem = scenario.problem
        if not isinstance(problem, DenseAttentionProblem):
            raise ParameterError(f"{scenario.name} is paged; the L2 model is of the dense kernel")
        minimal = point_from_problem(scenario.name, device.title, problem)
        spec = select_dense_spec(problem, device).spec
        chosen = select_work_order(problem, spec, device)
        result = model_l2(
            problem, spec, device, chosen.order, num_persistent=chosen.num_persistent, assumptions=assumptions
        )
        beyond = Point(scenario.name, device.title, minimal.flops, result.bytes_beyond_l2, "modelled")
        placed += [Placed(minimal, "minimal bytes"), Placed(beyond, "bytes beyond the L2")]
        if on_done:
            on_done(done + 1, len(scenarios), scenario.name)
    return placed


def published_points(scenario: Scenario, device: Device) -> list[Placed]:
    """Published throughputs of the one problem and device that they are known of, at its minimal bytes."""
    if scenario.name != "dense_headline" or device.name != "mi355x":
        return []
    minimal = point_from_problem(scenario.name, device.title, scenario.problem)
    rows = [row for row in load_published("grid") if row.metric == "throughput" and row.unit == "TFLOP/s"]
    return [
        Placed(
            Point(
                f"{row.kernel}, {row.config}",
                device.title,
                minimal.flops,
                minimal.bytes,
                "static",
                minimal.flops / (float(row.value) * 1e12),
                "published",
            ),
            "published",
        )
        for row in rows
    ]
