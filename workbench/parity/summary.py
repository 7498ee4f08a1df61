"""The report's verdict, and what only hardware can tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from workbench.parity.tables import OWN
from workbench.records import Record

if TYPE_CHECKING:
    from workbench.scenarios import Scenario


def verdict(records: Sequence[Record]) -> str:
    """E.g. "13 of 13 scenarios pass in all admitted lanes", as a Markdown heading, and what failed."""
    by_scenario = _own_records(records)
    passed = sum(map(_passes, by_scenario.values()))
    ran = [record for own in by_scenario.values() for record in own if record.status != "unsupported"]
    refused = sum(len(own) for own in by_scenario.values()) - len(ran)
    text = f"## {passed} of {len(by_scenario)} scenarios pass in all admitted lanes\n\n{len(ran)} lanes run"
    text += f", {refused} not admitted." if refused else "."
    failed = [record for record in ran if record.status != "ok"]
    if failed:
        names = ", ".join(f"{record.scenario} ({record.lane})" for record in failed)
        text += f" **{len(failed)} failed**: {names}."
    return text


def key_figure(records: Sequence[Record]) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`: how many scenarios pass, by what and on which device."""
    by_scenario = _own_records(records)
    passed = sum(map(_passes, by_scenario.values()))
    backends = {record.backend for own in by_scenario.values() for record in own} - {"none"}
    where = records[0].environment.get("device", "") if "gpu" in backends else f"the {', '.join(sorted(backends))}"
    sentence = f"{passed} of {len(by_scenario)} scenarios pass in all admitted lanes, on {where}."
    evidence = "measured" if backends == {"gpu"} else "emulated"
    return {"sentence": sentence, "evidence": evidence, "value": passed, "unit": "scenarios"}


def conditions(records: Sequence[Record], scenarios: Sequence[Scenario]) -> str:
    """On what this ran, at which size, and which kinds of numbers follow, as Markdown."""
    from workbench.scenario_sizes import SMALL_SIZE_RULE

    facts = records[0].environment if records else {}
    backends = sorted({record.backend for record in records if record.candidate == OWN})
    lines = [
        f"Ran by **{', '.join(backends) or 'nothing'}** on {facts.get('device', 'an unknown device')}, "
        f"torch {facts.get('torch', '?')}, Triton {facts.get('triton', '?')}."
    ]
    small = sum(scenario.scaled_from is not None for scenario in scenarios)
    if any(scenario.size == "small" for scenario in scenarios):
        rule = SMALL_SIZE_RULE.removeprefix("small size: ")
        lines.append(f"**Sizes are `small`** ({small} of {len(scenarios)} scenarios are scaled down): {rule}.")
    noise = [record.value("speedup_over_again") for record in records]
    spread = [abs(ratio - 1.0) for ratio in noise if ratio is not None]
    if spread:
        lines.append(
            f"A second timing of the same kernel in the same session differs by {100 * median(spread):.1f} % in the "
            f"median scenario, {100 * max(spread):.1f} % in the worst: smaller differences are none."
        )
    if any(record.samples for record in records):
        lines.append("Errors and times are `measured`; FLOPs and bytes are `static`, counted from the shapes.")
    else:
        lines.append("**Times are not measured**: they would say nothing about a kernel here. Errors are `emulated`.")
    return "\n\n".join(lines)


def only_hardware(records: Sequence[Record]) -> str:
    """What this run leaves open, as Markdown."""
    if any(record.backend == "gpu" for record in records):
        device = records[0].environment.get("device", "this GPU")
        return (
            f"These figures are {device}'s. They say nothing about another device: geometry, occupancy and the choice "
            "of path follow the device's description. Ratios hold within one timing; absolute times move with the "
            "clock."
        )
    return (
        "The interpreter computes what the kernels say, in the order in which they say it, with NumPy's arithmetic. "
        "Only hardware can tell: the error of its matrix units and of its `exp2`; whether the compiled code does what "
        "the source says; every time, rate and ratio; and whether the path and geometry that were chosen are the "
        "faster ones. Run the same report where PyTorch sees a GPU."
    )


def _own_records(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The workbench's own records of each scenario."""
    by_scenario: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.candidate == OWN:
            by_scenario[record.scenario].append(record)
    return by_scenario


def _passes(own: Sequence[Record]) -> bool:
    admitted = [record for record in own if record.status != "unsupported"]
    return bool(admitted) and all(record.status == "ok" for record in admitted)
