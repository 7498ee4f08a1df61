"""A research workbench for unified paged attention and dense prefill on AMD gfx950, in Triton.

The public names below load on first use, so that `import workbench` needs no GPU, no Jupyter and no PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from workbench.attention import AttentionResult, dense_attention, run_dense, run_unified, unified_attention
    from workbench.device import Device, detect_device, load_device
    from workbench.dispatch import select_path, select_spec
    from workbench.environment import environment_facts
    from workbench.gfx950.emulator import EmulatorOptions
    from workbench.inputs import make_dense_inputs, make_unified_inputs
    from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
    from workbench.reference import dense_reference, unified_reference
    from workbench.scenarios import Scenario, load_set
    from workbench.spec import DenseSpec, Unified2DSpec, Unified3DSpec
    from workbench.spec_gfx950 import Gfx950DenseSpec
    from workbench.spec_gfx950_unified import Gfx950Unified2DSpec
    from workbench.spec_sm90 import Sm90DenseSpec

_MODULE_OF_NAME = {
    "AttentionResult": "attention",
    "DenseAttentionProblem": "problem",
    "DenseSpec": "spec",
    "Device": "device",
    "EmulatorOptions": "gfx950.emulator",
    "Gfx950DenseSpec": "spec_gfx950",
    "Gfx950Unified2DSpec": "spec_gfx950_unified",
    "Scenario": "scenarios",
    "Sm90DenseSpec": "spec_sm90",
    "Unified2DSpec": "spec",
    "Unified3DSpec": "spec",
    "UnifiedAttentionProblem": "problem",
    "dense_attention": "attention",
    "dense_reference": "reference",
    "detect_device": "device",
    "environment_facts": "environment",
    "load_device": "device",
    "load_set": "scenarios",
    "make_dense_inputs": "inputs",
    "make_unified_inputs": "inputs",
    "run_dense": "attention",
    "run_unified": "attention",
    "select_path": "dispatch",
    "select_spec": "dispatch",
    "unified_attention": "attention",
    "unified_reference": "reference",
}

__all__ = [
    "AttentionResult",
    "DenseAttentionProblem",
    "DenseSpec",
    "Device",
    "EmulatorOptions",
    "Gfx950DenseSpec",
    "Gfx950Unified2DSpec",
    "Scenario",
    "Sm90DenseSpec",
    "Unified2DSpec",
    "Unified3DSpec",
    "UnifiedAttentionProblem",
    "dense_attention",
    "dense_reference",
    "detect_device",
    "environment_facts",
    "load_device",
    "load_set",
    "make_dense_inputs",
    "make_unified_inputs",
    "run_dense",
    "run_unified",
    "select_path",
    "select_spec",
    "unified_attention",
    "unified_reference",
]


def __getattr__(name: str) -> Any:
    try:
        module = _MODULE_OF_NAME[name]
    except KeyError:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}") from None
    value = getattr(import_module(f"workbench.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
