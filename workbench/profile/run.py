"""Run the planned commands, keep what the profiler wrote, and read it back."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from workbench.errors import ProfileError, ProfilerUnavailable
from workbench.profile.plan import Command, Target, Tool
from workbench.profile.read import read
from workbench.profile.table import Profile

_SECONDS_A_PASS = 1800
_LAST_LINES = 12
USUAL_FOLDERS: tuple[str, ...] = ("/opt/rocm/bin", "/usr/local/cuda/bin")
"""Where the vendors' installers put their tools; looked into after PATH."""


def find_tool(tool: Tool) -> str | None:
    """The profiler's path, on PATH or where its vendor installs it."""
    toolkit = Path(os.environ["CUDA_HOME"], "bin") if os.environ.get("CUDA_HOME") else None
    folders = [str(toolkit), *USUAL_FOLDERS] if toolkit else USUAL_FOLDERS
    return shutil.which(tool) or shutil.which(tool, path=os.pathsep.join(folders))


def new_folder(target: Target, into: Path | None) -> Path:
    """The folder that a run will make: `into`, else one below reports/ named after the scenario and the time.

    ProfileError if it exists: raw files are never overwritten.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder = into or Path("reports") / f"profile-{target.scenario}-{target.lane}-{stamp}"
    if folder.exists():
        raise ProfileError(f"{folder} exists; raw files are never overwritten: name a new folder with --into")
    return folder.resolve()


def run_commands(
    tool: Tool, commands: Sequence[Command], folder: Path, on_start: Callable[[Command], None] | None = None
) -> Profile:
    """Make the folder, run every command in turn, and read what they wrote.

    Beside the raw files lie the commands and each one's own output. ProfilerUnavailable if the tool is not on PATH (its
    text has the commands), if it ends with an error, or if it leaves nothing to read.
    """
    program = find_tool(tool)
    if program is None:
        said = "\n".join(f"  {command}" for command in commands)
        raise ProfilerUnavailable(
            f"{tool} is not on PATH; install it or add its folder to PATH. It would have run:\n{said}"
        )
    folder.mkdir(parents=True)
    (folder / "commands.txt").write_text("".join(f"{command}\n" for command in commands), encoding="utf-8")
    for command in commands:
        if on_start:
            on_start(command)
        _run(replace(command, arguments=(program, *command.arguments[1:])), folder)
    try:
        return read(folder)
    except ProfileError as error:
        outputs = ", ".join(path.name for path in sorted(folder.glob("*.output")))
        raise ProfilerUnavailable(
            f"{tool} ended without a result that can be read: {error}\nits own output: {outputs} in {folder}\n"
            f"{_tail(folder)}"
        ) from None


def _run(command: Command, folder: Path) -> None:
    output = folder / f"{command.name}.output"
    with output.open("w", encoding="utf-8") as file:
        try:
            ended = subprocess.run(  # noqa: S603 - the profiler and this package's own target
                command.arguments, stdout=file, stderr=subprocess.STDOUT, timeout=_SECONDS_A_PASS, check=False
            )
        except subprocess.TimeoutExpired:
            raise ProfilerUnavailable(f"no end after {_SECONDS_A_PASS} s: {command}; its output: {output}") from None
        except OSError as error:
            raise ProfilerUnavailable(f"cannot start {command.arguments[0]}: {error.strerror}; {command}") from None
    if ended.returncode:
        raise ProfilerUnavailable(
            f"{command.arguments[0]} ended with code {ended.returncode}: {command}\n{_tail(folder)}its output: {output}"
        )


def _tail(folder: Path) -> str:
    """The last lines that the tool printed; ncu writes its errors into its log."""
    lines: list[str] = []
    for path in (*folder.glob("*.output"), *folder.glob("ncu.csv")):
        text = path.read_text(encoding="utf-8", errors="replace")
        lines += [line for line in text.splitlines() if not line.startswith('"')][-_LAST_LINES:]
    return "".join(f"  {line}\n" for line in lines)
