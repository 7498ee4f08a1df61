"""The golden gate: does the machine code of every shipped variant still have the digest on record?

data/golden/<triton version>-<target>.json holds one entry for each variant. Register and LDS figures stand beside the
digest only so that a difference can be read; the digest decides.

Code is made from what Triton's passes are given: the same compiler makes the same code of the same IR. Each entry is
therefore sealed with a digest of both, its own figures included. While the seal holds, the code is as on record without
being made anew; where it does not, for a changed kernel, another compiler or an entry that was edited, the variant is
compiled.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.compiler.artifact import CompiledKernel
from workbench.compiler.normalise import normalise_assembly
from workbench.compiler.service import Progress, compile_many, input_digests, is_cached
from workbench.compiler.shipped import shipped_requests
from workbench.errors import CompileError, GoldenError
from workbench.resources import data_path

if TYPE_CHECKING:
    from workbench.compiler.request import KernelRequest


@dataclass(frozen=True)
class GoldenEntry:
    """What is on record of one variant. Evidence kind: static."""

    sha256: str
    """Of the normalised assembly."""
    lines: int
    """Of the normalised assembly."""
    vgprs: int | None
    agprs: int | None
    spills: int | None
    """Vector registers spilled to scratch."""
    sgpr_spills: int | None
    """Scalar registers spilled to lanes of vector registers."""
    lds_bytes: int
    seal: str = ""
    """SHA-256 of this entry and of what the compiler makes it from; empty where that was never put on record."""

    def sealed(self, inputs: str) -> GoldenEntry:
        """The entry under the seal of those inputs (workbench.compiler.service.input_digests)."""
        content = asdict(replace(self, seal=""))
        return replace(self, seal=sha256(f"{inputs} {json.dumps(content, sort_keys=True)}".encode()).hexdigest())

    @property
    def spilled(self) -> bool:
        """Whether registers of any kind were spilled."""
        return bool(self.spills or self.sgpr_spills)

    def describe(self) -> str:
        """The figures beside the digest, in words."""
        return (
            f"{self.vgprs} VGPRs ({self.agprs or 0} of them AGPRs), {self.spills or 0} VGPRs and "
            f"{self.sgpr_spills or 0} SGPRs spilled, LDS {self.lds_bytes} B, {self.lines} lines"
        )


Entries = dict[str, GoldenEntry]


@dataclass(frozen=True)
class Comparison:
    """How current entries differ from those on record."""

    altered: tuple[str, ...]
    appeared: tuple[str, ...]
    vanished: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.altered or self.appeared or self.vanished)


@dataclass(frozen=True)
class GateResult:
    """One record against the code of today, over the variants that were asked for."""

    recorded: Entries
    current: Entries
    comparison: Comparison
    errors: dict[str, CompileError]
    """Variants that no longer compile."""
    held: tuple[str, ...] = ()
    """Variants whose seal held, so that they were not compiled."""

    @property
    def spilling(self) -> tuple[str, ...]:
        """Variants that dispatch picks and that spill registers. A lever may; that is what a study finds out."""
        return tuple(sorted(name for name, entry in self.current.items() if entry.spilled and "+" not in name))

    @property
    def passed(self) -> bool:
        """Nothing differs and nothing fails to compile. A new spill is a difference like any other."""
        return not (self.comparison or self.errors)


def golden_path(triton_version: str, target: str) -> Path:
    """The record of one Triton version and target."""
    return data_path("golden", f"{triton_version}-{target}.json")


def recorded_pairs() -> list[tuple[str, str]]:
    """(Triton version, target) of every record there is."""
    pairs = (path.stem.rpartition("-") for path in sorted(data_path("golden").glob("*.json")))
    return [(version, target) for version, _, target in pairs]


def read_entries(path: Path) -> Entries:
    """The entries of a record; none when there is no such file. GoldenError when it is malformed."""
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text())
        return {name: GoldenEntry(**entry) for name, entry in content["variants"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise GoldenError(
            f"{path} is not a golden record ({type(error).__name__}: {error}); restore it from version control, or "
            "delete it and type: workbench golden update"
        ) from None


def write_entries(path: Path, entries: Mapping[str, GoldenEntry]) -> None:
    """Replace a record in one step: one variant a line, sorted, so that a change shows as one line."""
    lines = [f"    {json.dumps(name)}: {json.dumps(asdict(entries[name]))}" for name in sorted(entries)]
    version, _, target = path.stem.rpartition("-")
    text = (
        f'{{\n  "triton": {json.dumps(version)},\n  "target": {json.dumps(target)},\n  "variants": {{\n'
        + ",\n".join(lines)
        + "\n  }\n}\n"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.partial")
    temporary.write_text(text)
    temporary.replace(path)


def check_pair(
    triton_version: str,
    target: str,
    pattern: str | None = None,
    *,
    every: bool = False,
    progress: Progress | None = None,
) -> GateResult:
    """Hold the code of the shipped variants that the pattern selects against the record.

    every: compile also those whose seal holds.
    """
    recorded, requests = _selected(triton_version, target, pattern)
    held = {} if every else _held(requests, recorded, progress)
    compiled = {name: request for name, request in requests.items() if name not in held}
    outcomes = compile_many(list(compiled.values()), progress=progress)
    current = dict(held)
    errors = {}
    for name, outcome in zip(compiled, outcomes, strict=True):
        if isinstance(outcome, CompileError):
            errors[name] = outcome
        else:
            current[name] = make_entry(outcome)
    judged = {name: entry for name, entry in recorded.items() if name not in errors}
    return GateResult(recorded, current, compare(judged, current), errors, tuple(held))


def update_pair(
    triton_version: str, target: str, pattern: str | None = None, *, progress: Progress | None = None
) -> GateResult:
    """Put the selected variants on record; the others, and those that do not compile, keep their entries."""
    result = check_pair(triton_version, target, pattern, progress=progress)
    _, requests = _selected(triton_version, target, pattern)
    unsealed = [name for name in result.current if name not in result.held]
    digests = input_digests([requests[name] for name in unsealed], progress=progress)
    current = dict(result.current)
    for name, inputs in zip(unsealed, digests, strict=True):
        if not isinstance(inputs, CompileError):
            current[name] = current[name].sealed(inputs)
    path = golden_path(triton_version, target)
    before = read_entries(path)
    after = {name: entry for name, entry in before.items() if name not in result.comparison.vanished} | current
    if after != before:
        write_entries(path, after)
    return result


def _selected(triton_version: str, target: str, pattern: str | None) -> tuple[Entries, dict[str, KernelRequest]]:
    """What is on record and what is shipped, as far as the pattern selects it."""
    recorded = read_entries(golden_path(triton_version, target))
    requests = shipped_requests(target, triton_version)
    wanted = matching(recorded.keys() | requests.keys(), pattern)
    if not wanted:
        raise GoldenError(f"no variant matches {pattern!r}; they are called, e.g., {', '.join(list(requests)[:3])}")
    return (
        {name: entry for name, entry in recorded.items() if name in wanted},
        {name: request for name, request in requests.items() if name in wanted},
    )


def _held(requests: Mapping[str, KernelRequest], recorded: Entries, progress: Progress | None) -> Entries:
    """The entries on record whose seal holds, of those whose code is not at hand anyhow."""
    sealed = {
        name: request
        for name, request in requests.items()
        if name in recorded and recorded[name].seal and not is_cached(request)
    }
    digests = input_digests(list(sealed.values()), progress=progress)
    return {
        name: recorded[name]
        for name, inputs in zip(sealed, digests, strict=True)
        if not isinstance(inputs, CompileError) and recorded[name] == recorded[name].sealed(inputs)
    }


def make_entry(kernel: CompiledKernel) -> GoldenEntry:
    """What goes on record of a compiled kernel."""
    registers = kernel.registers
    code = normalise_assembly(kernel.assembly)
    return GoldenEntry(
        sha256=sha256(code.encode()).hexdigest(),
        lines=code.count("\n"),
        vgprs=registers.vgprs if registers else None,
        agprs=registers.agprs if registers else None,
        spills=registers.vgpr_spills if registers else None,
        sgpr_spills=registers.sgpr_spills if registers else None,
        lds_bytes=kernel.lds_bytes,
    )


def compare(recorded: Mapping[str, GoldenEntry], current: Mapping[str, GoldenEntry]) -> Comparison:
    """Names that differ in their digest, or are on one side only."""
    return Comparison(
        altered=tuple(
            sorted(name for name in recorded.keys() & current.keys() if recorded[name].sha256 != current[name].sha256)
        ),
        appeared=tuple(sorted(current.keys() - recorded.keys())),
        vanished=tuple(sorted(recorded.keys() - current.keys())),
    )


def matching(names: Iterable[str], pattern: str | None) -> set[str]:
    """The names that a shell-style pattern selects; all of them without a pattern."""
    return {name for name in names if pattern is None or fnmatchcase(name, pattern)}
