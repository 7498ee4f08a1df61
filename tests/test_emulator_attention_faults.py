"""Faults planted in the machine code of attention kernels: each is explained in one line that names the instruction."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from tests import edge_cases
from workbench.attention import run_unified
from workbench.compiler import CompiledKernel
from workbench.errors import EmulationError
from workbench.gfx950.emulator import EmulationResult, emulate, plan
from workbench.inputs import UnifiedInputs, make_unified_inputs
from workbench.problem import UnifiedAttentionProblem
from workbench.spec import KernelSpec, Unified2DSpec
from workbench.spec_gfx950_unified import Gfx950Unified2DSpec

PORTABLE = Unified2DSpec(block_m=16, tile_size=32, num_warps=2)
SINGLE_K_BUFFER = Gfx950Unified2DSpec(num_warps=2, k_single_buffer=True, tile_size=64)
SMALL: dict[str, Any] = {"num_query_heads": 4, "num_kv_heads": 2, "head_size": 64, "dtype": "bf16"}

Edit = Callable[[list[str]], list[str]]


@dataclass(frozen=True)
class Launch:
    """A compiled attention kernel with the arguments it is launched on."""

    kernel: CompiledKernel
    grid: tuple[int, ...]
    args: dict[str, Any]

    @property
    def lines(self) -> list[str]:
        return self.kernel.assembly.splitlines()

    def run(self, lines: list[str]) -> EmulationResult:
        kernel = replace(self.kernel, assembly="\n".join(lines))
        return emulate(kernel, self.grid, self.args, outputs=["p_out"])


def launch_of(problem: UnifiedAttentionProblem, inputs: UnifiedInputs, spec: KernelSpec) -> Launch:
    """What run_unified would execute."""
    found: list[Launch] = []

    def keep(kernel: CompiledKernel, grid: tuple[int, ...], args: dict[str, Any], **_: Any) -> None:
        found.append(Launch(kernel, grid, args))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "emulate", keep)
        run_unified(problem, inputs, spec=spec, backend="emulator")
    return found[0]


@pytest.fixture(scope="module")
def portable() -> Launch:
    problem = UnifiedAttentionProblem(seq_lens=((11, 100), (1, 70)), block_size=16, **SMALL)
    return launch_of(problem, make_unified_inputs(problem, seed=0), PORTABLE)


@pytest.fixture(scope="module")
def single_k_buffer() -> Launch:
    problem = UnifiedAttentionProblem(seq_lens=((40, 200),), block_size=64, **SMALL)
    return launch_of(problem, make_unified_inputs(problem, seed=0), SINGLE_K_BUFFER)


def first(lines: list[str], pattern: str, start: int = 0) -> int:
    return next(i for i in range(start, len(lines)) if re.search(pattern, lines[i]))


def without(lines: list[str], index: int) -> list[str]:
    """The lines with one instruction taken out; line numbers stay."""
    return [*lines[:index], "\ts_nop 0", *lines[index + 1 :]]


def query_to_lds(lines: list[str]) -> int:
    """The store of the query tile, whose load is waited for just before and which a barrier follows."""
    return first(lines, r"\tds_write_b128 ")


def explained(result: EmulationResult, kind: str) -> str:
    """The finding of a kind that stands first; one line."""
    text = next(str(finding) for finding in result.findings if finding.kind == kind)
    assert "\n" not in text
    return text


def test_nothing_is_found_without_a_fault(portable: Launch, single_k_buffer: Launch) -> None:
    for launch in (portable, single_k_buffer):
        assert [finding for finding in launch.run(launch.lines).findings if finding.certain] == []


def test_removed_wait(portable: Launch) -> None:
    lines = portable.lines
    store = query_to_lds(lines)
    wait = max(i for i in range(store) if "s_waitcnt vmcnt(0)" in lines[i])
    text = explained(portable.run(without(lines, wait)), "missing-wait")
    assert text.startswith(f"missing-wait: line {store + 1} (")
    assert re.search(r"ds_write_b128 .*reads v.* before an s_waitcnt vmcnt has made the result of line \d+ .*"
                     r"buffer_load_dwordx4 .* visible", text)  # fmt: skip


def test_removed_barrier(portable: Launch) -> None:
    lines = portable.lines
    store = query_to_lds(lines)
    text = explained(portable.run(without(lines, first(lines, r"\ts_barrier", store))), "lds-race")
    assert re.search(rf"ds_read_b128 .*read by wave \d races with the write by wave \d at line {store + 1} ", text)
    assert text.endswith("no barrier lies between")


def test_the_single_k_buffer_is_overwritten_while_it_is_read(single_k_buffer: Launch) -> None:
    """Each barrier of the KV loop is taken out in turn: one lets the next K tile come too early, one too late."""
    lines = single_k_buffer.lines
    races = [explained(single_k_buffer.run(without(lines, index)), "lds-race")
             for index, line in enumerate(lines) if line.strip() == "s_barrier"]  # fmt: skip
    early = r"buffer_load_dwordx4 .* lds: .*write by wave \d races with the read by wave \d at line \d+ .*ds_read_b128"
    late = r"ds_read_b128 .*read by wave \d races with the write by wave \d at line \d+ .*buffer_load_dwordx4 .* lds"
    assert any(re.search(early, race) for race in races), races
    assert any(re.search(late, race) for race in races), races


def test_one_row_too_far(portable: Launch) -> None:
    """The query is read one token further on, which is past its end for the last one."""
    lines = portable.lines
    row = portable.args["p_q"].stride(0) * portable.args["p_q"].element_size()
    load = max(i for i in range(query_to_lds(lines)) if "buffer_load_dwordx4" in lines[i])
    lines[load] += f" offset:{row}"
    with pytest.raises(EmulationError) as error:
        portable.run(lines)
    text = str(error.value)
    assert text.startswith(f"line {load + 1} (")
    assert re.search(r"buffer_load_dwordx4 .*workgroup \(.*\), wave \d, lane \d+: .* past the end of p_q", text)
    assert "\n" not in text


def test_32_bit_wrap_past_2_gib() -> None:
    """The offset of a block from its number, multiplied in 32 bits and sign-extended."""
    case = edge_cases.HUGE_CASES["compute dtype cache, block 131072"]("bf16")
    launch = launch_of(case.problem, case.inputs, PORTABLE)
    lines = launch.lines
    for index in (i for i, line in enumerate(lines) if line.startswith("\tv_mul_hi_i32 ")):
        high, block, stride = re.findall(r"\b[vs]\d+", lines[index])
        lines[index] = f"\tv_mul_lo_u32 {high}, {block}, {stride}\n\tv_ashrrev_i32_e32 {high}, 31, {high}"
    with pytest.raises(EmulationError) as error:
        launch.run(lines)
    text = str(error.value)
    assert re.search(
        r"^line \d+ \(\S+:\d+\): global_load_lds_dwordx4 .*: \d+ bytes before p_k \(4295000064 bytes\)", text
    )
    assert "\n" not in text


def test_uninitialised_lds(portable: Launch) -> None:
    """The query tile never reaches LDS, so the output is made of what was there."""
    lines = portable.lines
    store = query_to_lds(lines)
    result = portable.run(without(lines, store))
    text = explained(result, "undefined-use")
    assert re.search(r"buffer_store_dwordx2 .*uses v.*, never defined; the value comes from LDS byte \d+, which nobody "
                     r"wrote, first read at line \d+ .*ds_read_b128", text)  # fmt: skip
    assert torch.isnan(portable.args["p_out"]).any()
