"""Kernels to run, from whatever describes one: a compiled kernel, assembly text or a binary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench.errors import AssemblyError, EmulationError
from workbench.gfx950.asm import read_assembly
from workbench.gfx950.elf import parse_code_object
from workbench.gfx950.emulator.launch import KernelImage
from workbench.gfx950.emulator.program import Program, decode_program, parse_program
from workbench.gfx950.machine_code import Kernel, MachineCode
from workbench.gfx950.objdump import disassemble
from workbench.gfx950.triton_metadata import triton_metadata

BINARY_SUFFIXES = (".hsaco", ".co", ".o")


def kernel_image(kernel: Any, name: str | None = None, *, lds_bytes: int | None = None) -> KernelImage:
    """Whatever describes a compiled kernel, as a KernelImage.

    kernel: as for `emulate`. name picks one of a file's kernels. lds_bytes (of a workgroup): None takes it from the
    kernel, for a file from Triton's metadata beside it (same name, .json) or else from its descriptor.
    """
    if isinstance(kernel, str | Path):
        return _image_of_file(Path(kernel), name, lds_bytes)
    if isinstance(kernel, KernelImage):
        image = kernel
    elif hasattr(kernel, "assembly") and hasattr(kernel, "arguments"):
        image = KernelImage(
            kernel.assembly,
            kernel.lds_bytes,
            kernel.name,
            tuple(argument.type for argument in kernel.arguments),
            tuple(argument.name for argument in kernel.arguments),
        )
    elif hasattr(kernel, "asm") and "amdgcn" in kernel.asm:
        image = KernelImage(kernel.asm["amdgcn"], kernel.metadata.shared, kernel.metadata.name)
    else:
        raise EmulationError(
            f"cannot emulate a {type(kernel).__name__}; "
            "give a compiled kernel, a KernelImage or the path of an .amdgcn or .hsaco file"
        )
    return image if lds_bytes is None else image.with_lds(lds_bytes)


def _image_of_file(path: Path, name: str | None, lds_bytes: int | None) -> KernelImage:
    if path.suffix.lower() in BINARY_SUFFIXES:
        program, text = _disassembled(path, name), ""
    else:
        read_assembly(path)  # says what is wrong with a file that is none
        text = path.read_text()
        program = parse_program(text, name)
    if lds_bytes is None:
        lds_bytes = triton_metadata(path).get("shared", program.descriptor.get("group_segment_fixed_size", 0))
    if not lds_bytes and (user := program.first_lds_access()):
        raise EmulationError(
            f"{path} uses LDS ({user.where()}) but does not say how much, since it is dynamic; keep Triton's metadata "
            f"beside it as {path.with_suffix('.json').name}, or give kernel_image(path, lds_bytes=...), on the "
            "command line --lds BYTES"
        )
    return KernelImage(text, lds_bytes, program.name, program=program)


def _disassembled(path: Path, name: str | None) -> Program:
    """The kernel of a code object. Line numbers are those of the disassembler's output."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise AssemblyError(f"cannot read {path}: {error.strerror}; give an .amdgcn or .hsaco file") from None
    binary = parse_code_object(data, name=path.name)
    kernels = tuple(Kernel(each.name, binary.target, (), (), each.resources, each.metadata) for each in binary.kernels)
    chosen = MachineCode(path.name, binary.target, kernels).kernel(name)
    code, note = disassemble(path)
    if chosen.name not in code:
        raise AssemblyError(
            f"cannot disassemble {path}: {note}. LLVM 20 or later comes with ROCm 7, or as a package: "
            "apt-get install llvm-22"
        )
    instructions, labels = code[chosen.name]
    descriptor = next(each.descriptor for each in binary.kernels if each.name == chosen.name)
    whole = Kernel(chosen.name, binary.target, instructions, labels, chosen.resources, chosen.metadata)
    return decode_program(whole, dict(descriptor))
