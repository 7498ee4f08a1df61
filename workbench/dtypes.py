"""The one map between dtype names of a problem and PyTorch's dtypes, and the bit patterns that follow from it."""

import torch

from workbench.errors import ProblemError

TORCH_DTYPES: dict[str, torch.dtype] = {
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp32": torch.float32,
    "fp8_e4m3": torch.float8_e4m3fn,
}
FP8_MAX = torch.finfo(torch.float8_e4m3fn).max

_BITS_BY_ITEMSIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def torch_dtype(name: str) -> torch.dtype:
    """PyTorch's dtype for a problem's dtype name."""
    if name not in TORCH_DTYPES:
        raise ProblemError(f"dtype must be one of {', '.join(TORCH_DTYPES)}, got {name!r}")
    return TORCH_DTYPES[name]


def dtype_name(dtype: torch.dtype) -> str:
    """The problem's name for a PyTorch dtype."""
    for name, known in TORCH_DTYPES.items():
        if known == dtype:
            return name
    accepted = ", ".join(map(str, TORCH_DTYPES.values()))
    raise ProblemError(f"no dtype name for {dtype}; tensors may be {accepted}")


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The same storage seen as integers of the same width: fp8 has no indexing kernels, and NaN equals NaN here."""
    return tensor.view(_BITS_BY_ITEMSIZE[tensor.element_size()])


def nan_bits(dtype: torch.dtype) -> int:
    """Bit pattern of a NaN of a floating dtype, as the integer that `bits` shows."""
    return int(bits(torch.tensor([float("nan")]).to(dtype)).item())
