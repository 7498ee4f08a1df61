"""Where the profilers lie, and what they say when they may not read the GPU's counters."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from workbench.errors import ProfilerForbidden, ProfilerMissing
from workbench.profile.plan import Tool

USUAL_FOLDERS: tuple[str, ...] = ("/opt/rocm/bin", "/usr/local/cuda/bin")
"""Where the vendors' installers put their tools; looked into after PATH."""
ORIGINS: dict[Tool, str] = {"rocprofv3": "ROCm (package rocprofiler-sdk)", "ncu": "the CUDA toolkit (Nsight Compute)"}
"""What brings each tool."""

# What the tools print, and what gives the right back. Sources: NVIDIA's page on ERR_NVGPUCTRPERM; ROCm's installation
# guide on the groups of /dev/kfd and /dev/dri.
REFUSALS: dict[Tool, tuple[tuple[str, ...], str]] = {
    "rocprofv3": (
        ("PERMISSION_DENIED", "/dev/kfd", "/dev/dri"),
        "add your user to the groups that own /dev/kfd and /dev/dri/render* (video and render) and log in again, "
        "start a container with --device=/dev/kfd --device=/dev/dri, or run as root",
    ),
    "ncu": (
        ("ERR_NVGPUCTRPERM",),
        "run as root or with the capability CAP_SYS_ADMIN (a container: --cap-add=SYS_ADMIN), or let the administrator "
        "load the driver with NVreg_RestrictProfilingToAdminUsers=0",
    ),
}
"""Of each tool: texts that mean a missing right, and what to do."""
DEGRADED: dict[str, str] = {
    "lack of permissions (capability SYS_PERFMON)": (
        "rocprofv3 could not lock the GPU for itself, so the counters may be inaccurate; "
        "run with the capability CAP_PERFMON, or as root"
    )
}
"""Warnings of a tool that ran, and what they mean for its figures."""


def find_tool(tool: Tool) -> str:
    """The profiler's path: on PATH, or where its vendor installs it.

    ProfilerMissing names what was searched; ProfilerForbidden if the file is there and may not be executed.
    """
    folders = _folders()
    found = shutil.which(tool, path=os.pathsep.join(folders))
    if found is not None:
        return found
    for folder in folders:
        path = Path(folder, tool)
        if path.is_file():
            raise ProfilerForbidden(f"{path} may not be executed; `chmod +x {path}`, or ask who installed it")
    raise ProfilerMissing(
        f"there is no {tool} in {', '.join(folders) or 'any folder: PATH is empty'}; "
        f"install {ORIGINS[tool]}, or add the folder that holds it to PATH"
    )


def refusal(tool: Tool, output: str) -> str | None:
    """What to do about a right that the tool says it lacks; None if it says no such thing."""
    signs, remedy = REFUSALS[tool]
    return remedy if any(sign in output for sign in signs) else None


def degradations(output: str) -> tuple[str, ...]:
    """What a tool that ran warned of, as far as it touches the figures."""
    return tuple(meaning for sign, meaning in DEGRADED.items() if sign in output)


def _folders() -> list[str]:
    toolkit = os.environ.get("CUDA_HOME")
    named = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    return list(dict.fromkeys([*named, *([str(Path(toolkit, "bin"))] if toolkit else []), *USUAL_FOLDERS]))
