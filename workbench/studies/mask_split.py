"""The mask split: whole tiles in a loop of their own, without masks, and a masked loop for the rest.

Evidence: tiles of a problem, instructions, registers and code static; cycles modelled; instructions of a
launch and its errors emulated; times measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.studies.lever_figures import certain_faults
from workbench.studies.lever_study import emulate_checked, spec_variants, study_variants
from workbench.studies.unified_levers import base_spec, block_positions, paged, small_paged

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from workbench.device import Device
    from workbench.inspection import Inspection
    from workbench.parity.timing import TimingPlan
    from workbench.problem import UnifiedAttentionProblem
    from workbench.records import Record
    from workbench.scenarios import Scenario
    from workbench.spec_gfx950_unified import Gfx950Unified2DSpec
    from workbench.studies.lever_study import LeverStudy, Progress

ONE, SPLIT = "one loop", "mask split"
VARIANTS: dict[str, dict[str, Any]] = {ONE: {"mask_split": False}, SPLIT: {"mask_split": True}}
TAILS = {"long tail": (64, 64), "middling": (32, 320), "short tail": (16, 1024)}
"""Queries and keys of the emulated problems: without a window all tiles are masked, one of five, one of sixteen."""
INSTRUCTION_CACHE = 64 * 1024
"""Bytes that two compute units of an MI355X share (AMD's ROCm documentation, table of hardware specifications)."""


@dataclass(frozen=True)
class Tiles:
    """KV tiles that the workgroups of a launch walk, counted from its lengths. Static."""

    blocks: int
    """Workgroups that have rows, of all KV heads."""
    whole: int
    """Tiles that every row of the workgroup sees from end to end."""
    masked: int

    @property
    def total(self) -> int:
        return self.whole + self.masked

    @property
    def share(self) -> float:
        """Whole tiles over all."""
        return self.whole / self.total if self.total else 0.0


def split_tiles(problem: UnifiedAttentionProblem, block_m: int, tile: int) -> Tiles:
    """What the split gives to each loop, by the bounds that the kernels compute for a query block."""
    window = problem.sliding_window or problem.max_kv_len
    blocks = whole = total = 0
    for first, last in block_positions(problem, block_m):
        low, full_low = max(first + 1 - window, 0), max(last + 1 - window, 0)
        blocks += 1
        whole += max((first + 1) // tile - -(-full_low // tile), 0)
        total += -(-(last + 1) // tile) - low // tile
    heads = problem.num_kv_heads
    return Tiles(heads * blocks, heads * whole, heads * (total - whole))


def tile_frame(scenarios: Iterable[Scenario]) -> pd.DataFrame:
    """A line per scenario that the Gluon kernel serves on an MI355X, by the spec that dispatch picks. Static."""
    import pandas as pd

    rows = []
    for scenario in scenarios:
        problem = paged(scenario)
        spec = _dispatched(problem)
        if spec is None:
            continue
        tiles = split_tiles(paged(scenario), spec.block_m, spec.tile_size)
        rows.append(
            {
                "scenario": scenario.name,
                "family": family(problem),
                "rows": spec.block_m,
                "tile": spec.tile_size,
                "blocks": tiles.blocks,
                "per_block": tiles.total / tiles.blocks,
                "whole": tiles.whole,
                "masked": tiles.masked,
                "share": tiles.share,
                "evidence": "static",
            }
        )
    return pd.DataFrame(rows)


def _dispatched(problem: UnifiedAttentionProblem) -> Gfx950Unified2DSpec | None:
    """The Gluon kernel's spec, None where dispatch picks the portable kernel."""
    from workbench.attention.backends import EMULATED_DEVICE
    from workbench.device import load_device
    from workbench.dispatch import select_spec
    from workbench.spec_gfx950_unified import Gfx950Unified2DSpec

    spec = select_spec(problem, load_device(EMULATED_DEVICE), "2d").spec
    return spec if isinstance(spec, Gfx950Unified2DSpec) else None


def family(problem: UnifiedAttentionProblem) -> str:
    """Problems whose kernels walk their tiles by the same code, nearly: `d64, window of 128`."""
    parts = [f"d{problem.head_size}"]
    if problem.sliding_window is not None:
        parts.append(f"window of {problem.sliding_window}")
    if problem.kv_dtype != problem.dtype:
        parts.append("fp8 cache")
    return ", ".join(parts)


def split_study(scenario: Scenario, *, triton_version: str = "", on_step: Progress | None = None) -> LeverStudy:
    """The Gluon kernel that dispatch picks for the scenario, with and without the split; compiled, not run."""
    problem = paged(scenario)
    return study_variants(
        spec_variants(problem, base_spec("Gluon", problem), VARIANTS),
        published=("mask_split",),
        triton_version=triton_version,
        small=None,
        timing=False,
        on_step=on_step,
    )


@dataclass(frozen=True)
class Walk:
    """One loop over tiles. Instructions static, cycles modelled; blocks that a vote skips are in neither."""

    tiles: str
    """Which tiles it walks: all, whole, or masked."""
    instructions: int
    masks: int
    mfma: int
    cycles: int


def walks(inspection: Inspection) -> tuple[Walk, ...]:
    """The loops that hold products, by what they mask: where there are several, the one with the fewest selects first.

    A window has masked tiles at both ends, in two loops of the same code; each is listed.
    """
    from workbench.gfx950.budget import issue_budget
    from workbench.gfx950.isa import mix_of
    from workbench.gfx950.votes import voted_away, without_blocks

    flow, occupancy = inspection.flow, inspection.occupancy
    if flow is None or occupancy is None:
        return ()
    found = []
    for loop in flow.loops:
        code = without_blocks(flow, loop, voted_away(flow, loop))
        mfma = mix_of(code).family("mfma")
        if mfma and not loop.children:
            masks = sum(each.mnemonic.startswith(("v_cmp", "v_cndmask")) for each in code)
            budget = issue_budget(code, inspection.kernel.target, waves_per_simd=max(1, occupancy.waves_per_simd))
            found.append(Walk("masked", len(code), masks, mfma, budget.least_cycles))
    found.sort(key=lambda walk: walk.masks)
    names = ["all"] if len(found) == 1 else ["whole", *["masked"] * (len(found) - 1)]
    return tuple(
        Walk(name, walk.instructions, walk.masks, walk.mfma, walk.cycles)
        for name, walk in zip(names, found, strict=True)
    )


def walk_frame(studies: Iterable[tuple[str, LeverStudy]]) -> pd.DataFrame:
    """A line per family, compiler, variant and loop over tiles."""
    import pandas as pd

    rows = []
    for name, study in studies:
        for variant in study.names:
            (inspection,) = study.inspections([variant])
            rows += [
                {
                    "family": name,
                    "triton": study.triton_version,
                    "variant": variant,
                    "tiles": walk.tiles,
                    "instructions": walk.instructions,
                    "masks": walk.masks,
                    "mfma": walk.mfma,
                    "cycles": walk.cycles,
                    "evidence": "static; cycles modelled",
                }
                for walk in walks(inspection)
            ]
    return pd.DataFrame(rows)


def predicted(walked: pd.DataFrame, share: float, what: str = "cycles") -> float:
    """One loop's cycles or instructions over the split's, where `share` of the tiles is whole. Modelled.

    walked: lines of one family and compiler. Code outside the loops is left out.
    """
    one = walked[walked["tiles"] == "all"][what].mean()
    whole = walked[walked["tiles"] == "whole"][what].mean()
    masked = walked[walked["tiles"] == "masked"][what].mean()
    return float(one / (share * whole + (1 - share) * masked))


def break_even(walked: pd.DataFrame, what: str = "cycles") -> float | None:
    """Share of whole tiles from which on the split asks for less; None where it never does or always does."""
    one, whole, masked = (walked[walked["tiles"] == kind][what].mean() for kind in ("all", "whole", "masked"))
    if masked <= one or whole >= one:
        return None
    return float((masked - one) / (masked - whole))


def emulated_frame(
    scenarios: Iterable[Scenario], triton_version: str, tails: Sequence[str] = tuple(TAILS), seed: int = 0
) -> pd.DataFrame:
    """Both variants on problems whose tails are long and short, one KV head each. Emulated."""
    import pandas as pd
    import torch

    rows = []
    for scenario in scenarios:
        base: Any = base_spec("Gluon", paged(scenario))
        for tail in tails:
            queries, keys = TAILS[tail]
            problem = small_paged(paged(scenario), queries, keys)
            tiles = split_tiles(problem, base.block_m, base.tile_size)
            one, split = (
                emulate_checked(problem, base.with_changes(**changed), "2d", triton_version, seed)
                for changed in VARIANTS.values()
            )
            counts = [sum(launch.wave_instructions for launch in run.launches) for run in (one, split)]
            share = max(run.comparison.worst_abs / run.comparison.allowed for run in (one, split))
            rows.append(
                {
                    "family": family(problem),
                    "tail": tail,
                    "queries": queries,
                    "keys": keys,
                    "whole": tiles.whole,
                    "masked": tiles.masked,
                    "share": tiles.share,
                    "one": counts[0],
                    "split": counts[1],
                    "ratio": counts[0] / counts[1],
                    "right": one.comparison.ok and split.comparison.ok,
                    "of_limit": share,
                    "identical": bool(torch.equal(one.out, split.out)),
                    "faults": sum(len(certain_faults(run.launches)) for run in (one, split)),
                    "evidence": "emulated",
                }
            )
    return pd.DataFrame(rows)


def timed_frame(scenarios: Iterable[Scenario], *, seed: int = 0, plan: TimingPlan | None = None) -> pd.DataFrame:
    """Both variants of the kernel that dispatch picks for the GPU here, interleaved. Measured.

    Without a GPU those of the stored records, of the devices that have some.
    """
    import pandas as pd

    from workbench.device import detect_device

    device = detect_device()
    pairs = [
        (scenario, records)
        for scenario in scenarios
        for records in ([_timed(scenario, device, seed, plan)] if device else _recalled(scenario))
    ]
    return pd.DataFrame([_time_line(scenario, *records) for scenario, records in pairs], columns=_TIMED)


_TIMED = [
    "scenario", "lane", "kernel", "share", "per_block", "one", "split", "ratio", "low", "high", "status", "hardware",
    "evidence",
]  # fmt: skip


def _timed(scenario: Scenario, device: Device, seed: int, plan: TimingPlan | None) -> Sequence[Record]:
    from workbench.dispatch import select_path, select_spec
    from workbench.parity.harness import Contestant
    from workbench.studies.times import timed_records

    problem = paged(scenario)
    lane = select_path(problem, device).lane
    spec: Any = select_spec(problem, device, lane).spec
    contestants = [Contestant(name, lane, spec.with_changes(**changed)) for name, changed in VARIANTS.items()]
    return timed_records(scenario, contestants, seed=seed, plan=plan)


def _recalled(scenario: Scenario) -> list[tuple[Record, Record]]:
    """Stored records of both variants, a pair for each session."""
    from workbench.records import stored_study_records

    one, split = ({each.session: each for each in stored_study_records(scenario.problem, name)} for name in VARIANTS)
    pairs = [(one[session], split[session]) for session in one if session in split]
    return [pair for pair in pairs if all(each.samples and each.spec is not None for each in pair)]


def _time_line(scenario: Scenario, one: Record, split: Record) -> dict[str, Any]:
    from statistics import median

    from workbench.records import hardware_of

    lane: str = one.lane
    spec: Any = one.spec
    failed = next((record.message for record in (one, split) if not record.samples), "")
    name = f"speedup_over_{ONE}/{lane}"
    tiles = split_tiles(paged(scenario), spec.block_m, spec.tile_size)
    return {
        "scenario": scenario.name,
        "lane": lane,
        "kernel": type(spec).__name__,
        "share": tiles.share,
        "per_block": tiles.total / tiles.blocks / getattr(spec, "num_segments", 1),
        "one": median(one.samples) if one.samples else None,
        "split": median(split.samples) if split.samples else None,
        "ratio": split.value(name),
        "low": split.value(f"{name}_low"),
        "high": split.value(f"{name}_high"),
        "status": failed or "ok",
        "hardware": hardware_of(one),
        "evidence": "measured",
    }
