"""Everything that a GPU can measure, step by step into one folder: tests, times, counters, tuned specs, reports.

A step that fails stops no other. The folder keeps each step's output; a campaign that stopped goes on from it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from workbench.device import detect_device, load_device
from workbench.errors import BackendUnavailable, ParameterError, ReportError
from workbench.json_text import parse_json
from workbench.problem import UnifiedAttentionProblem
from workbench.resources import checkout_root
from workbench.scenarios import load_set, set_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from workbench.device import Device

STATUS = "campaign.json"
PROFILED = (("decode_d128_b16", "3d"), ("prefill_d128_b16", "2d"), ("dense_headline", ""))
"""(scenario, lane) whose counters are collected: a kernel of each kind."""
_TUNED_SPECS = "40"


@dataclass(frozen=True)
class Step:
    """One command, run at the top of the checkout."""

    name: str
    command: tuple[str, ...]
    product: Path | None = None
    """What it writes and never overwrites: once it is there, the step is done."""


@dataclass(frozen=True)
class Outcome:
    """How a step ended."""

    name: str
    command: tuple[str, ...]
    code: int
    seconds: float


def check_gpu(expected: str | None = None) -> Device:
    """The GPU here; BackendUnavailable if there is none, or none of the architecture of that device (`mi355x`, ...)."""
    import torch

    wanted, found = None if expected is None else load_device(expected), detect_device()
    if found is None:
        asked = f"; asked for was an {wanted.title} ({wanted.arch})" if wanted else ""
        raise BackendUnavailable(
            f"PyTorch {torch.__version__} sees no GPU here{asked}. Where the PyTorch of the GPU's vendor is installed, "
            "type: make mi355x SYSTEM_SITE=1, or for another GPU workbench measure (README, Installing)"
        )
    if wanted is not None and found.arch != wanted.arch:
        raise BackendUnavailable(
            f"here is {found.title} ({found.arch}), not an {wanted.title} ({wanted.arch}); type: workbench measure"
        )
    return found


def plan_campaign(folder: Path) -> tuple[Step, ...]:
    """All steps, the quick ones first. Each writes below `folder` alone."""
    python, workbench = sys.executable, (sys.executable, "-m", "workbench")
    steps = [Step("doctor", (*workbench, "doctor"))]
    if checkout_root() is not None:
        tests = ("-m", "pytest", "-q", "-n", "logical", "--maxprocesses", "8", "--dist", "loadgroup")
        steps.append(Step("tests", (python, *tests)))
    for name in set_names():
        records = folder / "records" / f"{name}.parquet"
        options = ("--set", name, *_lanes_of(name), "--baseline", "auto", "--out", str(records))
        steps.append(Step(f"bench {name}", (*workbench, "bench", *options), records))
    for scenario, lane in PROFILED:
        options = ("--scenario", scenario, *(("--lane", lane) if lane else ()))
        raw = _first_free(folder / "profiles" / scenario)
        steps.append(Step(f"profile {scenario}", (*workbench, "profile", "run", *options, "--out", str(raw))))
    for name in ("default", "serving", "dense"):
        kept = ("--records", str(folder / "tune" / name), "--out", str(folder / "tuned.json"), "--update")
        steps.append(Step(f"tune {name}", (*workbench, "tune", "--set", name, "--limit", _TUNED_SPECS, *kept)))
    steps.append(Step("reports", (*workbench, "report", "all", "--size", "full", "--out", str(folder / "reports"))))
    return tuple(steps)


def choose(steps: Sequence[Step], only: Sequence[str], skip: Sequence[str]) -> tuple[Step, ...]:
    """The steps of these names, or of these first words.

    ParameterError for a name that no step has, and where nothing is left.
    """
    known = {step.name for step in steps} | {step.name.split()[0] for step in steps}
    if unknown := [name for name in (*only, *skip) if name not in known]:
        raise ParameterError(f"there is no step {', '.join(unknown)}; choose of {', '.join(sorted(known))}")

    def is_named(step: Step, names: Sequence[str]) -> bool:
        return step.name in names or step.name.split()[0] in names

    chosen = tuple(step for step in steps if (not only or is_named(step, only)) and not is_named(step, skip))
    if not chosen:
        raise ParameterError("there is nothing left to run: --only and --skip leave no step; drop one of them")
    return chosen


def run_campaign(
    steps: Sequence[Step], folder: Path, say: Callable[[str], None] = lambda text: None
) -> tuple[Outcome, ...]:
    """Run what is not done yet, each with its output in `folder`/logs; all outcomes, those of earlier runs included.

    say: is told of each step. ReportError where the folder cannot be written or holds something else.
    """
    outcomes = {outcome.name: outcome for outcome in read_outcomes(folder)}
    _make_folders(folder)
    for number, step in enumerate(steps, 1):
        place = f"{number} of {len(steps)}, {step.name}"
        if _is_done(step, outcomes.get(step.name)):
            say(f"{place}: done before")
            continue
        log = folder / "logs" / f"{step.name.replace(' ', '-')}.log"
        say(f"{place}: output in {log}")
        outcomes[step.name] = outcome = _run(step, log)
        _write(folder, outcomes.values())
        say(
            f"{place}: {'ok' if outcome.code == 0 else f'ended with code {outcome.code}'} after {outcome.seconds:.0f} s"
        )
    return tuple(outcomes[step.name] for step in steps if step.name in outcomes)


def read_outcomes(folder: Path) -> tuple[Outcome, ...]:
    """Outcomes of a campaign that ran in this folder before."""
    path = folder / STATUS
    if not path.exists():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ReportError(f"{folder} is no folder of a campaign: it has no {STATUS}; name a new one with --out")
        return ()
    try:
        rows: list[dict[str, Any]] = parse_json(path.read_text())["steps"]
        return tuple(Outcome(**row | {"command": tuple(row["command"])}) for row in rows)
    except (ValueError, KeyError, TypeError) as error:
        raise ReportError(f"{path} is damaged: {error}; name a new folder with --out") from error


def _lanes_of(name: str) -> tuple[str, ...]:
    if not any(isinstance(scenario.problem, UnifiedAttentionProblem) for scenario in load_set(name)):
        return ()
    return ("--lane", "auto", "--lane", "2d", "--lane", "3d")


def _first_free(path: Path) -> Path:
    """The path, or where a try that failed has it already, the path with a number."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(each for each in chain([path], numbered) if not each.exists())


def _is_done(step: Step, outcome: Outcome | None) -> bool:
    if step.product is not None and step.product.exists():
        return True
    return outcome is not None and outcome.code == 0


def _run(step: Step, log: Path) -> Outcome:
    started = time.monotonic()
    with log.open("ab") as output:
        output.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {' '.join(step.command)}\n".encode())
        output.flush()
        # As `make test`: a test process for each core, one thread in each.
        environment = os.environ | ({"OMP_NUM_THREADS": "1"} if step.name == "tests" else {})
        run = subprocess.run(  # noqa: S603 - this project's own commands
            step.command, stdout=output, stderr=subprocess.STDOUT, cwd=checkout_root(), env=environment, check=False
        )
    return Outcome(step.name, step.command, run.returncode, round(time.monotonic() - started, 1))


def _make_folders(folder: Path) -> None:
    try:
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        for name in ("records", "profiles", "tune"):
            (folder / name).mkdir(exist_ok=True)
    except OSError as error:
        raise ReportError(f"cannot write below {folder}: {error}; name another folder with --out") from error


def _write(folder: Path, outcomes: Iterable[Outcome]) -> None:
    path = folder / STATUS
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"steps": [asdict(outcome) for outcome in outcomes]}, indent=1) + "\n")
    part.replace(path)
