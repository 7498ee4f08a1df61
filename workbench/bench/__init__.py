"""Candidates timed side by side in one session, and record sets held against each other."""

from workbench.bench.compare import Comparison, Delta, compare_sets, load_record_set
from workbench.bench.lineup import line_up
from workbench.bench.session import bench_scenarios
from workbench.bench.verdict import Verdict, verdicts
from workbench.parity.recording import noise_of

__all__ = [
    "Comparison",
    "Delta",
    "Verdict",
    "bench_scenarios",
    "compare_sets",
    "line_up",
    "load_record_set",
    "noise_of",
    "verdicts",
]
