"""Run the kernel of a machine-code file on arguments from the command line, and keep what it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import EmulationError, ParameterError
from workbench.gfx950.emulator.api import EmulationResult, emulate
from workbench.gfx950.emulator.arguments import (
    TENSOR_SUFFIXES,
    Argument,
    fit_arguments,
    parse_arguments,
    parse_grid,
)
from workbench.gfx950.emulator.images import BINARY_SUFFIXES, kernel_image
from workbench.gfx950.emulator.launch import KernelImage
from workbench.gfx950.limits import limits_of

if TYPE_CHECKING:
    import torch

ASSEMBLY_SUFFIXES = (".amdgcn", ".s", ".asm")
SUFFIXES = (*ASSEMBLY_SUFFIXES, *BINARY_SUFFIXES)
"""What is taken for a file of machine code rather than the name of a scenario."""


@dataclass(frozen=True)
class ForeignLaunch:
    """A kernel of a file with its grid and arguments: checked, not run yet."""

    image: KernelImage
    grid: tuple[int, ...]
    arguments: tuple[Argument, ...]
    outputs: tuple[tuple[str, Path], ...]

    def run(self, **options: Any) -> EmulationResult:
        """Emulate, then save the outputs; options as for `emulate`."""
        values = [argument.value for argument in self.arguments]
        result = emulate(self.image, self.grid, values, **options)
        tensors = {argument.name: argument.value for argument in self.arguments}
        for name, path in self.outputs:
            save_tensor(tensors[name], path)
        return result


def foreign_launch(
    path: Path,
    grid: str,
    args: Sequence[str],
    *,
    outputs: Sequence[str] = (),
    kernel: str | None = None,
    lds_bytes: int | None = None,
    seed: int = 0,
) -> ForeignLaunch:
    """Read an .amdgcn or .hsaco file and what it is to run on; the texts are those of the command.

    grid: `4,1,1`. args: NAME=VALUE, forms in workbench.gfx950.emulator.arguments. outputs: NAME=FILE, a tensor argument
    and a new .npy or .pt file. lds_bytes: LDS of a workgroup, where neither the file nor Triton's metadata beside it
    says it.
    ParameterError, AssemblyError or EmulationError before anything runs.
    """
    extents = parse_grid(grid)
    most = limits_of("gfx950").lds_bytes
    if lds_bytes is not None and not 0 <= lds_bytes <= most:
        raise ParameterError(f"--lds {lds_bytes}: a workgroup of gfx950 has 0 to {most} bytes of LDS")
    image = kernel_image(path, kernel, lds_bytes=lds_bytes)
    arguments = tuple(fit_arguments(image.decoded(), parse_arguments(args, seed)))
    files = tuple(_output(text, arguments) for text in outputs)
    if len({target for _, target in files}) < len(files):
        raise ParameterError("two outputs go to one file; give each --out a file of its own")
    types = tuple(argument.type for argument in arguments)
    names = tuple(argument.name for argument in arguments)
    return ForeignLaunch(replace(image, types=types, arguments=names), extents, arguments, files)


def _output(text: str, arguments: Sequence[Argument]) -> tuple[str, Path]:
    name, equals, file = text.partition("=")
    tensors = [argument.name for argument in arguments if hasattr(argument.value, "untyped_storage")]
    if not equals or not file:
        raise ParameterError(f"--out {text}: write NAME=FILE, such as {(tensors or ['out'])[0]}=result.npy")
    if name not in tensors:
        raise ParameterError(f"--out {text}: {name} is no tensor argument; there are {', '.join(tensors) or 'none'}")
    return name, new_file(Path(file), TENSOR_SUFFIXES)


def new_file(path: Path, suffixes: Sequence[str]) -> Path:
    """`path`, if a file of that kind can be made there; EmulationError for one that exists, ParameterError else."""
    if path.suffix not in suffixes:
        raise ParameterError(f"{path}: the file name must end in {' or '.join(suffixes)}")
    if path.exists():
        raise EmulationError(f"{path} exists; give a new file name")
    if not path.parent.is_dir():
        raise ParameterError(f"{path}: there is no folder {path.parent}; make it first")
    return path


def save_tensor(tensor: torch.Tensor, path: Path) -> None:
    """Write to a new file: .pt as it is, .npy in NumPy's dtype, where bf16 and fp8 become float32, which is exact."""
    import numpy as np
    import torch

    with path.open("xb") as file:
        if path.suffix == ".pt":
            torch.save(tensor, file)
            return
        exact = tensor.float() if tensor.dtype in (torch.bfloat16, torch.float8_e4m3fn) else tensor
        np.save(file, exact.numpy(), allow_pickle=False)
