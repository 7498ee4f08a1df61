"""What machine code costs and what limits it, for one kernel or for two side by side."""

from workbench.inspection.compare import Comparison
from workbench.inspection.inspection import Inspection, inspect_kernel
from workbench.inspection.sources import inspect_compiled, inspect_file, inspect_spec

__all__ = ["Comparison", "Inspection", "inspect_compiled", "inspect_file", "inspect_kernel", "inspect_spec"]
