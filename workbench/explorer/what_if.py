"""Occupancy at other registers, LDS and waves than the compiler's, on sliders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets

from workbench.explorer.html import section_html
from workbench.explorer.staircase import staircase
from workbench.explorer.style import STYLE
from workbench.explorer.tables import what_if_table
from workbench.gfx950.occupancy import next_steps, what_if

if TYPE_CHECKING:
    from workbench.gfx950.occupancy import Occupancy

_TITLES = {"vgprs": "VGPRs", "lds_bytes": "LDS bytes", "num_warps": "waves"}


class WhatIf:
    """Sliders that follow the compiled kernel until the reader moves them."""

    def __init__(self) -> None:
        """Empty until `show`."""
        self._compiled: Occupancy | None = None
        self._is_showing = False
        self.sliders = {
            name: ipywidgets.IntSlider(
                description=title,
                min=int(name == "num_warps"),
                style={"description_width": "80px"},
                layout=ipywidgets.Layout(width="auto"),
            )
            for name, title in _TITLES.items()
        }
        for slider in self.sliders.values():
            slider.observe(lambda _: self._render(), names="value")
        self.follow = ipywidgets.Button(description="as compiled", tooltip="Take the compiled kernel's figures again")
        self.follow.on_click(lambda _: self._follow())
        self.result = ipywidgets.HTML()
        self.box = ipywidgets.VBox([*self.sliders.values(), self.follow, self.result])

    def show(self, occupancy: Occupancy | None) -> None:
        """Another compiled kernel, None for none."""
        if occupancy == self._compiled:
            return
        self._compiled = occupancy
        self._follow()

    def _follow(self) -> None:
        compiled = self._compiled
        if compiled is not None:
            self._is_showing = True
            limits = compiled.limits
            tops = {"vgprs": limits.vgprs, "lds_bytes": limits.lds_bytes, "num_warps": 16}
            for name, slider in self.sliders.items():
                slider.max = tops[name]
                slider.value = getattr(compiled, name)
            self._is_showing = False
        self._render()

    def _render(self) -> None:
        compiled = self._compiled
        if self._is_showing:
            return
        if compiled is None:
            self.result.value = "No occupancy: there is no machine code for gfx950 or gfx942."
            return
        asked = what_if(compiled, **{name: slider.value for name, slider in self.sliders.items()})
        steps = "".join(f"<p>{step.text}</p>" for step in next_steps(asked))
        table = section_html(what_if_table(compiled, asked))
        self.result.value = f'{STYLE}<div class="explorer">{table}{steps}{staircase(asked)}</div>'
