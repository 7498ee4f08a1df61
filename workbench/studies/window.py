"""A sliding window: which tiles it prunes, and what is left around them (specification §4, "lighten the prelude").

A query block of Q positions from position p on, after a context of c keys, sees under a window of W the keys

    max(c + p + 1 - W, 0) .. c + p + Q - 1

and visits the tiles that hold them; a kernel that only masked would visit those from key 0 on. The emulator counts what
a launch executes before its loop over the tiles, in it and behind it. Tiles and keys of a problem are static (counted
from its lengths), the rounds of a grid modelled; instructions and cache lines are emulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from workbench.dispatch.grid import grid_2d
from workbench.errors import ParameterError
from workbench.gfx950.cfg import control_flow
from workbench.gfx950.isa import classify, mix_of
from workbench.studies.lever_study import LeverStudy, Variant, spec_variants, study_variants
from workbench.studies.unified_levers import base_spec, block_positions, paged

if TYPE_CHECKING:
    import pandas as pd

    from workbench.device import Device
    from workbench.gfx950.emulator import EmulationResult
    from workbench.problem import UnifiedAttentionProblem
    from workbench.scenarios import Scenario
    from workbench.studies.lever_study import Progress

ROWS_PER_WAVE = 32
SMALL_SEQUENCES = ((32, 512),) * 16
"""What the emulator runs: two query blocks of 128 rows a sequence at group 8. The lengths leave the larger problem's
kernel as it is."""
UNPRUNED = "nothing pruned"


@dataclass(frozen=True)
class TileCount:
    """Tiles of all query blocks of one KV head, and what is in them."""

    blocks: int
    """Query blocks that hold rows."""
    tiles: int
    """Tiles that they visit."""
    unpruned: int
    """Tiles from key 0 on."""
    keys: int
    """Keys that are copied: those of the tiles that some row of the block sees."""
    scores: int
    """Scores that some row needs, a head of the group each."""


def count_tiles(problem: UnifiedAttentionProblem, rows: int, tile: int) -> TileCount:
    """Count tiles of `tile` keys over query blocks of `rows` rows; without a window nothing is pruned."""
    window = problem.sliding_window or problem.max_kv_len
    blocks = tiles = unpruned = keys = scores = 0
    for first, last in block_positions(problem, rows):
        low, high = max(first + 1 - window, 0), last + 1
        blocks += 1
        tiles += -(-high // tile) - low // tile
        unpruned += -(-high // tile)
        keys += high - low
        scores += sum(min(each + 1, window) for each in range(first, last + 1))
    return TileCount(blocks, tiles, unpruned, keys, scores * problem.group_size)


def tile_frame(
    problem: UnifiedAttentionProblem, device: Device, resident: Mapping[tuple[int, int], int]
) -> pd.DataFrame:
    """A line per geometry: workgroups, tiles visited and pruned, scores used, K and V. Static.

    resident: (waves of a workgroup, keys of a tile) -> workgroups that a compute unit holds, from which the rounds of
    the grid follow (modelled). `copied` is over each key that some row sees, once a sequence.
    """
    import pandas as pd

    found = []
    least = count_tiles(problem, problem.group_size * problem.max_query_len, problem.block_size).keys
    for (waves, tile), held in resident.items():
        rows = ROWS_PER_WAVE * waves
        counted, grid = count_tiles(problem, rows, tile), prod(grid_2d(problem, rows))
        found.append(
            {
                "waves": waves,
                "tile": tile,
                "workgroups": grid,
                "empty": grid - counted.blocks * problem.num_kv_heads,
                "tiles": counted.tiles / counted.blocks,
                "unpruned": counted.unpruned / counted.blocks,
                "pruned": 1 - counted.tiles / counted.unpruned,
                "used": counted.scores / (rows * tile * counted.tiles),
                "copied": counted.keys / least,
                "rounds": grid / (held * device.compute_units),
                "evidence": "static; rounds modelled",
            }
        )
    return pd.DataFrame(found)


def geometry_changes(kernel: str, waves: int, tile: int | None = None) -> dict[str, Any]:
    """Fields of a spec of the kernel (`Gluon` or `portable`) for that many waves of 32 rows."""
    changes: dict[str, Any] = {"num_warps": waves}
    if kernel == "portable":
        changes["block_m"] = ROWS_PER_WAVE * waves
    return changes if tile is None else changes | {"tile_size": tile}


def window_study(
    scenario: Scenario,
    kernel: str,
    geometries: Sequence[tuple[int, int]],
    *,
    unpruned: bool = True,
    triton_version: str = "",
    seed: int = 0,
    on_step: Progress | None = None,
) -> LeverStudy:
    """The kernel that dispatch picks for a windowed scenario, with (waves, tile) of each geometry; baseline: the first.

    unpruned: run the first once more under a window as long as the longest context, which has the same masks and prunes
    no tile. ParameterError where the scenario has no window.
    """
    problem = paged(scenario)
    if problem.sliding_window is None:
        raise ParameterError(f"{scenario.name} has no window; choose one with sw in its name: `workbench scenarios`")
    base = base_spec(kernel, problem)
    variants = spec_variants(
        problem,
        base,
        {geometry_name(*each): geometry_changes(kernel, *each) for each in geometries},
    )
    if unpruned:
        first = variants[0]
        everything = problem.with_changes(sliding_window=problem.max_kv_len)
        variants.append(Variant(f"{first.name}, {UNPRUNED}", everything, first.spec, first.refusal))
    return study_variants(
        variants,
        published=(),
        small=small_problem,
        triton_version=triton_version,
        seed=seed,
        on_step=on_step,
    )


def geometry_name(waves: int, tile: int) -> str:
    """`4 waves, tile 64`."""
    return f"{waves} {'wave' if waves == 1 else 'waves'}, tile {tile}"


def small_problem(problem: Any) -> Any:
    """Sixteen short sequences of one KV head; a window longer than they are becomes one of their length."""
    window, longest = problem.sliding_window, max(keys for _, keys in SMALL_SEQUENCES)
    return problem.with_changes(
        seq_lens=SMALL_SEQUENCES,
        num_query_heads=problem.group_size,
        num_kv_heads=1,
        num_blocks=None,
        sliding_window=None if window is None else min(window, longest),
    )


def part_frame(study: LeverStudy, kernel: str) -> pd.DataFrame:
    """A line per emulated variant: instructions and cache lines before, in and behind the loop over the tiles.

    Instructions are of a wave with rows, the mean of all; `idle` is what a wave of a workgroup without rows executes,
    `tile` one pass of the loop; `instructions` and `lines_*` are of the launch. A software pipeline computes its last
    tiles behind the loop: `peeled` is the share of products there.
    """
    import pandas as pd

    found = []
    for name, outcome in study.outcomes.items():
        if outcome.emulated is None:
            continue
        spec: Any = outcome.variant.spec
        problem: Any = outcome.emulated.problem
        rows = ROWS_PER_WAVE * spec.num_warps
        busy = spec.num_warps * count_tiles(problem, rows, spec.tile_size).blocks * problem.num_kv_heads
        parts = _parts(outcome.emulated.launches[0], busy)
        found.append(
            {
                "kernel": kernel,
                "variant": name,
                "num_warps": spec.num_warps,
                "tile_size": spec.tile_size,
                **parts,
                "cycles": study.value(name, "cycles per 64 keys"),
                "workgroups_per_cu": study.value(name, "workgroups per CU"),
                "vgprs": study.value(name, "VGPRs"),
                "spills": study.value(name, "spilled VGPRs"),
                "time": study.value(name, "time"),
                "hardware": _hardware(study, name),
                "correct": outcome.emulated.comparison.ok,
                "evidence": "emulated",
            }
        )
    return pd.DataFrame(found)


def _hardware(study: LeverStudy, name: str) -> str:
    """What the variant was timed on; empty where it was not."""
    line = study.find(name, "time")
    return line.of.partition(",")[0] if line is not None and line.value is not None else ""


def _parts(launch: EmulationResult, busy: int) -> dict[str, float]:
    """Counts of a launch by their place around the loops that hold products; busy: its waves with rows."""
    executed, lines = launch.details.executed, launch.details.lines
    instructions = launch.program.code.instructions
    flow = control_flow(launch.program.code)
    loops = [each for each in flow.loops if not each.children and mix_of(flow.instructions(each)).family("mfma")]
    places = [instruction.index for each in loops for instruction in flow.instructions(each)]
    if not places:
        raise ParameterError(f"{launch.program.name} has no loop with products")
    first, end, waves = min(places), max(places) + 1, launch.details.waves
    searched = [
        instruction.index
        for each in flow.loops
        if each not in loops
        for instruction in flow.instructions(each)
        if instruction.index < first
    ]
    products = [place for place, each in enumerate(instructions) if classify(each).family == "mfma"]
    waits = [place for place, each in enumerate(instructions) if classify(each).family == "wait"]
    passes = sum(executed[flow.blocks[each.header].start] for each in loops)

    def in_front(chosen: Sequence[int]) -> tuple[float, float]:
        """What a wave without rows executes of some instructions in front of the loops, and the mean one with rows."""
        counts = [executed[place] for place in chosen if place < first]
        # Waves without rows leave in front of what only the others execute.
        without = sum(count for count in counts if count > busy) / waves
        return without, (sum(counts) - without * (waves - busy)) / busy

    idle, prelude = in_front(range(first))
    loop, behind = sum(executed[first:end]) / busy, sum(executed[end:]) / busy
    return {
        "waves": waves,
        "busy": busy,
        "workgroups": launch.details.workgroups,
        "idle": idle,
        "prelude": prelude,
        "search": sum(executed[place] for place in searched) / waves,
        "loop": loop,
        "behind": behind,
        "tile": loop * busy / passes,
        "passes": passes / busy,
        "peeled": sum(executed[place] for place in products if place >= end) / sum(executed[each] for each in products),
        "instructions": sum(executed),
        "around": (prelude + behind) / (prelude + loop + behind),
        "waits": in_front(waits)[1],
        "waits_tile": sum(executed[place] for place in waits if first <= place < end) / passes,
        "lines_prelude": sum(lines[:first]),
        "lines_loop": sum(lines[first:end]),
        "lines_behind": sum(lines[end:]),
    }


def read_frame(study: LeverStudy, variants: Sequence[str], *, triton_version: str = "", seed: int = 0) -> pd.DataFrame:
    """A line per variant: cache lines that waves ask to read, and how many different ones: the least that HBM gives.

    The launches of the study's small problems run once more with every request kept. Emulated.
    """
    import numpy as np
    import pandas as pd

    from workbench.attention import run_unified
    from workbench.gfx950.emulator import EmulatorOptions
    from workbench.inputs import make_unified_inputs

    options = EmulatorOptions(triton_version=triton_version, strict=False, check_races=False, trace=True)
    found = []
    for name in variants:
        variant: Any = study.outcomes[name].variant
        problem = small_problem(variant.problem)
        inputs = make_unified_inputs(problem, seed=seed)
        result = run_unified(problem, inputs, lane="2d", spec=variant.spec, backend="emulator", emulator=options)
        trace: Any = result.emulation[0].trace
        read = trace.line[~trace.write]
        found.append(
            {
                "variant": name,
                "requests": len(read),
                "lines": len(np.unique(read)),
                "reuse": len(read) / len(np.unique(read)),
                "evidence": "emulated",
            }
        )
    return pd.DataFrame(found)


def context_frame(
    problem: UnifiedAttentionProblem, part: Any, waves: int, tile: int, contexts: Sequence[int]
) -> pd.DataFrame:
    """A line per context: instructions of a wave with and without pruning, and the prelude's share of them.

    part: a line of `part_frame`, whose counts are taken for any context; a query of the problem's longest length.
    Modelled.
    """
    import pandas as pd

    found = []
    for keys in contexts:
        one = problem.with_changes(seq_lens=((min(problem.max_query_len, keys), keys),), num_blocks=None)
        counted = count_tiles(one, ROWS_PER_WAVE * waves, tile)
        for way, count in (("pruned", counted.tiles), ("masked only", counted.unpruned)):
            loop = part.tile * count / counted.blocks
            around = part.prelude + part.behind
            found.append(
                {
                    "keys": keys,
                    "way": way,
                    "tiles": count / counted.blocks,
                    "instructions": around + loop,
                    "around": around / (around + loop),
                    "evidence": "modelled",
                }
            )
    return pd.DataFrame(found)
