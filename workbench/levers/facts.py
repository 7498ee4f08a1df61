"""Facts of a hot loop that levers are compared by, read from an inspection. Each has one kind of evidence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from workbench.gfx950.clusters import product_roles
from workbench.gfx950.dataflow import moves_of_probabilities
from workbench.gfx950.isa import classify, mix_of
from workbench.inspection.schedule import schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.gfx950.machine_code import Instruction
    from workbench.inspection import Inspection

Value = int | float | str | None
Kind = Literal["count", "ratio", "share", "text"]


@dataclass(frozen=True)
class Fact:
    """One column of the table."""

    key: str
    title: str
    evidence: str
    kind: Kind
    """`count` is whole; `share` is shown in per cent."""
    noun: str
    """What a count counts, with {s} where the plural has an s, or what another value is the value of."""


FACTS = (
    Fact("vgprs", "VGPR", "static", "count", "VGPR{s}"),
    Fact("agprs", "AGPR", "static", "count", "AGPR{s}"),
    Fact("spills", "spills", "static", "count", "spilled VGPR{s}"),
    Fact("lds_bytes", "LDS bytes", "static", "count", "byte{s} of LDS"),
    Fact("workgroups", "WG/CU", "static", "count", "workgroup{s} per CU"),
    Fact("mfma", "MFMA", "static", "count", "MFMA"),
    Fact("valu", "VALU", "static", "count", "plain vector instruction{s}"),
    Fact("packed", "packed", "static", "count", "packed instruction{s}"),
    Fact("trans", "TRANS", "static", "count", "transcendental instruction{s}"),
    Fact("exp_per_score", "v_exp per score", "static", "ratio", "v_exp per score"),
    Fact("cross_lane", "cross-lane", "static", "count", "cross-lane move{s} in all"),
    Fact("moves_of_p", "cross-lane QK to PV", "static", "count", "cross-lane move{s} between QK and PV"),
    Fact("exp_in_pv", "v_exp in PV", "static", "count", "v_exp among the PV products"),
    Fact("setprio", "setprio", "static", "count", "s_setprio"),
    Fact("copies", "HBM to LDS", "static", "text", "copies to LDS"),
    Fact("lds_reads", "LDS reads", "static", "text", "LDS reads"),
    Fact("lds_writes", "LDS writes", "static", "count", "LDS write{s}"),
    Fact("masks", "masks", "static", "count", "v_cmp and v_cndmask"),
    Fact("masks_tail", "masks elsewhere", "static", "count", "v_cmp and v_cndmask in the other loops"),
    Fact("vmcnt", "vmcnt", "static", "text", "vmcnt waits"),
    Fact("barriers", "barriers", "static", "count", "barrier{s}"),
    Fact("efficiency", "MFMA eff.", "modelled", "share", "modelled MFMA efficiency"),
    Fact("voted", "MFMA eff. voted", "modelled", "share", "modelled MFMA efficiency with voted-away blocks skipped"),
    Fact("binding", "bound", "modelled", "text", "binding bound"),
    Fact("conflicts_k", "conflicts K read", "emulated", "count", "LDS conflict cycle{s} of the K read"),
    Fact("conflicts_v", "conflicts V read", "emulated", "count", "LDS conflict cycle{s} of the V read"),
    Fact("conflicts_other", "conflicts other", "emulated", "count", "other LDS conflict cycle{s}"),
)
"""In the order of the columns. `v_exp per score` and everything from MFMA to barriers is of one iteration of a wave."""


def facts_of(inspection: Inspection, head_size: int) -> dict[str, Value]:
    """Static and modelled facts by key; the emulated ones are not among them."""
    resources, occupancy = inspection.kernel.resources, inspection.occupancy
    return {
        "vgprs": resources.vgprs,
        "agprs": resources.agprs,
        "spills": resources.vgpr_spills,
        "lds_bytes": occupancy.lds_bytes if occupancy else resources.lds_bytes,
        "workgroups": occupancy.workgroups_per_cu if occupancy else None,
        **_of_loop(inspection, head_size),
        **_modelled(inspection),
    }


def _of_loop(inspection: Inspection, head_size: int) -> dict[str, Value]:
    loop = inspection.hot_instructions
    mix = mix_of(loop)
    slots = schedule(inspection)
    scores = _scores(loop, head_size)
    return {
        "mfma": mix.family("mfma"),
        "valu": mix.family("valu", "acc move"),
        "packed": mix.family("packed"),
        "trans": mix.family("trans"),
        "exp_per_score": _exponentials(loop) / scores if scores else None,
        "cross_lane": mix.family("cross-lane"),
        "moves_of_p": moves_of_probabilities(loop),
        "exp_in_pv": sum(slot.symbol == "e" and slot.product == "PV" for slot in slots),
        "setprio": sum(slot.symbol == "P" for slot in slots),
        "copies": _copies(loop),
        "lds_reads": _widths(loop, "lds read"),
        "lds_writes": mix.family("lds write"),
        "masks": sum(slot.symbol == "m" for slot in slots),
        "masks_tail": _masks_of_other_loops(inspection),
        "vmcnt": ", ".join(str(count) for count in _vmcnt(loop)) or "none",
        "barriers": mix.family("barrier"),
    }


def _modelled(inspection: Inspection) -> dict[str, Value]:
    budget = inspection.budget
    if budget is None:
        return {"efficiency": None, "voted": None, "binding": None}
    voted = inspection.voted_budget or budget
    return {"efficiency": budget.mfma_efficiency, "voted": voted.mfma_efficiency, "binding": budget.binding}


def _scores(loop: Sequence[Instruction], head_size: int) -> int:
    """Scores that a lane gets in an iteration: the QK products have each as many steps as the head size takes."""
    total = 0
    for place, role in product_roles(loop).items():
        if role == "fresh":
            m, n, k = (int(extent) for extent in classify(loop[place]).detail.split()[0].split("x"))
            total += m * n * k
    return total // (64 * head_size)


def _exponentials(loop: Sequence[Instruction]) -> int:
    return sum(instruction.mnemonic.startswith("v_exp_") for instruction in loop)


def _copies(loop: Sequence[Instruction]) -> str:
    """`4 x 16 bytes a lane`."""
    counts = Counter(classify(each).detail for each in loop if classify(each).family == "vmem to lds")
    return ", ".join(f"{count} x {_bytes(detail)} bytes a lane" for detail, count in sorted(counts.items())) or "none"


def _bytes(detail: str) -> int:
    """Bytes a lane of `dword`, `dwordx4`, `ubyte`, `short` and their like."""
    _, dword, width = detail.rpartition("dword")
    if dword:
        return 4 * int(width.removeprefix("x") or 1)
    return 1 if "byte" in detail else 2


def _widths(loop: Sequence[Instruction], family: str) -> str:
    """`16 b128, 32 b64_tr_b16`."""
    counts = Counter(classify(each).detail for each in loop if classify(each).family == family)
    return ", ".join(f"{count} {detail}" for detail, count in sorted(counts.items())) or "none"


def _masks_of_other_loops(inspection: Inspection) -> int:
    """Mask instructions of the other innermost loops that hold products: the masked tiles of a split walk."""
    flow, hot = inspection.flow, inspection.hot
    if flow is None or hot is None:
        return 0
    total = 0
    for loop in flow.loops:
        instructions = flow.instructions(loop)
        if loop is not hot and not loop.children and mix_of(instructions).family("mfma"):
            total += sum(each.mnemonic.startswith(("v_cmp", "v_cndmask")) for each in instructions)
    return total


def _vmcnt(loop: Sequence[Instruction]) -> list[int]:
    """The counts that s_waitcnt names, in program order."""
    operands = [operand for each in loop if each.mnemonic == "s_waitcnt" for operand in each.operands]
    return [
        int(part.removeprefix("vmcnt(").rstrip(")"))
        for operand in operands
        for part in operand.split()
        if part.startswith("vmcnt(")
    ]
