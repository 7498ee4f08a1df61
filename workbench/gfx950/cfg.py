"""Control flow of a kernel: basic blocks, natural loops with their nesting, and the hot loop among them.

A natural loop is the set of blocks from which a back edge can be reached without passing its header, where a back edge
is a jump to a block that dominates the one it leaves. Two back edges to one header make one loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.gfx950.isa import MEMORY_FAMILIES, mix_of
from workbench.gfx950.machine_code import ENDS_CODE, is_branch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from workbench.gfx950.machine_code import Instruction, Kernel

_MEMORY = (*MEMORY_FAMILIES, "lds read", "lds write")


@dataclass(frozen=True)
class Block:
    """Instructions start..end-1, entered at the top and left at the bottom."""

    index: int
    start: int
    end: int
    label: str | None
    successors: tuple[int, ...]


@dataclass(eq=False)
class Loop:
    """A natural loop; `blocks` in program order, those of inner loops included."""

    header: int
    blocks: tuple[int, ...]
    label: str
    """The header's label, or its position where it has none."""
    parent: Loop | None = None
    children: list[Loop] = field(default_factory=list)

    @property
    def depth(self) -> int:
        """1 for an outermost loop."""
        return 1 + (self.parent.depth if self.parent else 0)

    def walk(self) -> Iterable[Loop]:
        """This loop, then its inner ones, depth first."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class ControlFlow:
    """Blocks and loops of one kernel."""

    kernel: Kernel
    blocks: tuple[Block, ...]
    roots: tuple[Loop, ...]
    """Outermost loops in program order."""
    indirect: bool
    """Whether the code jumps through a register, so that blocks and loops may be missing."""

    @property
    def loops(self) -> tuple[Loop, ...]:
        """Every loop, each outer one before its inner ones."""
        return tuple(loop for root in self.roots for loop in root.walk())

    def instructions(self, loop: Loop) -> tuple[Instruction, ...]:
        """Instructions of a loop in program order, those of its inner loops included."""
        return tuple(
            instruction
            for block in loop.blocks
            for instruction in self.kernel.instructions[self.blocks[block].start : self.blocks[block].end]
        )

    def hot_loop(self) -> Loop | None:
        """The innermost loop with the most MFMA, or without MFMA in any loop the one with the most memory accesses.

        Innermost means that no loop inside it has any, so that iterations which a compiler peels off an inner loop do
        not make the outer one hot. Of loops with equally many, the one with the fewest instructions counts: where a
        kernel walks full tiles and masked tiles in two loops, that is the walk over full tiles. None when the kernel
        has no loop.
        """
        mixes = {loop.header: mix_of(self.instructions(loop)) for loop in self.loops}
        families = next((f for f in (("mfma",), _MEMORY) if any(mix.family(*f) for mix in mixes.values())), _MEMORY)
        heat = {header: mix.family(*families) for header, mix in mixes.items()}
        innermost = [loop for loop in self.loops if not any(heat[child.header] for child in loop.children)]
        return max(innermost, key=lambda loop: (heat[loop.header], -mixes[loop.header].total), default=None)


def control_flow(kernel: Kernel) -> ControlFlow:
    """Find the blocks and loops of a kernel."""
    blocks = _blocks(kernel)
    indirect = any(i.mnemonic in ("s_setpc_b64", "s_swappc_b64") for i in kernel.instructions)
    return ControlFlow(kernel, blocks, tuple(_loops(blocks)), indirect)


def _blocks(kernel: Kernel) -> tuple[Block, ...]:
    instructions = kernel.instructions
    jumps = {i.index: kernel.target_of(i) for i in instructions if is_branch(i.mnemonic)}
    targets = {index: target for index, target in jumps.items() if target is not None}
    starts = {0, *targets.values()}
    starts.update(i.index + 1 for i in instructions if is_branch(i.mnemonic) or i.mnemonic in ENDS_CODE)
    bounds = sorted(start for start in starts if start < len(instructions))
    block_at = {start: number for number, start in enumerate(bounds)}
    named = {index: label for label, index in reversed(kernel.labels) if not label.startswith((".Ltmp", ".Lfunc"))}
    blocks = []
    for number, start in enumerate(bounds):
        end = bounds[number + 1] if number + 1 < len(bounds) else len(instructions)
        last = instructions[end - 1]
        successors = [block_at[targets[last.index]]] if targets.get(last.index) in block_at else []
        if last.mnemonic not in ENDS_CODE and number + 1 < len(bounds):
            successors.append(number + 1)
        blocks.append(Block(number, start, end, named.get(start), tuple(dict.fromkeys(successors))))
    return tuple(blocks)


def _predecessors(blocks: Sequence[Block]) -> list[list[int]]:
    predecessors: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for successor in block.successors:
            predecessors[successor].append(block.index)
    return predecessors


def _dominators(blocks: Sequence[Block]) -> list[set[int] | None]:
    """For each block the blocks that every path from the entry passes; None for one that cannot be reached."""
    predecessors = _predecessors(blocks)
    dominators: list[set[int] | None] = [None] * len(blocks)
    dominators[0] = {0}
    changed = True
    while changed:
        changed = False
        for number in range(1, len(blocks)):
            reached = [found for before in predecessors[number] if (found := dominators[before]) is not None]
            found = {number} | set.intersection(*reached) if reached else None
            if found != dominators[number]:
                dominators[number], changed = found, True
    return dominators


def _loops(blocks: Sequence[Block]) -> list[Loop]:
    dominators, predecessors = _dominators(blocks), _predecessors(blocks)
    bodies: dict[int, set[int]] = {}
    for block in blocks:
        for header in block.successors:
            if header in (dominators[block.index] or ()):
                bodies.setdefault(header, {header}).update(_body(header, block.index, predecessors))
    loops = [
        Loop(header, tuple(sorted(body)), blocks[header].label or f"instruction {blocks[header].start}")
        for header, body in sorted(bodies.items())
    ]
    for loop in loops:
        around = [other for other in loops if set(loop.blocks) < set(other.blocks)]
        if around:
            loop.parent = min(around, key=lambda other: len(other.blocks))
            loop.parent.children.append(loop)
    return [loop for loop in loops if loop.parent is None]


def _body(header: int, tail: int, predecessors: Sequence[Sequence[int]]) -> set[int]:
    body, pending = {header}, [tail]
    while pending:
        block = pending.pop()
        if block not in body:
            body.add(block)
            pending.extend(predecessors[block])
    return body
