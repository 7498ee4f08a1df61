"""Where inspections come from: files, and kernels compiled here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import AssemblyError, UnsupportedError
from workbench.gfx950.asm import parse_assembly, read_assembly
from workbench.gfx950.elf import parse_code_object
from workbench.gfx950.machine_code import Kernel, MachineCode, is_modern
from workbench.gfx950.objdump import disassemble
from workbench.gfx950.triton_metadata import triton_metadata
from workbench.inspection.inspection import Inspection, inspect_kernel

if TYPE_CHECKING:
    from workbench.compiler import CompiledKernel
    from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
    from workbench.spec import KernelSpec

ASSEMBLY_SUFFIXES = (".amdgcn", ".s", ".asm")
BINARY_SUFFIXES = (".hsaco", ".co", ".o")
NVIDIA_SUFFIXES = (".ptx", ".sass", ".cubin")


def read_machine_code(path: Path) -> MachineCode:
    """Read a file by its suffix. AssemblyError for one that is missing, malformed or of another kind."""
    suffix = path.suffix.lower()
    if suffix in NVIDIA_SUFFIXES:
        raise UnsupportedError(f"{path} is NVIDIA code; only AMD code (gfx950, gfx942) can be inspected")
    if suffix in ASSEMBLY_SUFFIXES:
        return read_assembly(path)
    if suffix in BINARY_SUFFIXES:
        return _read_binary(path)
    accepted = ", ".join((*ASSEMBLY_SUFFIXES, *BINARY_SUFFIXES))
    raise AssemblyError(f"{path}: unknown kind of file {suffix!r}; give one that ends in {accepted}")


def inspect_file(
    path: Path | str, kernel: str | None = None, *, lds_bytes: int | None = None, num_warps: int | None = None
) -> list[Inspection]:
    """Inspect the kernels of a file, or the one of that name.

    Where Triton's metadata lies beside the file (same name, .json), LDS and waves are taken from it unless given.
    """
    path = Path(path)
    code = read_machine_code(path)
    kernels = [code.kernel(kernel)] if kernel is not None else list(code.kernels)
    beside = triton_metadata(path)
    if lds_bytes is None:
        lds_bytes = beside.get("shared")
    if num_warps is None:
        num_warps = beside.get("num_warps")
    return [
        inspect_kernel(
            each,
            title=f"{each.name} for {each.target}, {path.name}",
            lds_bytes=lds_bytes,
            num_warps=num_warps,
            modern_llvm=code.modern_llvm,
            notes=(code.note,) if code.note else (),
        )
        for each in kernels
    ]


def inspect_spec(
    problem: UnifiedAttentionProblem | DenseAttentionProblem,
    spec: KernelSpec,
    *,
    target: str = "gfx950",
    triton_version: str = "",
) -> list[Inspection]:
    """Compile the kernels that serve a problem under a spec, in launch order, and inspect each.

    Raises SpecError, TargetError, TritonVersionError, CompileError, and UnsupportedError for an NVIDIA target.
    """
    from workbench.compiler import compile_kernel
    from workbench.compiler.targets import find_target
    from workbench.compiler.variants import build_requests

    if not find_target(target).is_amd:
        raise UnsupportedError(f"target {target}: only gfx950 and gfx942 code can be inspected")
    requests = build_requests(problem, spec, target, triton_version=triton_version)
    found = []
    for request in requests:
        compiled = compile_kernel(request)
        title = f"{compiled.name}, {spec.describe()}, for {target}, Triton {compiled.triton_version}"
        found.append(inspect_compiled(compiled, title))
    return found


def inspect_compiled(compiled: CompiledKernel, title: str | None = None) -> Inspection:
    """Inspect what workbench.compiler made for an AMD target; UnsupportedError for another."""
    if not compiled.target.startswith("gfx"):
        raise UnsupportedError(f"target {compiled.target}: only gfx950 and gfx942 code can be inspected")
    code = parse_assembly(compiled.assembly, name=compiled.name)
    return inspect_kernel(
        code.kernel(compiled.name),
        title=title or f"{compiled.name} for {compiled.target}, Triton {compiled.triton_version}",
        lds_bytes=compiled.lds_bytes,
        num_warps=compiled.num_warps,
        modern_llvm=code.modern_llvm,
    )


def _read_binary(path: Path) -> MachineCode:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise AssemblyError(f"cannot read {path}: {error.strerror}; give an .amdgcn, .s or .hsaco file") from None
    binary = parse_code_object(data, name=path.name)
    code, note = disassemble(path)
    kernels = []
    for kernel in binary.kernels:
        instructions, labels = code.get(kernel.name, ((), ()))
        kernels.append(Kernel(kernel.name, binary.target, instructions, labels, kernel.resources, kernel.metadata))
    return MachineCode(path.name, binary.target, tuple(kernels), is_modern(binary.triple), note)
