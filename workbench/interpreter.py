"""Running many small programs in Triton's interpreter at a bearable speed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


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

    def patch_new(function: Callable[..., Any]) -> Any:
        modules = {id(value) for value in function.__globals__.values()}
        visible = (id(tl) in modules, id(tl.core) in modules)
        if visible in seen:
            return interpreter._LangPatchScope()
        seen.add(visible)
        return patch(function)

    interpreter._patch_lang = patch_new
    try:
        yield
    finally:
        interpreter._patch_lang = patch
