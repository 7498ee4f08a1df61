"""The controls of one side."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets

from workbench.compiler import TARGETS, installed_triton_version, triton_versions
from workbench.explorer.code import command_line, python_code
from workbench.explorer.controls import FieldControls, dropdown
from workbench.explorer.html import status_html
from workbench.explorer.plan import kernels_for
from workbench.explorer.state import AUTO
from workbench.explorer.what_if import WhatIf
from workbench.scenarios import SIZES, find, load_set, set_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.explorer.answer import Answer
    from workbench.explorer.plan import Plan
    from workbench.explorer.state import State

_TABS = ("Levers", "Geometry", "Problem", "What if", "Python")


class Side:
    """One configuration's controls. `on_state(name, state)` is called when the reader changes one."""

    def __init__(self, name: str, state: State, on_state: Callable[[str, State], None]) -> None:
        """Show the state; the fields follow with the first answer."""
        self.name = name
        self.state = state
        self._on_state = on_state
        self._is_showing = False
        self._make_choices()
        self.levers = FieldControls(self._set_spec)
        self.geometry = FieldControls(self._set_spec)
        self.problem = FieldControls(self._set_problem)
        self.what_if = WhatIf()
        self.code = ipywidgets.Textarea(layout=ipywidgets.Layout(width="auto", height="260px"))
        self.reset = ipywidgets.Button(
            description="reset fields", tooltip="Take dispatch's spec, the scenario's problem"
        )
        self.reset.on_click(lambda _: self._change(self._without_changes()))
        self.status = ipywidgets.HTML(layout=ipywidgets.Layout(flex="1 1 auto"))
        title = ipywidgets.HTML(f"<b>{escape(name)}</b>", layout=ipywidgets.Layout(width="18px"))
        wrap = ipywidgets.Layout(flex_flow="row wrap", width="100%")
        tabs = ipywidgets.Tab(
            [each.box for each in (self.levers, self.geometry, self.problem, self.what_if)] + [self.code],
            titles=_TABS,
        )
        self.box = ipywidgets.VBox(
            [
                ipywidgets.HBox([title, self.set_name, self.scenario, self.size], layout=wrap),
                ipywidgets.HBox([self.kernel, self.target, self.triton], layout=wrap),
                ipywidgets.HBox([self.status, self.reset]),
                tabs,
            ],
            layout=ipywidgets.Layout(flex="1 1 480px", min_width="0"),
        )
        self.box.add_class("explorer-side")

    def _make_choices(self) -> None:
        state = self.state
        scenario = find(state.scenario)
        names = [each.name for each in load_set(scenario.set)]
        versions = [(f"{name} (installed)" if path is None else name, name) for name, path in triton_versions().items()]
        self.set_name = dropdown("set", set_names(), scenario.set, self._pick_set)
        self.scenario = dropdown("scenario", names, state.scenario, lambda value: self._pick(scenario=value))
        self.size = dropdown("size", SIZES, state.size, lambda value: self._pick(size=value))
        self.kernel = dropdown("kernel", [AUTO], AUTO, lambda value: self._pick(kernel=value, changes=()))
        self.target = dropdown("target", list(TARGETS), state.target, lambda value: self._pick(target=value))
        self.triton = dropdown(
            "Triton", versions, state.triton or installed_triton_version(), lambda value: self._pick(triton=value)
        )

    def show_plan(self, state: State, plan: Plan | None) -> None:
        """Bring every control to a state and what follows from it at once."""
        self.state = state
        self._is_showing = True
        try:
            self._show_choices(state)
            if plan is not None:
                self.levers.show([field for field in plan.spec_fields if field.group == "levers"])
                self.geometry.show([field for field in plan.spec_fields if field.group == "geometry"])
                self.problem.show(plan.problem_fields)
                command = command_line(plan)
                self.code.value = python_code(plan) + (f"\n# {command}\n" if command else "")
        finally:
            self._is_showing = False

    def _show_choices(self, state: State) -> None:
        scenario = find(state.scenario, state.size)  # type: ignore[arg-type]
        self.set_name.value = scenario.set
        names = tuple(each.name for each in load_set(scenario.set))
        if tuple(self.scenario.options) != names:
            self.scenario.options = names
        self.scenario.value, self.size.value, self.target.value = state.scenario, state.size, state.target
        kernels = (AUTO, *(each.kernel for each in kernels_for(scenario.problem)))
        if tuple(self.kernel.options) != kernels:
            self.kernel.options = kernels
        self.kernel.value = state.kernel if state.kernel in kernels else AUTO
        self.triton.value = state.triton or installed_triton_version()

    def show_answer(self, answer: Answer) -> None:
        """Show how far the answer is, and what follows from the machine code."""
        self.status.value = status_html(answer)
        if answer.code == "done":
            self.what_if.show(answer.inspection.occupancy if answer.inspection else None)

    def _pick_set(self, name: str) -> None:
        if not self._is_showing:
            self._pick(scenario=load_set(name)[0].name)

    def _pick(self, **choice: Any) -> None:
        if self._is_showing:
            return
        state = self.state.with_choice(**choice)
        kernels = [AUTO, *(each.kernel for each in kernels_for(find(state.scenario).problem))]
        if state.kernel not in kernels:
            state = state.with_choice(kernel=AUTO, changes=())
        self._change(state)

    def _set_spec(self, name: str, text: str) -> None:
        self._change(self.state.with_changes({name: text}))

    def _set_problem(self, name: str, text: str) -> None:
        self._change(self.state.with_edits({name: text}))

    def _without_changes(self) -> State:
        return self.state.with_choice(edits=(), changes=())

    def _change(self, state: State) -> None:
        self.state = state
        self._on_state(self.name, state)
