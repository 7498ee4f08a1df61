"""What every record carries about the machine and the software that produced it."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from workbench import __version__
from workbench.resources import checkout_root

_PACKAGES = ("torch", "triton", "numpy", "pandas", "pyarrow")
_GIT_TIMEOUT_S = 10


def package_version(name: str) -> str:
    """The installed version of a distribution, or "" when it is not installed. Imports nothing."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def triton_version() -> str:
    """Triton's version under any of the names it is distributed by, or "". Imports nothing."""
    names = ("triton", "triton-rocm", "pytorch-triton-rocm", "pytorch-triton")
    return next((found for found in map(package_version, names) if found), "")


def cpu_name() -> str:
    """The processor's model name, or the architecture where the system does not tell."""
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _git(*arguments: str) -> str | None:
    root = checkout_root()
    if root is None or not (root / ".git").exists():
        return None
    try:
        run = subprocess.run(  # noqa: S603 - a fixed command
            ["git", "-C", str(root), *arguments],  # noqa: S607 - the user's git, wherever it is
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.strip() if run.returncode == 0 else None


def _commit_facts() -> dict[str, str]:
    commit = _git("rev-parse", "HEAD")
    if commit is None:
        return {"commit": "", "dirty": ""}
    changes = _git("status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": "" if changes is None else str(bool(changes)).lower()}


def _nvidia_driver() -> str:
    # First line: "NVRM version: NVIDIA UNIX ... Kernel Module  <version>  <date>"
    words = _read("/proc/driver/nvidia/version").partition("\n")[0].split()
    return next((word for word in words if word[0].isdigit() and "." in word), "")


def _gpu_facts() -> dict[str, str]:
    facts = {"device": cpu_name(), "device_kind": "cpu", "gpu_arch": "", "driver": "", "rocm": "", "cuda": ""}
    try:
        import torch
    except ImportError:
        return facts
    facts["rocm"] = torch.version.hip or ""
    facts["cuda"] = torch.version.cuda or ""
    if not torch.cuda.is_available():
        return facts
    index = torch.cuda.current_device()
    properties = torch.cuda.get_device_properties(index)
    if torch.version.hip:
        arch, driver = properties.gcnArchName.partition(":")[0], _read("/sys/module/amdgpu/version").strip()
    else:
        arch, driver = f"sm_{properties.major}{properties.minor}", _nvidia_driver()
    facts |= {"device": properties.name, "device_kind": "gpu", "gpu_arch": arch, "driver": driver}
    return facts


@cache
def _facts() -> tuple[tuple[str, str], ...]:
    facts = {
        "workbench": __version__,
        **_commit_facts(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "cpu_count": str(os.cpu_count() or ""),
        **{name: package_version(name) for name in _PACKAGES},
        "triton": triton_version(),
        **_gpu_facts(),
    }
    return tuple(facts.items())


def environment_facts() -> dict[str, str]:
    """Facts about this process's machine and software, all as text; "" where a fact cannot be had.

    Keys: workbench, commit, dirty ("true"/"false"; tracked files only), python, platform, cpu, cpu_count, torch,
    triton, numpy, pandas, pyarrow, device (the current GPU's name, else the processor's), device_kind ("gpu" or
    "cpu"), gpu_arch (gfx950, sm_90, ...), driver, rocm and cuda (what torch was built for).
    Needs no GPU. Read once per process.
    """
    return dict(_facts())
