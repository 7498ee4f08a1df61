"""What we find for the specification's claims about the dense prefill kernel, §8."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from workbench.dispatch.grid import grid_dense
from workbench.gfx950.emulator.banks import lds_access
from workbench.problem import DenseAttentionProblem
from workbench.scenarios import find
from workbench.spec_gfx950 import Gfx950DenseSpec
from workbench.studies.claims import Ours
from workbench.studies.claims_unified import mi355x

if TYPE_CHECKING:
    from workbench.model import L2Result
    from workbench.studies.lever_study import Emulated

SAMPLED_SETS = 8
"""Sets of each L2 that are simulated: the standard error of a hit rate is then about half a point."""


def headline_problem() -> DenseAttentionProblem:
    """The shape of the specification's measurements: S 8192, 128/8 heads, d128, causal."""
    problem = find("dense_headline").problem
    if not isinstance(problem, DenseAttentionProblem):
        raise TypeError("dense_headline is a dense scenario")
    return problem


def shipped() -> Gfx950DenseSpec:
    """What dispatch ships for it."""
    from workbench.dispatch import select_dense_spec

    spec = select_dense_spec(headline_problem(), mi355x(), tuned=False).spec
    if not isinstance(spec, Gfx950DenseSpec):
        raise TypeError(f"dispatch takes {type(spec).__name__}")
    return spec


def spec_field(field: str) -> Ours:
    """A field of the shipped spec."""
    return Ours(getattr(shipped(), field), f"{field} of the spec that dispatch takes")


def threads() -> Ours:
    """Threads of a workgroup."""
    return Ours(64 * shipped().num_warps, f"{shipped().num_warps} waves of 64 lanes")


def bank_conflict_degree(pad: int) -> Ours:
    """Cycles of the slowest phase of one ds_read_b128 of K: lane l reads row l mod 32, 8 halves from 8 (l div 32)."""
    addresses = [2 * ((128 + pad) * (lane % 32) + 8 * (lane // 32)) for lane in range(64)]
    access = lds_access(addresses, 16)
    return Ours(access.degree, f"{access.phases} phases of 16 lanes on 64 banks take {access.cycles} cycles")


@lru_cache(maxsize=1)
def _emulated() -> Emulated:
    from workbench.compiler import installed_triton_version
    from workbench.levers.emulated import small_problem
    from workbench.studies.lever_study import emulate_checked

    return emulate_checked(small_problem(headline_problem()), shipped(), "dense", installed_triton_version())


def emulated_conflicts(read: str) -> Ours:
    """LDS conflict cycles of the read of `k` or `v` in the emulated kernel, pads as shipped."""
    from workbench.levers.emulated import conflicts_by_product

    (launch,) = _emulated().launches
    found = conflicts_by_product(launch)
    cycles, busy = found[f"conflicts_{read}"], launch.counters["SQ_LDS_IDX_ACTIVE"]
    return Ours(cycles, f"{cycles} conflict cycles, of {busy:,} busy LDS cycles")


def emulated_error() -> Ours:
    """Largest error of the emulated kernel against float64, standard normal inputs."""
    comparison = _emulated().comparison
    return Ours(comparison.max_abs, comparison.describe())


def largest_probability() -> Ours:
    """Largest P under a lazy rescale, log2, over all courses of the scores."""
    from math import log2

    from workbench.studies.streaming_softmax import LAZY_THRESHOLD, PATTERNS, rescale_frame

    frame = rescale_frame([LAZY_THRESHOLD], ["bf16"], 2048)
    largest = frame["largest_p"].max()
    return Ours(log2(largest), f"largest P {largest:.1f} over {len(PATTERNS)} courses of the scores")


def lazy_passes() -> Ours:
    """1 where the emulated kernel, which rescales lazily, keeps within the tolerance of bf16."""
    from workbench.studies.streaming_softmax import LAZY_THRESHOLD, rescale_frame

    comparison = _emulated().comparison
    frame = rescale_frame([0.0, LAZY_THRESHOLD], ["bf16"], 2048)
    errors = frame.pivot_table(index="pattern", columns="threshold", values="error")
    ratio = errors[LAZY_THRESHOLD] / errors[0.0]
    growth = f"{ratio.min() - 1:.0%} to {ratio.max() - 1:.0%}"
    text = f"{comparison.describe()}; modelled, RMS errors grow by {growth}, by the scores' course"
    return Ours(float(comparison.ok and shipped().lazy_rescale), text)


def lazy_rescales() -> Ours:
    """How often a wave still rescales on random scores, in words."""
    from workbench.studies.streaming_softmax import LAZY_THRESHOLD, rescale_frame

    frame = rescale_frame([0.0, LAZY_THRESHOLD], ["bf16"], 2048)
    kept = frame[frame["pattern"] == "random"].set_index("threshold")["waves_rescaled"]
    return Ours(
        None, f"random scores: waves rescale at {kept[LAZY_THRESHOLD]:.0%} of the later tiles, {kept[0.0]:.0%} without"
    )


def unmasked_share() -> Ours:
    """Share of the key tiles, in per cent, that lie below the diagonal whole."""
    from workbench.model.dense_order import key_ranges

    problem, spec = headline_problem(), shipped()
    ends = key_ranges(problem, spec.block_m)[1]
    tiles = int((-(-ends // spec.block_n)).sum())
    full = sum(first // spec.block_n for first in range(0, problem.seqlen_q, spec.block_m))
    return Ours(100 * full / tiles, f"{full:,} of {tiles:,} tiles of {spec.block_m} x {spec.block_n}, a head")


def rows_of_a_copy() -> Ours:
    """Rows of head size 64 that one copy of 64 lanes x 4 bytes moves."""
    return Ours(64 * 4 / 2 / 64, "64 lanes x 2 elements over 64 elements of a row")


def programs() -> Ours:
    """Programs of the persistent grid that go with the specification's orders."""
    from workbench.dispatch import num_persistent_programs, select_work_order

    count = num_persistent_programs(shipped(), mi355x())
    chosen = select_work_order(headline_problem(), shipped(), mi355x())
    return Ours(count, f"one a compute unit; `auto` takes {chosen.order} with {chosen.num_persistent} here")


def least_items() -> Ours:
    """Fewest items g NQB B of a KV head, over the programs, for which dispatch admits hkv_major."""
    from workbench.dispatch import select_work_order
    from workbench.errors import SpecError

    problem = headline_problem()
    spec = shipped().with_changes(persist_decode="hkv_major")
    items = problem.group_size * grid_dense(problem, spec.block_m)[0] * problem.batch
    admitted = []
    for count in range(1, items + 1):
        try:
            select_work_order(problem, spec.with_changes(num_persistent=count), mi355x())
        except SpecError:
            break
        admitted.append(count)
    return Ours(items / admitted[-1], f"{items} items a KV head; up to {admitted[-1]} programs are admitted")


@lru_cache(maxsize=2)
def _l2(order: str) -> L2Result:
    from workbench.model import L2Assumptions, model_l2

    assumed = L2Assumptions(sampled_sets=SAMPLED_SETS)
    return model_l2(headline_problem(), shipped(), mi355x(), order, num_persistent=256, assumptions=assumed)


def l2_hit_rate(order: str) -> Ours:
    """Modelled L2 hit rate of an order, in per cent."""
    found = _l2(order)
    return Ours(
        100 * found.hit_rate,
        f"{100 * found.hit_rate:.1f} ± {100 * found.hit_rate_error:.1f} %, the error that of the sampled sets",
    )


def l2_misses_ratio() -> Ours:
    """Modelled misses of qb_major over those of hkv_major."""
    worse, better = (_l2(order).total_misses for order in ("qb_major", "hkv_major"))
    return Ours(worse / better, f"{worse / 1e6:.1f} against {better / 1e6:.1f} million lines")


def cold_starts() -> Ours:
    """Cold starts of the two grids, in words."""
    problem, spec = headline_problem(), shipped()
    items = prod(grid_dense(problem, spec.block_m))
    return Ours(None, f"{items:,} cold starts with the default grid, 256 with the persistent one")


def rate_over_peak(tflops: float) -> Ours:
    """A published throughput over the data sheet's bf16 peak, in words."""
    peak = mi355x().peak_bf16_flops or 0
    return Ours(None, f"{tflops * 1e12 / peak:.0%} of the data sheet's {peak / 1e12:,.0f} TFLOP/s; nothing was timed")


def l2_misses_ratio_told() -> Ours:
    """The modelled misses, in words: for a claim about times."""
    return Ours(None, f"misses of qb_major against those of hkv_major: {l2_misses_ratio().text}")
