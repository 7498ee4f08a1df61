"""`workbench golden check` and `workbench golden update`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.status import Status

    from workbench.golden import GateResult

golden = typer.Typer(
    help="Hold the machine code of every shipped variant against the digests on record.", no_args_is_help=True
)

TargetOption = Annotated[list[str] | None, typer.Option("--target", help="Target, e.g. gfx950; may be repeated.")]
VersionOption = Annotated[list[str] | None, typer.Option("--triton", help="Triton version; may be repeated.")]
VariantOption = Annotated[str | None, typer.Option("--variant", help="Only variants that match, e.g. '2d/*'.")]
DEFAULT_TARGETS = ("gfx950", "gfx942")


@golden.command("check")
def check(
    target: TargetOption = None,
    triton: VersionOption = None,
    variant: VariantOption = None,
    every: Annotated[
        bool, typer.Option("--every", help="Compile also what the compiler makes from the IR on record.")
    ] = False,
) -> None:
    """Name the variants whose machine code altered, appeared or vanished.

    Without options: every record in data/golden. Ends with code 1 on a difference and on a variant that does not
    compile. Variants that dispatch picks and that spill are listed too. What the same compiler makes of the same IR is
    known; only the rest is compiled.
    """
    from workbench.errors import GoldenError
    from workbench.golden import check_pair, recorded_pairs

    recorded = recorded_pairs()
    pairs = [(v, name) for v, name in recorded if (not triton or v in triton) and (not target or name in target)]
    unknown = {*(triton or ()), *(target or ())} - {word for pair in recorded for word in pair}
    if unknown or not pairs:
        known = "; ".join(f"{name} with Triton {version}" for version, name in recorded) or "nothing"
        raise GoldenError(
            f"no golden record of {', '.join(sorted(unknown)) or 'these together'}; on record: {known}; "
            "to make one: workbench golden update"
        )
    results = [_run(partial(check_pair, every=every), version, name, variant) for version, name in pairs]
    if not all(result.passed for result in results):
        raise typer.Exit(1)


@golden.command("update")
def update(target: TargetOption = None, triton: VersionOption = None, variant: VariantOption = None) -> None:
    """Put the machine code of today on record and print what changes.

    Without options: gfx950 and gfx942, with every Triton version at hand. With --variant the other entries stay.
    """
    from workbench.compiler import triton_versions
    from workbench.golden import update_pair

    for version in triton or triton_versions():
        for name in target or DEFAULT_TARGETS:
            if _run(update_pair, version, name, variant).errors:
                raise typer.Exit(1)


def _run(action: Callable[..., GateResult], version: str, target: str, variant: str | None) -> GateResult:
    console = Console(soft_wrap=True, highlight=False)
    title = f"Triton {version}, {target}"
    with console.status(title) as status:
        result = action(version, target, variant, progress=_shown_in(status, title))
    for line in _lines(result):
        console.print(f"  {line}", markup=False)
    verdict = "as on record" if not result.comparison else "differs from the record"
    known = f"; {len(result.held)} of them by their IR" if result.held else ""
    console.print(f"{title}: {len(result.current)} variants, {verdict}{known}", markup=False)
    return result


def _shown_in(status: Status, title: str) -> Callable[..., None]:
    return lambda done, total, request, outcome: status.update(f"{title}: {done}/{total}, last {request.title}")


def _lines(result: GateResult) -> list[str]:
    comparison, recorded, current = result.comparison, result.recorded, result.current
    lines = []
    for name in comparison.altered:
        lines += [
            f"altered   {name}",
            f"          - {recorded[name].describe()}",
            f"          + {current[name].describe()}",
        ]
    lines += [f"appeared  {name}: {current[name].describe()}" for name in comparison.appeared]
    lines += [f"vanished  {name}" for name in comparison.vanished]
    lines += [f"spills    {name}: {current[name].describe()}" for name in result.spilling]
    lines += [f"failed    {name}: {error}" for name, error in result.errors.items()]
    return lines
