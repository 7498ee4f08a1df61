"""Tables and pictures of the golden gate study. Evidence: static throughout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.golden import golden_path, read_entries, recorded_pairs
from workbench.parity.html_table import Cell, Table, plain, tag
from workbench.parity.plots import Picture
from workbench.studies.golden_study import changed_lines, share_kept

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.studies.golden_study import Trial

_TAG_COLOURS = {"equal": "#dde2ea", "replace": "#c2571a", "delete": "#b3261e", "insert": "#1a7f4b"}
_VERDICTS = {"as on record": "ok", "altered": "bad", "not on record": "warn"}


def record_table() -> Table:
    """What is on record, a row per compiler and target."""
    rows = []
    for version, target in recorded_pairs():
        entries = read_entries(golden_path(version, target))
        digests = {entry.sha256 for entry in entries.values()}
        levers = [name for name in entries if "+" in name]
        spilling = sum(entry.spilled for entry in entries.values())
        rows.append(
            [plain(version), plain(target)]
            + [plain(count, "num") for count in (len(entries), len(levers), len(digests), spilling)]
        )
    headings = ["Triton", "target", "variants", "of them a lever's other setting", "different digests", "spilling"]
    caption = "Static, from data/golden. Fewer digests than variants: that lever does nothing for that kernel."
    return Table(headings, rows, caption)


def verdict_table(found: Sequence[Trial]) -> Table:
    """Each kernel beside the entry of its variant: digests, figures, verdict."""
    rows: list[list[Cell]] = []
    for trial in found:
        recorded = trial.recorded
        rows.append(
            [
                plain(trial.name),
                plain(trial.label),
                plain(recorded.sha256[:12] if recorded else "none"),
                plain(trial.entry.sha256[:12]),
                plain(trial.entry.describe(), "text"),
                tag(trial.verdict, _VERDICTS[trial.verdict]),
            ]
        )
    headings = ["variant", "compiled", "digest on record", "digest now", "figures now", "verdict"]
    return Table(headings, rows, "Static. Digest: SHA-256 of the normalised assembly, first 12 digits.")


def difference_plot(found: Sequence[Trial]) -> Picture:
    """Where the lines of each kernel differ from the first one's: kept, replaced, removed, added, in their order."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    first = found[0]
    others = [trial for trial in found[1:] if trial.name == first.name]
    figure = Figure(figsize=(9, 1.1 + 0.5 * len(others)), layout="constrained")
    axes = figure.subplots()
    told = []
    for row, trial in enumerate(others):
        runs = changed_lines(first.kernel, trial.kernel)
        for kind, start, end, other_start, other_end in runs:
            width = max(end - start, other_end - other_start if kind == "insert" else 0, 1)
            axes.broken_barh([(start, width)], (row - 0.4, 0.8), facecolors=_TAG_COLOURS[kind], linewidth=0)
        told.append(f"{trial.label}: {share_kept(runs):.1%} of the lines kept")
    axes.set_yticks(range(len(others)), [trial.label for trial in others], fontsize=8)
    axes.set_ylim(len(others) - 0.5, -0.5)
    axes.set_xlabel(f"line of the normalised assembly of {first.name}, {first.label} (static)", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.margins(x=0)
    axes.spines[["top", "right"]].set_visible(False)
    names = {"equal": "kept", "replace": "replaced", "delete": "removed", "insert": "added here"}
    handles = [Line2D([], [], color=colour, linewidth=6, label=names[kind]) for kind, colour in _TAG_COLOURS.items()]
    axes.legend(handles=handles, frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.suptitle("What changed in the machine code", fontsize=10)
    return Picture(figure, f"Lines that differ. {'; '.join(told)}")


def lever_table(rows: Sequence[dict[str, Any]], variant: str) -> Table:
    """Every lever's other setting on record, as differences to the variant itself."""
    cells = [
        [
            plain(row["lever"]),
            *(plain(f"{row[key]:+,d}", "num") for key in ("lines", "VGPRs", "VGPR spills", "SGPR spills", "LDS bytes")),
            plain("the same" if row["same digest"] else "its own"),
        ]
        for row in rows
    ]
    headings = ["lever", "lines", "VGPRs", "VGPR spills", "SGPR spills", "LDS bytes", "digest"]
    caption = f"Static, from the record: each lever's other setting less {variant}."
    return Table(headings, cells, caption, empty=f"No lever of {variant} is on record.")


def golden_conclusion(found: Sequence[Trial]) -> str:
    """What follows from the trials, as Markdown."""
    lines = [f"- `{trial.name}`, {trial.label}: {trial.verdict} (static)." for trial in found]
    first = found[0]
    for trial in found[1:]:
        if trial.name == first.name and trial.verdict == "altered":
            kept = share_kept(changed_lines(first.kernel, trial.kernel))
            lines.append(
                f"- {trial.label} keeps {kept:.0%} of the lines and moves {_moved(first, trial)}: the digest says that "
                "something changed, the figures beside it say where to look first."
            )
    if first.verdict != "as on record":
        lines.append(
            f"- `{first.name}` is {first.verdict} before anything was changed here: the kernels of this checkout are "
            "not those of the record. `workbench golden check` lists what differs."
        )
    lines += [
        "- Equal digests mean equal code, so nothing of an unchanged variant has to be measured again. Different "
        "digests mean that it has to be: they do not say better or worse.",
        "- `workbench golden check` does this for every variant, compiler and target; `workbench golden update` puts "
        "today's code on record, one line a variant, for the reader of the change to see. Time is in no digest: only "
        "hardware can tell what a difference is worth.",
    ]
    return "\n".join(lines)


def _moved(before: Trial, after: Trial) -> str:
    ours, theirs = before.entry, after.entry
    parts = [
        f"{(theirs.vgprs or 0) - (ours.vgprs or 0):+d} VGPRs",
        f"{theirs.lds_bytes - ours.lds_bytes:+d} bytes of LDS",
        f"{theirs.lines - ours.lines:+d} lines",
    ]
    return ", ".join(parts)


def golden_key(found: Sequence[Trial]) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`."""
    altered = [trial for trial in found if trial.verdict == "altered"]
    told = ", ".join(f"{trial.name} ({trial.label})" for trial in altered) or "none"
    sentence = f"Of {len(found)} kernels the gate calls altered: {told}."
    return {"sentence": sentence, "evidence": "static", "value": len(altered), "unit": "1"}
