"""manifest.json of a report: what was run, with what, when, and the hash of every file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1


def write_manifest(folder: Path, facts: dict[str, Any]) -> Path:
    """Write the manifest over all files of the folder. It must not exist yet."""
    files = {
        str(path.relative_to(folder)): {"sha256": _sha256(path), "bytes": path.stat().st_size}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    manifest = folder / MANIFEST
    with manifest.open("x", encoding="utf-8") as file:
        json.dump({"manifest_version": MANIFEST_VERSION, **facts, "files": files}, file, indent=2)
        file.write("\n")
    return manifest


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
