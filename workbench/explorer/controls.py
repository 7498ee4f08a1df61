"""Controls for fields: a check box for a switch, a list for a choice, a line for text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from workbench.explorer.fields import Field

LABEL_WIDTH = "132px"


class FieldControls:
    """A grid with one control for each field. `on_edit(name, text)` is called when the reader changes one."""

    def __init__(self, on_edit: Callable[[str, str], None], columns: str = "repeat(auto-fill, minmax(226px, 1fr))"):
        """Empty until `show`."""
        self._on_edit = on_edit
        self._is_showing = False
        self.by_name: dict[str, ipywidgets.DOMWidget] = {}
        self.box = ipywidgets.GridBox(
            layout=ipywidgets.Layout(grid_template_columns=columns, width="100%", overflow="visible")
        )

    def show(self, fields: Sequence[Field]) -> None:
        """Take over the fields' values; controls are made anew only where other fields are shown than before."""
        self._is_showing = True
        try:
            if list(self.by_name) != [field.name for field in fields]:
                self.by_name = {field.name: self._make(field) for field in fields}
                self.box.children = tuple(self.by_name.values())
            for field in fields:
                _take_over(self.by_name[field.name], field)
        finally:
            self._is_showing = False

    def _make(self, field: Field) -> ipywidgets.DOMWidget:
        layout = ipywidgets.Layout(width="auto", margin="0 4px 0 0")
        common: dict[str, Any] = {"description": field.name, "tooltip": field.help, "layout": layout}
        style = {"description_width": LABEL_WIDTH}
        control: ipywidgets.DOMWidget
        if field.kind == "switch":
            control = ipywidgets.Checkbox(value=field.value == "true", indent=False, **common)
        elif field.kind == "choice":
            control = ipywidgets.Dropdown(options=field.options, value=field.value, style=style, **common)
        else:
            control = ipywidgets.Text(value=field.value, continuous_update=False, style=style, **common)
        control.add_class("explorer-field")
        control.observe(lambda change, name=field.name: self._edited(name, change["new"]), names="value")
        return control

    def _edited(self, name: str, value: bool | str | None) -> None:
        if not self._is_showing and value is not None:
            self._on_edit(name, str(value).lower() if isinstance(value, bool) else value)


def _take_over(control: ipywidgets.DOMWidget, field: Field) -> None:
    if field.kind == "choice" and tuple(control.options) != field.options:
        control.options = field.options
    value = field.value == "true" if field.kind == "switch" else field.value
    if control.value != value:
        control.value = value
    if field.is_changed:
        control.add_class("explorer-changed")
    else:
        control.remove_class("explorer-changed")


def dropdown(description: str, options: Sequence[Any], value: Any, on_pick: Callable[[Any], None]) -> Any:
    """A list that calls `on_pick` with the reader's choice."""
    made = ipywidgets.Dropdown(
        description=description,
        options=options,
        value=value,
        layout=ipywidgets.Layout(width="auto", min_width="130px", flex="1 1 150px"),
        style={"description_width": "60px"},
    )
    made.observe(lambda change: on_pick(change["new"]), names="value")
    return made
