"""Compiled Triton kernels that are not attention, on the emulator, for every Triton version at hand."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.emulator_compile import compile_for, nan
from workbench.compiler import triton_versions
from workbench.errors import EmulationError
from workbench.gfx950.emulator import Debugger, EmulationResult, emulate, write_counter_csv


def _run(name: str, grid: tuple[int, ...], block: int, version: str, **args: Any) -> EmulationResult:
    compiled = compile_for(name, args, block, version)
    result = emulate(compiled, grid, args, outputs=["p_out", "p_c"])
    assert result.findings == (), result.describe()
    return result


@pytest.fixture(params=triton_versions())
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_add(version: str) -> None:
    x, y, out = torch.randn(2500), torch.randn(2500), nan(2500)
    _run("add", (3,), 1024, version, p_x=x, p_y=y, p_out=out, n=2500)
    assert torch.equal(out, x + y)


def test_softmax(version: str) -> None:
    x, out = torch.randn(5, 1000), nan(5, 1000)
    _run("softmax", (5,), 1024, version, p_x=x, p_out=out, n=1000)
    torch.testing.assert_close(out, x.softmax(1), rtol=1e-6, atol=1e-8)


def test_layer_norm(version: str) -> None:
    x, weight, bias, out = torch.randn(5, 1000).bfloat16(), torch.randn(1000), torch.randn(1000), nan(5, 1000)
    _run("layer_norm", (5,), 1024, version, p_x=x, p_weight=weight, p_bias=bias, p_out=out, n=1000, eps=1e-5)
    wanted = torch.nn.functional.layer_norm(x.float(), (1000,), weight, bias, 1e-5)
    torch.testing.assert_close(out, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn])
def test_matmul(version: str, dtype: torch.dtype) -> None:
    a, b, c = torch.randn(70, 100).to(dtype), torch.randn(100, 90).to(dtype), nan(70, 90)
    result = _run("matmul", (2, 2), 64, version, p_a=a, p_b=b, p_c=c, M=70, N=90, K=100)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-5, atol=1e-4)
    # Four workgroups multiply 64 x 64 x 128 each.
    operations = sum(value for name, value in result.counters.items() if "_MOPS_" in name)
    assert operations == 4 * 2 * 64 * 64 * 128 // 512


def test_total_with_atomics(version: str) -> None:
    x, out = torch.ones(2500), torch.zeros(1)
    _run("total", (3,), 1024, version, p_x=x, p_out=out, n=2500)
    assert out.item() == 2500.0


def test_transpose(version: str) -> None:
    x, out = torch.randn(70, 90).half(), nan(90, 70, dtype=torch.float16)
    _run("transpose", (2, 2), 64, version, p_x=x, p_out=out, M=70, N=90)
    assert torch.equal(out, x.T)


def test_a_removed_wait_in_compiled_code() -> None:
    args = {"p_x": torch.randn(1, 1000), "p_out": nan(1, 1000), "n": 1000}
    compiled = compile_for("softmax", args, 1024, "")
    lines = compiled.assembly.splitlines()
    waits = [i for i, line in enumerate(lines) if "s_waitcnt vmcnt(0)" in line]
    lines[waits[0]] = "\ts_nop 0"
    image = replace(compiled, assembly="\n".join(lines))
    kinds = {finding.kind for finding in emulate(image, (1,), args).findings}
    assert "missing-wait" in kinds


def test_debugger_steps_and_breaks() -> None:
    args = {"p_x": torch.randn(2, 1000), "p_out": nan(2, 1000), "n": 1000}
    debugger = Debugger(compile_for("softmax", args, 1024, ""), (2,), args, first=1)
    first = debugger.line
    assert debugger.step() != first
    wait = next(i.line for i in debugger.program.instructions if i.opcode == "s_barrier")
    assert debugger.run_to(wait) == wait
    assert f"-> {wait:6d}  s_barrier" in debugger.listing()
    assert debugger.register("v0").shape == (1, 64)
    while not debugger.finished:
        debugger.step(100)
    torch.testing.assert_close(args["p_out"][1], args["p_x"][1].softmax(0))
    assert args["p_out"][0].isnan().all()


def test_counter_csv_and_trace(tmp_path: Path) -> None:
    args = {"p_x": torch.randn(2048), "p_y": torch.randn(2048), "p_out": nan(2048), "n": 2048}
    result = emulate(compile_for("add", args, 1024, ""), (2,), args, trace=True)
    assert result.trace is not None
    # Three tensors of 8 KiB, each line of 128 bytes asked for once.
    assert len(result.trace.line) == 3 * 64
    assert int(result.trace.write.sum()) == 64
    path = tmp_path / "counters.csv"
    write_counter_csv([result], path)
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    values = {row["Counter_Name"]: float(row["Counter_Value"]) for row in rows}
    assert values["SQ_WAVES"] == 8
    assert values["TCP_TOTAL_CACHE_ACCESSES_sum"] == 3 * 64
    assert {row["Kernel_Name"] for row in rows} == {"add"}
    with pytest.raises(EmulationError, match="exists"):
        write_counter_csv([result], path)
