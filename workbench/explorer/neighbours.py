"""What a reader may ask for next: one field other than now, in the order in which the panel shows them."""

from __future__ import annotations

import threading
from contextlib import suppress
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from workbench.explorer.plan import main_request
from workbench.explorer.problem_edits import spell_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from workbench.compiler import KernelRequest
    from workbench.explorer.fields import Field
    from workbench.explorer.plan import Plan

_SIDES = 2
"""Values of a field without a lever: the next one up and down."""


class Coming:
    """Requests that several threads share, each given out once."""

    def __init__(self, *by_side: Iterable[KernelRequest]) -> None:
        """The first iterable's requests come before those of the next one."""
        self._remaining = (request for requests in by_side for request in requests)
        self._lock = threading.Lock()
        self._given: set[KernelRequest] = set()

    def next(self) -> KernelRequest | None:
        """The next one, None after the last."""
        with self._lock:
            for request in self._remaining:
                if request not in self._given:
                    self._given.add(request)
                    return request
        return None


def likely_next(plan: Plan, before: Plan | None = None) -> Iterator[KernelRequest]:
    """Neighbours of what is shown and of what was shown before, to which a reader goes back, in turn."""
    earlier = neighbours(before) if before is not None else iter(())
    for pair in zip_longest(neighbours(plan), earlier):
        yield from filter(None, pair)


def neighbours(plan: Plan) -> Iterator[KernelRequest]:
    """The main kernel of the plan with one field changed: levers at the registry's values, then all other fields.

    Of each of these groups the nearest other value of every field comes first, text has none.
    """
    levers = {lever.field: lever for lever in plan.kernel.levers} if plan.kernel else {}
    registered = {name: [spell_value(value) for value in lever.values] for name, lever in levers.items()}
    groups = (
        [_others(field, registered[field.name]) for field in plan.spec_fields if field.name in registered],
        [_others(field, field.options)[:_SIDES] for field in plan.spec_fields if field.name not in registered],
        [_others(field, field.options)[:_SIDES] for field in plan.problem_fields],
    )
    for changes in groups:
        for field, text in filter(None, chain.from_iterable(zip_longest(*changes))):
            change = {field.name: text}
            state = plan.state
            request = None
            # One that nobody foresaw an error of would end all that come after it.
            with suppress(Exception):
                request = main_request(
                    state.with_edits(change) if field.group == "problem" else state.with_changes(change)
                )
            if request is not None:
                yield request


def _others(field: Field, values: Sequence[str]) -> list[tuple[Field, str]]:
    """The field at its other values, nearest first."""
    if field.kind == "switch":
        return [(field, "false" if field.value == "true" else "true")]
    if field.kind == "text":
        return []
    here = field.options.index(field.value)
    others = [text for text in field.options if text in values and text != field.value]
    return [(field, text) for text in sorted(others, key=lambda text: abs(field.options.index(text) - here))]
