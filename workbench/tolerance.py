"""Whether a kernel's output is right: its error against float64, held to a limit derived from the dtype.

Let r be the float64 reference, a the kernel's output, e the eager low-precision run's, all [..., d] on the same rounded
inputs; u the unit roundoff of the output dtype (half its epsilon), n its smallest normal number and w = 2^-24 the unit
roundoff of float32. A row is one token of one head. Its yardstick is rho = max(n, RMS of r over the row), so that small
outputs are held to small limits; heads of fewer than 32 channels: see below. Then

    |a - r|  <=  E  +  (2 u + 64 w) max(|r|, rho)              for every element,  E = max |e - r| over its row
    R(a)     <=  R(e)  +  sqrt(4/3) u + 64 w                   R(x) = RMS over all elements of (x - r) / rho

2 u: a kernel rounds twice where the eager run may happen to be exact, each time by at most u: the probabilities before
the second product, which moves the output by about u rho, and the output itself, by u |r|.
sqrt(4/3) u: the RMS of those two when all probabilities of a row round the same way (u) and the output's rounding is
spread evenly (u / sqrt 3).
64 w: float32 sums, exp2 and scores of magnitude up to some tens, in an order that differs from the eager run's.
rho stands for the scale at which a row's products p_j v_j round. A head of few channels tells it badly: its one or two
outputs may be small because the products cancel, while the probabilities round as ever; and the eager error may be
small by chance. Rows of fewer than 32 channels therefore share rho and E with their neighbours in memory (heads of
the token, then of the tokens beside it), 32 values together, and take the larger of that and their own. Where a pool
has only m < 8 values, rho counts 8 / m times.
A row whose reference is all zeros (nothing visible) gets no allowance, only E, and does not enter R.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from workbench.dtypes import torch_dtype
from workbench.errors import TensorError

ROUNDINGS = 2.0
RMS_ROUNDINGS = math.sqrt(4 / 3)
FLOAT32_TERM = 64 * 2.0**-24

POOL = 32
"""Values that a row's scale is taken over at least: those of neighbouring rows too where the head has fewer."""
FEW = 8
"""Values below which even a pool tells the scale badly."""
_CHUNK_ELEMENTS = 2**22  # 32 MiB in float64


@dataclass(frozen=True)
class Comparison:
    """Outcome of `compare`, filled in on a pass as well."""

    ok: bool
    max_abs: float
    """Largest |actual - reference|; infinite if any element is not finite."""
    rms: float
    """RMS of actual - reference over the finite elements."""
    worst_index: tuple[int, ...]
    """Element furthest beyond its limit, or nearest to it on a pass; the first one that is not finite, if any is."""
    worst_abs: float
    """|actual - reference| at worst_index."""
    allowed: float
    """Limit at worst_index."""
    relative_rms: float
    """R(actual) of the module's formula."""
    allowed_relative_rms: float
    n_over: int
    """Elements beyond their limit, the non-finite ones included."""
    n_nan: int
    """Elements that are NaN or infinite."""

    def describe(self) -> str:
        """One line for a table or an assertion."""
        verdict = "within tolerance" if self.ok else "WRONG"
        return (
            f"{verdict}: max |error| {self.max_abs:.3e}, RMS {self.rms:.3e}; worst at {self.worst_index}: "
            f"{self.worst_abs:.3e} of {self.allowed:.3e} allowed; relative RMS {self.relative_rms:.3e} of "
            f"{self.allowed_relative_rms:.3e} allowed; {self.n_over} elements over, {self.n_nan} not finite"
        )


@dataclass
class _Sums:
    """What the chunks add up to, and the two numbers that they need for it."""

    allowance: float
    smallest_normal: float
    max_abs: float = 0.0
    squared: float = 0.0
    relative_squared: float = 0.0
    eager_relative_squared: float = 0.0
    n_relative: int = 0
    n_over: int = 0
    n_nan: int = 0
    worst_ratio: float = -1.0
    worst_position: int = 0
    worst_abs: float = 0.0
    worst_allowed: float = 0.0


def compare(
    actual: torch.Tensor, reference64: torch.Tensor, eager_low_precision: torch.Tensor, dtype: str | torch.dtype
) -> Comparison:
    """Hold `actual` to the limit of this module's docstring; `dtype` is the compute dtype, by name or PyTorch's.

    The three tensors are [..., d] of one shape, on any device. Raises TensorError on unequal shapes or a reference
    that is not finite: there is nothing to hold a kernel to then.
    """
    for name, tensor in (("actual", actual), ("eager_low_precision", eager_low_precision)):
        if tensor.shape != reference64.shape:
            raise TensorError(f"{name} has shape {list(tensor.shape)}, the reference {list(reference64.shape)}")
    limits = torch.finfo(torch_dtype(dtype) if isinstance(dtype, str) else dtype)
    unit = limits.eps / 2
    sums = _Sums(allowance=ROUNDINGS * unit + FLOAT32_TERM, smallest_normal=limits.smallest_normal)
    if reference64.numel():
        _accumulate(sums, actual, reference64, eager_low_precision)
    return _conclude(sums, reference64, RMS_ROUNDINGS * unit + FLOAT32_TERM)


def _accumulate(sums: _Sums, actual: torch.Tensor, reference: torch.Tensor, eager: torch.Tensor) -> None:
    head_size = reference.shape[-1]
    # Equal chunks: none has too few rows for a pool.
    chunks = -(-reference.numel() // _CHUNK_ELEMENTS)
    rows = [tensor.reshape(-1, head_size).tensor_split(chunks) for tensor in (actual, reference, eager)]
    position = 0
    for chunk in zip(*rows, strict=True):
        a, r, e = (part.to(reference.device, torch.float64) for part in chunk)
        if not bool(torch.isfinite(r).all()):
            raise TensorError(
                "the reference holds NaN or infinity; its inputs must be finite wherever they are visible"
            )
        _add_chunk(sums, a, r, e, position)
        position += r.numel()


def _add_chunk(sums: _Sums, a: torch.Tensor, r: torch.Tensor, e: torch.Tensor, position: int) -> None:
    """a, r, e: [rows, d] float64; position: index of their first element in the whole tensor."""
    error = (a - r).abs()
    finite = torch.isfinite(error)
    row_square = r.square().mean(-1, keepdim=True)
    visible = row_square > 0
    # Where the eager run overflows its dtype it is no guide, and the element gets the allowance alone.
    eager_error = (e - r).abs().nan_to_num(nan=0.0, posinf=0.0)
    row_error = eager_error.amax(-1, keepdim=True)
    if r.shape[-1] < POOL:
        row_square, row_error = _pooled(row_square, row_error, visible, r.shape[-1])
    yardstick = row_square.sqrt().clamp_min(sums.smallest_normal).masked_fill(~visible, 0.0)
    allowed = row_error + sums.allowance * torch.maximum(r.abs(), yardstick)
    # error / 0 is infinite beyond a limit of zero, and 0 / 0 lies on it.
    ratio = (error / allowed).masked_fill((error == 0) & (allowed == 0), 0.0).masked_fill(~finite, torch.inf)

    finite_error = error.masked_fill(~finite, 0.0)
    divisor = yardstick.masked_fill(~visible, torch.inf)
    sums.n_nan += int((~finite).sum())
    sums.n_over += int((ratio > 1).sum())
    sums.max_abs = max(sums.max_abs, float(error.nan_to_num(nan=torch.inf).max()))
    sums.squared += float(finite_error.square().sum())
    sums.relative_squared += float((finite_error / divisor).square().sum())
    sums.eager_relative_squared += float((eager_error / divisor).square().sum())
    sums.n_relative += int(visible.sum()) * r.shape[-1]
    worst = int((ratio if bool(finite.all()) else (~finite).double()).argmax())
    worst_ratio = float(ratio.flatten()[worst])
    if worst_ratio > sums.worst_ratio:
        sums.worst_ratio, sums.worst_position = worst_ratio, position + worst
        sums.worst_abs, sums.worst_allowed = float(error.flatten()[worst]), float(allowed.flatten()[worst])


def _pooled(
    row_square: torch.Tensor, row_error: torch.Tensor, visible: torch.Tensor, head_size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean square and largest eager error, [rows, 1], over a pool around each row; never less than the row's own."""
    rows = row_square.shape[0]
    count = min(-(-POOL // head_size), rows)
    first = (torch.arange(rows, device=row_square.device) - count // 2).clamp(0, rows - count)
    # Rows that see nothing have no part.
    values = visible[:, 0].double().unfold(0, count, 1).sum(-1).clamp_min(1) * head_size
    square = row_square[:, 0].unfold(0, count, 1).sum(-1) * head_size / values
    square *= (FEW / values).clamp_min(1).square()
    error = row_error[:, 0].unfold(0, count, 1).amax(-1)
    return torch.maximum(row_square, square[first, None]), torch.where(visible, error[first, None], row_error)


def _conclude(sums: _Sums, reference: torch.Tensor, rms_allowance: float) -> Comparison:
    count = max(1, sums.n_relative)
    relative_rms = math.sqrt(sums.relative_squared / count)
    allowed_relative_rms = math.sqrt(sums.eager_relative_squared / count) + rms_allowance
    index = torch.unravel_index(torch.tensor(sums.worst_position), reference.shape) if reference.numel() else ()
    return Comparison(
        ok=sums.n_over == 0 and relative_rms <= allowed_relative_rms,
        max_abs=sums.max_abs,
        rms=math.sqrt(sums.squared / max(1, reference.numel())),
        worst_index=tuple(int(i) for i in index),
        worst_abs=sums.worst_abs,
        allowed=sums.worst_allowed,
        relative_rms=relative_rms,
        allowed_relative_rms=allowed_relative_rms,
        n_over=sums.n_over,
        n_nan=sums.n_nan,
    )
