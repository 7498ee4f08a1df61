"""A walk through one KV tile of the 2D kernel's machine code, on the emulator's debugger.

Every register value is emulated; what is read from the code alone is static.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import ParameterError
from workbench.gfx950.emulator.debug import accumulator_matrix
from workbench.problem import UnifiedAttentionProblem
from workbench.spec import Unified2DSpec
from workbench.studies.kv_landmarks import Chain, find_landmarks
from workbench.studies.kv_reference import (
    Check,
    TileState,
    check_output,
    check_probabilities,
    check_scores,
    check_vector,
    find_in_lds,
    order_of,
    place_of,
    query_rows,
    streaming_softmax,
)

if TYPE_CHECKING:
    from workbench.compiler import CompiledKernel
    from workbench.gfx950.emulator.debug import Debugger, InFlight
    from workbench.gfx950.emulator.operands import Operand
    from workbench.gfx950.emulator.state import Array
    from workbench.inputs import UnifiedInputs

NUM_WAVES = 2
TILE_SIZE = 32
GROUP = 4
"""Query heads of the one KV head."""


@dataclass(frozen=True)
class Probe:
    """Registers to read just before the instruction at a line."""

    line: int
    name: str
    operand: Operand


class TileWalk:
    """Stops at the steps of one tile and holds what one wave had in its registers there."""

    def __init__(
        self, problem: UnifiedAttentionProblem, inputs: UnifiedInputs, kernel: CompiledKernel, debugger: Debugger
    ) -> None:
        self.problem = problem
        self.inputs = inputs
        self.kernel = kernel
        self.debugger = debugger
        self.wave = 0
        self.landmarks = find_landmarks(debugger, _hot_loop(kernel))
        self.states: list[TileState] = []
        self.recorded: dict[str, Array] = {}
        self._probes: list[Probe] = []
        self.in_flight_at_start: tuple[InFlight, ...] = ()
        self._executed_before: list[int] = []
        self._conflicts_before = 0

    @property
    def state(self) -> TileState:
        """The recurrence at the tile, in float64."""
        return self.states[-1]

    @property
    def rows(self) -> slice:
        """The block's rows that the wave owns: a run of MFMA columns."""
        extent = self.landmarks.extent
        return slice(self.wave * extent, (self.wave + 1) * extent)

    # -- stops -------------------------------------------------------------------------------------------------------

    def to_tile(self, tile: int, wave: int = 0) -> None:
        """Break at the loop's first instruction, with `tile` next. ParameterError if the loop does not walk it."""
        if not 0 <= wave < NUM_WAVES:
            raise ParameterError(f"wave must be 0..{NUM_WAVES - 1}, got {wave}")
        last = full_tiles(self.problem) - 2
        if not 1 <= tile <= last:
            raise ParameterError(
                f"tile must be 1..{last}, got {tile}: tile 0 has no state before it, and what follows {last} is peeled "
                "off the hot loop; a larger kv_len has more"
            )
        for _ in range(tile + 1):
            self.debugger.run_to(self.landmarks.header_line)
        self.wave = wave
        self.states = streaming_softmax(self.problem, self.inputs, TILE_SIZE, tile + 1)
        self._probes = sorted(self._all_probes(), key=lambda probe: probe.line)
        counters = self.debugger.machine.counters
        self._executed_before, self._conflicts_before = list(counters.executed), sum(counters.conflict_cycles)
        self.in_flight_at_start = self.debugger.in_flight(wave)

    def to_products(self) -> None:
        """Stop before the first MFMA of the QK product, when K and V lie in LDS."""
        self._stop_at(min(chain.first.line for chain in self.landmarks.qk))

    def to_scores(self) -> Array:
        """Stop when S is complete; returns the wave's [keys, rows] of it."""
        self._stop_at(max(chain.last.line for chain in self.landmarks.qk) + 1)
        return self._assemble("S", self.landmarks.qk, self.state.scores[:, self.rows])

    def to_probabilities(self) -> Array:
        """Stop where all of P is in bf16; returns it [keys, rows] in the order of the PV product's operand."""
        self._stop_at(max(ins.line for ins, _ in self.landmarks.probabilities))
        parts = [self.recorded[f"P{index}"] for index in range(len(self.landmarks.probabilities))]
        return np.concatenate([operand_matrix(part, self.landmarks.extent) for part in parts])

    def to_output(self) -> tuple[Array, Array]:
        """Stop when the PV product is complete; returns O transposed [d, rows] before the product and after it."""
        self._stop_at(max(chain.last.line for chain in self.landmarks.pv) + 1)
        state, pv = self.state, self.landmarks.pv
        return (
            self._assemble("rescaled", pv, state.rescaled[:, self.rows]),
            self._assemble("O", pv, state.o[:, self.rows]),
        )

    def to_next_tile(self) -> None:
        """Stop at the loop's first instruction again; all of the tile has been executed."""
        self._stop_at(max(probe.line for probe in self._probes) if self._probes else self.landmarks.loop[-1].line)
        self.debugger.run_to(self.landmarks.header_line)

    def _stop_at(self, line: int) -> None:
        """Run to a line of this iteration, reading every register that is due on the way."""
        while self._probes and self._probes[0].line <= line:
            probe = self._probes.pop(0)
            self._go(probe.line)
            self.recorded[probe.name] = self._read(probe)
        self._go(line)

    def _go(self, line: int) -> None:
        program = self.debugger.program
        if self.debugger.line != program.instructions[program.at_line(line)].line:
            self.debugger.run_to(line)

    def _read(self, probe: Probe) -> Array:
        name = register_name(probe.operand)
        return self.debugger.register(name, "bf16" if probe.name.startswith("P") else "f32", self.wave)

    def _all_probes(self) -> list[Probe]:
        marks = self.landmarks
        probes = [Probe(chain.last.line + 1, f"S{i}", chain.last.operands[0]) for i, chain in enumerate(marks.qk)]
        for i, chain in enumerate(marks.pv):
            probes.append(Probe(chain.first.line, f"rescaled{i}", chain.first.operands[3]))
            probes.append(Probe(chain.last.line + 1, f"O{i}", chain.last.operands[0]))
        probes += [Probe(ins.line, f"P{i}", operand) for i, (ins, operand) in enumerate(marks.probabilities)]
        named = (("m", marks.maximum), ("alpha", marks.alpha), ("l", marks.denominator))
        return probes + [Probe(ins.line + 1, name, ins.operands[0]) for name, ins in named]

    # -- what was found ------------------------------------------------------------------------------------------------

    def _assemble(self, name: str, chains: Sequence[Chain], expected: Any) -> Array:
        """Put accumulator blocks where their content belongs; NaN where none does."""
        extent = self.landmarks.extent
        whole = np.full(tuple(expected.shape), np.nan, np.float32)
        for index in range(len(chains)):
            block = accumulator_matrix(self.recorded[f"{name}{index}"], extent)
            place = place_of(block, expected)
            whole[place.row : place.row + extent, place.column : place.column + extent] = block
        return whole

    def accumulator(self, index: int = 0) -> Array:
        """Registers of one QK accumulator as they are, [registers, lanes]."""
        return self.recorded[f"S{index}"]

    def vector(self, name: str) -> Array:
        """m, l or alpha of the wave's rows; every group of lanes holds the same copy."""
        return self.recorded[name][0, : self.landmarks.extent]

    def executed(self) -> dict[int, int]:
        """Executions of each instruction of the loop since the tile's start, by its index, over both waves."""
        now = self.debugger.machine.counters.executed
        return {ins.index: now[ins.index] - self._executed_before[ins.index] for ins in self.landmarks.loop}

    def conflict_cycles(self) -> int:
        """LDS bank-conflict cycles since the tile's start, over both waves."""
        return sum(self.debugger.machine.counters.conflict_cycles) - self._conflicts_before

    def key_order(self, probabilities: Array) -> Array:
        """Key of the tile that each row of the PV operand stands for."""
        return order_of(probabilities, self.state.p[:, self.rows])

    def lds_places(self) -> dict[str, Array]:
        """Byte offsets in LDS of the K and the V tile's 8-byte pieces, -1 where LDS does not hold them."""
        words = self.debugger.lds(0, self.debugger.machine.lds.size // 4)
        return {"K": find_in_lds(words, self.state.k), "V": find_in_lds(words, self.state.v)}

    def lds_tile(self, places: Array) -> Array:
        """The bf16 values at such offsets, [keys, d]; NaN where there is no offset."""
        values = self.debugger.lds(0, self.debugger.machine.lds.size // 4, "bf16")
        taken = values[(places.clip(min=0) // 2)[..., None] + np.arange(4)]
        return np.where(places[..., None] < 0, np.nan, taken).reshape(len(places), -1)

    def checks(self, scores: Array, probabilities: Array, rescaled: Array, output: Array) -> list[Check]:
        """Everything that was read, against the recurrence."""
        own, q = self.state.of_rows(self.rows), query_rows(self.problem, self.inputs)[self.rows]
        ordered = np.empty_like(probabilities)
        ordered[self.key_order(probabilities)] = probabilities
        return [
            check_scores("S = K Qᵀ", scores, own, q),
            check_vector("m, new maximum", self.vector("m"), own.m),
            check_vector("α = 2^(m_old - m)", self.vector("alpha"), own.alpha),
            check_probabilities("P, in bf16", ordered, own),
            check_vector("l, new denominator", self.vector("l"), own.denominator),
            check_output("α O, before the product", rescaled, own.rescaled, own.magnitude),
            check_output("O = α O + Vᵀ P", output, own.o, own.magnitude),
        ]


def full_tiles(problem: UnifiedAttentionProblem) -> int:
    """Tiles whose keys all rows see; the hot loop walks all but the last of them, which the pipeline drains."""
    query_len, kv_len = problem.seq_lens[0]
    return (kv_len - query_len + 1) // TILE_SIZE


def small_problem(kv_len: int, extent: int) -> UnifiedAttentionProblem:
    """One bf16 sequence, d = 128, with just the queries of one workgroup: `extent` rows for each wave."""
    query_len = NUM_WAVES * extent // GROUP
    if kv_len < query_len + 2 * TILE_SIZE:
        raise ParameterError(f"kv_len must be at least {query_len + 2 * TILE_SIZE}, so that the hot loop runs")
    return UnifiedAttentionProblem(
        seq_lens=((query_len, kv_len),),
        num_query_heads=GROUP,
        num_kv_heads=1,
        head_size=128,
        block_size=16,
        dtype="bf16",
    )


def start_walk(problem: UnifiedAttentionProblem, extent: int, *, triton_version: str = "", seed: int = 0) -> TileWalk:
    """Compile the problem's kernel for gfx950 and load its first workgroup. CompileError, TritonVersionError."""
    import torch

    from workbench.compiler import compile_kernel
    from workbench.compiler.plans import plan_without_storage
    from workbench.compiler.variants import launch_request
    from workbench.device import load_device
    from workbench.gfx950.emulator import Debugger
    from workbench.inputs import make_unified_inputs

    spec = Unified2DSpec(
        block_m=NUM_WAVES * extent, tile_size=TILE_SIZE, num_warps=NUM_WAVES, matrix_instr_nonkdim=extent
    )
    (launch,) = plan_without_storage(problem, spec, load_device("mi355x"))
    kernel = compile_kernel(launch_request(launch, "gfx950", triton_version=triton_version))
    inputs = make_unified_inputs(problem, seed=seed, poison=False)
    tensors = {
        "p_out": torch.empty_like(inputs.q), "p_q": inputs.q, "p_k": inputs.k_cache, "p_v": inputs.v_cache,
        "p_block_table": inputs.block_table, "p_kv_lens": inputs.seqused_k, "p_cu_seqlens_q": inputs.cu_seqlens_q,
    }  # fmt: skip
    return TileWalk(problem, inputs, kernel, Debugger(kernel, launch.grid, launch.args | tensors))


def _hot_loop(kernel: CompiledKernel) -> list[int]:
    """Indices of the hot loop's instructions."""
    from workbench.gfx950.asm import parse_assembly
    from workbench.gfx950.cfg import control_flow

    flow = control_flow(parse_assembly(kernel.assembly).kernel(kernel.name))
    hot = flow.hot_loop()
    if hot is None:
        raise ParameterError(f"{kernel.name} has no loop to walk")
    return [instruction.index for instruction in flow.instructions(hot)]


def register_name(operand: Operand) -> str:
    """`v[36:39]`."""
    return f"{operand.kind}[{operand.index}:{operand.index + operand.count - 1}]"


def operand_matrix(halves: Array, extent: int) -> Array:
    """[registers, 64 lanes, 2] of a second bf16 operand as [depth, extent]: each lane holds a run of the depth."""
    registers, lanes, _ = halves.shape
    return halves.reshape(registers, lanes // extent, extent, 2).transpose(1, 0, 3, 2).reshape(-1, extent)
