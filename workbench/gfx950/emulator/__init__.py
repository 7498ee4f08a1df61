"""Functional emulator of gfx950: runs what Triton compiled on CPU tensors, counts, and checks what hardware cannot.

`emulate` runs a launch; `Debugger` steps through one. Numbers have evidence kind `emulated`.
"""

from workbench.gfx950.emulator.api import EmulationResult, emulate
from workbench.gfx950.emulator.launch import KernelImage

__all__ = ["EmulationResult", "KernelImage", "emulate"]
