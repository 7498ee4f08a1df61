"""Pictures, tables and conclusions of how the dense kernel's work is cut and handed out; each names its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.parity.html_table import Table, plain
from workbench.parity.plots import Picture
from workbench.published import load_published
from workbench.spec import keys_of_tile
from workbench.studies.dense_levers import common_findings, observed_text, times_text
from workbench.studies.dense_schedule import in_flight
from workbench.studies.dense_work import COLD_START_TILES, same_loop, scores_computed, scores_needed
from workbench.studies.lever_figures import WITH_CONFLICTS
from workbench.studies.lever_views import EVIDENCE, spell_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from workbench.model import L2Result
    from workbench.published import Published
    from workbench.studies.dense_work import Hand
    from workbench.studies.lever_study import LeverStudy

_COLOURS = ("#5b6676", "#c2571a", "#1f5fbf", "#1a7f4b", "#8a3ffc", "#b3261e")
_PER_KEYS = ("barriers", "waits", "instructions per 64 keys", f"cycles per 64 keys{WITH_CONFLICTS}")


def tile_plot(study: LeverStudy) -> Picture:
    """What a key tile costs for 64 keys, and what it takes of registers and LDS, a bar per variant."""
    from matplotlib.figure import Figure

    panels = ["barriers per 64 keys", "waits for copies", "instructions per 64 keys"]
    panels += ["cycles per 64 keys", "MFMA to arrive in", "VGPRs", "LDS, KiB"]
    figure = Figure(figsize=(9, 2.6), layout="constrained")
    told = []
    for axes, panel in zip(figure.subplots(1, len(panels)), panels, strict=True):
        heights = [_tile_figure(study, name, panel) for name in study.names]
        evidence = "modelled" if panel.startswith("cycles") else "static"
        labels = [name.partition("=")[2] for name in study.names]
        bars = axes.bar(labels, heights, color=EVIDENCE[evidence][0])
        axes.bar_label(bars, [spell_number(round(height, 1)) for height in heights], fontsize=7)
        axes.set_title(f"{panel}\n({evidence})", fontsize=7)
        axes.set_yticks(())
        axes.margins(y=0.15)
        axes.tick_params(axis="x", labelsize=7, length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        told.append(f"{panel}: {', '.join(f'{height:g}' for height in heights)}")
    figure.suptitle("One key tile, by block_n", fontsize=10)
    return Picture(figure, f"By block_n {', '.join(study.names)}. {'; '.join(told)}")


def _tile_figure(study: LeverStudy, name: str, panel: str) -> float:
    spec = study.outcomes[name].variant.spec
    keys = keys_of_tile(spec) if spec else None
    for_64 = 64 / (keys or 64)
    if panel in ("MFMA to arrive in", "waits for copies"):
        (inspection,) = study.inspections([name])
        flight = in_flight(inspection)
        waits = panel == "waits for copies"
        return for_64 * len(flight.drained) if waits else float(min(flight.windows, default=0))
    known = {"barriers per 64 keys": ("barriers", for_64), "LDS, KiB": ("LDS", 1 / 1024)}
    figure, scale = known.get(panel, (panel, 1.0))
    return (study.value(name, figure) or 0.0) * scale


def block_n_conclusion(studies: Sequence[LeverStudy], waste: pd.DataFrame) -> str:
    """What follows for the key tile, as Markdown."""
    found = []
    for study in studies:
        for name in study.names:
            cycles = study.value(name, "cycles per 64 keys")
            found.append(
                f"- Triton {study.triton_version}, `{name}`: "
                f"{_tile_figure(study, name, 'barriers per 64 keys'):g} barriers and "
                f"{_tile_figure(study, name, 'waits for copies'):g} waits for copies for 64 keys, at least "
                f"{_tile_figure(study, name, 'MFMA to arrive in'):.0f} MFMA for a copy to arrive in, "
                f"{study.value(name, 'VGPRs') or 0:.0f} VGPRs (static); at least {cycles or 0:.0f} cycles (modelled)."
            )
    refused = {name: outcome.message for name, outcome in studies[0].outcomes.items() if outcome.inspection is None}
    found += [f"- `{name}` gives no kernel: {why}." for name, why in refused.items()]
    spread = waste.groupby("length")["waste"].agg(lambda shares: shares.max() - shares.min()).max()
    found.append(
        "- The tile decides little about masked work: over these lengths the share of scores computed for nothing "
        f"differs by at most {100 * spread:.2f} points between tiles (static), since rows come in blocks of 256 "
        "anyway."
    )
    found += common_findings(studies, studies[0].names[-1])
    found.append(f"- {observed_text(studies[0], studies[0].names[-1])} {times_text(studies[0])}")
    found.append(
        "- The step of the recurrence stays at 64 keys whatever the tile; what a larger one saves are waits for copies "
        "and barriers, for twice the LDS. Only hardware can tell whether those were in the way."
    )
    return "\n".join(found)


def block_n_key(study: LeverStudy) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`."""
    barriers = {name: _tile_figure(study, name, "barriers per 64 keys") for name in study.names}
    told = ", ".join(f"{count:g} with {name}" for name, count in barriers.items())
    sentence = f"Barriers for 64 keys: {told} (Triton {study.triton_version})."
    return {"sentence": sentence, "evidence": "static", "value": min(barriers.values(), default=0.0), "unit": "1"}


def waste_plot(frame: pd.DataFrame, title: str) -> Picture:
    """Scores computed over those needed, by length, a line per key tile. Static."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.0), layout="constrained")
    axes = figure.subplots()
    for (block_n, part), colour in zip(frame.groupby("block_n"), _COLOURS, strict=False):
        axes.plot(part["length"], 1 + part["waste"], color=colour, linewidth=1.3, label=f"block_n {block_n}")
    axes.set_xlabel("queries and keys", fontsize=8)
    axes.set_ylabel("scores computed over needed (static)", fontsize=8)
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter("{x:g}x")
    axes.margins(x=0)
    axes.tick_params(labelsize=8)
    axes.grid(axis="y", color="#e6eaf0")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=10)
    low, high = frame["waste"].min(), frame["waste"].max()
    return Picture(figure, f"{title}: {1 + low:.3g}x to {1 + high:.3g}x of the needed scores")


def length_table(study: LeverStudy) -> Table:
    """Per length: the check, scores computed over needed, wave-instructions per needed score."""
    rows = []
    for name, outcome in study.outcomes.items():
        problem, spec = outcome.variant.problem, outcome.variant.spec
        done = study.value(name, "wave-instructions")
        if spec is None or done is None:
            rows.append([plain(name), *[plain("")] * 4, plain(outcome.message, "text")])
            continue
        needed = scores_needed(problem)  # type: ignore[arg-type]
        computed = scores_computed(problem, spec.block_m, spec.block_n)  # type: ignore[arg-type, attr-defined]
        rows.append(
            [
                plain(name),
                plain(f"{computed / needed:.2f}x", "num"),
                plain(spell_number(done), "num"),
                plain(f"{1000 * done / needed:.1f}", "num"),
                plain(f"{1000 * done / computed:.1f}", "num"),
                plain("right" if study.value(name, "correct") else "wrong"),
            ]
        )
    headings = ["queries x keys", "computed over needed", "wave-instructions", "per 1000 needed scores"]
    headings += ["per 1000 computed scores", "check"]
    return Table(headings, rows, "Scores: static. Wave-instructions and the check against float64: emulated.")


def ragged_conclusion(studies: Sequence[LeverStudy], lengths: LeverStudy) -> str:
    """What follows for ragged lengths, as Markdown."""
    first = studies[0]
    found = []
    ratio = first.over_baseline("ragged=true", "wave-instructions")
    if ratio is not None:
        found.append(
            f"- The checks alone, on lengths that need none, take the wave-instructions to {1 / ratio:.3f}x "
            f"(emulated): a kernel that issues all the time would be {ratio:.3g}x as fast."
        )
    wrong = [name for name in lengths.outcomes if lengths.value(name, "correct") == 0]
    ran = [name for name in lengths.outcomes if lengths.value(name, "correct") is not None]
    found.append(
        f"- {len(ran)} pairs of lengths ran on the emulator, whose batch members lie one behind the other in memory: "
        + (
            f"**wrong: {', '.join(wrong)}**."
            if wrong
            else "all are right, and no row past an end was written (emulated)."
        )
    )
    found += common_findings(studies, "ragged=true")
    found.append(f"- {observed_text(first, 'ragged=true')} {times_text(first)}")
    found.append(
        "- Padding costs twice: the checks, and the scores of a last block and tile that nobody asked for. The "
        "second is large for short prompts and small for long ones, whatever the kernel. A causal mask drops padded "
        "keys by itself."
    )
    found.append("- Only hardware can tell what a range-checked copy costs beside a plain one.")
    return "\n".join(found)


def ragged_key(study: LeverStudy) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`."""
    ratio = study.over_baseline("ragged=true", "wave-instructions")
    if ratio is None:
        return {"sentence": "The kernel with range checks did not run on the emulator.", "evidence": "emulated"}
    sentence = f"Range checks on aligned lengths take the wave-instructions to {1 / ratio:.3f}x"
    return {
        "sentence": f"{sentence} (Triton {study.triton_version}).",
        "evidence": "emulated",
        "value": 1 / ratio,
        "unit": "x",
    }


def load_plot(found: Sequence[Hand], title: str) -> Picture:
    """Tiles and cold starts of every compute unit, the busiest first, a line per grid. Modelled."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    loads, spans = figure.subplots(1, 2, width_ratios=(3, 2))
    for hand, colour in zip(found, _COLOURS, strict=False):
        load = sorted((hand.tiles + COLD_START_TILES * hand.starts).tolist(), reverse=True)
        loads.plot(range(len(load)), load, color=colour, linewidth=1.6, label=hand.label)
    loads.set_ylim(0, None)
    loads.set_xlabel("compute unit, the busiest first", fontsize=8)
    loads.set_ylabel(f"tiles + {COLD_START_TILES:g} for each start (modelled)", fontsize=8)
    loads.legend(frameon=False, fontsize=7, loc="lower left")
    bars = spans.barh([hand.label for hand in found], [hand.span for hand in found], color=_COLOURS[: len(found)])
    spans.bar_label(
        bars,
        [f"{hand.span:,.0f}, busy {hand.busy:.0%}" for hand in found],
        fontsize=7,
        label_type="center",
        color="white",
    )
    spans.invert_yaxis()
    spans.set_xlabel("tile-times until the last unit is done (modelled)", fontsize=8)
    for axes in (loads, spans):
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=10)
    told = "; ".join(f"{hand.label}: {hand.span:.0f} tile-times, busy {hand.busy:.1%}" for hand in found)
    return Picture(figure, f"{title}. {told}")


def grid_table(found: Sequence[Hand], hits: Mapping[str, L2Result]) -> Table:
    """Balance, cold starts, L2 and published throughput of each grid."""
    known = {
        "default grid": "default grid",
        "qb_major": "persistent grid, qb_major, V pad 32",
        "hkv_major": "persistent grid, hkv_major",
    }
    rows = []
    for hand in found:
        one_each = hand.order == "grid" or hand.starts.max() == 1  # what the L2 figures and the published ones are of
        result = hits.get(hand.order) if one_each else None
        key = "default grid" if hand.order == "grid" else hand.order
        published = next(
            (row for row in _throughputs() if one_each and key in known and known[key] in row.config),
            None,
        )
        rows.append(
            [
                plain(hand.label),
                plain(f"{hand.tiles.min():.0f} to {hand.tiles.max():.0f}", "num"),
                plain(f"{hand.starts.sum():.0f}", "num"),
                plain(f"{found[0].span / hand.span:.3f}x", "num"),
                plain(f"{result.hit_rate:.0%}" if result else "n/a", "num"),
                plain(f"{result.bytes_beyond_l2 / 1e9:.2f}" if result else "n/a", "num"),
                plain(f"{published.value} on {published.hardware}" if published else "n/a", "num"),
            ]
        )
    headings = ["grid", "tiles of a unit", "cold starts", "span, first over this", "L2 hit rate", "GB beyond L2"]
    caption = (
        "Tiles: static. Spans and L2: modelled, the L2 for one program per compute unit. TFLOP/s: published, of "
        "another kernel; qb_major with the V pad and without the lazy rescale, hkv_major with both. `l2_locality` "
        "asks about the L2 in full."
    )
    return Table([*headings, "TFLOP/s"], rows, caption)


def grids_conclusion(found: Sequence[Hand], hits: Mapping[str, L2Result], studies: Sequence[LeverStudy]) -> str:
    """What follows for the grids, as Markdown."""
    lines = []
    base, best = found[0], min(found, key=lambda hand: hand.span)
    lines.append(
        f"- {base.label}: {base.starts.sum():.0f} cold starts and {base.busy:.0%} of the compute units' time in tiles; "
        f"{best.label}: {best.starts.sum():.0f} and {best.busy:.0%} (modelled). That is {base.span / best.span:.3g}x."
    )
    rows = {row.config: float(row.value) for row in load_published("grid") if row.unit == "TFLOP/s"}
    default = next(value for config, value in rows.items() if config.startswith("default"))
    shipped = next(value for config, value in rows.items() if "hkv_major" in config)
    lines.append(
        f"- Published, MI355X: {shipped / default:.3g}x between the default and the persistent grid. Balance and cold "
        f"starts are {base.span / best.span:.3g}x of it (modelled)"
        + (
            f"; the L2 hit rates, {_hit_rates(hits)} (modelled), do not order the grids as the times do."
            if _apart(hits)
            else "."
        )
    )
    if "qb_major" in hits and "hkv_major" in hits:
        seen = next(row for row in load_published("persist_decode") if row.metric == "speed-up")
        lines.append(
            f"- qb_major has {hits['qb_major'].total_misses / hits['hkv_major'].total_misses:.3g}x the L2 misses of "
            f"hkv_major (modelled); published: {seen.value}x in speed on {seen.hardware}, so misses are mostly hidden."
        )
    for study in studies:
        if {"grid=default", "grid=persistent"} <= set(study.names):
            share = same_loop(*study.inspections(["grid=default", "grid=persistent"]))
            lines.append(
                f"- Triton {study.triton_version}: {share:.1%} of the hot loop's instructions are the same under "
                f"both grids, those of the published kernel all are; the outer loop takes {_more(study, 'VGPRs')} "
                "VGPRs (static)."
            )
    lines += common_findings(studies, studies[0].names[-1])
    lines.append(f"- {times_text(studies[0])}")
    lines.append(
        f"- Only hardware can tell what a cold start takes here, the {COLD_START_TILES:g} tiles being another "
        "kernel's, and where the rest of the published gain comes from."
    )
    return "\n".join(lines)


def _apart(hits: Mapping[str, L2Result]) -> bool:
    """Whether the slower default grid has the higher hit rate."""
    return {"grid", "qb_major"} <= hits.keys() and hits["grid"].hit_rate > hits["qb_major"].hit_rate


def _hit_rates(hits: Mapping[str, L2Result]) -> str:
    names = {"grid": "default grid"}
    return ", ".join(f"{result.hit_rate:.0%} with {names.get(order, order)}" for order, result in hits.items())


def _throughputs() -> list[Published]:
    rows = (*load_published("grid"), *load_published("grid_levers"))
    return [row for row in rows if row.unit == "TFLOP/s"]


def _more(study: LeverStudy, figure: str) -> str:
    off, on = study.value("grid=default", figure), study.value("grid=persistent", figure)
    return "n/a" if off is None or on is None else f"{on - off:+.0f}"


def grids_key(found: Sequence[Hand]) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`."""
    base, best = found[0], min(found, key=lambda hand: hand.span)
    gain = base.span / best.span
    sentence = f"Balance and cold starts alone make {best.label} {gain:.3g}x as fast as the {base.label}."
    return {"sentence": sentence, "evidence": "modelled", "value": gain, "unit": "x"}
