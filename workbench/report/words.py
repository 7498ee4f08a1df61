"""Figures, units, times and durations as reports show them."""

from __future__ import annotations

import math
from datetime import UTC, datetime


def format_figure(value: float) -> str:
    """At least three digits: 45.1, 0.00152, 12,345."""
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value):,}"
    if not 1e-4 <= abs(value) < 1e7:
        return f"{value:.2e}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def format_unit(unit: str | None) -> str:
    """The unit as it stands behind a figure."""
    return {"1": "", "x": "×"}.get(unit or "", unit or "")


def format_moment(text: str) -> str:
    """2026-11-30 11:23 UTC, of a time in ISO format."""
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def format_duration(seconds: float) -> str:
    """34 s, 3 min 12 s, 2 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
