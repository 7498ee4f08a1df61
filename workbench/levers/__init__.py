"""Every optimisation lever: what it changes in the machine code, what can see it, what was published about it."""

from workbench.levers.registry import INSTRUMENTS, KernelLevers, Lever, Limit, find_kernel, load_kernels

__all__ = ["INSTRUMENTS", "KernelLevers", "Lever", "Limit", "find_kernel", "load_kernels"]
