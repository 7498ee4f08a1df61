"""What this machine can run, and why not the rest. Every check is safe without a GPU, and fails alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from workbench.environment import environment_facts, package_version, triton_version
from workbench.errors import WorkbenchError

OFFLINE_TARGET = "gfx950"
FREE_DISK_GIB = 2.0
_PROBE_TIMEOUT_S = 120
_PEERS = {"AITER": "aiter", "vLLM": "vllm", "FlashInfer": "flashinfer", "flash-attn": "flash_attn"}
_PROFILERS = {
    "rocprofv3": "comes with ROCm; add /opt/rocm/bin to PATH",
    "ncu": "comes with the CUDA toolkit (Nsight Compute); add its folder to PATH",
}


@dataclass(frozen=True)
class Finding:
    """Whether this machine can do something, the facts, and what to do when it cannot."""

    ok: bool
    detail: str
    action: str = ""


@dataclass(frozen=True)
class Check:
    """A question put to this machine. `required`: without a yes the workbench cannot do its main job."""

    what: str
    find: Callable[[], Finding]
    required: bool = False

    def run(self) -> Finding:
        """The finding; a check that breaks is a "no" with its error."""
        try:
            return self.find()
        except Exception as error:  # noqa: BLE001 - the doctor must survive whatever is wrong with the machine
            return Finding(False, f"the check failed: {type(error).__name__}: {error}", "report this as a bug")


def checks() -> Iterator[Check]:
    """All checks, in the order shown."""
    yield Check("GPU kernels", find_gpu)
    yield Check("interpreter", find_interpreter, required=True)
    yield Check(f"offline compilation ({OFFLINE_TARGET})", find_offline_compiler)
    yield Check(f"emulator ({OFFLINE_TARGET})", find_emulator)
    yield Check("notebooks and reports", find_notebooks, required=True)
    for tool in _PROFILERS:
        yield Check(f"profiler {tool}", partial(find_profiler, tool))
    yield Check("baselines in torch", find_torch_baselines)
    for name, module in _PEERS.items():
        yield Check(f"baseline {name}", partial(find_peer, name, module))
    yield Check("cache of compiled kernels", find_cache)
    yield Check("disk", find_disk, required=True)


def find_gpu() -> Finding:
    """Kernels on the GPU that PyTorch sees."""
    facts = environment_facts()
    if not facts["torch"]:
        return Finding(False, "PyTorch is not installed", "install torch for your platform (README, Installing)")
    if facts["device_kind"] == "gpu":
        detail = f"{facts['device']} ({facts['gpu_arch']}), torch {facts['torch']}, Triton {facts['triton']}"
        if os.environ.get("TRITON_INTERPRET") == "1":
            return Finding(False, f"{detail}, but TRITON_INTERPRET=1 is set", "unset TRITON_INTERPRET")
        return Finding(True, detail)
    if facts["rocm"]:
        built_for, tool, variable = "ROCm", "rocminfo", "HIP_VISIBLE_DEVICES"
    elif facts["cuda"]:
        built_for, tool, variable = "CUDA", "nvidia-smi", "CUDA_VISIBLE_DEVICES"
    else:
        action = "for a GPU, install torch for ROCm or CUDA (README, Installing)"
        return Finding(False, f"torch {facts['torch']} is a CPU build", action)
    detail = f"torch {facts['torch']} is built for {built_for} but no device is visible"
    return Finding(False, detail, f"see whether {tool} lists a GPU, and what {variable} is set to")


def find_interpreter() -> Finding:
    """The same kernels on CPU tensors; runs one in a process of its own."""
    versions = f"Triton {triton_version() or 'missing'}, NumPy {package_version('numpy') or 'missing'}"
    run = _run([sys.executable, "-m", "workbench.doctor_probe"], TRITON_INTERPRET="1")
    if run.returncode == 0:
        return Finding(True, f"{versions}: {run.stdout.strip()}")
    if "0-dimensional arrays" in run.stderr:
        action = 'this Triton needs an older NumPy: pip install "numpy<2.4"'
    elif "No module named 'triton'" in run.stderr:
        action = "pip install triton"
    else:
        action = "see the whole error: TRITON_INTERPRET=1 python -m workbench.doctor_probe"
    return Finding(False, f"{versions}: {_last_line(run.stderr)}", action)


def find_offline_compiler() -> Finding:
    """Machine code for a GPU that need not be here; compiles a kernel."""
    from workbench.compiler import compile_kernel, triton_versions
    from workbench.doctor_probe import probe_request

    try:
        registers = compile_kernel(probe_request(OFFLINE_TARGET), time_limit=_PROBE_TIMEOUT_S).registers
    except WorkbenchError as error:
        return Finding(False, str(error), "pip install --upgrade triton")
    vgprs = registers.vgprs if registers else "unknown"
    return Finding(True, f"a kernel compiled (VGPRs: {vgprs}); Triton {', '.join(triton_versions())}")


def find_emulator() -> Finding:
    """Machine code executed on the CPU; runs what the offline compiler made."""
    from workbench.compiler import compile_kernel
    from workbench.doctor_probe import VERDICT, check_output, probe_arguments, probe_request
    from workbench.gfx950.emulator import emulate

    arguments = probe_arguments()
    try:
        compiled = compile_kernel(probe_request(OFFLINE_TARGET), time_limit=_PROBE_TIMEOUT_S)
        result = emulate(compiled, (1, 1, 1), arguments)
        check_output(arguments)
    except (WorkbenchError, ArithmeticError) as error:
        return Finding(False, str(error), "another Triton may emit code that the emulator knows")
    return Finding(True, f"{VERDICT}, after {result.wave_instructions} wave-instructions")


def find_notebooks() -> Finding:
    """Notebooks by hand and through papermill."""
    missing = [name for name in ("papermill", "nbconvert", "ipykernel", "jupyterlab") if find_spec(name) is None]
    if missing:
        return Finding(False, f"not installed: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    from jupyter_client.kernelspec import KernelSpecManager

    if "python3" not in KernelSpecManager().find_kernel_specs():
        return Finding(False, "Jupyter finds no kernel named python3", "python -m ipykernel install --sys-prefix")
    return Finding(True, f"papermill {package_version('papermill')}, JupyterLab {package_version('jupyterlab')}")


def find_profiler(tool: str) -> Finding:
    """A vendor's profiler on PATH."""
    found = shutil.which(tool)
    return Finding(True, found) if found else Finding(False, "not on PATH", _PROFILERS[tool])


def find_torch_baselines() -> Finding:
    """PyTorch's own attention."""
    try:
        from torch.nn.attention.flex_attention import flex_attention
        from torch.nn.functional import scaled_dot_product_attention
    except ImportError as error:
        return Finding(False, str(error), "install a newer torch")
    return Finding(True, f"{scaled_dot_product_attention.__name__}, {flex_attention.__name__}")


def find_peer(name: str, module: str) -> Finding:
    """Another library's kernels; imported in a process of its own, for it may take long or crash."""
    if find_spec(module) is None:
        return Finding(False, "not installed", f"only for the comparison: install {name}")
    run = _run([sys.executable, "-c", f"import {module}"])
    if run.returncode:
        return Finding(False, f"does not import: {_last_line(run.stderr)}", f"see {name}'s installation guide")
    return Finding(True, f"{module} imports")


def find_cache() -> Finding:
    """Size, limit and place of the cache of compiled kernels."""
    from workbench.compiler.cache_limit import LIMIT_VARIABLE, cache_limit, cache_use

    try:
        limit = cache_limit()
    except WorkbenchError as error:
        return Finding(False, str(error), f"unset {LIMIT_VARIABLE}")
    use = cache_use()
    most = f"of at most {limit / 2**30:g}" if limit else "without a limit"
    return Finding(
        True, f"{use.entries:,} kernels, {use.bytes / 2**30:.1f} GiB {most} in {use.folder} ({LIMIT_VARIABLE})"
    )


def find_disk() -> Finding:
    """Room for reports and caches."""
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    detail = f"{free:.1f} GiB free in {Path.cwd()}"
    return Finding(True, detail) if free >= FREE_DISK_GIB else Finding(False, detail, f"free {FREE_DISK_GIB:g} GiB")


def _run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(  # noqa: S603 - commands of this module alone
            command,
            capture_output=True,
            text=True,
            env=os.environ | environment,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer within {_PROBE_TIMEOUT_S} s")


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no message"
