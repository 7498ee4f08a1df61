"""How the dense kernel's persistent grid hands out its work items: in which order, to how many programs, and why."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from workbench.dispatch.grid import grid_dense
from workbench.errors import SpecError
from workbench.spec_sm90 import Sm90DenseSpec

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.problem import DenseAttentionProblem
    from workbench.spec import DenseGeometry

DecodeMode = Literal["qb_major", "hkv_major", "gqa_pair", "gqa_pair_2phase"]
PairedMode = Literal["gqa_pair", "gqa_pair_2phase"]

INTERPRETER_PROGRAMS = 4
"""Persistent programs without a device: enough to stride, few enough to interpret."""
LEAST_ROUNDS = 1.25
"""Rounds that the programs of a paired order make at least where `auto` takes one. From two on its load is shared about
evenly; below, its longest load is up to a sixth above qb_major's (modelled), the price of not having the fewest L2 hits
of all orders. Which counts more there, only hardware can tell."""

EVEN_LOAD = 1.1
"""Longest over mean load of the programs up to which a causal triangle counts as shared evenly."""


@dataclass(frozen=True)
class WorkOrderChoice:
    """The order of the work items, the programs of the persistent grid, and why."""

    order: DecodeMode
    num_persistent: int
    reason: str


def select_work_order(
    problem: DenseAttentionProblem, spec: DenseGeometry, device: Device | None = None
) -> WorkOrderChoice:
    """The order that the spec asks for and the number of programs that goes with it; SpecError if it cannot hold.

    `auto` follows specification §8.2 (hkv_major where a KV head's items balance the causal load and heads share K and
    V, else qb_major) and departs from it where the L2 model finds qb_major to be the worst of the balanced orders:
    where every item costs the same, hkv_major if an L2 then serves fewer KV heads; on the plain causal triangle,
    gqa_pair_2phase if its programs, all of equal work, make LEAST_ROUNDS and an L2 serves no more KV heads.
    """
    programs = num_persistent_programs(spec, device)
    if spec.num_persistent is None:
        blocks = grid_dense(problem, spec.block_m)[0]
        if spec.persist_decode in ("gqa_pair", "gqa_pair_2phase"):
            _check_pairs(problem, spec.persist_decode, blocks)
            programs = _programs_of_pairs(problem, spec.persist_decode, blocks)
        elif spec.persist_decode == "auto" and (paired := _two_phases(problem, blocks, programs, device)):
            return paired
    order, reason = resolve_persist_decode(problem, spec, programs, _caches(device))
    return WorkOrderChoice(order, programs, reason)


def num_persistent_programs(spec: DenseGeometry, device: Device | None) -> int:
    """Programs of an order that does not bring its own number: the spec's, else one per compute unit."""
    if spec.num_persistent is not None:
        return spec.num_persistent
    return device.compute_units if device is not None else INTERPRETER_PROGRAMS


def resolve_persist_decode(
    problem: DenseAttentionProblem, spec: DenseGeometry, num_persistent: int, l2_caches: int = 1
) -> tuple[DecodeMode, str]:
    """The order of the work items for a given number of programs, and why.

    hkv_major keeps one KV head's K and V in L2 and pairs low with high query blocks; that balances the causal triangle
    surely if the programs stride over both halves of a KV head: g * NQB * B >= 2 * NP. Where a spec asks for it and the
    numbers share it evenly all the same (`is_even_by_head`), it is taken too. The paired orders need one number of
    programs each. Raises SpecError where an order is asked for whose condition does not hold.
    """
    blocks = grid_dense(problem, spec.block_m)[0]
    if spec.persist_decode in ("gqa_pair", "gqa_pair_2phase"):
        return _paired_order(problem, spec.persist_decode, blocks, num_persistent)
    balanced, count = _balance(problem, blocks, num_persistent)
    if spec.persist_decode == "qb_major":
        return "qb_major", "qb_major: the spec says so."
    if spec.persist_decode == "hkv_major":
        if problem.causal and not balanced and not is_even_by_head(problem, spec, num_persistent):
            raise SpecError(
                f"persist_decode='hkv_major' would leave the causal load unbalanced: {count}; "
                "use 'auto' or 'qb_major', or fewer programs (num_persistent)"
            )
        return (
            "hkv_major",
            f"hkv_major: the spec says so, and {_why_even(problem, count, balanced)}.",
        )
    if balanced and problem.group_size > 1:
        return "hkv_major", f"hkv_major: {count}, so a KV head stays in L2 with the load balanced."
    if not problem.causal:
        return _order_of_equal_items(problem, blocks, num_persistent, l2_caches)
    if problem.group_size == 1:
        return "qb_major", "qb_major: with a group of 1 no query heads share K and V."
    return "qb_major", f"qb_major: {count}, so hkv_major would not be balanced."


def sharers(order: str, group: int) -> int:
    """Programs that share a KV head and a pair of query blocks under a paired order."""
    return 2 if order == "gqa_pair" else group


def paired_programs(order: str, num_q_blocks: int, num_heads: int, batch: int, group: int) -> int:
    """Programs that a paired order is for: pairs of query blocks x sharers of a KV head x KV heads x batch.

    The order meets every item once where the number of query blocks is even and the sharers divide the group.
    """
    return num_q_blocks // 2 * sharers(order, group) * (num_heads // group) * batch


def kv_heads_of_an_l2(
    problem: DenseAttentionProblem, order: DecodeMode, blocks: int, programs: int, l2_caches: int
) -> int:
    """KV heads, of all batch members, that the first `programs` programs of one L2 start on: every l2_caches-th."""
    group, batch, heads = problem.group_size, problem.batch, problem.num_kv_heads
    items = min(programs, blocks * problem.num_query_heads * batch)
    if order == "qb_major":
        met = {(item // (batch * group) % heads, item % batch) for item in range(0, items, l2_caches)}
    elif order == "hkv_major":
        met = {(item // (batch * group * blocks), item % batch) for item in range(0, items, l2_caches)}
    else:
        beside = sharers(order, group)
        met = {(item // (beside * batch) % heads, item // beside % batch) for item in range(0, items, l2_caches)}
    return len(met)


def _balance(problem: DenseAttentionProblem, blocks: int, num_persistent: int) -> tuple[bool, str]:
    """Whether hkv_major balances the causal triangle, and the count that says so."""
    items = problem.group_size * blocks * problem.batch
    balanced = items >= 2 * num_persistent
    return balanced, (
        f"g {problem.group_size} x {blocks} query blocks x batch {problem.batch} = {items}, "
        f"{'at least' if balanced else 'under'} 2 x {num_persistent} programs"
    )


@lru_cache(maxsize=256)
def is_even_by_head(problem: DenseAttentionProblem, spec: DenseGeometry, programs: int) -> bool:
    """Whether hkv_major's longest program has at most EVEN_LOAD times the keys of the mean, counted item by item."""
    blocks, heads, batch = grid_dense(problem, spec.block_m)
    share = problem.group_size * batch
    keys = [_keys_of_block(problem, spec.block_m, block) for block in range(blocks)]
    if isinstance(spec, Sm90DenseSpec):
        # Its causal query blocks count down.
        keys.reverse()
    loads = [0] * min(programs, blocks * heads * batch)
    for item in range(blocks * heads * batch):
        slot = item // share % blocks
        block = slot if slot < blocks // 2 else blocks - 1 - (slot - blocks // 2)
        loads[item % len(loads)] += keys[block]
    return max(loads, default=0) * len(loads) <= EVEN_LOAD * sum(loads)


def _keys_of_block(problem: DenseAttentionProblem, block_m: int, block: int) -> int:
    """Keys that some row of a query block sees."""
    if not problem.causal:
        return problem.seqlen_kv
    last = min((block + 1) * block_m, problem.seqlen_q) + problem.causal_offset
    first = 0
    if problem.sliding_window is not None:
        first = max(block * block_m + problem.causal_offset + 1 - problem.sliding_window, 0)
    return max(min(last, problem.seqlen_kv) - first, 0)


def _why_even(problem: DenseAttentionProblem, count: str, balanced: bool) -> str:
    if not problem.causal:
        return "all items cost the same"
    return count if balanced else f"though {count}, the longest program has at most {EVEN_LOAD} times the mean load"


def _order_of_equal_items(
    problem: DenseAttentionProblem, blocks: int, num_persistent: int, l2_caches: int
) -> tuple[DecodeMode, str]:
    """Without a causal mask nothing needs balancing: the order under which an L2 serves fewer KV heads."""
    query_first, heads_first = (
        kv_heads_of_an_l2(problem, order, blocks, num_persistent, l2_caches) for order in ("qb_major", "hkv_major")
    )
    if heads_first < query_first:
        why = f"all items cost the same, and an L2 serves {heads_first} KV heads at a time, not {query_first}"
        return "hkv_major", f"hkv_major: {why}."
    return "qb_major", f"qb_major: all items cost the same, and an L2 serves {query_first} KV heads at a time."


def _two_phases(
    problem: DenseAttentionProblem, blocks: int, units: int, device: Device | None
) -> WorkOrderChoice | None:
    """gqa_pair_2phase on `units` compute units under several L2 caches, where `auto` takes it."""
    caches = _caches(device)
    if caches == 1 or not _is_plain_triangle(problem) or blocks % 2:
        return None
    balanced, count = _balance(problem, blocks, units)
    programs = _programs_of_pairs(problem, "gqa_pair_2phase", blocks)
    if (balanced and problem.group_size > 1) or programs < LEAST_ROUNDS * units:
        return None
    met, under_qb = (
        kv_heads_of_an_l2(problem, order, blocks, units, caches) for order in ("gqa_pair_2phase", "qb_major")
    )
    if met > under_qb:
        return None
    busy = "keep the compute units busy" if programs >= 2 * units else "leave some of them idle at the end"
    return WorkOrderChoice(
        "gqa_pair_2phase",
        programs,
        f"gqa_pair_2phase: {count}, so hkv_major would not be balanced; {programs} programs of equal work on {units} "
        f"compute units {busy}, and an L2 serves {met} KV heads at a time, no more than under qb_major.",
    )


def _paired_order(
    problem: DenseAttentionProblem, order: PairedMode, blocks: int, num_persistent: int
) -> tuple[DecodeMode, str]:
    """gqa_pair and gqa_pair_2phase: neighbouring programs share a KV head and a pair of query blocks."""
    _check_pairs(problem, order, blocks)
    programs = _programs_of_pairs(problem, order, blocks)
    if programs != num_persistent:
        raise SpecError(
            f"persist_decode={order!r} is for num_persistent={programs} here "
            f"({blocks // 2} pairs x {sharers(order, problem.group_size)} x {problem.num_kv_heads} KV heads x "
            f"batch {problem.batch}), got {num_persistent}"
        )
    return order, f"{order}: the spec says so, and {programs} programs cover every pair of query blocks."


def _check_pairs(problem: DenseAttentionProblem, order: PairedMode, blocks: int) -> None:
    if not _is_plain_triangle(problem):
        raise SpecError(f"persist_decode={order!r} balances the causal triangle; this problem is not plainly causal")
    if blocks % 2 or problem.group_size % sharers(order, problem.group_size):
        raise SpecError(
            f"persist_decode={order!r} pairs query blocks and needs an even number of them"
            f"{' and an even group' if order == 'gqa_pair' else ''}, "
            f"got {blocks} blocks and a group of {problem.group_size}"
        )


def _programs_of_pairs(problem: DenseAttentionProblem, order: PairedMode, blocks: int) -> int:
    return paired_programs(order, blocks, problem.num_query_heads, problem.batch, problem.group_size)


def _is_plain_triangle(problem: DenseAttentionProblem) -> bool:
    return problem.causal and problem.sliding_window is None


def _caches(device: Device | None) -> int:
    return device.xcds or 1 if device is not None else 1
