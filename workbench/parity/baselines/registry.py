"""Baselines by name."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.errors import ParameterError
from workbench.parity.baselines.base import Baseline
from workbench.parity.baselines.flash_attn import FlashAttn
from workbench.parity.baselines.flashinfer import FlashInfer
from workbench.parity.baselines.flex import FlexAttention
from workbench.parity.baselines.paged import Aiter, Vllm
from workbench.parity.baselines.sdpa import TorchSdpa

BASELINES: dict[str, Baseline] = {
    baseline.name: baseline
    for baseline in (
        TorchSdpa("sdpa", None),
        TorchSdpa("sdpa_flash", "FLASH_ATTENTION"),
        TorchSdpa("sdpa_cudnn", "CUDNN_ATTENTION"),
        FlexAttention(),
        Aiter(),
        Vllm(),
        FlashInfer(),
        FlashAttn(),
    )
}
_NOT_AUTOMATIC = ("flex",)


def choose_baselines(names: Sequence[str]) -> list[Baseline]:
    """Baselines by name; `auto` stands for all but flex, which compiles for long, `all` for all, `none` for none.

    ParameterError for an unknown name.
    """
    chosen: dict[str, Baseline] = {}
    for name in names:
        if name == "auto":
            chosen |= {key: value for key, value in BASELINES.items() if key not in _NOT_AUTOMATIC}
        elif name == "all":
            chosen |= BASELINES
        elif name in BASELINES:
            chosen[name] = BASELINES[name]
        elif name != "none":
            raise ParameterError(f"unknown baseline {name!r}; known are auto, all, none, {', '.join(BASELINES)}")
    return list(chosen.values())
