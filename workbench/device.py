"""What a GPU offers: compute units, registers, LDS, caches, memory. Figures and their sources lie in data/devices.

A CDNA compute unit (CU) is what NVIDIA calls a streaming multiprocessor, a SIMD one of its partitions, a wave a warp,
LDS shared memory.
"""

from __future__ import annotations

import functools
import re
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from workbench.errors import DeviceError
from workbench.json_text import parse_json
from workbench.resources import data_path

DEFAULT_DEVICE = "mi355x"
"""What routing assumes where no GPU is present and none is named."""

VENDORS = ("amd", "nvidia")
_IDENTITY = ("name", "title", "vendor", "arch")


@dataclass(frozen=True, kw_only=True)
class Device:
    """One GPU model. A figure that its vendor does not state is None."""

    name: str
    """Short name, e.g. mi355x; that of a GPU without a description is what PyTorch calls it."""
    title: str
    vendor: str
    """amd or nvidia."""
    arch: str
    """What Triton compiles for: gfx942, gfx950, sm_90, sm_100, ..."""
    compute_units: int
    wave_size: int
    """Lanes of a wave."""
    lds_bytes_per_workgroup: int
    """Most LDS that one workgroup may have."""
    xcds: int | None = None
    """Dies with an L2 of their own."""
    simds_per_cu: int | None = None
    registers_per_lane: int | None = None
    """32-bit vector registers that a SIMD holds for each lane, over all of its waves."""
    max_waves_per_simd: int | None = None
    lds_bytes_per_cu: int | None = None
    l2_bytes_per_xcd: int | None = None
    l2_ways: int | None = None
    l2_line_bytes: int | None = None
    last_level_cache_bytes: int | None = None
    """The cache in front of HBM: Infinity Cache on AMD, the L2 on NVIDIA."""
    hbm_bytes: int | None = None
    hbm_bytes_per_s: int | None = None
    """Peak HBM bandwidth."""
    peak_bf16_flops: int | None = None
    """Peak of the matrix units in FLOP/s, dense bf16 with float32 accumulation."""
    clock_hz: int | None = None
    """Engine clock behind `peak_bf16_flops`."""
    generic: bool = False
    """True where there is no description: what PyTorch reports, and no peaks."""
    sources: tuple[tuple[str, str], ...] = ()
    """(figure, where it comes from)."""

    def source_of(self, figure: str) -> str:
        """Where a figure comes from."""
        for known, source in self.sources:
            if known == figure:
                return source
        raise DeviceError(
            f"{self.name} has no figure {figure!r}; it has {', '.join(known for known, _ in self.sources)}"
        )


_FIGURES = tuple(field.name for field in fields(Device) if field.name not in (*_IDENTITY, "generic", "sources"))
_NEEDED_FIGURES = tuple(field.name for field in fields(Device) if field.name in _FIGURES and field.default is MISSING)


def list_devices() -> tuple[str, ...]:
    """Names of the devices that come with the workbench."""
    return tuple(sorted(path.stem for path in data_path("devices").glob("*.json")))


def load_device(name: str | Path) -> Device:
    """The device of that name, or the one described by a file of your own (a path ending in .json).

    Raises DeviceError for an unknown name and for a missing or malformed file.
    """
    if str(name).endswith(".json"):
        return _read(Path(name))[0]
    known = list_devices()
    if str(name).lower() not in known:
        raise DeviceError(
            f"no device is called {str(name)!r}; give one of {', '.join(known)}, or the path of a .json description"
        )
    return _shipped(str(name).lower())[0]


def detect_device(index: int | None = None) -> Device | None:
    """The GPU that PyTorch would use (or the one of that index), None where PyTorch finds none.

    A GPU that no description fits in name and number of compute units (a partition, another board of the same chip)
    comes back with `generic` set and with what PyTorch knows of it.
    """
    import torch

    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(torch.cuda.current_device() if index is None else index)
    described = _described(properties.name, properties.multi_processor_count)
    return described or _generic_device(properties, "amd" if torch.version.hip else "nvidia")


@functools.cache
def device_named(torch_name: str) -> Device | None:
    """The description of the model that PyTorch calls so, as in a record's environment; None where there is none."""
    for name in list_devices():
        device, pattern = _shipped(name)
        if re.fullmatch(pattern, torch_name):
            return device
    return None


def _described(torch_name: str, compute_units: int) -> Device | None:
    device = device_named(torch_name)
    return device if device is not None and device.compute_units == compute_units else None


@functools.cache
def _shipped(name: str) -> tuple[Device, str]:
    return _read(data_path("devices", f"{name}.json"))


def _generic_device(properties: Any, vendor: str) -> Device:
    """A Device from torch.cuda.get_device_properties."""
    arch = properties.gcnArchName.split(":")[0] if vendor == "amd" else f"sm_{properties.major}{properties.minor}"
    lds = getattr(properties, "shared_memory_per_block_optin", 0) or properties.shared_memory_per_block
    figures: dict[str, Any] = {
        "compute_units": properties.multi_processor_count,
        "wave_size": properties.warp_size,
        "lds_bytes_per_workgroup": lds,
        "lds_bytes_per_cu": getattr(properties, "shared_memory_per_multiprocessor", None),
        "hbm_bytes": properties.total_memory,
    }
    return Device(
        name=properties.name,
        title=properties.name,
        vendor=vendor,
        arch=arch,
        generic=True,
        sources=tuple((figure, "PyTorch device properties") for figure in figures),
        **figures,
    )


def _read(path: Path) -> tuple[Device, str]:
    """The device of a description file, and the pattern of its name in PyTorch ("" if it gives none)."""
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DeviceError(f"cannot read the device description {path}: {error.strerror}") from None
    except ValueError as error:
        raise DeviceError(f"{path} is no device description: not JSON ({error})") from None
    try:
        return _parse(content), content.get("torch_name", "")
    except DeviceError as error:
        raise DeviceError(f"{path} is no device description: {error}") from None


def _parse(content: Any) -> Device:
    if not isinstance(content, dict) or not isinstance(content.get("figures"), dict):
        raise DeviceError('the top must be an object with "figures", an object of {"value", "source"}')
    unknown = set(content) - {*_IDENTITY, "torch_name", "figures"}
    if unknown:
        raise DeviceError(f"unknown key {min(unknown)!r}; known are {', '.join((*_IDENTITY, 'torch_name'))}, figures")
    for key in _IDENTITY:
        if not isinstance(content.get(key), str):
            raise DeviceError(f"{key} must be a string, got {content.get(key)!r}")
    if content["vendor"] not in VENDORS:
        raise DeviceError(f"vendor must be one of {', '.join(VENDORS)}, got {content['vendor']!r}")
    figures = {figure: _figure(figure, entry) for figure, entry in content["figures"].items()}
    for figure in _NEEDED_FIGURES:
        if figures.get(figure, (None, ""))[0] is None:
            raise DeviceError(f"the figure {figure} is missing; a description needs {', '.join(_NEEDED_FIGURES)}")
    values: dict[str, Any] = {figure: value for figure, (value, _) in figures.items()}
    return Device(
        **{key: content[key] for key in _IDENTITY},
        **values,
        sources=tuple((figure, source) for figure, (_, source) in figures.items()),
    )


def _figure(figure: str, entry: Any) -> tuple[int | None, str]:
    if figure not in _FIGURES:
        raise DeviceError(f"unknown figure {figure!r}; known are {', '.join(_FIGURES)}")
    if not isinstance(entry, dict) or set(entry) != {"value", "source"}:
        raise DeviceError(f'the figure {figure} must be {{"value": ..., "source": ...}}, got {entry!r}')
    value, source = entry["value"], entry["source"]
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise DeviceError(f"the figure {figure} must be a positive integer or null, got {value!r}")
    if not isinstance(source, str) or not source:
        raise DeviceError(f"the figure {figure} needs a source, got {source!r}")
    return value, source
