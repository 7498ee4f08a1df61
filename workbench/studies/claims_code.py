"""Figures of the machine code that the claims are held against: the kernels that dispatch picks, and single levers."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from workbench.gfx950.isa import classify, mix_of
from workbench.levers.registry import find_kernel
from workbench.levers.table import base_of
from workbench.scenarios import find
from workbench.studies.claims import Ours
from workbench.studies.lever_study import spec_variants, study_variants

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from workbench.gfx950.machine_code import Instruction
    from workbench.inspection import Inspection
    from workbench.studies.lever_study import LeverStudy, Variant

KERNELS = {
    "dense": ("gfx950-dense", "dense_headline"),
    "serving": ("gfx950-unified-2d", "serving_d64_sinks_full_ns16"),
    "single": ("gfx950-unified-2d", "single_batch_d128_S4096"),
    "decode": ("unified-2d", "decode_d128_b16"),
}
"""Name -> kernel of the lever registry, and the scenario whose kernel is compiled."""
CHANGES: dict[str, dict[str, dict[str, object]]] = {
    "dense": {
        "shipped": {}, "transposed_pv=false": {"transposed_pv": False}, "exp2_fast=false": {"exp2_fast": False},
        "setprio=false": {"setprio": False}, "prefetch=false": {"prefetch": False},
        "lazy_rescale=false": {"lazy_rescale": False}, "ragged": {"ragged": True},
    },
    "serving": {f"waves_per_eu={waves}": {"waves_per_eu": waves} for waves in (2, 3, 4)},
    "single": {
        "shipped": {}, "k_single_buffer=false": {"k_single_buffer": False}, "mask_split": {"mask_split": True},
    },
    "decode": {"shipped": {}},
}  # fmt: skip
_STORES = {"byte": 1, "short": 2, "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}


@lru_cache(maxsize=1)
def compiled() -> LeverStudy:
    """Every variant, compiled side by side with the installed Triton; named `kernel: variant`. None of it is run."""
    variants: list[Variant] = []
    for name, (kernel, scenario) in KERNELS.items():
        problem = find(scenario).problem
        base = base_of(find_kernel(kernel), problem)
        changes = {f"{name}: {variant}": changed for variant, changed in CHANGES[name].items()}
        variants += spec_variants(problem, base, changes)
    return study_variants(variants, small=None, timing=False)


def figure(variant: str, name: str) -> Ours:
    """A figure of a variant, as workbench.studies.lever_figures names it."""
    found = compiled().find(variant, name)
    if found is None or found.value is None:
        return _missing(variant)
    return Ours(found.value, f"{name} of {variant}, {found.of}")


def difference(variant: str, base: str, name: str) -> Ours:
    """A figure of a variant less that of another."""
    after, before = compiled().value(variant, name), compiled().value(base, name)
    if after is None or before is None:
        return _missing(variant if after is None else base)
    return Ours(after - before, f"{name}: {after:,.4g} of {variant}, {before:,.4g} of {base}")


def pair(variant: str, base: str, names: list[str]) -> Ours:
    """Several figures of two variants, in words alone: for claims about times."""
    study = compiled()
    told = [f"{name} {_spell(study, variant, name)} against {_spell(study, base, name)}" for name in names]
    return Ours(None, f"{variant} against {base}: {'; '.join(told)}")


def family_count(variant: str, families: list[str]) -> Ours:
    """Instructions of the whole kernel that belong to the families."""
    inspection = compiled().outcomes[variant].inspection
    if inspection is None:
        return _missing(variant)
    count = mix_of(inspection.kernel.instructions).family(*families)
    loop = mix_of(inspection.hot_instructions).family(*families)
    return Ours(count, f"{count} {' and '.join(families)} instructions of the whole kernel, {loop} of the hot loop")


def atom_share(variant: str, atom: str) -> Ours:
    """Share of the kernel's MFMA that have the form `atom`, such as 32x32x16."""
    inspection = compiled().outcomes[variant].inspection
    if inspection is None:
        return _missing(variant)
    details = [classify(each).detail.split()[0] for each in _of_family(inspection.kernel.instructions, "mfma")]
    share = sum(each == atom for each in details) / len(details)
    return Ours(share, f"{details.count(atom)} of {len(details)} MFMA of the kernel are {atom}")


def mnemonic_used(variant: str, mnemonic: str) -> Ours:
    """1 where the hot loop holds the mnemonic, else 0, with the cross-lane moves that it does hold."""
    inspection = compiled().outcomes[variant].inspection
    if inspection is None:
        return _missing(variant)
    moves: dict[str, int] = {}
    for each in _of_family(inspection.hot_instructions, "cross-lane"):
        moves[each.mnemonic] = moves.get(each.mnemonic, 0) + 1
    told = ", ".join(f"{count} {name}" for name, count in sorted(moves.items())) or "no cross-lane moves"
    return Ours(float(any(name.startswith(mnemonic) for name in moves)), f"the hot loop of {variant} holds {told}")


def store_bytes(variant: str) -> Ours:
    """Bytes that a lane stores at once, in the store that most of the output goes through."""
    inspection = compiled().outcomes[variant].inspection
    if inspection is None:
        return _missing(variant)
    widths = [
        _STORES.get(classify(each).detail, 0) for each in _of_family(inspection.kernel.instructions, "vmem store")
    ]
    widest = max(widths, key=lambda width: width * widths.count(width))
    return Ours(widest, f"{widths.count(widest)} of {len(widths)} stores of {variant} are {widest} bytes a lane")


def selections_added(variant: str, base: str) -> Ours:
    """v_cndmask of the hot loop that do not choose the offset of a copy to LDS, less those of another variant."""
    counts = {}
    for name in (variant, base):
        inspection = compiled().outcomes[name].inspection
        if inspection is None:
            return _missing(name)
        loop = inspection.hot_instructions
        chosen = [place for place, each in enumerate(loop) if each.mnemonic.startswith("v_cndmask")]
        offsets = sum(_chooses_an_offset(loop, place) for place in chosen)
        counts[name] = (len(chosen) - offsets, offsets)
    told = ", ".join(f"{others} and {offsets} for copies in {name}" for name, (others, offsets) in counts.items())
    return Ours(counts[variant][0] - counts[base][0], f"v_cndmask of the hot loop: {told}")


def _chooses_an_offset(loop: Sequence[Instruction], place: int) -> bool:
    """Whether the first instruction behind a v_cndmask that names its result is a copy to LDS."""
    result = loop[place].operands[0]
    reader = next((each for each in loop[place + 1 :] if result in each.operands), None)
    return reader is not None and classify(reader).family == "vmem to lds"


def copied_elements(variant: str) -> Ours:
    """Elements of 16 bits that one copy from HBM to LDS moves: 64 lanes of so many bytes."""
    inspection = compiled().outcomes[variant].inspection
    if inspection is None:
        return _missing(variant)
    copies = [classify(each).detail.split()[-1] for each in _of_family(inspection.hot_instructions, "vmem to lds")]
    if not copies:
        return Ours(None, f"the hot loop of {variant} holds no copy to LDS")
    elements = 64 * _STORES[copies[0]] // 2
    return Ours(elements, f"{len(copies)} copies of a {copies[0]} a lane in an iteration of a wave")


def partial_waits(variant: str) -> Ours:
    """vmcnt waits of the hot loop that leave copies under way."""
    inspection = compiled().outcomes[variant].inspection
    if inspection is None:
        return _missing(variant)
    waits = _vmcnt(inspection)
    return Ours(sum(count > 0 for count in waits), f"vmcnt waits of the hot loop: {waits}")


def _vmcnt(inspection: Inspection) -> list[int]:
    waits = [" ".join(each.operands) for each in inspection.hot_instructions if each.mnemonic == "s_waitcnt"]
    return [int(count) for text in waits for count in re.findall(r"vmcnt\((\d+)\)", text)]


def _of_family(instructions: Iterable[Instruction], family: str) -> list[Instruction]:
    return [each for each in instructions if classify(each).family == family]


def _missing(variant: str) -> Ours:
    outcome = compiled().outcomes[variant]
    return Ours(None, f"no kernel of {variant}: {outcome.message or 'the figure is missing'}")


def _spell(study: LeverStudy, variant: str, name: str) -> str:
    value = study.value(variant, name)
    return "none" if value is None else f"{value:,.4g}"
