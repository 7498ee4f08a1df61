"""What the kernels are compared with, where it is installed. Each has its own correctness check before it is timed."""

from workbench.parity.baselines.base import Baseline, Prepared
from workbench.parity.baselines.registry import BASELINES, choose_baselines

__all__ = ["BASELINES", "Baseline", "Prepared", "choose_baselines"]
