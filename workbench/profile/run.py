"""Run the planned commands, keep what the profiler wrote, and read it back."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from workbench.errors import (
    ParameterError,
    ProfileError,
    ProfilerFailed,
    ProfilerForbidden,
    ProfilerTimeout,
    ProfilerUnavailable,
)
from workbench.profile.plan import Command, Target, Tool
from workbench.profile.read import read
from workbench.profile.table import Profile
from workbench.profile.tool import degradations, find_tool, refusal

SECONDS_A_PASS = 1800.0
"""How long one command may take, unless it is said."""
_LAST_LINES = 12


def new_folder(target: Target, into: Path | None) -> Path:
    """The folder that a run will make: `into`, else one below reports/ named after the scenario and the time.

    ProfileError if it exists: raw files are never overwritten.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder = into or Path("reports") / f"profile-{target.scenario}-{target.lane}-{stamp}"
    if folder.exists():
        raise ProfileError(f"{folder} exists; raw files are never overwritten: name a new folder with --out")
    return folder.resolve()


def check_timeout(timeout: float) -> None:
    """ParameterError unless there are seconds in it."""
    if not timeout > 0:
        raise ParameterError(f"the timeout must be more than 0 seconds, got {timeout:g}")


def run_commands(
    tool: Tool,
    commands: Sequence[Command],
    folder: Path,
    on_start: Callable[[Command], None] | None = None,
    timeout: float = SECONDS_A_PASS,
) -> Profile:
    """Make the folder, run every command in turn, and read what they wrote.

    Beside the raw files lie the commands and each one's own output. timeout: seconds for each command; one that takes
    longer is stopped with all that it started. ProfilerMissing (its text has the commands), ProfilerForbidden,
    ProfilerTimeout or ProfilerFailed where there is no profile; ParameterError for a timeout that is not positive.
    """
    check_timeout(timeout)
    try:
        program = find_tool(tool)
    except ProfilerUnavailable as error:
        said = "\n".join(f"  {command}" for command in commands)
        raise type(error)(f"{error}. It would have run:\n{said}") from None
    folder.mkdir(parents=True)
    (folder / "commands.txt").write_text("".join(f"{command}\n" for command in commands), encoding="utf-8")
    for command in commands:
        if on_start:
            on_start(command)
        _run(tool, replace(command, arguments=(program, *command.arguments[1:])), folder, timeout)
    try:
        profile = read(folder)
    except ProfileError as error:
        outputs = ", ".join(path.name for path in sorted(folder.glob("*.output")))
        raise _failure(
            tool,
            f"{tool} ended without a profile that can be read: {error}\nits own output: {outputs} in {folder}\n"
            f"{_tail(folder)}",
            folder,
        ) from None
    return replace(profile, problems=(*profile.problems, *degradations(_said(folder))))


def _run(tool: Tool, command: Command, folder: Path, timeout: float) -> None:
    output = folder / f"{command.name}.output"
    with output.open("w", encoding="utf-8") as file:
        try:
            code = _wait(command, file.fileno(), timeout)
        except subprocess.TimeoutExpired:
            raise ProfilerTimeout(
                f"{tool} was stopped after {timeout:g} s: {command}\n{_tail(folder)}its output: {output}\n"
                "give it longer with --timeout, or less to do with --size small or fewer --launches"
            ) from None
        except PermissionError as error:
            raise ProfilerForbidden(
                f"{command.arguments[0]} may not be executed ({error.strerror}): {command}\n"
                "check its rights, and those of the folder and file system that it lies on"
            ) from None
        except OSError as error:
            raise ProfilerFailed(f"cannot start {command.arguments[0]}: {error.strerror}; {command}") from None
    if code:
        said = f"{tool} ended with code {code}: {command}\n{_tail(folder)}its output: {output}"
        raise _failure(tool, said, folder)


def _wait(command: Command, output: int, timeout: float) -> int:
    """The exit code. Whatever ends the waiting also ends the processes that the profiler started."""
    process = subprocess.Popen(  # noqa: S603 - the profiler and this package's own target
        command.arguments, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return process.wait(timeout)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def _failure(tool: Tool, said: str, folder: Path) -> ProfilerUnavailable:
    """ProfilerForbidden with what to do, where the tool complains of a missing right; else ProfilerFailed."""
    remedy = refusal(tool, _said(folder))
    if remedy is None:
        return ProfilerFailed(said)
    return ProfilerForbidden(f"{tool} may not read the GPU's counters: {remedy}\n{said}")


def _said(folder: Path) -> str:
    """All that the tool printed; ncu writes its errors into its log."""
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in _outputs(folder))
    return "\n".join(line for text in texts for line in text.splitlines() if not line.startswith('"'))


def _tail(folder: Path) -> str:
    """The last lines that the tool printed."""
    return "".join(f"  {line}\n" for line in _said(folder).splitlines()[-_LAST_LINES:])


def _outputs(folder: Path) -> list[Path]:
    return [*sorted(folder.glob("*.output")), *folder.glob("ncu.csv")]
