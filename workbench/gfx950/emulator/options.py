"""What a caller of backend="emulator" may choose."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import EmulationError


@dataclass(frozen=True, kw_only=True)
class EmulatorOptions:
    """How launches are compiled and executed; the fields' meaning is that of `emulate`."""

    triton_version: str = ""
    """The compiler, empty for the installed one; see workbench.compiler.triton_versions."""
    seed: int | None = None
    """Random order of waves and random delivery of loads; None delivers each load as late as its wait allows."""
    strict: bool = True
    """Raise EmulationError on findings that are certain faults."""
    check_races: bool = True
    trace: bool = False
    """Keep every memory request, by cache line, in the result."""

    def __post_init__(self) -> None:
        valid = self.seed is None or (type(self.seed) is int and self.seed >= 0)
        if not valid:
            raise EmulationError(f"seed must be None or an integer >= 0, got {self.seed!r}")
