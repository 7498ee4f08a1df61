"""Argument checks shared by the public calls. Shapes, dtypes, strides and devices only: nothing waits for a GPU."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import torch

from workbench.dtypes import dtype_name
from workbench.errors import ProblemError, TensorError

if TYPE_CHECKING:
    from collections.abc import Iterable

FP8 = "fp8_e4m3"
FLOATS = (torch.float16, torch.bfloat16, torch.float32)


def device_of_tensor(name: str, tensor: object) -> torch.device:
    """Its device; TensorError for what is no tensor."""
    if not isinstance(tensor, torch.Tensor):
        raise TensorError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}")
    return tensor.device


def check_tensor(
    name: str, tensor: object, shape: tuple[int | None, ...], dtypes: Iterable[torch.dtype], device: torch.device
) -> torch.Tensor:
    """`tensor` if it has the shape (None: any extent), one of the dtypes and the device; else TensorError."""
    if not isinstance(tensor, torch.Tensor):
        raise TensorError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}")
    wanted = "[" + ", ".join("*" if extent is None else str(extent) for extent in shape) + "]"
    fits = tensor.dim() == len(shape) and all(
        extent is None or extent == given for extent, given in zip(shape, tensor.shape, strict=True)
    )
    if not fits:
        raise TensorError(f"{name} must have shape {wanted}, got {list(tensor.shape)}")
    accepted = tuple(dtypes)
    if tensor.dtype not in accepted:
        raise TensorError(f"{name} must be {' or '.join(map(str, accepted))}, got {tensor.dtype}")
    if tensor.device != device:
        raise TensorError(f"{name} must be on {device} like q, got {tensor.device}")
    return tensor


def check_unit_stride(name: str, tensor: torch.Tensor) -> None:
    """The head channels must lie side by side; every other stride is free."""
    if tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        raise TensorError(f"{name} must have stride 1 along its last axis, got {tensor.stride(-1)}; use .contiguous()")


def check_contiguous(name: str, tensor: torch.Tensor) -> None:
    """The kernels step through lengths, slopes and sinks one element at a time."""
    if not tensor.is_contiguous():
        raise TensorError(f"{name} must be contiguous; use .contiguous()")


def operand_dtype(name: str, tensor: torch.Tensor) -> str:
    """The problem's name of an operand's dtype."""
    try:
        return dtype_name(tensor.dtype)
    except ProblemError as error:
        raise TensorError(f"{name}: {error}") from None


def check_out(name: str, out: torch.Tensor | None, q: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`out`, or a new tensor: q's shape, in the compute dtype."""
    if out is None:
        return torch.empty(q.shape, dtype=dtype, device=q.device)
    check_tensor(name, out, tuple(q.shape), (dtype,), q.device)
    check_unit_stride(name, out)
    if any(extent > 1 and stride == 0 for extent, stride in zip(out.shape, out.stride(), strict=True)):
        raise TensorError(f"{name} must not be expanded: its rows lie in the same memory; use .contiguous()")
    return out


def scale_tensor(
    name: str, scale: torch.Tensor | float | None, tensor: torch.Tensor, operand: str
) -> torch.Tensor | None:
    """A scale as a float32 tensor on the operand's device; one value for the whole tensor."""
    if scale is None:
        return None
    if operand != FP8:
        raise TensorError(f"{name} is for fp8 tensors, but the operand is {operand}; leave it None")
    if not isinstance(scale, torch.Tensor):
        return torch.full((), as_number(name, scale), dtype=torch.float32, device=tensor.device)
    one_value = scale.numel() == 1 or all(stride == 0 for stride in scale.stride())
    if not one_value:
        raise TensorError(f"{name} must be one value for the whole tensor, got shape {list(scale.shape)}")
    return check_tensor(name, scale, tuple(scale.shape), (torch.float32,), tensor.device)


def check_scale_factor(name: str, value: float) -> float:
    """A finite factor greater than zero."""
    number = as_number(name, value)
    if not 0.0 < number < float("inf"):
        raise TensorError(f"{name} must be a finite number greater than 0, got {value!r}")
    return number


def as_number(name: str, value: object) -> float:
    """The value as a float; TensorError for what is no number."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TensorError(f"{name} must be a number, got {value!r}") from None


def as_length(name: str, value: object) -> int:
    """The value as an int; TensorError for what is none."""
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TensorError(f"{name} must be an integer, got {value!r}") from None


def span_bytes(tensor: torch.Tensor) -> int:
    """Bytes from the first to just past the last element of a strided view."""
    if tensor.numel() == 0:
        return 0
    last = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()
