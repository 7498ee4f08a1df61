"""Functional emulator of gfx950: runs what Triton compiled on CPU tensors, counts, and checks what hardware cannot.

`emulate` runs a launch; `Debugger` steps through one. Numbers have evidence kind `emulated`.
"""

from workbench.gfx950.emulator.api import EmulationResult, emulate
from workbench.gfx950.emulator.debug import Debugger
from workbench.gfx950.emulator.launch import KernelImage
from workbench.gfx950.emulator.options import EmulatorOptions
from workbench.gfx950.emulator.rocprof_csv import write_counter_csv

__all__ = ["Debugger", "EmulationResult", "EmulatorOptions", "KernelImage", "emulate", "write_counter_csv"]
