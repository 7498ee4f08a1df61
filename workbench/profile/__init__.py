"""What profilers counted: their files as one table, the figures that follow from it, and runs under a profiler."""

from workbench.profile.derive import Derivation, Group, Metric, derive
from workbench.profile.read import read
from workbench.profile.table import Profile

__all__ = ["Derivation", "Group", "Metric", "Profile", "derive", "read"]
