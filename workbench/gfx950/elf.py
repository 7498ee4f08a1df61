"""Read an AMD code object (.hsaco): target, metadata note, kernel descriptors, and where the code lies."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.errors import AssemblyError, UnsupportedError
from workbench.gfx950 import msgpack
from workbench.gfx950.kernel_descriptor import DESCRIPTOR_BYTES, descriptor_fields
from workbench.gfx950.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# ELF machine and note numbers of LLVM's "User Guide for AMDGPU Backend".
_EM_AMDGPU, _EM_CUDA = 224, 190
_NT_AMDGPU_METADATA = 32
_PROCESSORS = {
    0x2C: "gfx900",
    0x2F: "gfx906",
    0x30: "gfx908",
    0x3F: "gfx90a",
    0x40: "gfx940",
    0x4B: "gfx941",
    0x4C: "gfx942",
    0x4F: "gfx950",
    0x5F: "gfx9-4-generic",
}
_SHT_NOTE, _SHT_SYMTAB, _SHT_DYNSYM = 7, 2, 11
VGPR_GRANULE = 8


@dataclass(frozen=True)
class CodeKernel:
    """One kernel of a code object."""

    name: str
    address: int
    """Of its first instruction."""
    resources: Resources
    metadata: Mapping[str, object]
    descriptor: Mapping[str, int]
    """See kernel_descriptor.descriptor_fields."""


@dataclass(frozen=True)
class CodeObject:
    """An AMD code object. Evidence kind of its figures: static."""

    target: str
    triple: str
    """The target as the compiler spells it: `amdgcn-amd-amdhsa--gfx950`."""
    kernels: tuple[CodeKernel, ...]


@dataclass(frozen=True)
class _Section:
    name: int
    type: int
    address: int
    offset: int
    size: int
    link: int


def parse_code_object(data: bytes, name: str = "code object") -> CodeObject:
    """Read a code object. AssemblyError says what a malformed or truncated one lacks; UnsupportedError for a cubin."""
    if data[:4] != b"\x7fELF":
        raise AssemblyError(f"{name} is no ELF file; a .hsaco as the compiler wrote it was expected")
    try:
        return _parse(data, name)
    except (struct.error, IndexError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, AssemblyError):
            raise
        raise AssemblyError(f"{name} is a truncated or malformed code object ({error}); compile it again") from None


def _parse(data: bytes, name: str) -> CodeObject:
    machine, flags = struct.unpack_from("<H", data, 18)[0], struct.unpack_from("<I", data, 48)[0]
    if machine == _EM_CUDA:
        raise UnsupportedError(f"{name} is an NVIDIA cubin; an AMD code object for gfx950 or gfx942 was expected")
    if machine != _EM_AMDGPU:
        raise AssemblyError(
            f"{name} is an ELF file for machine {machine}, not an AMD code object (machine {_EM_AMDGPU})"
        )
    sections = _sections(data)
    metadata = _metadata(data, sections)
    if metadata is None:
        raise AssemblyError(f"{name} has no metadata note (NT_AMDGPU_METADATA); it is no loadable code object")
    symbols = _symbols(data, sections)
    kernels = []
    for entry in metadata["amdhsa.kernels"]:
        symbol = entry[".symbol"]
        if symbol not in symbols:
            raise AssemblyError(f"{name} has no descriptor {symbol} for kernel {entry['.name']}")
        kernels.append(_kernel(data, sections, symbols, entry))
    triple = str(metadata.get("amdhsa.target", ""))
    named = triple.rpartition("-")[2].partition(":")[0]
    target = _PROCESSORS.get(flags & 0xFF) or named or f"machine 0x{flags & 0xFF:x}"
    return CodeObject(target, triple, tuple(kernels))


def _sections(data: bytes) -> list[_Section]:
    (table,) = struct.unpack_from("<Q", data, 40)
    entry_size, count = struct.unpack_from("<HH", data, 58)
    found = []
    for index in range(count):
        fields = struct.unpack_from("<IIQQQQIIQQ", data, table + index * entry_size)
        name, kind, _, address, offset, size, link = fields[:7]
        found.append(_Section(name, kind, address, offset, size, link))
    return found


def _metadata(data: bytes, sections: list[_Section]) -> dict[str, Any] | None:
    for section in sections:
        if section.type != _SHT_NOTE:
            continue
        at, end = section.offset, section.offset + section.size
        while at + 12 <= end:
            name_size, size, kind = struct.unpack_from("<III", data, at)
            owner = data[at + 12 : at + 12 + name_size].rstrip(b"\0")
            body = at + 12 + _align4(name_size)
            if owner == b"AMDGPU" and kind == _NT_AMDGPU_METADATA:
                return msgpack.unpack(data[body : body + size])
            at = body + _align4(size)
    return None


def _align4(size: int) -> int:
    return -(-size // 4) * 4


def _symbols(data: bytes, sections: list[_Section]) -> dict[str, tuple[int, int]]:
    """Symbol -> (address, size)."""
    return dict(_walk_symbols(data, sections))


def _walk_symbols(data: bytes, sections: list[_Section]) -> Iterator[tuple[str, tuple[int, int]]]:
    for section in sections:
        if section.type not in (_SHT_SYMTAB, _SHT_DYNSYM):
            continue
        strings = sections[section.link]
        for at in range(section.offset, section.offset + section.size, 24):
            name, _, _, _, address, size = struct.unpack_from("<IBBHQQ", data, at)
            start = strings.offset + name
            yield data[start : data.index(b"\0", start)].decode(), (address, size)


def _kernel(
    data: bytes, sections: list[_Section], symbols: Mapping[str, tuple[int, int]], entry: Mapping[str, Any]
) -> CodeKernel:
    address, _ = symbols[entry[".symbol"]]
    home = next(s for s in sections if s.address and s.address <= address < s.address + s.size)
    descriptor = data[home.offset + address - home.address :][:DESCRIPTOR_BYTES]
    fields = descriptor_fields(descriptor)
    (entry_offset,) = struct.unpack_from("<q", descriptor, 16)
    (rsrc1,) = struct.unpack_from("<I", descriptor, 48)
    # The low six bits hold the vector registers in granules, less one.
    reserved = ((rsrc1 & 0x3F) + 1) * VGPR_GRANULE
    name = entry[".name"]
    workgroup = entry.get(".max_flat_workgroup_size")
    resources = Resources(
        vgprs=entry.get(".vgpr_count", reserved),
        vgprs_reserved=reserved,
        agprs=entry.get(".agpr_count", 0),
        sgprs=entry.get(".sgpr_count", 0),
        vgpr_spills=entry.get(".vgpr_spill_count"),
        sgpr_spills=entry.get(".sgpr_spill_count"),
        scratch_bytes=fields["private_segment_fixed_size"],
        lds_bytes=fields["group_segment_fixed_size"],
        max_workgroup_size=workgroup or Resources.max_workgroup_size,
        workgroup_size_known=workgroup is not None,
        code_bytes=symbols.get(name, (0, None))[1],
    )
    return CodeKernel(name, address + entry_offset, resources, entry, fields)
