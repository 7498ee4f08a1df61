"""The specification's quantitative claims, one by one: what it says, what we find, and whether the two agree.

The claims stand in data/claims.json: value, unit, hardware, tolerance, the function that computes ours, and in one
sentence why both agree or not. A claim without a tolerance is about times that only hardware can tell; ours, if any,
is then a figure that bears on it. Tolerances were fixed by kind before anything was computed: formulas and limits are
equal or not; registers within a tenth; instruction counts, cache rates and errors within a factor that the claim names.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from workbench.errors import ParameterError
from workbench.resources import data_path

if TYPE_CHECKING:
    import pandas as pd

Verdict = Literal["agrees", "disagrees", "only hardware can tell", "not computed"]
VERDICTS: tuple[Verdict, ...] = ("agrees", "disagrees", "only hardware can tell", "not computed")
MODULES = ("claims_code", "claims_dense", "claims_unified")
"""Modules of workbench.studies whose functions compute ours."""
SECTIONS = ("0", "2", "3", "4", "5", "6", "7.1", "7.2", "7.3", "7.4", "8", "8.1", "8.2", "8.3", "9")
"""Sections of the specification that hold figures; §1 and §10 hold none."""


@dataclass(frozen=True)
class Ours:
    """What we find for a claim."""

    value: float | None
    """In the claim's unit; None where no number of ours stands beside the claim's."""
    text: str


@dataclass(frozen=True)
class Tolerance:
    """How far ours may lie from the claim."""

    kind: Literal["equal", "factor", "points", "at most", "at least"]
    value: float = 0.0

    def admits(self, ours: float, claimed: float) -> bool:
        """equal: to rounding; factor: larger over smaller; points: difference; at most, at least: one side."""
        if self.kind == "at most":
            return ours <= claimed
        if self.kind == "at least":
            return ours >= claimed
        if self.kind == "points":
            return abs(ours - claimed) <= self.value
        if self.kind == "equal" or ours * claimed <= 0:
            return abs(ours - claimed) <= 1e-12 * abs(claimed)
        return max(ours / claimed, claimed / ours) <= self.value

    def describe(self) -> str:
        """`within a factor of 1.1`."""
        named = {
            "equal": "equal", "factor": f"within a factor of {self.value:g}", "points": f"within {self.value:g}",
            "at most": "at most", "at least": "at least",
        }  # fmt: skip
        return named[self.kind]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One row of data/claims.json."""

    key: str
    section: str
    claim: str
    value: float
    unit: str
    hardware: str
    function: str
    """`module.function` in workbench.studies; empty where nothing that we can compute bears on the claim."""
    arguments: dict[str, Any]
    evidence: str
    """Of ours: static, modelled, emulated, or published where the specification's own figures are held together."""
    tolerance: Tolerance | None
    expected: Verdict
    """The verdict that `why` explains."""
    why: str

    def compute(self) -> Ours:
        """Ours; ParameterError for a function outside MODULES."""
        if not self.function:
            return Ours(None, "")
        return function_of(self.function)(**self.arguments)

    def judge(self, ours: Ours) -> Verdict:
        """The verdict on ours."""
        if self.tolerance is None:
            return "only hardware can tell"
        if ours.value is None:
            return "not computed"
        return "agrees" if self.tolerance.admits(ours.value, self.value) else "disagrees"


def function_of(name: str) -> Callable[..., Ours]:
    """The function `module.function`; ParameterError unless it is one of MODULES."""
    module, _, function = name.partition(".")
    if module not in MODULES:
        raise ParameterError(f"claims are computed in {', '.join(MODULES)}, got {name!r}")
    found = getattr(import_module(f"workbench.studies.{module}"), function, None)
    if found is None:
        raise ParameterError(f"workbench.studies.{module} has no function {function!r}; mend data/claims.json")
    return found


@lru_cache(maxsize=1)
def load_claims() -> tuple[Claim, ...]:
    """All claims, in the order of the specification."""
    rows = json.loads(data_path("claims.json").read_text())
    return tuple(
        Claim(**row | {"tolerance": Tolerance(**row["tolerance"]) if row["tolerance"] else None}) for row in rows
    )


def in_sections(sections: Sequence[str]) -> tuple[Claim, ...]:
    """The claims of those sections, or all of them. ParameterError for a section without claims."""
    unknown = [section for section in sections if section not in SECTIONS]
    if unknown:
        raise ParameterError(f"no claims of section {', '.join(unknown)}; there are those of {', '.join(SECTIONS)}")
    return tuple(claim for claim in load_claims() if not sections or claim.section in sections)


def claim_frame(claims: Iterable[Claim], on_done: Callable[[int, int, str], None] | None = None) -> pd.DataFrame:
    """A line per claim: the claim, ours, evidence, tolerance, verdict, why.

    `why` warns where the verdict is not the one that the explanation was written for.
    """
    import pandas as pd

    found = []
    rows = list(claims)
    for done, claim in enumerate(rows):
        ours = claim.compute()
        verdict = claim.judge(ours)
        found.append(
            {
                "key": claim.key,
                "section": claim.section,
                "claim": claim.claim,
                "claimed": claim.value,
                "unit": claim.unit,
                "hardware": claim.hardware,
                "ours": ours.value,
                "found": ours.text,
                "evidence": claim.evidence if claim.function else "none",
                "tolerance": claim.tolerance.describe() if claim.tolerance else "none",
                "verdict": verdict,
                "why": claim.why if verdict == claim.expected else _stale(claim, verdict),
                "function": claim.function,
            }
        )
        if on_done:
            on_done(done + 1, len(rows), claim.key)
    return pd.DataFrame(found)


def _stale(claim: Claim, verdict: Verdict) -> str:
    return f"Unexplained: the verdict is {verdict!r}, {claim.expected!r} was explained ({claim.why})"


def counted(verdicts: Sequence[str]) -> dict[str, int]:
    """Verdict -> how many, in the order of VERDICTS; those that do not occur are left out."""
    counts = Counter(verdicts)
    return {verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]}


def summary(frame: pd.DataFrame) -> str:
    """`50 of 70 claims agree (30 static, ...), ...`: those that agree are told by the evidence of ours."""
    counts = counted(list(frame["verdict"]))
    kinds = Counter(frame[frame["verdict"] == "agrees"]["evidence"]).most_common()
    told = f" ({', '.join(f'{count} {kind}' for kind, count in kinds)})" if kinds else ""
    parts = [
        f"{counts.get('agrees', 0)} of {len(frame)} claims agree{told}",
        f"{counts.get('disagrees', 0)} disagree",
        f"{counts.get('only hardware can tell', 0)} need hardware",
    ]
    if missing := counts.get("not computed"):
        parts.append(f"{missing} were not computed")
    return ", ".join(parts)
