"""Compiled kernels on disk, one archive per key. A damaged entry counts as absent. Its size: cache_limit.py."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
import zlib
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import IO, Any

from workbench.compiler.artifact import CompiledKernel, KernelArgument
from workbench.compiler.figures import RegisterFigures

_TEXTS = ("ttir", "ttgir", "llir", "assembly")
_HEADER = "kernel.json"


def cache_directory() -> Path:
    """WORKBENCH_CACHE, or attention-workbench below the user's cache directory."""
    if chosen := os.environ.get("WORKBENCH_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "attention-workbench"


def entry_path(key: str) -> Path:
    """Where the kernel of that key is kept."""
    return cache_directory() / "compiled" / key[:2] / f"{key}.zip"


def load(key: str) -> CompiledKernel | None:
    """The kernel of that key, or None when there is no whole and valid entry."""
    try:
        with zipfile.ZipFile(entry_path(key)) as archive:
            header: dict[str, Any] = json.loads(archive.read(_HEADER))
            if header["key"] != key:
                return None
            header["arguments"] = tuple(KernelArgument(**argument) for argument in header["arguments"])
            header["registers"] = header["registers"] and RegisterFigures(**header["registers"])
            header |= {name: archive.read(name).decode() for name in _TEXTS}
            kernel = CompiledKernel(binary=archive.read("binary"), **header)
    except (OSError, zipfile.BadZipFile, zlib.error, KeyError, TypeError, ValueError, EOFError):
        return None
    with suppress(OSError):
        # The time of the last use: what was used longest ago goes first when the cache reaches its limit.
        os.utime(entry_path(key))
    return kernel


def store(kernel: CompiledKernel) -> None:
    """Write the entry in one step. A cache directory that cannot be written costs only the reuse."""
    from workbench.compiler.cache_limit import limit_now_and_then

    limit_now_and_then()
    path = entry_path(kernel.key)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".partial")
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                _write(kernel, file)
            temporary.replace(path)
        except BaseException:
            temporary.unlink()
            raise


def _write(kernel: CompiledKernel, file: IO[bytes]) -> None:
    separate = {*_TEXTS, "binary", "arguments", "registers"}
    header = {field.name: getattr(kernel, field.name) for field in fields(kernel) if field.name not in separate}
    header["arguments"] = [asdict(argument) for argument in kernel.arguments]
    header["registers"] = kernel.registers and asdict(kernel.registers)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
        archive.writestr(_HEADER, json.dumps(header))
        archive.writestr("binary", kernel.binary)
        for name in _TEXTS:
            archive.writestr(name, getattr(kernel, name))
