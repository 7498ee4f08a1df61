"""One small kernel with a known answer, run by the doctor.

`python -m workbench.doctor_probe` runs it in Triton's interpreter: in a process of its own, because Triton decides when
it is first imported whether a process interprets or compiles. Needs TRITON_INTERPRET=1; a failure ends as a traceback.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from workbench.compiler import KernelRef, KernelRequest, describe_argument, pointer_argument

N = 16
EXPONENT = 3
VERDICT = "a kernel ran and its result is right"


def probe_request(target: str) -> KernelRequest:
    """The probe kernel for offline compilation."""
    pointer = pointer_argument("float16")
    return KernelRequest(
        kernel=KernelRef("workbench.kernels.probe", "matrix_power_kernel"),
        arguments=(("p_x", pointer), ("p_out", pointer), ("exponent", describe_argument(EXPONENT))),
        constexprs=(("N", N),),
        target=target,
        label="the probe kernel",
    )


def probe_arguments() -> dict[str, Any]:
    """Runtime arguments: the matrix 2 I, whose powers are exact in fp16, and an output of NaN."""
    x = 2 * torch.eye(N, dtype=torch.float16)
    return {"p_x": x, "p_out": torch.full_like(x, float("nan")), "exponent": EXPONENT}


def check_output(arguments: dict[str, Any]) -> None:
    """Raise ArithmeticError unless the output is the power that was asked for."""
    out = arguments["p_out"]
    if not torch.equal(out, 2**EXPONENT * torch.eye(N, dtype=torch.float16)):
        raise ArithmeticError(f"the probe kernel computed a wrong product; its first row is {out[0].tolist()}")


def main() -> None:
    """Run the probe in the interpreter and print one line."""
    from workbench.kernels.probe import matrix_power_kernel

    arguments = probe_arguments()
    matrix_power_kernel[(1,)](**arguments, N=N)
    check_output(arguments)
    sys.stdout.write(f"{VERDICT}\n")


if __name__ == "__main__":
    main()
