"""torch.nn.functional.scaled_dot_product_attention, by torch's own choice of kernel or with one forced."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from workbench.parity.baselines.base import Baseline, Prepared, Problem, refuse
from workbench.parity.baselines.contiguous import Batch, contiguous_batches, scatter
from workbench.poison import output_shape


class TorchSdpa(Baseline):
    """`backend` is a name of torch.nn.attention.SDPBackend, or None for torch's own choice."""

    def __init__(self, name: str, backend: str | None) -> None:
        self.name = name
        self._backend = backend
        forced = "" if backend is None else f", forced to {backend}"
        self.note = (
            f"torch SDPA{forced} on contiguous tensors, one call per pair of lengths; gathering the pages is not timed"
        )

    def missing(self, device: torch.device) -> str | None:
        if self._backend is not None:
            return super().missing(device)
        return None

    def unsupported(self, problem: Problem, lane: str) -> str | None:
        return refuse(problem, ("fp8", "softcap", "alibi", "qq_bias", "sinks"))

    def prepare(self, problem: Any, inputs: Any, lane: str) -> Prepared:
        batches = contiguous_batches(problem, inputs)
        masks = [_mask(problem, batch) for batch in batches]

        def call() -> list[torch.Tensor]:
            with self._kernel():
                return [_attend(problem, batch, mask) for batch, mask in zip(batches, masks, strict=True)]

        def gather(outputs: list[torch.Tensor]) -> torch.Tensor:
            return scatter([output.transpose(1, 2) for output in outputs], batches, output_shape(problem))

        return Prepared(call, gather)

    def _kernel(self) -> Any:
        if self._backend is None:
            return nullcontext()
        from torch.nn.attention import SDPBackend, sdpa_kernel

        return sdpa_kernel([getattr(SDPBackend, self._backend)])


def _mask(problem: Any, batch: Batch) -> Any:
    """None where SDPA's own flags do; a lower-right causal bias; or a boolean [Sq, Skv] for a window."""
    query_len, kv_len = batch.lengths
    if not getattr(problem, "causal", True):
        return None
    offset = getattr(problem, "causal_offset", kv_len - query_len)
    window = problem.sliding_window
    if window is None and (query_len == 1 or offset == 0):
        return None
    if window is None and offset == kv_len - query_len:
        from torch.nn.attention.bias import causal_lower_right

        return causal_lower_right(query_len, kv_len)
    rows = torch.arange(query_len, device=batch.q.device)[:, None] + offset
    keys = torch.arange(kv_len, device=batch.q.device)[None, :]
    visible = keys <= rows
    return visible if window is None else visible & (keys > rows - window)


def _attend(problem: Any, batch: Batch, mask: Any) -> torch.Tensor:
    """Output of one batch, [n, Hq, Sq, d]."""
    query_len = batch.q.shape[1]
    causal = getattr(problem, "causal", True) and mask is None and query_len > 1
    return F.scaled_dot_product_attention(
        batch.q.transpose(1, 2),
        batch.k.transpose(1, 2),
        batch.v.transpose(1, 2),
        attn_mask=mask,
        is_causal=causal,
        scale=problem.softmax_scale,
        enable_gqa=problem.group_size > 1,
    )
