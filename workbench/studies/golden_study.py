"""What the golden gate sees: one variant as on record, with another comment, and with a lever the other way. Static."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from workbench.errors import CompileError, GoldenError
from workbench.golden import Entries, GoldenEntry, compare, golden_path, make_entry, read_entries
from workbench.spec_changes import change_spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.compiler import CompiledKernel, KernelRequest
    from workbench.golden import Comparison


@dataclass(frozen=True)
class Trial:
    """One compiled kernel under the name of a variant on record."""

    name: str
    """Of the variant that it is held against."""
    label: str
    kernel: CompiledKernel
    recorded: GoldenEntry | None
    entry: GoldenEntry

    @property
    def comparison(self) -> Comparison:
        """What the gate would say of this variant."""
        recorded = {self.name: self.recorded} if self.recorded else {}
        return compare(recorded, {self.name: self.entry})

    @property
    def verdict(self) -> str:
        """`as on record`, `altered`, or `not on record`."""
        if self.recorded is None:
            return "not on record"
        return "altered" if self.comparison.altered else "as on record"


def record_of(triton_version: str, target: str) -> Entries:
    """The entries of one record; GoldenError where there is none."""
    entries = read_entries(golden_path(triton_version, target))
    if not entries:
        raise GoldenError(f"nothing is on record for Triton {triton_version} and {target}; see data/golden")
    return entries


def trials(
    variant: str, change: str, others: Sequence[str], triton_version: str, target: str = "gfx950"
) -> list[Trial]:
    """The variant as it is, with a change (`field=value`) to its spec, and other variants as they are.

    All are compiled together. GoldenError for an unknown variant, SpecError for a change that no kernel allows.
    """
    from workbench.compiler import compile_many
    from workbench.compiler.shipped import shipped_requests, shipped_variants
    from workbench.compiler.variants import build_requests

    recorded, requests = record_of(triton_version, target), shipped_requests(target, triton_version)
    unknown = [name for name in (variant, *others) if name not in requests]
    if unknown:
        raise GoldenError(
            f"no variant is called {', '.join(unknown)}; they are called, e.g., {', '.join(list(requests)[:3])}"
        )
    base = next(each for each in shipped_variants(target) if each.name == variant)
    changed = build_requests(
        base.problem, change_spec(base.spec, [change]), target, triton_version=triton_version, label=change
    )[0]
    wanted: list[tuple[str, str, KernelRequest]] = [
        (variant, "as it is", requests[variant]),
        (variant, change, changed),
    ]
    wanted += [(name, "as it is", requests[name]) for name in others]
    found = []
    outcomes = compile_many([request for _, _, request in wanted])
    for (name, label, _), outcome in zip(wanted, outcomes, strict=True):
        if isinstance(outcome, CompileError):
            raise outcome
        found.append(Trial(name, label, outcome, recorded.get(name), make_entry(outcome)))
    return found


def with_other_lines(trial: Trial) -> Trial:
    """The same kernel as if a comment of ten lines stood in front of its source: only debug information moves."""
    from dataclasses import replace

    def moved(match: re.Match[str]) -> str:
        return f"{match.group(1)}{int(match.group(2)) + 10}"

    assembly = re.sub(r"(\.loc\s+\d+\s+)(\d+)", moved, trial.kernel.assembly)
    assembly = re.sub(r"(\.py:)(\d+)", moved, assembly)
    kernel = replace(trial.kernel, assembly=assembly)
    return replace(trial, label="ten comment lines above", kernel=kernel, entry=make_entry(kernel))


def changed_lines(before: CompiledKernel, after: CompiledKernel) -> Sequence[tuple[str, int, int, int, int]]:
    """Runs of difflib over both normalised assemblies: (tag, first and end before, first and end after)."""
    from workbench.compiler.normalise import normalise_assembly

    ours, theirs = (normalise_assembly(kernel.assembly).splitlines() for kernel in (before, after))
    return SequenceMatcher(a=ours, b=theirs, autojunk=False).get_opcodes()


def share_kept(runs: Sequence[tuple[str, int, int, int, int]]) -> float:
    """Share of the first text's lines that the second one has in the same order."""
    total = max((end for _, _, end, _, _ in runs), default=0)
    kept = sum(end - first for tag, first, end, _, _ in runs if tag == "equal")
    return kept / total if total else 1.0


def lever_rows(entries: Entries, variant: str) -> list[dict[str, Any]]:
    """A row for each variant on record that differs from the named one by a lever: figures over it, and the digest."""
    base = entries[variant]
    rows = []
    for name, entry in entries.items():
        if name.startswith(f"{variant}+"):
            rows.append(
                {
                    "lever": name.removeprefix(f"{variant}+"),
                    "same digest": entry.sha256 == base.sha256,
                    "lines": entry.lines - base.lines,
                    "VGPRs": (entry.vgprs or 0) - (base.vgprs or 0),
                    "VGPR spills": (entry.spills or 0) - (base.spills or 0),
                    "SGPR spills": (entry.sgpr_spills or 0) - (base.sgpr_spills or 0),
                    "LDS bytes": entry.lds_bytes - base.lds_bytes,
                }
            )
    return rows
