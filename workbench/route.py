"""What the dispatcher would do, as rows and as a list: the body of `workbench route`."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from workbench.device import DEFAULT_DEVICE, Device
from workbench.dispatch import (
    grid_2d,
    grid_3d,
    grid_dense,
    select_dense_spec,
    select_path,
    select_spec,
    select_work_order,
)
from workbench.dispatch.path import LANES
from workbench.errors import ParameterError
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.scenarios import Scenario
from workbench.spec import Unified3DSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Group, RenderableType

    Problem: TypeAlias = UnifiedAttentionProblem | DenseAttentionProblem
    Routable: TypeAlias = Problem | Scenario | Iterable[Problem | Scenario]

COLUMNS = ("scenario", "lane", "workgroups", "target", "launch grid", "spec", "reasons")


def route_rows(routable: Routable, device: Device | None = None, lane: str = "auto") -> list[dict[str, Any]]:
    """One row for each problem or scenario, with the keys of COLUMNS; `reasons` is a tuple of sentences.

    `workgroups` and `target` are what select_path compares; for a dense problem, its work items and programs.
    `lane` is auto, 2d or 3d, and does not touch dense problems. Without a device the path is that of the default
    device and the geometry that of the interpreter. Raises ParameterError for another lane.
    """
    if lane not in ("auto", *LANES):
        raise ParameterError(f"lane must be one of auto, {', '.join(LANES)}, got {lane!r}")
    return [_row(name, problem, device, lane) for name, problem in _named_problems(routable)]


def route_list(routable: Routable, device: Device | None = None, lane: str = "auto") -> Group:
    """The rows of `route_rows` one below the other, each over the whole width: for terminals from 80 columns on.

    Reasons that hold for all of several rows stand once, below the device.
    """
    from rich.console import Group
    from rich.text import Text

    rows = route_rows(routable, device, lane)
    where = device.title if device else f"path of {DEFAULT_DEVICE}, geometry of the interpreter"
    first = rows[0]["reasons"] if len(rows) > 1 else []
    shared = [reason for reason in first if all(reason in row["reasons"] for row in rows)]
    parts: list[RenderableType] = [Text(f"Routes: {where}", style="bold"), *(_indented(each) for each in shared)]
    for row in rows:
        launch = " x ".join(map(str, row["launch grid"]))
        parts += [
            Text.assemble(
                ("\n" + row["scenario"], "bold"),
                ("  " + row["lane"], "cyan"),
                f"  grid {launch}, {row['workgroups']} / {row['target']} {_UNITS[row['lane'] == 'dense']}",
            ),
            _indented(row["spec"], "dim"),
            *(_indented(reason) for reason in row["reasons"] if reason not in shared),
        ]
    return Group(*parts)


_UNITS = ("workgroups / target", "work items / programs")


def _indented(text: str, style: str = "") -> RenderableType:
    from rich.padding import Padding
    from rich.text import Text

    return Padding(Text(text, style), (0, 0, 0, 2))


def _named_problems(routable: Routable) -> list[tuple[str, Problem]]:
    if isinstance(routable, (UnifiedAttentionProblem, DenseAttentionProblem)):
        return [("-", routable)]
    if isinstance(routable, Scenario):
        return [(routable.name, routable.problem)]
    return [named for item in routable for named in _named_problems(item)]


def _row(name: str, problem: Problem, device: Device | None, lane: str) -> dict[str, Any]:
    if isinstance(problem, DenseAttentionProblem):
        return _dense_row(name, problem, device)
    path = select_path(problem, device)
    chosen_lane, why = (path.lane, path.reasons) if lane == "auto" else (lane, (f"Lane {lane}: asked for.",))
    choice = select_spec(problem, device, chosen_lane)
    spec = choice.spec
    if isinstance(spec, Unified3DSpec):
        launch = grid_3d(problem, spec.block_m, spec.num_segments)
    else:
        launch = grid_2d(problem, spec.block_m)
    cells = (name, chosen_lane, path.grid, path.target, launch, spec.describe(), (*why, *choice.reasons))
    return dict(zip(COLUMNS, cells, strict=True))


def _dense_row(name: str, problem: DenseAttentionProblem, device: Device | None) -> dict[str, Any]:
    choice = select_dense_spec(problem, device)
    launch, reasons = grid_dense(problem, choice.spec.block_m), choice.reasons
    items = programs = prod(launch)
    if choice.spec.grid == "persistent":
        order = select_work_order(problem, choice.spec, device)
        programs, reasons = order.num_persistent, (*reasons, order.reason)
        launch = (programs, 1, 1)
    cells = (name, "dense", items, programs, launch, choice.spec.describe(), reasons)
    return dict(zip(COLUMNS, cells, strict=True))
