"""Arguments of a kernel on the command line: NAME=VALUE texts as tensors, numbers and null pointers.

A value is one of

    null                    a null pointer
    42, 0x10, -1, 1.5       a number; of the kernel's size, and a float where it is written as one
    f32:2, i64:7            a number of this type
    randn:f32:1024          a generated tensor: kind, dtype, extents joined by x, as in zeros:bf16:64x128
    q.npy, q.pt             the tensor in a file, which is read and never written

Kinds: randn (standard normal, seeded), zeros, ones, arange (0, 1, 2, ... in order), nan.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import ParameterError

if TYPE_CHECKING:
    import torch

    from workbench.gfx950.emulator.program import ArgumentSlot, Program

# Short name -> (PyTorch's name, Triton's type of a number that is passed by value, '' where there is none).
_DTYPES = {
    "f64": ("float64", "fp64"), "f32": ("float32", "fp32"), "f16": ("float16", "fp16"), "bf16": ("bfloat16", "bf16"),
    "fp8_e4m3": ("float8_e4m3fn", ""), "i64": ("int64", "i64"), "i32": ("int32", "i32"), "i16": ("int16", "i16"),
    "i8": ("int8", "i8"), "u8": ("uint8", "u8"),
}  # fmt: skip
_KINDS = ("randn", "zeros", "ones", "arange", "nan")
_FORMS = (
    "null; a number, such as 4 or 0.5 or f32:2; a tensor file, such as q.npy or q.pt; or a generated tensor, such as "
    "randn:f32:1024 or zeros:bf16:64x128"
)
TENSOR_SUFFIXES = (".npy", ".pt")


@dataclass(frozen=True)
class Argument:
    """One argument: a CPU tensor, a number or None, and the Triton type of a number where it is stated."""

    name: str
    value: Any
    type: str = ""


def parse_grid(text: str) -> tuple[int, ...]:
    """`4` or `4,1,1`: workgroups along one to three axes. ParameterError otherwise."""
    words = text.split(",")
    if len(words) > 3 or not all(re.fullmatch(r"0*[1-9]\d*", word.strip()) for word in words):
        raise ParameterError(f"--grid {text}: give one to three positive extents in workgroups, such as 4,1,1")
    return tuple(int(word) for word in words)


def parse_arguments(texts: Sequence[str], seed: int = 0) -> list[Argument]:
    """NAME=VALUE texts, forms as in the module's text; the n-th argument, from 0, is drawn with seed + n.

    ParameterError for a text of another form, a name given twice, and a file that cannot be read.
    """
    found: list[Argument] = []
    for number, text in enumerate(texts):
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise ParameterError(f"--arg {text}: write NAME=VALUE, the value as {_FORMS}")
        if any(name == argument.name for argument in found):
            raise ParameterError(f"--arg {text}: {name} is given twice; give each argument once, in the kernel's order")
        found.append(_parse(name, value, seed + number))
    return found


def _parse(name: str, text: str, seed: int) -> Argument:
    if text == "null":
        return Argument(name, None)
    if (number := _number(text)) is not None:
        return Argument(name, number)
    first, colon, rest = text.partition(":")
    if colon and first in _KINDS:
        return Argument(name, _generate(name, first, rest, seed))
    if colon and first in _DTYPES:
        return _typed_number(name, first, rest)
    if Path(text).suffix in TENSOR_SUFFIXES:
        return Argument(name, _load(name, Path(text)))
    raise ParameterError(f"--arg {name}={text}: the value must be {_FORMS}")


def _number(text: str) -> int | float | None:
    for kind in (lambda word: int(word, 0), float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def _typed_number(name: str, dtype: str, text: str) -> Argument:
    number, kind = _number(text), _DTYPES[dtype][1]
    if not kind:
        raise ParameterError(f"--arg {name}={dtype}:{text}: a kernel takes no {dtype} by value; pass a tensor")
    whole = kind[0] in "iu"
    if number is None or (whole and not isinstance(number, int)):
        raise ParameterError(f"--arg {name}={dtype}:{text}: {text!r} is no {'integer' if whole else 'number'}")
    return Argument(name, number, kind)


def _generate(name: str, kind: str, text: str, seed: int) -> torch.Tensor:
    import torch

    word, colon, extents = text.partition(":")
    where = f"--arg {name}={kind}:{text}"
    if word not in _DTYPES:
        raise ParameterError(f"{where}: the dtype must be one of {', '.join(_DTYPES)}, got {word!r}")
    if not colon or not all(re.fullmatch(r"\d+", extent) for extent in extents.split("x")):
        raise ParameterError(f"{where}: give extents joined by x, such as {kind}:{word}:64x128")
    dtype = getattr(torch, _DTYPES[word][0])
    if kind in ("randn", "nan") and not dtype.is_floating_point:
        raise ParameterError(f"{where}: {kind} needs a floating dtype, such as f32")
    shape = tuple(int(extent) for extent in extents.split("x"))
    try:
        return _fill(kind, shape, seed).to(dtype)
    except RuntimeError as error:
        raise ParameterError(f"{where}: the tensor cannot be made: {str(error).splitlines()[0]}") from None


def _fill(kind: str, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    import torch

    if kind == "randn":
        return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    if kind == "arange":
        return torch.arange(math.prod(shape)).reshape(shape)
    return torch.full(shape, {"zeros": 0.0, "ones": 1.0, "nan": math.nan}[kind])


def _load(name: str, path: Path) -> torch.Tensor:
    import pickle

    import numpy as np
    import torch

    try:
        if path.suffix == ".npy":
            return torch.from_numpy(np.load(path, allow_pickle=False).copy())
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, ValueError, TypeError, EOFError, RuntimeError, pickle.UnpicklingError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ParameterError(f"--arg {name}={path}: no tensor can be read from this file: {reason}") from None
    if not isinstance(loaded, torch.Tensor) or loaded.layout is not torch.strided:
        raise ParameterError(
            f"--arg {name}={path}: the file holds a {type(loaded).__name__}, not one dense tensor; "
            "write one with torch.save(tensor, path)"
        )
    return loaded.detach()


def fit_arguments(program: Program, given: Sequence[Argument]) -> list[Argument]:
    """The given arguments in the kernel's order, checked against its argument block. ParameterError if they differ.

    Where the file names its arguments, order is free and names must agree. Pointers at the end may be left out: they
    are null, as Triton's own two scratch pointers may be.
    """
    slots = [slot for slot in program.arguments if not slot.kind.startswith("hidden_")]
    names = [str(entry.get(".name", "")) for entry in program.metadata.get(".args", ())][: len(slots)]
    ordered = _by_name(program.name, names, given) if names and all(names) else list(given)
    needed = max((index + 1 for index, slot in enumerate(slots) if slot.kind == "by_value"), default=0)
    if not needed <= len(ordered) <= len(slots):
        raise ParameterError(
            f"{program.name} takes {len(slots)} arguments, got {len(ordered)}; in order: {_layout(slots)}. "
            "Give one --arg NAME=VALUE for each; null pointers at the end may be left out"
        )
    for slot, argument in zip(slots, ordered, strict=False):
        is_tensor = hasattr(argument.value, "untyped_storage")
        if is_tensor and not _is_pointer(slot.kind) and slot.size != 8:
            raise ParameterError(f"{argument.name} is a tensor, but {program.name} takes {slot.size} bytes by value")
        if _is_pointer(slot.kind) and argument.value is not None and not is_tensor:
            raise ParameterError(
                f"{argument.name} is a number, but {program.name} takes a pointer: give a tensor or null"
            )
    return ordered


def _is_pointer(kind: str) -> bool:
    return kind == "global_buffer"


def _layout(slots: Sequence[ArgumentSlot]) -> str:
    """`2 x pointer, 1 x value of 4 bytes`."""
    words = ["pointer" if _is_pointer(slot.kind) else f"value of {slot.size} bytes" for slot in slots]
    runs = [(word, len(list(run))) for word, run in groupby(words)]
    return ", ".join(f"{count} x {word}" for word, count in runs) or "none"


def _by_name(kernel: str, names: Sequence[str], given: Sequence[Argument]) -> list[Argument]:
    by_name = {argument.name: argument for argument in given}
    unknown = [name for name in by_name if name not in names]
    missing = [name for name in names if name not in by_name]
    if unknown or missing:
        parts = [f"unknown: {', '.join(unknown)}"] if unknown else []
        parts += [f"missing: {', '.join(missing)}"] if missing else []
        raise ParameterError(f"{kernel} takes {', '.join(names)}; {'; '.join(parts)}")
    return [by_name[name] for name in names]
