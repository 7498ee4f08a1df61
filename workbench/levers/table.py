"""Every lever of a kernel set and unset: the facts of each side, and in words what the lever did."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from workbench.errors import CompileError, SpecError, UnsupportedError
from workbench.levers.emulated import conflict_cycles, small_problem
from workbench.levers.facts import Value, facts_of
from workbench.levers.words import difference

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from workbench.compiler import KernelRequest
    from workbench.inspection import Inspection
    from workbench.levers.emulated import Problem
    from workbench.levers.registry import KernelLevers, Lever, Setting
    from workbench.spec import KernelSpec

TARGET = "gfx950"
Status = Literal["ok", "unsupported", "compile_error"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One setting of one lever, or the base."""

    triton_version: str
    label: str
    """`base`, the name of a spec beside it, or `field=value`."""
    lever: Lever | None = None
    value: Setting = None
    spec: KernelSpec | None = None
    status: Status = "ok"
    facts: dict[str, Value] = field(default_factory=dict)
    words: str = ""
    """What the lever did, or why there is no kernel."""
    inspection: Inspection | None = field(default=None, repr=False)


def base_of(kernel: KernelLevers, problem: Problem) -> KernelSpec:
    """The spec that dispatch picks for the problem on an MI355X; the defaults where it picks another kernel's."""
    from workbench.attention.backends import EMULATED_DEVICE
    from workbench.device import load_device
    from workbench.dispatch import select_dense_spec, select_spec
    from workbench.problem import DenseAttentionProblem
    from workbench.spec import TritonSpec

    device = load_device(EMULATED_DEVICE)
    portable = issubclass(kernel.spec_class, TritonSpec)
    chosen: KernelSpec
    if isinstance(problem, DenseAttentionProblem) != (kernel.lane == "dense"):
        raise UnsupportedError(f"{kernel.kernel} is for {kernel.lane} problems; choose another --scenario or --kernel")
    if isinstance(problem, DenseAttentionProblem):
        chosen = select_dense_spec(problem, device, portable=portable).spec
    else:
        chosen = select_spec(problem, device, kernel.lane, portable=portable).spec
    return chosen if type(chosen) is kernel.spec_class else kernel.spec_class()


def settings_of(kernel: KernelLevers, base: KernelSpec, levers: Sequence[str] = ()) -> list[tuple[Lever, Setting]]:
    """The settings that differ from the base, of the levers named, or of all. ParameterError for an unknown lever."""
    chosen = [kernel.lever(name) for name in levers] or kernel.levers
    return [(lever, value) for lever in chosen for value in lever.values if value != getattr(base, lever.field)]


def lever_table(
    kernel: KernelLevers,
    problem: Problem,
    triton_versions: Sequence[str],
    *,
    base: KernelSpec | None = None,
    levers: Sequence[str] = (),
    beside: dict[str, KernelSpec] | None = None,
    emulate: bool = True,
    on_step: Callable[[str], None] | None = None,
) -> list[Row]:
    """Rows of each Triton version: the base, each spec of `beside`, then every other setting of every lever.

    Static and modelled facts are those of the problem; LDS conflicts are emulated on `small_problem` of it.
    A setting that no kernel can be built for is a row with the reason.
    """
    base = base or base_of(kernel, problem)
    settings = settings_of(kernel, base, levers)
    report = on_step or (lambda text: None)
    rows = []
    for version in triton_versions:
        drafts = [Row(triton_version=version, label="base", spec=base)]
        drafts += [Row(triton_version=version, label=name, spec=spec) for name, spec in (beside or {}).items()]
        drafts += [_draft(version, base, lever, value) for lever, value in settings]
        found = _compiled(drafts, problem, emulate=emulate, report=report)
        if emulate:
            found = [_emulated(row, kernel, problem, report) for row in found]
        rows += [_told(row, found, base) for row in found]
    return rows


def spell(value: Setting) -> str:
    """A setting as `--spec` takes it."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _draft(version: str, base: KernelSpec, lever: Lever, value: Setting) -> Row:
    row = Row(triton_version=version, label=f"{lever.field}={spell(value)}", lever=lever, value=value)
    try:
        return replace(row, spec=base.with_changes(**{lever.field: value}))
    except SpecError as error:
        return replace(row, status="unsupported", words=str(error))


def _compiled(drafts: Sequence[Row], problem: Problem, *, emulate: bool, report: Callable[[str], None]) -> list[Row]:
    """Static and modelled facts; what the emulator will run is compiled along, side by side with the rest."""
    from workbench.compiler import compile_many
    from workbench.inspection import inspect_compiled

    rows = list(drafts)
    requests: dict[int, KernelRequest] = {}
    for index, row in enumerate(drafts):
        try:
            requests[index] = _request(row, problem)
        except SpecError as error:
            rows[index] = replace(row, status="unsupported", words=row.words or str(error))
    along = [request for row in drafts if emulate and (request := _small_request(row, problem)) is not None]
    outcomes = compile_many(
        [*requests.values(), *along],
        progress=lambda done, total, request, _: report(f"compiling {done}/{total}, last {request.title}"),
    )
    for index, outcome in zip(requests, outcomes, strict=False):
        row = rows[index]
        if isinstance(outcome, CompileError):
            rows[index] = replace(row, status="compile_error", words=str(outcome))
            continue
        inspection = inspect_compiled(outcome, f"{outcome.name}, {row.label}, Triton {row.triton_version}")
        rows[index] = replace(row, inspection=inspection, facts=facts_of(inspection, problem.head_size))
    return rows


def _request(row: Row, problem: Problem) -> KernelRequest:
    from workbench.compiler.variants import build_requests

    if row.spec is None:
        raise SpecError(row.words)
    return build_requests(problem, row.spec, TARGET, triton_version=row.triton_version, label=row.label)[0]


def _small_request(row: Row, problem: Problem) -> KernelRequest | None:
    try:
        return _request(row, small_problem(problem))
    except SpecError:
        return None


def _emulated(row: Row, kernel: KernelLevers, problem: Problem, report: Callable[[str], None]) -> Row:
    if row.status != "ok" or row.spec is None:
        return row
    report(f"emulating {row.label}, Triton {row.triton_version}")
    try:
        cycles = conflict_cycles(kernel, small_problem(problem), row.spec, row.triton_version)
    except SpecError:  # an order of work, such as hkv_major, that the small problem has too few items for
        return row
    return replace(row, facts=row.facts | cycles)


def _told(row: Row, rows: Sequence[Row], base: KernelSpec) -> Row:
    """The row with the difference that its lever makes: the later of two settings over the earlier one."""
    if row.status != "ok" or row.label == "base":
        return row
    ours = next(other for other in rows if other.triton_version == row.triton_version and other.label == "base")
    if ours.status != "ok":
        return row
    if row.lever is None:
        return replace(row, words=f"base over {row.label}: {difference(row.facts, ours.facts)}")
    order = [*row.lever.values]
    kept = getattr(base, row.lever.field)
    if kept in order and order.index(row.value) < order.index(kept):
        before, after, names = row.facts, ours.facts, (kept, row.value)
    else:
        before, after, names = ours.facts, row.facts, (row.value, kept)
    return replace(row, words=f"{spell(names[0])} over {spell(names[1])}: {difference(before, after)}")
