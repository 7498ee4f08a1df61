"""Machine code for tests: the files of fixtures/machine_code, and single instructions written out."""

from pathlib import Path

from workbench.gfx950.asm import parse_assembly, read_assembly, split_operands
from workbench.gfx950.machine_code import Instruction, Kernel

FILES = Path(__file__).parent / "fixtures" / "machine_code"

FRAME = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
	.text
	.type	probe,@function
probe:
{code}
	.size	probe, .-probe
	.section	.rodata
	.amdhsa_kernel probe
		.amdhsa_next_free_vgpr {vgprs}
		.amdhsa_next_free_sgpr 16
	.end_amdhsa_kernel
	.amdgpu_metadata
---
amdhsa.kernels:
  - .name: probe
    .symbol: probe.kd
    .max_flat_workgroup_size: {threads}
...
	.end_amdgpu_metadata
"""


def kernel_of(code: str, *, vgprs: int = 64, threads: int = 256) -> Kernel:
    """A gfx950 kernel of this code."""
    return parse_assembly(FRAME.format(code=code, vgprs=vgprs, threads=threads)).kernel()


def stored_kernel(file: str, name: str | None = None) -> Kernel:
    return read_assembly(FILES / file).kernel(name)


def instructions(*texts: str) -> list[Instruction]:
    """Instructions in a row; `n * text` stands for n of them."""
    found: list[Instruction] = []
    for text in texts:
        count, _, line = text.rpartition(" * ")
        for _ in range(int(count or 1)):
            mnemonic, _, rest = line.partition(" ")
            found.append(Instruction(len(found), len(found) + 1, mnemonic, *split_operands(rest)))
    return found
