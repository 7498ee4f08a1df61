"""What is known about a state so far: its plan at once, machine code after it, emulated and measured figures last."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from workbench.compiler import find_target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.compiler import CompiledKernel
    from workbench.explorer.plan import Plan
    from workbench.explorer.state import State
    from workbench.inspection import Inspection
    from workbench.levers.facts import Value

Stage = Literal["none", "working", "done", "failed"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Figures of one side. Each stage is `working` until its figures or the reason why there are none arrive."""

    state: State
    plan: Plan | None = None
    error: str = ""
    """Why there is no machine code: of the problem, the spec, or the compiler."""
    compiled: CompiledKernel | None = None
    inspection: Inspection | None = None
    """None for an NVIDIA target, whose code is not taken apart."""
    code_facts: Mapping[str, Value] = field(default_factory=dict)
    """Keys of `workbench.levers.facts`. Static and modelled."""
    code: Stage = "none"
    """While it is `working`, `compiled`, `inspection` and `code_facts` are those of the state before."""
    seconds: float = 0.0
    """From the change to the machine code's figures."""
    conflicts: Mapping[str, int] = field(default_factory=dict)
    """Keys of `workbench.levers.emulated`. Emulated."""
    conflicts_of: str = ""
    """The small problem they are of, or why there are none."""
    emulation: Stage = "none"
    time: Mapping[str, Any] = field(default_factory=dict)
    """`median_us`, `least_us`, `most_us`, `rounds`, `tflops`, `tbps`, `device`. Measured."""
    time_note: str = ""
    timing: Stage = "none"

    @property
    def facts(self) -> dict[str, Value]:
        """Facts by the keys of `workbench.levers.facts`, as far as they are known."""
        return {**self.code_facts, **self.conflicts}


def can_be_inspected(target: str) -> bool:
    """Whether machine code for the target can be taken apart."""
    return find_target(target).is_amd


def why_not_emulated(plan: Plan) -> str:
    """Why the emulator cannot run the kernel of a plan; nothing where it can."""
    target = plan.state.target
    return "" if target == "gfx950" else f"the emulator executes gfx950 code, not {target}"


def why_not_timed(plan: Plan) -> str:
    """Why the kernel of a plan cannot be timed here, by name; nothing where it can. Loads PyTorch."""
    import torch

    from workbench.device import detect_device

    device, wanted = detect_device(), f"{plan.device.title} ({plan.device.arch})"
    if device is None:
        return f"PyTorch {torch.__version__} sees no GPU here; timing this kernel takes an {wanted}"
    if plan.device.arch != device.arch:
        return f"timing this kernel takes an {wanted}; here is {device.title} ({device.arch})"
    return ""
