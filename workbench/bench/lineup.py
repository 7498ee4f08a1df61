"""Who takes part in a session: the dispatcher's choice and changes to it, in every lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.errors import ParameterError, SpecError, UnsupportedError
from workbench.parity.harness import Contestant
from workbench.problem import DenseAttentionProblem
from workbench.spec import KernelSpec
from workbench.spec_changes import change_spec

if TYPE_CHECKING:
    from workbench.device import Device
    from workbench.scenarios import Scenario

OWN = "workbench"
PORTABLE = "portable"
UNTUNED = "untuned"
LANES = ("auto", "2d", "3d")


def line_up(
    scenario: Scenario, lanes: Sequence[str], changes: Sequence[str], device: Device | None
) -> list[Contestant]:
    """`workbench` in every lane, then for each text of changes a contestant in every lane.

    A text is `field=value` pairs separated by commas, which change the dispatcher's spec. The word `portable` among
    them starts from the plain Triton kernel, `untuned` from the heuristics' choice, as if no table of tuned specs were
    there. A dense scenario has the one lane `dense`. A change that does not fit the
    scenario is a contestant that is refused, with the reason. ParameterError for an unknown lane and for a text that is
    given twice.
    """
    texts = [text.replace(" ", "") for text in changes]
    for name, given, known in (("lane", lanes, LANES), ("spec", texts, None)):
        if len(set(given)) < len(given):
            raise ParameterError(f"a {name} is given twice: {', '.join(given)}")
        unknown = [value for value in given if known is not None and value not in known]
        if unknown:
            raise ParameterError(f"unknown {name} {unknown[0]!r}; use {', '.join(known or ())}")
    if isinstance(scenario.problem, DenseAttentionProblem):
        lanes = ("dense",)
    own = [Contestant(OWN, lane) for lane in lanes]
    return own + [_changed(scenario, lane, text, device) for text in texts for lane in lanes]


def _changed(scenario: Scenario, lane: str, text: str, device: Device | None) -> Contestant:
    name = f"{OWN}:{text}"
    try:
        return Contestant(name, lane, spec=changed_spec(scenario, lane, text, device))
    except (SpecError, UnsupportedError) as error:
        return Contestant(name, lane, refusal=str(error))


def changed_spec(scenario: Scenario, lane: str, text: str, device: Device | None) -> KernelSpec:
    """The spec that a text of changes stands for. SpecError where there is none or it does not serve the problem."""
    from workbench.compiler.plans import plan_without_storage
    from workbench.device import DEFAULT_DEVICE, load_device

    words = [word for word in text.split(",") if word]
    base = dispatched_spec(scenario, lane, device, portable=PORTABLE in words, tuned=UNTUNED not in words)
    spec = change_spec(base, [word for word in words if word not in (PORTABLE, UNTUNED)])
    plan_without_storage(scenario.problem, spec, device or load_device(DEFAULT_DEVICE))
    return spec


def dispatched_spec(
    scenario: Scenario, lane: str, device: Device | None, *, portable: bool = False, tuned: bool = True
) -> KernelSpec:
    """What the dispatcher picks in a lane: auto, 2d, 3d or dense."""
    from workbench.dispatch import select_dense_spec, select_path, select_spec

    problem = scenario.problem
    if isinstance(problem, DenseAttentionProblem):
        return select_dense_spec(problem, device, portable=portable, tuned=tuned).spec
    chosen = select_path(problem, device, tuned=tuned).lane if lane == "auto" else lane
    return select_spec(problem, device, chosen, portable=portable, tuned=tuned).spec
