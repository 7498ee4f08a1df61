"""The combo's flags (specification §4): each alone, each left out of the bundle, and the bundle.

A flag's gain alone is the figure without any flag over that with this one; its gain in the bundle is the figure of the
bundle without it over that of the whole bundle. Flags that do not meet each other gain the same both times, and the
bundle gains the product of the gains alone. Evidence: that of the figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from workbench.errors import ParameterError
from workbench.gfx950.isa import mix_of
from workbench.levers.registry import find_kernel
from workbench.studies.lever_figures import VOTED
from workbench.studies.lever_study import LeverStudy
from workbench.studies.unified_levers import KERNELS, base_spec, changed_study, paged

if TYPE_CHECKING:
    from typing import Any

    import pandas as pd

    from workbench.gfx950.machine_code import Instruction
    from workbench.problem import UnifiedAttentionProblem
    from workbench.scenarios import Scenario
    from workbench.studies.lever_study import Progress

FLAGS = {
    "Gluon": {
        "use_transposed_scalar_state": "transposed_scalar_state",
        "use_transposed_mask_once": "transposed_mask_once",
        "use_transposed_half_local_pv": "transposed_half_local_pv",
        "use_mfma32_skip_legacy_qreg": "q_in_registers",
        "use_transposed_mask_limit": "transposed_mask_limit",
        "use_fast_paged_kv_desc": "fast_paged_kv_desc",
    },
    "portable": {
        "use_transposed_qk_32x32": "transposed_qk",
        "use_transposed_mask_once": "mask_once",
        "use_transposed_mask_limit": "mask_limit",
        "use_fast_paged_kv_desc": "fast_paged_kv",
    },
}
"""Kernel -> the specification's name of a flag -> the field of the kernel's spec. The Gluon kernel is transposed
throughout; in the portable one state, P and Q lie where the compiler puts them."""
OFF, BUNDLE = "all off", "bundle"
CYCLES = "cycles per 64 keys"
GAINS = (
    CYCLES,
    CYCLES + VOTED,
    "instructions per 64 keys",
    "wave-instructions",
    "LDS wave-instructions",
    "time",
)
"""Figures of which less is better. What stands in blocks that a vote skips differs by variant, so every block counts in
the first."""
NEUTRAL = 0.02
"""Gains below this count as none."""
SMALL_SEQUENCES = ((16, 512),) * 16
"""What the emulator runs: one query block a sequence. The lengths leave the larger problem's kernel as it is."""


@dataclass(frozen=True)
class Gain:
    """What a flag changes in one figure, alone and in the bundle."""

    flag: str
    figure: str
    alone: float | None
    in_bundle: float | None
    evidence: str

    @property
    def verdict(self) -> str:
        """In words; empty where a side is missing."""
        if self.alone is None or self.in_bundle is None:
            return ""
        alone, inside = self.alone - 1, self.in_bundle - 1
        if abs(alone) <= NEUTRAL and inside > NEUTRAL:
            return "pays only in the bundle"
        if max(abs(alone), abs(inside)) <= NEUTRAL:
            return "neutral"
        if min(alone, inside) < -NEUTRAL:
            return "costs"
        return "pays alone, and more in the bundle" if inside > alone + NEUTRAL else "pays alone"


def alone(flag: str) -> str:
    """Name of the variant with this flag and no other."""
    return f"only {flag}"


def left_out(flag: str) -> str:
    """Name of the variant with every flag but this one."""
    return f"without {flag}"


def flag_changes(flags: Sequence[str], *, singles: bool = True, removals: bool = True) -> dict[str, dict[str, bool]]:
    """Changes of a spec by the name of the variant: all off, each alone, each left out, the bundle."""
    off, on = dict.fromkeys(flags, False), dict.fromkeys(flags, True)
    changes = {OFF: off}
    if singles:
        changes |= {alone(flag): off | {flag: True} for flag in flags}
    if removals:
        changes |= {left_out(flag): on | {flag: False} for flag in flags}
    return changes | {BUNDLE: on}


def combo_study(
    scenario: Scenario,
    kernel: str,
    *,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    emulate: bool = True,
    triton_version: str = "",
    seed: int = 0,
    on_step: Progress | None = None,
) -> LeverStudy:
    """The kernel that dispatch picks for the scenario (`Gluon` or `portable`) with each set of flags.

    changes: by default those of `flag_changes` for the kernel's flags. ParameterError for a window, under which the
    mask flags are refused.
    """
    problem = paged(scenario)
    if problem.sliding_window is not None:
        raise ParameterError(
            f"{scenario.name} has a window, and the mask flags are for full attention; choose another: "
            "`workbench scenarios`"
        )
    return changed_study(
        problem,
        base_spec(kernel, problem),
        flag_changes([*FLAGS[kernel].values()]) if changes is None else changes,
        emulated=small_problem if emulate else None,
        triton_version=triton_version,
        seed=seed,
        on_step=on_step,
    )


def small_problem(problem: UnifiedAttentionProblem) -> UnifiedAttentionProblem:
    """Sixteen short sequences of one KV head, for which Triton compiles the kernel that the large problem has."""
    return problem.with_changes(
        seq_lens=SMALL_SEQUENCES, num_query_heads=problem.group_size, num_kv_heads=1, num_blocks=None
    )


def gain(study: LeverStudy, before: str, after: str, figure: str) -> float | None:
    """The figure of one variant over that of another; None where either is missing or 0."""
    old, new = study.value(before, figure), study.value(after, figure)
    return old / new if old and new else None


def gains(study: LeverStudy, flags: Sequence[str], figure: str = CYCLES) -> list[Gain]:
    """Each flag's gain in the figure, alone and in the bundle."""
    found = study.find(OFF, figure)
    return [
        Gain(
            flag,
            figure,
            gain(study, OFF, alone(flag), figure),
            gain(study, left_out(flag), BUNDLE, figure),
            found.evidence if found else "",
        )
        for flag in flags
    ]


def vector_savings(study: LeverStudy, flags: Sequence[str]) -> tuple[float, float] | None:
    """Vector instructions of the hot loop that the bundle saves, and the sum of what each flag saves alone. Static.

    They are VALU and moves across lanes. None where a variant is missing.
    """
    counts = {}
    for name in (OFF, BUNDLE, *map(alone, flags)):
        parts = [study.value(name, figure) for figure in ("VALU", "cross-lane moves")]
        if None in parts:
            return None
        counts[name] = sum(part for part in parts if part is not None)
    return counts[OFF] - counts[BUNDLE], sum(counts[OFF] - counts[alone(flag)] for flag in flags)


def flag_frame(study: LeverStudy, kernel: str, figures: Sequence[str] = GAINS) -> pd.DataFrame:
    """A line per figure and flag: gain alone and in the bundle, what that says, and the flag's registered effect."""
    import pandas as pd

    levers = find_kernel(KERNELS[kernel])
    found = [
        {
            "named": named,
            "flag": flag,
            "figure": figure,
            "alone": each.alone,
            "in_bundle": each.in_bundle,
            "verdict": each.verdict,
            "changes": levers.lever(flag).changes,
            "evidence": each.evidence,
        }
        for figure in figures
        for (named, flag), each in zip(
            FLAGS[kernel].items(), gains(study, [*FLAGS[kernel].values()], figure), strict=True
        )
        if each.alone or each.in_bundle
    ]
    return pd.DataFrame(found)


def bundle_frame(study: LeverStudy, flags: Sequence[str], figures: Sequence[str] = GAINS) -> pd.DataFrame:
    """A line per figure: gain of the bundle, product of the gains alone, and the former over the latter.

    Above 1 in `together` the flags gain more together than each by itself.
    """
    import pandas as pd

    found = []
    for figure in figures:
        whole, line = gain(study, OFF, BUNDLE, figure), study.find(BUNDLE, figure)
        singles = [each.alone for each in gains(study, flags, figure)]
        if whole is None or line is None:
            continue
        product = prod(each for each in singles if each) if all(singles) else None
        found.append(
            {
                "figure": figure,
                "off": study.value(OFF, figure),
                "bundle": study.value(BUNDLE, figure),
                "gain": whole,
                "product": product,
                "together": whole / product if product else None,
                "evidence": line.evidence,
                "of": line.of,
            }
        )
    return pd.DataFrame(found)


def exact_frame(study: LeverStudy) -> pd.DataFrame:
    """A line per emulated variant: held to float64, and its elements that equal the ones without flags bit for bit."""
    import pandas as pd

    base = study.outcomes[OFF].emulated
    found = []
    for name, outcome in study.outcomes.items():
        ran = outcome.emulated
        if ran is None or base is None:
            continue
        found.append(
            {
                "variant": name,
                "ok": ran.comparison.ok,
                "max_abs": ran.comparison.max_abs,
                "rms": ran.comparison.rms,
                "share": study.value(name, "worst error over its limit"),
                "equal": float((ran.out == base.out).double().mean()),
                "faults": study.value(name, "faults"),
                "evidence": "emulated",
            }
        )
    return pd.DataFrame(found)


def whole_kernel_frame(study: LeverStudy, variants: Sequence[str] = (OFF, BUNDLE)) -> pd.DataFrame:
    """A line per variant: instructions of the whole kernel and of its hot loop by kind, and registers. Static."""
    import pandas as pd

    found = []
    for name in variants:
        inspection = study.outcomes[name].inspection if name in study.outcomes else None
        if inspection is None:
            continue
        parts = {"whole kernel": inspection.kernel.instructions, "hot loop": inspection.hot_instructions}
        for part, instructions in parts.items():
            mix = mix_of(instructions)
            found.append(
                {
                    "variant": name,
                    "part": part,
                    "valu": mix.family("valu", "packed"),
                    "salu": mix.family("salu"),
                    "mfma": mix.family("mfma"),
                    "selections": _selections(instructions),
                    "vgprs": study.value(name, "VGPRs"),
                    "waves": study.value(name, "waves per SIMD"),
                    "evidence": "static",
                }
            )
    return pd.DataFrame(found)


def _selections(instructions: Sequence[Instruction]) -> int:
    return sum(each.mnemonic.startswith("v_cndmask") for each in instructions)
