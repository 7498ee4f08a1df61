"""The MODE register: rounding and denormals."""

from __future__ import annotations

from workbench.errors import EmulationError
from workbench.gfx950.emulator.program import Program


def initial_mode(program: Program) -> int:
    """The MODE register that the descriptor asks for."""
    descriptor = program.descriptor
    rounding = descriptor.get("float_round_mode_32", 0) | descriptor.get("float_round_mode_16_64", 0) << 2
    denormals = descriptor.get("float_denorm_mode_32", 3) | descriptor.get("float_denorm_mode_16_64", 3) << 2
    return checked_mode(rounding | denormals << 4 | 0x300, program.name)


def checked_mode(mode: int, where: str) -> int:
    """MODE if the emulator can follow it: rounding to nearest, float32 denormals kept or flushed on both sides."""
    if mode & 0xF:
        raise EmulationError(f"{where}: only rounding to nearest even is modelled, MODE is {mode:#x}")
    if mode >> 4 & 3 in (1, 2):
        raise EmulationError(f"{where}: float32 denormals flushed on one side only are not modelled, MODE is {mode:#x}")
    return mode
