"""A launch: a program, its grid and its argument block in emulated memory; and the registers a wave starts with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from workbench.errors import EmulationError
from workbench.gfx950.emulator.memory import GlobalMemory
from workbench.gfx950.emulator.operands import EXEC
from workbench.gfx950.emulator.program import ArgumentSlot, Program, parse_program
from workbench.gfx950.emulator.state import SCALAR_BIT, WAVE, WaveState


@dataclass(frozen=True)
class KernelImage:
    """A compiled kernel, reduced to what the emulator needs."""

    assembly: str
    """Empty for a binary, whose `program` is given instead."""
    lds_bytes: int = 0
    """LDS of a workgroup in bytes (Triton's `shared`)."""
    name: str | None = None
    types: tuple[str, ...] = ()
    """Triton type of each argument (`*bf16`, `i32`, `fp32`); without it numbers are packed by their Python type."""
    arguments: tuple[str, ...] = ()
    """Argument names in order, to take arguments by name."""
    program: Program | None = None
    """The code, already decoded."""

    def decoded(self) -> Program:
        """The code; AssemblyError when the text is truncated or an operand is not understood."""
        return self.program or parse_program(self.assembly, self.name)

    def with_lds(self, lds_bytes: int) -> KernelImage:
        """The same kernel with another size of LDS."""
        return replace(self, lds_bytes=lds_bytes)


@dataclass(frozen=True)
class Launch:
    """A program with its grid, its LDS and the memory that holds arguments and tensors."""

    program: Program
    grid: tuple[int, int, int]
    lds_bytes: int
    memory: GlobalMemory
    kernarg: bytes
    kernarg_address: int
    packet_address: int
    """Of the dispatch packet, from which code may read grid and workgroup size."""

    @property
    def num_workgroups(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    def coordinates(self, workgroup: int) -> tuple[int, int, int]:
        """(x, y, z) of a workgroup in dispatch order, x fastest."""
        x, y, _ = self.grid
        return workgroup % x, workgroup // x % y, workgroup // (x * y)


_SCALAR_DTYPES = {"fp16": "f2", "fp32": "f4", "fp64": "f8"}


def prepare(
    image: KernelImage,
    program: Program,
    grid: Sequence[int],
    args: Sequence[Any] | Mapping[str, Any],
    outputs: Sequence[str] | None,
) -> Launch:
    """Register the tensors and pack the argument block. EmulationError when the arguments do not fit the kernel."""
    values = _in_order(image, args)
    slots = program.arguments
    if len(values) > len(slots):
        raise EmulationError(f"{program.name} takes {len(slots)} arguments, got {len(values)}")
    if any(value is not None for value in values[len(slots) :]):
        raise EmulationError(f"{program.name} takes {len(slots)} arguments, got {len(values)}")
    x, y, z = (*(int(extent) for extent in grid), 1, 1, 1)[:3]
    shape = (x, y, z)
    if not 1 <= len(grid) <= 3 or min(shape) < 1:
        raise EmulationError(f"a grid must be one to three positive extents, got {tuple(grid)}")
    hidden = _hidden_arguments(program, shape)
    memory = GlobalMemory()
    block = bytearray(max(program.kernarg_size, 8))
    names = image.arguments or tuple(f"argument {i}" for i in range(len(values)))
    for index, slot in enumerate(slots):
        value = hidden.get(slot.kind, values[index] if index < len(values) else None)
        name = names[index] if index < len(names) else f"argument {index}"
        kind = image.types[index] if index < len(image.types) else ""
        writable = outputs is None or name in outputs
        block[slot.offset : slot.offset + slot.size] = _pack(slot, value, name, kind, memory, writable)
    kernarg = memory.add("kernarg", np.frombuffer(block, np.uint8), writable=False)
    packet = memory.add("dispatch packet", _dispatch_packet(program, shape, kernarg.base), writable=False)
    return Launch(program, shape, image.lds_bytes, memory, bytes(block), kernarg.base, packet.base)


def _hidden_arguments(program: Program, grid: tuple[int, int, int]) -> dict[str, int]:
    """Values of the arguments that the compiler adds for the launch's geometry, by their metadata kind."""
    values = {"hidden_grid_dims": 3}
    for axis, extent, threads in zip("xyz", grid, (program.workgroup_size, 1, 1), strict=True):
        values |= {f"hidden_block_count_{axis}": extent, f"hidden_group_size_{axis}": threads}
    return values


def _dispatch_packet(program: Program, grid: tuple[int, int, int], kernarg: int) -> Any:
    """The HSA kernel dispatch packet: workgroup size at byte 4, work-items at 12, kernarg address at 40."""
    packet = np.zeros(64, np.uint8)
    packet[4:10].view(np.uint16)[:] = (program.workgroup_size, 1, 1)
    packet[12:24].view(np.uint32)[:] = (grid[0] * program.workgroup_size, grid[1], grid[2])
    packet[40:48].view(np.uint64)[:] = kernarg
    return packet


def _in_order(image: KernelImage, args: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
    if not isinstance(args, Mapping):
        return list(args)
    if not image.arguments:
        raise EmulationError("arguments by name need a kernel whose argument names are known; give them in order")
    missing = [name for name in image.arguments if name not in args]
    if missing:
        raise EmulationError(f"missing arguments: {', '.join(missing)}; the kernel takes {', '.join(image.arguments)}")
    return [args[name] for name in image.arguments]


def _pack(slot: ArgumentSlot, value: Any, name: str, kind: str, memory: GlobalMemory, writable: bool) -> bytes:
    if value is None:
        return bytes(slot.size)
    if hasattr(value, "untyped_storage"):
        if slot.size != 8:
            raise EmulationError(f"{name} is a tensor, but the kernel takes {slot.size} bytes by value there")
        if value.device.type != "cpu":
            raise EmulationError(f"{name} must be a CPU tensor, got {value.device}; move it with .cpu()")
        return memory.add_tensor(name, value, writable=writable).to_bytes(8, "little")
    if kind in _SCALAR_DTYPES or (not kind and isinstance(value, float | np.floating)):
        dtype = _SCALAR_DTYPES.get(kind, f"f{slot.size}")
        return np.array(value, dtype).tobytes()
    if kind == "bf16":
        return np.array(value, np.float32).tobytes()[2:]
    if slot.kind == "global_buffer" and value:
        raise EmulationError(f"{name} must be a tensor or None, got {value!r}")
    try:
        return (int(value) & (1 << 8 * slot.size) - 1).to_bytes(slot.size, "little")
    except (TypeError, ValueError):
        raise EmulationError(f"{name} must be a tensor, a number or None, got {type(value).__name__}") from None


_USER_REGISTERS = (
    ("user_sgpr_private_segment_buffer", 4), ("user_sgpr_dispatch_ptr", 2), ("user_sgpr_queue_ptr", 2),
    ("user_sgpr_kernarg_segment_ptr", 2), ("user_sgpr_dispatch_id", 2), ("user_sgpr_flat_scratch_init", 2),
    ("user_sgpr_private_segment_size", 1),
)  # fmt: skip


def initial_registers(launch: Launch, state: WaveState, first: int, count: int) -> int:
    """Set what a wave finds at its start; returns the register mask of what is defined.

    Scalar: the user registers of the descriptor, the preloaded arguments, the workgroup's coordinates. Vector: v0 holds
    the work-item's coordinates, 10 bits each. EXEC covers the workgroup's work-items.
    """
    descriptor = launch.program.descriptor
    defined = 1  # v0
    index = 0

    def define(row: int, value: Any) -> None:
        nonlocal defined
        state.s[row][:] = value
        defined |= 1 << SCALAR_BIT + row

    addresses = {
        "user_sgpr_kernarg_segment_ptr": launch.kernarg_address,
        "user_sgpr_dispatch_ptr": launch.packet_address,
    }
    for name, width in _USER_REGISTERS:
        if not descriptor.get(name, 0):
            continue
        if name in addresses:
            define(index, addresses[name] & 0xFFFFFFFF)
            define(index + 1, addresses[name] >> 32)
        index += width
    words = np.frombuffer(launch.kernarg.ljust(-(-len(launch.kernarg) // 4) * 4, b"\0"), np.uint32)
    start = descriptor.get("user_sgpr_kernarg_preload_offset", 0)
    for k in range(descriptor.get("user_sgpr_kernarg_preload_length", 0)):
        define(index + k, words[start + k] if start + k < len(words) else 0)
    index = max(index, descriptor.get("user_sgpr_count", index))
    slots = np.minimum(first + state.workgroup, launch.num_workgroups - 1)
    x, y, _ = launch.grid
    coordinates = (slots % x, slots // x % y, slots // (x * y))
    for axis, name in enumerate("xyz"):
        if descriptor.get(f"system_sgpr_workgroup_id_{name}", int(axis == 0)):
            define(index, coordinates[axis][:, None])
            index += 1
    item = state.wave_in_group[:, None] * WAVE + np.arange(WAVE)
    state.v[0][:] = item
    active = item < launch.program.workgroup_size
    words64 = np.packbits(active, axis=1, bitorder="little").view(np.uint32)
    define(EXEC, words64[:, :1])
    define(EXEC + 1, words64[:, 1:])
    del count
    return defined
