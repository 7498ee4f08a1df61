"""Run a compiled gfx950 kernel on CPU tensors."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# np.unique would import it while denormals are flushed, and numpy would learn wrong limits of float32.
import numpy.ma

from workbench.errors import EmulationError
from workbench.gfx950.emulator.counters import Counters, MemoryTrace
from workbench.gfx950.emulator.findings import Finding
from workbench.gfx950.emulator.images import kernel_image
from workbench.gfx950.emulator.launch import Launch, prepare
from workbench.gfx950.emulator.machine import MAX_INSTRUCTIONS_PER_WAVE, Machine
from workbench.gfx950.emulator.program import Program
from workbench.gfx950.emulator.schedule import run_batch

RESIDENT_WAVES = 128
"""Waves that are executed together: enough to hide the cost of a numpy call, few enough to stay in the caches."""


@dataclass(frozen=True)
class EmulationResult:
    """One emulated launch. Its numbers have evidence kind `emulated`."""

    program: Program
    grid: tuple[int, int, int]
    lds_bytes: int
    findings: tuple[Finding, ...]
    """Hazards that were met; empty when the code is clean."""
    written: tuple[str, ...]
    """Arguments that were stored to."""
    details: Counters
    seconds: float
    trace: MemoryTrace | None

    @property
    def counters(self) -> dict[str, int]:
        """Totals under rocprof's names."""
        return self.details.rocprof()

    @property
    def wave_instructions(self) -> int:
        return self.details.wave_instructions

    @property
    def wave_instructions_per_second(self) -> float:
        """Speed of the emulation, not of a device."""
        return self.wave_instructions / self.seconds

    def describe(self) -> str:
        """A few lines: what ran, how fast, what was found."""
        lines = [
            f"{self.program.name}: {self.details.workgroups} workgroups, {self.details.waves} waves, "
            f"{self.wave_instructions:,} wave-instructions in {self.seconds:.2f} s (emulated)",
            f"written: {', '.join(self.written) or 'nothing'}",
        ]
        lines += [str(finding) for finding in self.findings] or ["no findings"]
        return "\n".join(lines)


def emulate(
    kernel: Any,
    grid: Sequence[int],
    args: Sequence[Any] | Mapping[str, Any],
    *,
    outputs: Sequence[str] | None = None,
    seed: int | None = None,
    strict: bool = False,
    check_races: bool = True,
    trace: bool = False,
    resident_waves: int = RESIDENT_WAVES,
    max_instructions_per_wave: int = MAX_INSTRUCTIONS_PER_WAVE,
) -> EmulationResult:
    """Execute every workgroup of `grid` and store into the tensors in `args`.

    kernel: a workbench.compiler.CompiledKernel, a kernel that triton.compile returned, a KernelImage, or the path of an
        .amdgcn or .hsaco file (see images.kernel_image; a .hsaco needs llvm-objdump of LLVM 20 or later).
    args: values in the kernel's order without constexprs, or by name: CPU tensors, numbers, None for a null pointer.
    outputs: names of the arguments that may be stored to; None allows all. A store elsewhere is a finding.
    seed: random order of waves and random delivery of loads; None delivers each load as late as its wait allows.
    strict: raise EmulationError on findings that are certain faults instead of returning them.
    trace: record every memory request by cache line (see MemoryTrace).
    max_instructions_per_wave: a wave that executes more is in an endless loop.

    EmulationError for an opcode that is not modelled, an access outside the tensors, or waves that never end.
    """
    if max_instructions_per_wave < 1:
        raise EmulationError(f"max_instructions_per_wave must be positive, got {max_instructions_per_wave}")
    image = kernel_image(kernel)
    program = image.decoded()
    launch = prepare(image, program, grid, args, outputs)
    started = time.perf_counter()
    machine = new_machine(
        launch, resident_waves, check_races=check_races, trace=trace, max_instructions=max_instructions_per_wave
    )
    for first in range(0, launch.num_workgroups, machine.batch):
        with FloatMode(machine):
            machine.load_batch(first, min(machine.batch, launch.num_workgroups - first))
            run_batch(machine, None if seed is None else seed + first)
    result = EmulationResult(
        program=program,
        grid=launch.grid,
        lds_bytes=launch.lds_bytes,
        findings=machine.findings.sorted(),
        written=tuple(sorted(launch.memory.written)),
        details=machine.counters,
        seconds=time.perf_counter() - started,
        trace=machine.counters.trace(),
    )
    faults = [str(finding) for finding in result.findings if finding.certain]
    if strict and faults:
        raise EmulationError("\n".join(faults))
    return result


def new_machine(launch: Launch, resident_waves: int, **options: Any) -> Machine:
    """A machine that holds as many workgroups as `resident_waves` allow, at least one."""
    waves_each = -(-launch.program.workgroup_size // 64)
    batch = max(1, min(launch.num_workgroups, resident_waves // waves_each))
    return Machine(launch, batch, **options)


class FloatMode:
    """No numpy warnings about NaN and overflow inside; the host's own denormal mode again afterwards."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._quiet = np.errstate(all="ignore")

    def __enter__(self) -> None:
        self._quiet.__enter__()

    def __exit__(self, *details: Any) -> None:
        self._machine.flush_denormals(False)
        self._quiet.__exit__(*details)
