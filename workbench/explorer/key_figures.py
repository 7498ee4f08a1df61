"""The eleven figures that are shown largest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.inspection.sections import EVERY_BLOCK, SKIPPED

if TYPE_CHECKING:
    from workbench.explorer.answer import Answer, Stage
    from workbench.levers.facts import Value


@dataclass(frozen=True)
class KeyFigure:
    """One figure; a float is a fraction. `stage` is that of the work it comes from."""

    title: str
    value: Value
    evidence: str
    stage: Stage


def key_figures(answer: Answer) -> tuple[KeyFigure, ...]:
    """In a fixed order, None where a figure is not known."""
    facts = answer.facts
    occupancy = answer.inspection.occupancy if answer.inspection else None
    compiled = answer.compiled
    registers = compiled.registers if compiled else None
    conflicts = [facts.get("conflicts_k"), facts.get("conflicts_v")]
    microseconds = answer.time.get("median_us")
    code: list[tuple[str, Value, str]] = [
        ("VGPRs", registers.vgprs if registers else None, "static"),
        ("VGPR spills", registers.vgpr_spills if registers else None, "static"),
        ("LDS, KB", f"{compiled.lds_bytes / 1024:.4g}" if compiled else None, "static"),
        ("workgroups per CU", occupancy.workgroups_per_cu if occupancy else None, "static"),
        ("waves per SIMD", occupancy.waves_per_simd if occupancy else None, "static"),
        ("instructions, hot loop", len(answer.inspection.hot_instructions) if answer.inspection else None, "static"),
        (f"MFMA efficiency, at most, {EVERY_BLOCK}", facts.get("efficiency"), "modelled"),
        (f"MFMA efficiency, at most, {SKIPPED}", facts.get("voted"), "modelled"),
        ("bound by", facts.get("binding"), "modelled"),
    ]
    found = [KeyFigure(title, value, evidence, answer.code) for title, value, evidence in code]
    shown = " + ".join(f"{count:,}" for count in conflicts if isinstance(count, int)) or None
    stage = "working" if answer.code == "working" else answer.emulation
    found.append(KeyFigure("LDS conflicts, K + V", shown, "emulated", stage))
    time = f"{microseconds:.1f}" if microseconds is not None else None
    return (*found, KeyFigure("time, us", time, "measured", answer.timing))
