"""The index page of a run of several studies: failures first, then the key figure of each study."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.report.outcome import Outcome
from workbench.report.suite_plan import STUDY_LIMIT_S
from workbench.report.words import format_duration, format_figure, format_moment, format_unit

_TEMPLATES = Path(__file__).parent / "template"


def write_index(output: Path, facts: Mapping[str, Any], outcomes: Sequence[Outcome]) -> None:
    """Write the page. facts: what the run's manifest holds. The file must not exist; nothing in it needs a network."""
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    filters = {"figure": format_figure, "unit": format_unit, "duration": format_duration, "moment": format_moment}
    environment.filters |= filters
    ok = [outcome for outcome in outcomes if outcome.status == "ok"]
    html = environment.get_template("all.html.j2").render(
        facts=facts,
        command=command_line(facts["asked"]),
        failed=[outcome for outcome in outcomes if outcome.status != "ok"],
        ok=ok,
        total=len(outcomes),
        device=facts["environment"].get("device", ""),
        css="\n".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.css", "all.css")),
    )
    with output.open("x", encoding="utf-8") as file:
        file.write(html)


def command_line(asked: Mapping[str, Any]) -> str:
    """The command that asks for the same run."""
    words = ["workbench", "report", "all"]
    for option in ("size", "only", "skip", "jobs", "timeout"):
        if asked.get(option) not in (None, []) and (option, asked[option]) != ("timeout", STUDY_LIMIT_S):
            words += [f"--{option}", _argument(asked[option])]
    for name, value in asked.get("parameters", {}).items():
        words += ["-p", name, _argument(value)]
    return shlex.join(words)


def _argument(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
