"""Read MessagePack, the format of the metadata note in an AMD code object. Reading only, and only what occurs there."""

from __future__ import annotations

import struct
from typing import Any

_SCALARS = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_SIZED = {
    0xC4: ("bytes", ">B"),
    0xC5: ("bytes", ">H"),
    0xC6: ("bytes", ">I"),
    0xD9: ("text", ">B"),
    0xDA: ("text", ">H"),
    0xDB: ("text", ">I"),
    0xDC: ("list", ">H"),
    0xDD: ("list", ">I"),
    0xDE: ("map", ">H"),
    0xDF: ("map", ">I"),
}


def unpack(data: bytes) -> Any:
    """The first value in `data`. ValueError when it ends early or uses a type that metadata never does."""
    try:
        return _value(data, 0)[0]
    except (struct.error, IndexError):
        raise ValueError("MessagePack data ends early") from None


def _value(data: bytes, at: int) -> tuple[Any, int]:
    tag, at = data[at], at + 1
    if tag < 0x80:
        return tag, at
    if tag >= 0xE0:
        return tag - 0x100, at
    if tag in _CONSTANTS:
        return _CONSTANTS[tag], at
    if tag in _SCALARS:
        (value,) = struct.unpack_from(_SCALARS[tag], data, at)
        return value, at + struct.calcsize(_SCALARS[tag])
    if tag < 0xC0:
        kind = "map" if tag < 0x90 else "list" if tag < 0xA0 else "text"
        return _sized(data, at, kind, tag & (0x1F if kind == "text" else 0x0F))
    if tag not in _SIZED:
        raise ValueError(f"MessagePack type 0x{tag:02x} does not occur in AMD metadata")
    kind, length_format = _SIZED[tag]
    (count,) = struct.unpack_from(length_format, data, at)
    return _sized(data, at + struct.calcsize(length_format), kind, count)


def _sized(data: bytes, at: int, kind: str, count: int) -> tuple[Any, int]:
    if kind in ("text", "bytes"):
        if at + count > len(data):
            raise IndexError(at)
        body = data[at : at + count]
        return (body.decode() if kind == "text" else body), at + count
    items = []
    for _ in range(count * (2 if kind == "map" else 1)):
        item, at = _value(data, at)
        items.append(item)
    return (dict(zip(items[::2], items[1::2], strict=True)) if kind == "map" else items), at
