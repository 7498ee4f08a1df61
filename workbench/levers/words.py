"""What a lever did, in words that are made from the facts of both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.levers.facts import FACTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.levers.facts import Fact, Value

MOST = 5
"""Differences that are told; the table holds all of them."""


def difference(before: Mapping[str, Value], after: Mapping[str, Value]) -> str:
    """`removes 8 cross-lane moves between QK and PV; ...`: the largest relative differences first.

    A fact that one side lacks is passed over. Efficiencies come last.
    """
    counted, shares = [], []
    for order, fact in enumerate(FACTS):
        old, new = before.get(fact.key), after.get(fact.key)
        if old is None or new is None or old == new:
            continue
        if fact.kind == "share":
            if text := _share(fact, old, new):
                shares.append(text)
        else:
            counted.append((-_size(old, new), order, _told(fact, old, new)))
    counted.sort()
    told = [text for _, _, text in counted[:MOST]]
    if len(counted) > MOST:
        told.append(f"and {len(counted) - MOST} smaller differences")
    return "; ".join([*told, *shares]) or "changes no fact of this table"


def _size(old: Value, new: Value) -> float:
    """Relative difference, 0 to 1; texts differ wholly."""
    if isinstance(old, str) or isinstance(new, str) or old is None or new is None:
        return 1.0
    return abs(new - old) / max(abs(old), abs(new))


def _told(fact: Fact, old: Value, new: Value) -> str:
    if isinstance(old, int) and isinstance(new, int):
        count = abs(new - old)
        return f"{'adds' if new > old else 'removes'} {count} {fact.noun.format(s='' if count == 1 else 's')}"
    shown = [f"{value:.2f}" if isinstance(value, float) else str(value) for value in (new, old)]
    return f"{fact.noun}: {shown[0]} instead of {shown[1]}"


def _share(fact: Fact, old: Value, new: Value) -> str:
    shown = [f"{value:.1%}" for value in (new, old) if isinstance(value, float)]
    return f"{fact.noun}: {shown[0]} instead of {shown[1]}" if len(set(shown)) == 2 else ""
