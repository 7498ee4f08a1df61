"""Blocks of a loop that a wave branches around when none of its lanes needs them, such as a lazy rescale.

A branch on `exec` leaves a block over two edges, of which a wave without a lane switched on takes one. Leaving out the
other edge of every such branch, some blocks of the loop can no longer be reached from its header: they are voted away.
Blocks that hold MFMA, memory accesses or barriers are never taken for such, nor is the way to them. Evidence: static.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.gfx950.isa import LDS_FAMILIES, MEMORY_FAMILIES, classify

if TYPE_CHECKING:
    from collections.abc import Container

    from workbench.gfx950.cfg import Block, ControlFlow, Loop
    from workbench.gfx950.machine_code import Instruction

Edge = tuple[int, int]

_WORK = ("mfma", "barrier", "smem", *MEMORY_FAMILIES, *LDS_FAMILIES)


def voted_away(flow: ControlFlow, loop: Loop) -> frozenset[int]:
    """Blocks of the loop that a wave skips when no lane needs them; empty where there are none."""
    dropped = {edge for block in loop.blocks if (edge := _edge_with_lanes(flow, block, loop)) is not None}
    skipped = _unreached(flow, loop, dropped)
    while needed := {block for block in skipped if _works(flow, flow.blocks[block])}:
        dropped -= {edge for edge in dropped if needed & _reached(flow, edge[1], skipped, dropped)}
        skipped = _unreached(flow, loop, dropped)
    return frozenset(skipped)


def without_blocks(flow: ControlFlow, loop: Loop, skipped: Container[int]) -> tuple[Instruction, ...]:
    """Instructions of the loop in program order, those of the skipped blocks left out."""
    return tuple(
        instruction
        for block in loop.blocks
        if block not in skipped
        for instruction in flow.kernel.instructions[flow.blocks[block].start : flow.blocks[block].end]
    )


def _edge_with_lanes(flow: ControlFlow, number: int, loop: Loop) -> Edge | None:
    """The edge that a wave takes from this block only with a lane switched on; None without a branch on `exec`.

    Edges back to the header stay: they make the loop.
    """
    block = flow.blocks[number]
    branch = flow.kernel.instructions[block.end - 1]
    if branch.mnemonic not in ("s_cbranch_execz", "s_cbranch_execnz") or len(block.successors) < 2:
        return None
    target, following = block.successors
    taken_with_lanes = target if branch.mnemonic == "s_cbranch_execnz" else following
    return None if taken_with_lanes == loop.header else (number, taken_with_lanes)


def _works(flow: ControlFlow, block: Block) -> bool:
    return any(classify(each).family in _WORK for each in flow.kernel.instructions[block.start : block.end])


def _unreached(flow: ControlFlow, loop: Loop, dropped: set[Edge]) -> set[int]:
    return set(loop.blocks) - _reached(flow, loop.header, set(loop.blocks), dropped)


def _reached(flow: ControlFlow, start: int, within: set[int], dropped: set[Edge]) -> set[int]:
    """Blocks that can be reached from `start` over the edges that are left, without leaving `within`."""
    reached, pending = {start}, [start]
    while pending:
        number = pending.pop()
        for successor in flow.blocks[number].successors:
            if successor in within and successor not in reached and (number, successor) not in dropped:
                reached.add(successor)
                pending.append(successor)
    return reached
