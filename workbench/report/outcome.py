"""What became of one study of a run, as indexes show it and manifests keep it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from workbench.report.headlines import Headline
from workbench.report.study import ReportResult, Study


@dataclass(frozen=True)
class Outcome:
    """One study of a run. Paths are relative to the run's folder, and empty for what there is not."""

    name: str
    title: str
    question: str
    status: str
    """`ok`, `failed`, or `stopped` where the run was interrupted first."""
    failed: tuple[str, ...] = ()
    seconds: float = 0.0
    headlines: tuple[Headline, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    page: str = ""
    notebook: str = ""
    records: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Outcome:
        """The inverse of as_dict."""
        known = {name: facts[name] for name in cls.__dataclass_fields__ if name in facts}
        known |= {"failed": tuple(facts["failed"]), "headlines": tuple(Headline(**said) for said in facts["headlines"])}
        return cls(**known)


def outcome_of(study: Study, title: str, question: str, result: ReportResult, root: Path) -> Outcome:
    """The outcome of a study that was run into a folder below root."""
    files = (result.html, result.notebook, result.records)
    page, notebook, records = (path.relative_to(root).as_posix() if path else "" for path in files)
    return Outcome(
        study.name,
        title,
        question,
        result.status,
        result.failed,
        result.seconds,
        result.headlines,
        study.values,
        page,
        notebook,
        records,
    )
