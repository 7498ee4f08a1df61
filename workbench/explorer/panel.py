"""The explorer as one widget: the controls of one side or two, and the figures below them."""

from __future__ import annotations

import threading
from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets

from workbench.explorer.answer import why_not_timed
from workbench.explorer.html import failure_html, result_html
from workbench.explorer.session import SIDES, Session
from workbench.explorer.side import Side
from workbench.explorer.style import STYLE

if TYPE_CHECKING:
    from workbench.explorer.state import State


class Panel:
    """Shows itself as the last expression of a notebook's cell. `session` holds the answers."""

    def __init__(self, first: State, second: State | None = None, *, ahead: bool = True, **session: Any) -> None:
        """Answer the first side, and the second where there is one. `session` goes on to Session."""
        self._rendering = threading.RLock()
        self.session = Session(self._on_change, ahead=ahead, **session)
        self.sides = {name: Side(name, first, self._set) for name in SIDES}
        self.compare = ipywidgets.ToggleButton(description="compare with B", value=second is not None)
        self.only_differences = ipywidgets.Checkbox(description="differences only", indent=False)
        self.copy = ipywidgets.Button(description="copy A to B")
        self.time = ipywidgets.Button(
            description="time on the GPU", tooltip="Check, then time what is shown, both sides in one session"
        )
        self.time_note = ipywidgets.HTML()
        self.result = ipywidgets.HTML()
        self._row = ipywidgets.HBox(layout=ipywidgets.Layout(flex_flow="row wrap", width="100%", grid_gap="8px"))
        bar = ipywidgets.HBox(
            [self.compare, self.copy, self.only_differences, self.time, self.time_note],
            layout=ipywidgets.Layout(flex_flow="row wrap"),
        )
        self.widget = ipywidgets.VBox([self._row, bar, self.result])
        self.compare.observe(lambda change: self._compare(change["new"]), names="value")
        self.only_differences.observe(lambda _: self._render(), names="value")
        self.copy.on_click(lambda _: self._set("B", self.sides["A"].state))
        self.time.on_click(lambda _: self.session.measure())
        self._set("A", first)
        self._compare(second is not None, second)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.widget._repr_mimebundle_(**options)

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the sides that are shown."""
        return SIDES if self.compare.value else SIDES[:1]

    def close(self) -> None:
        """Stop the work in the background."""
        self.session.close()

    def _set(self, name: str, state: State) -> None:
        answer = self.session.set(name, state)
        self.sides[name].show_plan(state, answer.plan)
        self._enable_timing()

    def _compare(self, is_on: bool, state: State | None = None) -> None:
        self._row.children = [self.sides[name].box for name in self.shown]
        for control in (self.copy, self.only_differences):
            control.layout.display = "" if is_on else "none"
        if is_on:
            self._set("B", state or self.sides["A"].state)
        else:
            self.session.drop("B")
            self._enable_timing()
        self._render()

    def _enable_timing(self) -> None:
        plans = [self.session.answers[name].plan for name in self.shown if name in self.session.answers]
        reasons = [why_not_timed(plan) for plan in plans if plan is not None]
        self.time.disabled = bool(reasons) and all(reasons)
        note = next(filter(None, reasons), "")
        self.time_note.value = f'{STYLE}<div class="explorer status">{escape(note)}</div>' if note else ""

    def _on_change(self, name: str) -> None:
        answer = self.session.answers.get(name)
        if answer is None:
            return
        try:
            self.sides[name].show_answer(answer)
            self._render()
        except Exception as error:  # noqa: BLE001 - the thread that answers would end, and the last figures would stand
            self.result.value = failure_html(f"{name} cannot be shown: {type(error).__name__}: {error}")

    def _render(self) -> None:
        with self._rendering:  # else a thread could put older figures over newer ones
            answers = [self.session.answers[name] for name in self.shown if name in self.session.answers]
            self.result.value = result_html(answers, differences_only=self.only_differences.value)
