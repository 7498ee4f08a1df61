"""The source text that a kernel is built from, digested without importing it."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import CompileError

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from workbench.compiler.request import KernelRef


def source_root(kernel: KernelRef) -> Path:
    """The directory of the package whose modules the kernel may use, or the one file that a lone module is.

    The package is the outermost one below the top level: workbench.kernels for workbench.kernels.gfx950.dense.
    """
    if kernel.path is not None:
        path = Path(kernel.path)
        if not path.is_file():
            raise CompileError(f"kernel file {kernel.path} does not exist")
        return path.resolve()
    spec = _find_module(kernel.module)
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise CompileError(f"kernel module {kernel.module!r} is not a Python module that can be imported here")
    path = Path(spec.origin).resolve()
    if not spec.parent:
        return path
    return path.parents[max(0, spec.parent.count(".") - 1)]


def source_digest(root: Path) -> str:
    """SHA-256 over path and text of every Python file under `root`.

    The path and the whole text count, comments included, because the assembly's line table points into them.
    """
    digest = hashlib.sha256(str(root).encode())
    for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
        digest.update(f"\0{path.relative_to(root)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _find_module(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except (ImportError, ValueError):
        return None
