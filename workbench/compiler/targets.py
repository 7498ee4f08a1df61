"""What Triton compiles for here, and how it spells each target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from workbench.errors import TargetError


@dataclass(frozen=True)
class Target:
    """One compilation target; `arch` is Triton's name of it."""

    name: str
    backend: Literal["hip", "cuda"]
    arch: str | int
    warp_size: int
    device: str
    """The device of data/devices that stands for the target where a plan depends on one."""

    @property
    def is_amd(self) -> bool:
        """Whether AMD options and knobs apply."""
        return self.backend == "hip"

    @property
    def assembly(self) -> str:
        """Triton's name of the text stage."""
        return "amdgcn" if self.is_amd else "ptx"

    @property
    def binary(self) -> str:
        """Triton's name of the last stage."""
        return "hsaco" if self.is_amd else "cubin"


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("gfx950", "hip", "gfx950", 64, "mi355x"),
        Target("gfx942", "hip", "gfx942", 64, "mi300x"),
        Target("sm_90", "cuda", 90, 32, "h100"),
        Target("sm_100", "cuda", 100, 32, "b200"),
    )
}


def find_target(name: str) -> Target:
    """The target of that name; TargetError lists the known ones."""
    try:
        return TARGETS[name]
    except KeyError:
        raise TargetError(f"unknown target {name!r}; use one of {', '.join(TARGETS)}") from None
