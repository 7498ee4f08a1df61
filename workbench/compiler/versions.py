"""Which Triton versions this machine can compile with, found without importing any of them."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from workbench.errors import TritonVersionError
from workbench.resources import checkout_root

PATHS_VARIABLE = "WORKBENCH_TRITON_PATHS"


@lru_cache(maxsize=1)
def installed_triton_version() -> str:
    """Version of the Triton in this environment."""
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        raise TritonVersionError("Triton is not installed; type: pip install triton") from None


def triton_versions() -> dict[str, Path | None]:
    """Version -> directory to put before everything else on the import path; None for the installed one.

    Looks at the environment, at .triton/<version> of the checkout, and at WORKBENCH_TRITON_PATHS
    (`3.6.0=/path:3.9.0=/path`). A directory counts once it holds that very version.
    """
    found: dict[str, Path | None] = dict(_from_variable())
    root = checkout_root()
    if root is not None and (root / ".triton").is_dir():
        for directory in sorted((root / ".triton").iterdir()):
            if _holds(directory, directory.name):
                found.setdefault(directory.name, directory)
    found[installed_triton_version()] = None
    return dict(sorted(found.items()))


def find_triton(version: str) -> Path | None:
    """The directory of that version (None: the installed one); TritonVersionError says what to type."""
    available = triton_versions()
    if version not in available:
        raise TritonVersionError(
            f"Triton {version} is not available; available: {', '.join(available)}. From the top of the checkout "
            f"type: pip install --no-deps --target .triton/{version} triton=={version}"
        )
    return available[version]


@lru_cache(maxsize=8)
def compiler_digest(version: str, backend: str) -> str:
    """SHA-256 of that Triton's own files, as far as they decide the code for a backend of Triton's (hip, cuda).

    Two builds of one version differ in it; so do installations that somebody edited.
    """
    directory = find_triton(version)
    spec = None if directory else find_spec("triton")
    package = directory / "triton" if directory else Path(spec.origin if spec and spec.origin else "").parent
    own = package / "backends" / {"hip": "amd", "cuda": "nvidia"}[backend]
    others = package / "backends"
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        foreign = path.is_relative_to(others) and path.parent != others and not path.is_relative_to(own)
        decides = path.suffix == ".py" or path.name.startswith("libtriton") or path.is_relative_to(own)
        if not path.is_file() or foreign or not decides or path.suffix == ".pyc":
            continue
        digest.update(f"\0{path.relative_to(package)}\0".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _from_variable() -> dict[str, Path]:
    found = {}
    for item in filter(None, os.environ.get(PATHS_VARIABLE, "").split(":")):
        version, equals, path = item.partition("=")
        if not equals or not _holds(Path(path), version):
            raise TritonVersionError(
                f"{PATHS_VARIABLE}: {item!r} must be <version>=<directory>, where the directory holds that Triton, as "
                f"after: pip install --no-deps --target <directory> triton==<version>"
            )
        found[version] = Path(path)
    return found


def _holds(directory: Path, version: str) -> bool:
    return (directory / f"triton-{version}.dist-info").is_dir()
