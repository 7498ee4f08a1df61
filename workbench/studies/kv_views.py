"""Tables and pictures of a walk through one KV tile; each names its evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.gfx950.isa import FAMILIES
from workbench.parity.html_table import Table, plain, tag
from workbench.parity.plots import Picture
from workbench.studies.kv_tile import NUM_WAVES, TILE_SIZE

if TYPE_CHECKING:
    from workbench.gfx950.emulator.debug import InFlight
    from workbench.gfx950.emulator.state import Array
    from workbench.studies.kv_reference import Check
    from workbench.studies.kv_tile import TileWalk

BANKS = 64
"""Banks of LDS, 4 bytes wide each."""
_SIGNED = "RdBu_r"
_POSITIVE = "viridis"
_COLOURS = {
    "mfma": "#1f5fbf",
    "trans": "#c2571a",
    "valu": "#8a3ffc",
    "packed": "#8a3ffc",
    "acc move": "#9a6700",
    "wait": "#b3261e",
}
_OTHER = "#5b6676"
Panel = tuple[str, "Array", str, str, str]
"""Title, values, what lies along the columns, what along the rows, colour map."""


def landmark_table(walk: TileWalk) -> Table:
    """Where the steps of the recurrence are in the hot loop. Evidence: static."""
    marks = walk.landmarks
    steps = [
        ("S = K Qᵀ", [ins for chain in marks.qk for ins in chain.steps]),
        ("m = max(m, S)", [marks.maximum]),
        ("α = 2^(m_old - m)", [marks.alpha]),
        ("P = 2^(S - m)", list(marks.exponentials)),
        ("O = α O + Vᵀ P", [ins for chain in marks.pv for ins in chain.steps]),
        ("l = α l + Σ P", [marks.denominator]),
    ]
    rows = []
    for name, found in steps:
        lines = sorted(ins.line for ins in found)
        span = str(lines[0]) if len(lines) == 1 else f"{lines[0]} to {lines[-1]}"
        first = min(found, key=lambda ins: ins.line)
        rows.append([plain(name), plain(span, "num"), plain(len(found), "num"), plain(first.text), plain(first.source)])
    caption = f"Static: the hot loop has {len(marks.loop)} instructions, from line {marks.header_line} on."
    return Table(["step", "assembly lines", "instructions", "the first", "source"], rows, caption)


def in_flight_table(walk: TileWalk) -> Table:
    """What the wave has issued and not waited for when the tile begins. Evidence: emulated."""
    rows = []
    for operation in walk.in_flight_at_start:
        ins = operation.instruction
        cells = [plain(operation.counter), plain(ins.line, "num"), plain(ins.text), plain(operation.destination)]
        rows.append([*cells, plain(_issued_ago(walk, operation), "num")])
    headings = ["waits for", "line", "operation", "to", "issued, instructions ago"]
    where = f"wave {walk.wave} before line {walk.landmarks.header_line}"
    caption = f"Emulated: {where}, oldest first. A store has no destination."
    return Table(headings, rows, caption, empty="Nothing is in flight.")


def lds_picture(walk: TileWalk, places: dict[str, Array]) -> Picture:
    """K and V as LDS holds them, the cache, and the banks in which each piece lies. Evidence: emulated."""
    panels: list[Panel] = []
    for name, tensor in (("K", walk.state.k), ("V", walk.state.v)):
        held = int((places[name] >= 0).sum())
        total = places[name].size
        panels += [
            (f"{name} in LDS: {held} of {total} pieces", walk.lds_tile(places[name]), "channel", "key", _SIGNED),
            (f"{name} in the cache", tensor.float().numpy(), "channel", "key", _SIGNED),
            (f"first bank of each piece of {name}", places[name] // 4 % BANKS, "piece of 8 bytes", "key", _POSITIVE),
        ]
    return _panels(panels, 2, "K and V tiles in LDS (emulated)")


def score_picture(walk: TileWalk, scores: Array) -> Picture:
    """S in accumulator registers, as a matrix, and from torch. Evidence: emulated."""
    expected = walk.state.scores[:, walk.rows].numpy()
    panels: list[Panel] = [
        ("one accumulator, as it lies", walk.accumulator(), "lane", "register", _SIGNED),
        ("S, put together", scores, "query row", "key", _SIGNED),
        ("K Qᵀ by torch", expected, "query row", "key", _SIGNED),
        ("difference", scores - expected, "query row", "key", _SIGNED),
    ]
    return _panels(panels, 1, "Scores of the tile (emulated)")


def probability_picture(walk: TileWalk, probabilities: Array) -> Picture:
    """P as the second product reads it, in the order of keys, and from torch. Evidence: emulated."""
    order = walk.key_order(probabilities)
    ordered = probabilities.copy()
    ordered[order] = probabilities
    expected = walk.state.p[:, walk.rows].numpy()
    panels: list[Panel] = [
        ("P in the operand's order", probabilities, "query row", "place in the operand", _POSITIVE),
        ("P, keys in order", ordered, "query row", "key", _POSITIVE),
        ("P by torch", expected, "query row", "key", _POSITIVE),
        ("difference", ordered - expected, "query row", "key", _SIGNED),
    ]
    return _panels(panels, 1, "Probabilities of the tile (emulated)")


def output_picture(walk: TileWalk, rescaled: Array, output: Array) -> Picture:
    """O before and after the second product, the tile's share, and torch. Evidence: emulated."""
    expected = walk.state.o[:, walk.rows].numpy()
    panels: list[Panel] = [
        ("α O, before the product", rescaled, "query row", "channel", _SIGNED),
        ("O, after it", output, "query row", "channel", _SIGNED),
        ("the tile's share, Vᵀ P", output - rescaled, "query row", "channel", _SIGNED),
        ("O after it, by torch", expected, "query row", "channel", _SIGNED),
    ]
    return _panels(panels, 1, "Output accumulators (emulated)")


def _panels(panels: Sequence[Panel], rows: int, title: str) -> Picture:
    """Heat maps side by side, each with its own scale."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    columns = len(panels) // rows
    figure = Figure(figsize=(9, 2.7 * rows if rows > 1 else 3.4), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, (name, values, across, down, colours) in zip(grid.flat, panels, strict=True):
        limit = float(abs(values).max()) if colours == _SIGNED else None
        image = axes.imshow(
            values, aspect="auto", interpolation="nearest", cmap=colours, vmin=-limit if limit else None, vmax=limit
        )
        axes.set_title(name, fontsize=8)
        axes.set_xlabel(across, fontsize=7)
        axes.set_ylabel(down, fontsize=7)
        axes.tick_params(labelsize=6)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(5, integer=True))
        powers = ScalarFormatter()
        powers.set_powerlimits((-3, 4))
        bar = figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02, format=powers)
        bar.ax.tick_params(labelsize=6)
        bar.ax.yaxis.get_offset_text().set_fontsize(6)
    return Picture(figure, f"{title}: {'; '.join(name for name, *_ in panels)}")


def check_table(checks: Sequence[Check]) -> Table:
    """What was read on the way, against the recurrence in float64. Evidence: emulated."""
    rows = []
    for result in checks:
        share = plain(f"{result.worst:.1%}", "num")
        verdict = tag("agrees", "ok") if result.ok else tag("differs", "bad")
        rows.append(
            [plain(result.name), verdict, plain(f"{result.max_abs:.1e}", "num"), share, plain(result.rule, "text")]
        )
    headings = ["quantity", "", "largest |error|", "worst, of what is allowed", "allowed"]
    return Table(headings, rows, "Emulated, against the streaming softmax by torch in float64 on the same bf16 inputs.")


def executed_classes(walk: TileWalk) -> dict[str, tuple[str, int]]:
    """Instruction class -> (family, executions in the tile by one wave), in the order of tables."""
    counts: Counter[str] = Counter()
    family = {}
    for index, count in walk.executed().items():
        kind = walk.debugger.program.instructions[index].kind
        counts[kind.name] += count // NUM_WAVES
        family[kind.name] = kind.family
    order = list(FAMILIES)
    return {
        name: (family[name], counts[name])
        for name in sorted(counts, key=lambda each: (order.index(family[each]), each))
    }


def counter_picture(walk: TileWalk) -> Picture:
    """Executed instructions of the tile by class. Evidence: emulated."""
    from matplotlib.figure import Figure

    classes = executed_classes(walk)
    figure = Figure(figsize=(9, 0.7 + 0.24 * len(classes)), layout="constrained")
    axes: Any = figure.subplots()
    values = [count for _, count in classes.values()]
    colours = [_COLOURS.get(family, _OTHER) for family, _ in classes.values()]
    bars = axes.barh(range(len(classes)), values, color=colours)
    axes.bar_label(bars, fontsize=7, padding=2)
    axes.set_yticks(range(len(classes)), list(classes), fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("instructions that one wave executed in the tile (emulated)", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="x", labelsize=7)
    return Picture(figure, "Executed instructions of one tile by class (emulated)")


def key_figure(walk: TileWalk, checks: Sequence[Check]) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`: what a tile costs, and whether what it computed is right."""
    classes = executed_classes(walk).values()
    total = sum(count for _, count in classes)
    matrix = sum(count for family, count in classes if family == "mfma")
    agreeing = sum(check.ok for check in checks)
    sentence = (
        f"A tile of {TILE_SIZE} keys costs a wave {total} instructions, {matrix} of them MFMA; "
        f"{agreeing} of {len(checks)} quantities of the streaming softmax agree with PyTorch."
    )
    return {"sentence": sentence, "evidence": "emulated", "value": total, "unit": "instructions"}


def conclusion(walk: TileWalk, probabilities: Array) -> str:
    """What follows for somebody who tunes the kernel, in sentences of Markdown, from the walk's own figures."""
    classes = executed_classes(walk).values()
    total = sum(count for _, count in classes)
    share = {name: sum(count for family, count in classes if family == name) for name in ("mfma", "trans", "acc move")}
    once = set(walk.executed().values()) == {NUM_WAVES}
    runs = ", ".join(str(key) for key in walk.key_order(probabilities)[:8])
    return "\n".join(
        [
            f"- A tile costs a wave {total} instructions (emulated); {share['mfma']} of them are MFMA, "
            f"{share['trans']} exponentials, and {share['acc move']} only move values between AGPRs and VGPRs. Levers "
            "can remove what is neither MFMA nor exponential: scaling of O, address arithmetic, conversions, moves.",
            "- Every instruction of the loop ran once for each wave, so the static mix of `workbench inspect` is the "
            "executed one."
            if once
            else "- Not every instruction of the loop ran: read executed counts, not the static mix.",
            f"- {_prefetch(walk)}",
            f"- P goes from accumulators to the second product without LDS: the operand starts with keys {runs}, ..., "
            "the order in which lanes hold S, and V is read in that order too (emulated). A layout that breaks this "
            "costs a round trip through LDS.",
            f"- LDS accesses of the tile cost {walk.conflict_cycles()} conflict cycles over both waves (emulated, "
            "by the bank model).",
            "- Only hardware can tell how many cycles the loads take and whether that distance hides them, how far "
            "MFMA and vector instructions of the waves on one SIMD overlap, and at which clock. On an MI355X: "
            "`workbench bench`, and a thread trace of this loop.",
        ]
    )


def _prefetch(walk: TileWalk) -> str:
    """How far the compiler puts a tile's loads before their use."""
    ahead = [_issued_ago(walk, operation) for operation in walk.in_flight_at_start if operation.counter == "vmcnt"]
    if ahead:
        return (
            f"At the tile's start {len(ahead)} loads are in flight, issued {ahead[-1]} to {ahead[0]} instructions ago "
            "(emulated): that distance, times the waves of a SIMD, is what hides memory latency."
        )
    loop = walk.landmarks.loop
    load = next(ins for ins in loop if ins.kind.name == "VMEM load dwordx4")
    wait = next(ins for ins in loop if ins.index > load.index and "vmcnt" in ins.modifiers)
    return (
        f"No load crosses the loop's end: the next tile's are issued from line {load.line} on and first waited for at "
        f"line {wait.line}, {wait.index - load.index} instructions later (static). That distance, times the waves of a "
        "SIMD, is what hides memory latency."
    )


def _issued_ago(walk: TileWalk, operation: InFlight) -> int | str:
    """Instructions since an operation of the loop was issued, at the loop's start."""
    start, length = walk.landmarks.loop[0].index, len(walk.landmarks.loop)
    place = operation.instruction.index - start
    return length - place if 0 <= place < length else "before the loop"
