"""What Triton's cache keeps beside a kernel and the kernel's own file does not say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_KEYS = ("shared", "num_warps")


def triton_metadata(path: Path) -> dict[str, int]:
    """`shared` (bytes of LDS) and `num_warps` from the .json of the same name; empty where there is none."""
    try:
        document = json.loads(path.with_suffix(".json").read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {key: document[key] for key in _KEYS if isinstance(document.get(key), int)}
