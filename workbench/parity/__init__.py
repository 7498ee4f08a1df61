"""Parity: every scenario, every lane, against the float64 reference, and on a GPU against other implementations."""

from workbench.parity.baselines import BASELINES, choose_baselines
from workbench.parity.flops import Work, is_decode, work_of
from workbench.parity.harness import Contestant, resolve_device, run_contestants, run_lanes, run_scenario
from workbench.parity.session import choose_scenarios, run_set
from workbench.parity.stats import Ratio, paired_ratio
from workbench.parity.timing import Timer, TimingPlan

__all__ = [
    "BASELINES",
    "Contestant",
    "Ratio",
    "Timer",
    "TimingPlan",
    "Work",
    "choose_baselines",
    "choose_scenarios",
    "is_decode",
    "paired_ratio",
    "resolve_device",
    "run_contestants",
    "run_lanes",
    "run_scenario",
    "run_set",
    "work_of",
]
