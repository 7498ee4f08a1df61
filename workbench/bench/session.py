"""A bench: one interleaved session for each scenario."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from workbench.bench.lineup import line_up
from workbench.errors import SpecError
from workbench.parity.baselines import choose_baselines
from workbench.parity.harness import resolve_device, run_contestants
from workbench.parity.timing import Timer, TimingPlan

if TYPE_CHECKING:
    import torch

    from workbench.device import Device
    from workbench.parity.harness import Contestant
    from workbench.records import Record
    from workbench.scenarios import Scenario

OnDone = Callable[[int, int, str], None]


def bench_scenarios(
    scenarios: Sequence[Scenario],
    lanes: Sequence[str] = ("auto",),
    changes: Sequence[str] = (),
    *,
    baselines: Sequence[str] = (),
    plan: TimingPlan | None = None,
    seed: int = 0,
    device: str = "auto",
    timer: Timer | None = None,
    on_done: OnDone | None = None,
) -> list[Record]:
    """Records of every candidate on every scenario; those of one scenario were timed in one session.

    `changes` are texts as `line_up` takes them. Only what passes the reference is timed. on_done(done, total, name) is
    called before the first scenario and after each. Before anything runs: BackendUnavailable without a GPU, SpecError
    for a change that fits no scenario, ParameterError for unknown lanes and baselines.
    """
    timer = timer or Timer()
    chosen = resolve_device(device)
    timer.check(chosen)
    rivals = choose_baselines(baselines)
    target = _described(chosen)
    lineups = [line_up(scenario, lanes, changes, target) for scenario in scenarios]
    _refuse_idle(lineups)
    report = on_done or (lambda done, total, name: None)
    report(0, len(scenarios), scenarios[0].name if scenarios else "")
    records: list[Record] = []
    for index, (scenario, contestants) in enumerate(zip(scenarios, lineups, strict=True), start=1):
        records += run_contestants(
            scenario,
            contestants,
            baselines=rivals,
            device=str(chosen),
            seed=seed,
            plan=plan or TimingPlan(),
            timer=timer,
        )
        report(index, len(scenarios), scenario.name)
    return records


def _described(chosen: torch.device) -> Device | None:
    from workbench.device import detect_device

    return detect_device(chosen.index) if chosen.type == "cuda" else None


def _refuse_idle(lineups: Sequence[Sequence[Contestant]]) -> None:
    """SpecError for a change that takes part nowhere: it is misspelt, or meant for other scenarios."""
    refusals: dict[str, list[str]] = {}
    for each in (contestant for lineup in lineups for contestant in lineup):
        refusals.setdefault(each.name, []).append(each.refusal)
    for name, reasons in refusals.items():
        if all(reasons):
            raise SpecError(f"{name.partition(':')[2]} fits none of the scenarios: {reasons[0]}")
