"""What was given on the command line, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from workbench.errors import ParameterError, ReportError


def refuse_empty(arguments: Sequence[str]) -> None:
    """ParameterError for an argument without a character, and for an option with nothing behind its equals sign."""
    for before, argument in zip(["workbench", *arguments], arguments, strict=False):
        if not argument:
            raise ParameterError(f"an empty text stands behind {before}; name something, or leave it out")
        if argument.startswith("--") and argument.endswith("=") and argument.count("=") == 1:
            raise ParameterError(f"nothing stands behind {argument}; name something, or leave it out")


def refuse_given(options: Mapping[str, object], reason: str) -> None:
    """ParameterError that names those of the options that were given, and says why they do not fit."""
    wrong = [option for option, value in options.items() if value is not None]
    if wrong:
        raise ParameterError(f"{', '.join(wrong)}: {reason}")


def names(text: str | None) -> list[str]:
    """The names of a list with commas, [] where nothing was given. ParameterError for a list without a name."""
    found = [name.strip() for name in (text or "").split(",") if name.strip()]
    if text is not None and not found:
        raise ParameterError(f"{text!r} holds no name; write names with commas between, such as parity,roofline")
    return found


def check_new(path: Path | None) -> None:
    """ReportError for a file that exists, or whose folder does not; None is no file."""
    if path is None:
        return
    if path.exists():
        raise ReportError(f"{path} exists; name a file that does not, or remove it first")
    if not path.parent.is_dir():
        raise ReportError(f"cannot write {path}: there is no folder {path.parent}; make it first, or name another")
