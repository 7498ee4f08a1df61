"""Binaries on the emulator: the same outputs as from the assembly text of the same kernel."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.emulator_compile import compile_for, nan
from tests.machine_code import FILES
from workbench.compiler import triton_versions
from workbench.errors import AssemblyError, EmulationError, UnsupportedError
from workbench.gfx950 import objdump
from workbench.gfx950.elf import parse_code_object
from workbench.gfx950.emulator import Debugger, emulate
from workbench.gfx950.emulator.images import kernel_image
from workbench.gfx950.emulator.program import parse_program

STORED = "gfx950_transpose"
STORED_LDS = 2048


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stored kernel (a transposition in blocks of 32) and a disassembler that answers from the record."""
    tool = tmp_path / "llvm-objdump"
    tool.write_text(f"#!/bin/sh\ncat '{FILES / STORED}.objdump.txt'\n")
    tool.chmod(0o755)
    monkeypatch.setenv(objdump.OBJDUMP_VARIABLE, str(tool))
    return Path(shutil.copy(FILES / f"{STORED}.hsaco", tmp_path))


def _arguments() -> tuple[list[object], torch.Tensor, torch.Tensor]:
    x, out = torch.randn(40, 50).half(), torch.full((50, 40), float("nan"), dtype=torch.float16)
    return [x, out, 40, 50], x, out


def test_recorded_disassembly(recorded: Path) -> None:
    recorded.with_suffix(".json").write_text(json.dumps({"shared": STORED_LDS}))
    arguments, x, out = _arguments()
    result = emulate(recorded, (2, 2), arguments, strict=True)
    assert torch.equal(out, x.T)
    assert (result.findings, result.lds_bytes, result.program.name) == ((), STORED_LDS, "transpose")
    out.zero_()
    debugger = Debugger(str(recorded), (2, 2), arguments)
    while not debugger.finished:
        debugger.step(100)
    assert torch.equal(out[:32, :32], x.T[:32, :32])


def test_dynamic_lds_must_be_known(recorded: Path) -> None:
    arguments, x, out = _arguments()
    with pytest.raises(EmulationError, match=rf"uses LDS \(.*ds_write.*{STORED}\.json.*lds_bytes="):
        emulate(recorded, (2, 2), arguments)
    emulate(kernel_image(recorded, lds_bytes=STORED_LDS), (2, 2), arguments)
    assert torch.equal(out, x.T)


def test_no_disassembler(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(objdump.OBJDUMP_VARIABLE, "/nonexistent/llvm-objdump")
    with pytest.raises(AssemblyError, match=r"no llvm-objdump on this machine.*apt-get install llvm-22"):
        emulate(recorded, (2, 2), [])


def test_other_targets_and_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "llvm-objdump"
    tool.write_text(f"#!/bin/sh\ncat '{FILES / 'gfx942.objdump.txt'}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv(objdump.OBJDUMP_VARIABLE, str(tool))
    for name in ("gfx942.hsaco", "gfx942.s"):
        with pytest.raises(UnsupportedError, match="is code for gfx942; only gfx950 is emulated"):
            emulate(FILES / name, (1,), [])
    with pytest.raises(AssemblyError, match="cannot read"):
        emulate(tmp_path / "missing.hsaco", (1,), [])
    (tmp_path / "text.hsaco").write_text("s_endpgm")
    with pytest.raises(AssemblyError, match="no ELF file"):
        emulate(tmp_path / "text.hsaco", (1,), [])


def test_a_file_of_several_kernels_needs_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(objdump.OBJDUMP_VARIABLE, "/nonexistent/llvm-objdump")
    with pytest.raises(AssemblyError, match="choose one of"):
        emulate(FILES / "two_kernels.hsaco", (1,), [])


CASES: dict[str, dict[str, Any]] = {
    "softmax": {"p_x": torch.randn(3, 60), "p_out": nan(3, 60), "n": 60},
    "matmul": {"p_a": torch.randn(40, 70).half(), "p_b": torch.randn(70, 50).half(), "p_c": nan(40, 50),
               "M": 40, "N": 50, "K": 70},
}  # fmt: skip


@pytest.mark.parametrize("version", triton_versions())
def test_descriptor_of_the_binary_says_what_the_directives_say(version: str) -> None:
    compiled = compile_for("softmax", CASES["softmax"], 64, version)
    (kernel,) = parse_code_object(compiled.binary).kernels
    directives = parse_program(compiled.assembly).descriptor
    assert {name: directives[name] for name in kernel.descriptor} == kernel.descriptor


@pytest.mark.parametrize("version", triton_versions())
@pytest.mark.parametrize("name", CASES)
def test_binary_and_text_compute_the_same(name: str, version: str, tmp_path: Path) -> None:
    if not objdump.disassemble(FILES / f"{STORED}.hsaco")[0]:
        pytest.skip("no llvm-objdump of LLVM 20 or later on this machine")
    compiled = compile_for(name, CASES[name], 64, version)
    path = tmp_path / "kernel.hsaco"
    path.write_bytes(compiled.binary)
    outputs = []
    for kernel in (compiled, kernel_image(path, lds_bytes=compiled.lds_bytes)):
        args = {key: value.clone() if torch.is_tensor(value) else value for key, value in CASES[name].items()}
        emulate(kernel, (3,), list(args.values()), strict=True)
        outputs.append(next(value for key, value in args.items() if key in ("p_out", "p_c")))
    assert not outputs[0].isnan().any()
    assert torch.equal(*outputs)
