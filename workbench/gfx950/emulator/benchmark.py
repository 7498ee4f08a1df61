"""Speed of the emulator: unified 2D, bf16, d128, 64/8 heads, causal. `python -m workbench.gfx950.emulator.benchmark`.

`--interpreter` times Triton's interpreter on the same problem, in a process of its own. Times are of this machine's
CPU, not of a device; they say how long one waits.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from typing import Any

from workbench.problem import UnifiedAttentionProblem


def benchmark_problem(seq_len: int) -> UnifiedAttentionProblem:
    """One sequence of `seq_len` tokens, all of them queries."""
    return UnifiedAttentionProblem(
        seq_lens=((seq_len, seq_len),),
        num_query_heads=64,
        num_kv_heads=8,
        head_size=128,
        block_size=32,
        dtype="bf16",
    )


def run(seq_len: int, backend: str) -> dict[str, Any]:
    """Run once; wall and CPU seconds without compilation, memory in MiB, and whether the output was right."""
    from workbench.attention import run_unified
    from workbench.device import load_device
    from workbench.inputs import make_unified_inputs
    from workbench.poison import poisoned_output
    from workbench.reference import unified_eager, unified_reference
    from workbench.tolerance import compare

    problem = benchmark_problem(seq_len)
    inputs = make_unified_inputs(problem, seed=0)
    out = poisoned_output(problem)
    started, cpu = time.perf_counter(), time.process_time()
    result = run_unified(problem, inputs, lane="2d", backend=backend, device=load_device("mi355x"), out=out)
    row: dict[str, Any] = {"wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - cpu}
    if result.emulation:
        row["wall_s"] = sum(launch.seconds for launch in result.emulation)
        row["wave_instructions"] = sum(launch.wave_instructions for launch in result.emulation)
        row["wave_instructions_per_cpu_s"] = row["wave_instructions"] / row["cpu_s"]
        row["wave_instructions_per_s"] = row["wave_instructions"] / row["wall_s"]
    row["memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row["right"] = compare(out, unified_reference(problem, inputs), unified_eager(problem, inputs), problem.dtype).ok
    return row


def main() -> None:
    """Print one run, a figure a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seq-len", type=int, default=1024)
    parser.add_argument("--interpreter", action="store_true", help="time Triton's interpreter instead")
    options = parser.parse_args()
    for name, value in run(options.seq_len, "interpreter" if options.interpreter else "emulator").items():
        text = f"{value:,.1f}" if isinstance(value, float) else str(value)
        sys.stdout.write(f"{name:28} {text}\n")


if __name__ == "__main__":
    main()
