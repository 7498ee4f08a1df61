"""Triton's interpreter at a bearable speed, and with the rounding and the NaN of a GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


@contextmanager
def patched_once() -> Iterator[None]:
    """Within the block, patch each module of triton.language once instead of at every device function call.

    The interpreter replaces the builtins of the language modules that a @jit function sees anew whenever one such
    function calls another; for kernels made of small device functions that is most of the time. A launch undoes its
    patches when it ends, so a block may hold one launch.
    """
    import triton.language as tl
    from triton.runtime import interpreter

    patch = interpreter._patch_lang
    seen: set[tuple[bool, bool]] = set()

    @functools.cache
    def visible_from(function: Callable[..., Any]) -> tuple[bool, bool]:
        modules = {id(value) for value in function.__globals__.values()}
        return id(tl) in modules, id(tl.core) in modules

    def patch_new(function: Callable[..., Any]) -> Any:
        visible = visible_from(function)
        if visible in seen:
            return interpreter._LangPatchScope()
        seen.add(visible)
        return patch(function)

    interpreter._patch_lang = patch_new
    try:
        yield
    finally:
        interpreter._patch_lang = patch


@contextmanager
def without_dropped_checks() -> Iterator[None]:
    """Within the block, the interpreter does no integer arithmetic twice.

    For a check of overflow it repeats each sum, difference and product in 64 bits, a third of a kernel's time; of the
    verdict it makes nothing, since it runs without debugging.
    """
    from triton.runtime.interpreter import interpreter_builder

    options = interpreter_builder.options
    interpreter_builder.options = replace(options, sanitize_overflow=options.debug and options.sanitize_overflow)
    try:
        yield
    finally:
        interpreter_builder.options = options


@contextmanager
def rounded_bf16() -> Iterator[None]:
    """Within the block, float32 becomes bf16 by rounding to nearest even, as on a GPU.

    The interpreter of Triton 3.6 to 3.9 cuts the lower bits off, which doubles the error of every cast.
    """
    import triton.language as tl
    from triton.runtime import interpreter

    convert = interpreter._convert_float

    def convert_or_round(values: np.ndarray, source: Any, target: Any, rounding_mode: Any) -> np.ndarray:
        if source == tl.float32 and target == tl.bfloat16:
            return _round_to_bf16(values)
        if source == tl.bfloat16 and target == tl.float32:
            return values.astype("uint32") << 16
        return convert(values, source, target, rounding_mode)

    interpreter._convert_float = convert_or_round
    try:
        yield
    finally:
        interpreter._convert_float = convert


@contextmanager
def e4m3_with_nan() -> Iterator[None]:
    """Within the block, e4m3 has its NaN. The interpreter of Triton 3.6 to 3.9 reads the two codes as +-480."""
    import triton.language as tl
    from triton.runtime import interpreter

    convert = interpreter._convert_float

    def convert_or_look_up(values: np.ndarray, source: Any, target: Any, rounding_mode: Any) -> np.ndarray:
        if source != tl.float8e4nv or target not in (tl.float16, tl.bfloat16, tl.float32):
            return convert(values, source, target, rounding_mode)
        exact = _e4m3_values()[values]
        if target == tl.float16:
            return exact.astype("float16").view("uint16")
        return exact.view("uint32") if target == tl.float32 else (exact.view("uint32") >> 16).astype("uint16")

    interpreter._convert_float = convert_or_look_up
    try:
        yield
    finally:
        interpreter._convert_float = convert


@functools.cache
def _e4m3_values() -> np.ndarray:
    """Float32 value of each of the 256 codes: 4 exponent bits of bias 7, 3 of mantissa, no infinity."""
    import numpy as np

    codes = np.arange(256)
    exponent, mantissa = codes >> 3 & 15, codes & 7
    magnitude = np.where(exponent, 8 + mantissa, mantissa) * 2.0 ** (np.maximum(exponent, 1) - 10)
    values = np.where(codes & 128, -magnitude, magnitude)
    return np.where(codes & 127 == 127, np.nan, values).astype(np.float32)


def _round_to_bf16(values: np.ndarray) -> np.ndarray:
    """Bits (uint16) of the bf16 values nearest to float32 values; a NaN stays one."""
    import numpy as np

    bits = values.view(np.uint32)
    upper = bits >> 16
    rounded = (bits + (0x7FFF + (upper & 1))) >> 16
    return np.where(np.isnan(values), upper | 0x40, rounded).astype(np.uint16)
