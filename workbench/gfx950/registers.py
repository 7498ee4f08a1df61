"""Which vector registers an operand names."""

from __future__ import annotations

import re
from functools import lru_cache

_RANGE = re.compile(r"[-|]*([va])(?:(\d+)|\[(\d+)(?::(\d+))?\])\|?$")


@lru_cache(maxsize=8192)
def vector_registers(operand: str) -> tuple[str, ...]:
    """`v[0:3]` -> v0 v1 v2 v3, `a7` -> a7, `-|v1|` -> v1; empty for anything but VGPRs and AGPRs."""
    match = _RANGE.match(operand)
    if match is None:
        return ()
    file, single, first, last = match.groups()
    if single is not None:
        return (f"{file}{single}",)
    return tuple(f"{file}{number}" for number in range(int(first), int(last or first) + 1))
