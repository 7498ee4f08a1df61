"""`python -m workbench.doctor_probe`: run a kernel in Triton's interpreter and check its result.

A process of its own, because Triton decides when it is first imported whether a process interprets or compiles.
Needs TRITON_INTERPRET=1. Prints one line on success; any failure ends it as a traceback.
"""

from __future__ import annotations

import sys

import torch

from workbench.kernels.probe import matrix_power_kernel

_N = 16
_EXPONENT = 3


def main() -> None:
    """Raise the matrix 2 I to a power, in fp16, where every intermediate is exact."""
    x = 2 * torch.eye(_N, dtype=torch.float16)
    out = torch.full_like(x, float("nan"))
    matrix_power_kernel[(1,)](x, out, _EXPONENT, N=_N)
    if not torch.equal(out, 2**_EXPONENT * torch.eye(_N, dtype=torch.float16)):
        raise ArithmeticError(f"the probe kernel computed a wrong product; first row {out[0].tolist()}")
    sys.stdout.write("a kernel ran on the CPU and its result is right\n")


if __name__ == "__main__":
    main()
