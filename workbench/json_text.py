"""JSON that somebody else wrote."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str) -> Any:
    """The value that the text stands for.

    json.JSONDecodeError for what is no JSON, ValueError for what Python refuses: nesting or numbers beyond its limits.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it nests too deep") from None
