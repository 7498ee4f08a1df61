"""Pictures and conclusions of the levers that move instructions of the dense kernel. Static, where not said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.levers.table import spell
from workbench.parity.html_table import Table, plain
from workbench.parity.plots import Picture
from workbench.studies.dense_levers import common_findings, observed_text, times_text
from workbench.studies.dense_schedule import (
    K_WIDTHS,
    STEP_KEYS,
    in_flight,
    keys_left_by_qk,
    keys_wanted_by_pv,
    mixing,
    moves_of_layout,
    priorities,
    products,
    raised,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure

    from workbench.inspection import Inspection
    from workbench.inspection.schedule import Slot
    from workbench.studies.dense_schedule import InFlight
    from workbench.studies.lever_study import LeverStudy

_COLOURS = ("#5b6676", "#1f5fbf", "#c2571a", "#1a7f4b")
_PRODUCT_COLOURS = {"QK": "#c9dcf7", "PV": "#cdebd9"}


def layout_plot() -> Picture:
    """Keys of a step in the registers of both halves of a wave: as QK leaves P, and as PV wants it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.9), layout="constrained")
    wanted = [
        ("as QK leaves it", None),
        *((f"PV wants it, transposed_pv={spell(on)}", K_WIDTHS[on]) for on in (True, False)),
    ]
    for axes, (title, k_width) in zip(figure.subplots(1, 3), wanted, strict=True):
        for half in range(2):
            own = keys_left_by_qk(half)
            for register, key in enumerate(own if k_width is None else keys_wanted_by_pv(half, k_width)):
                colour = "#c9dcf7" if key in own else "#f2b8b5"
                axes.add_patch(_cell(half, register, colour))
                axes.text(half + 0.5, register + 0.5, str(key), ha="center", va="center", fontsize=8)
        axes.set_xlim(0, 2)
        axes.set_ylim(8, 0)
        axes.set_xticks((0.5, 1.5), ("lanes 0-31", "lanes 32-63"), fontsize=8)
        axes.set_yticks([place + 0.5 for place in range(8)], [str(place) for place in range(8)], fontsize=7)
        axes.tick_params(length=0)
        axes.set_title(title, fontsize=9)
    figure.axes[0].set_ylabel("16-bit value of a lane", fontsize=8)
    figure.suptitle("Keys of one 16-key step of P; red ones lie in the other half of the wave (static)", fontsize=10)
    moves = {str(on): moves_of_layout(k_width) for on, k_width in K_WIDTHS.items()}
    return Picture(figure, f"Keys of P by lane and register; keys to move for transposed_pv: {moves}")


def _cell(column: float, row: float, colour: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="white")


def mixing_plot(study: LeverStudy) -> Picture:
    """Share of the iteration's v_exp that are issued over MFMA issued, from the first QK product on."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    axes = figure.subplots()
    told = []
    for name, colour in zip(study.names, _COLOURS, strict=False):
        (inspection,) = study.inspections([name])
        mix = mixing(inspection)
        shares = [(place + 1) / mix.total for place in range(mix.total)]
        axes.step([0, *mix.mfma, mix.total_mfma], [0, *shares, 1], where="post", color=colour, label=name)
        told.append(f"{name}: {mix.beside_pv} of {mix.total} among the PV products")
    qk = products(inspection)["QK"]
    axes.axvspan(0, qk, color=_PRODUCT_COLOURS["QK"], alpha=0.5, linewidth=0, label="QK products")
    axes.axvspan(qk, mix.total_mfma, color=_PRODUCT_COLOURS["PV"], alpha=0.5, linewidth=0, label="PV products")
    axes.set_xlabel("MFMA of an iteration issued so far (static)", fontsize=8)
    axes.set_ylabel("share of v_exp issued", fontsize=8)
    _finish(axes)
    figure.suptitle("Exponentials among the products", fontsize=10)
    return Picture(figure, f"Exponentials among the products. {'; '.join(told)}")


def in_flight_plot(study: LeverStudy) -> Picture:
    """Copies under way after each instruction of the loop, a row per variant, the products shaded."""

    def draw(axes: Any, inspection: Inspection, colour: str) -> tuple[Sequence[Slot], str]:
        flight = in_flight(inspection)
        axes.step(range(len(flight.copies)), flight.copies, where="post", color=colour)
        axes.set_ylabel("copies", fontsize=8)
        return flight.slots, f"{_percent(flight.share('QK'))} of QK and {_percent(flight.share('PV'))} of PV products"

    figure, told = _loop_rows(study, 1.3, draw)
    figure.axes[0].set_ylim(0, None)
    figure.suptitle("Copies from HBM to LDS under way, if none arrives before a wait asks for it", fontsize=10)
    return Picture(figure, f"Copies under way beside {told}")


def priority_plot(study: LeverStudy) -> Picture:
    """The wave's priority along the loop, a row per variant, the products shaded."""
    from workbench.inspection.schedule import schedule
    from workbench.studies.dense_schedule import from_first_qk

    def draw(axes: Any, inspection: Inspection, colour: str) -> tuple[Sequence[Slot], str]:
        slots = from_first_qk(schedule(inspection))
        axes.step(range(len(slots)), priorities(slots), where="post", color=colour)
        axes.set_yticks((0, 1))
        axes.set_ylim(-0.2, 1.4)
        axes.set_ylabel("priority", fontsize=8)
        return slots, f"{raised(inspection)['PV']} of {products(inspection)['PV']} PV products raised"

    figure, told = _loop_rows(study, 1.0, draw)
    figure.suptitle("Priority of the wave", fontsize=10)
    return Picture(figure, f"Priority of the wave. {told}")


def _loop_rows(
    study: LeverStudy, height: float, draw: Callable[[Any, Inspection, str], tuple[Sequence[Slot], str]]
) -> tuple[Figure, str]:
    """A row of `height` inches per variant over the instructions of its loop, the products shaded, and all in words.

    draw(axes, inspection, colour) fills a row and gives its instructions and what it shows in words.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 0.6 + height * len(study.names)), layout="constrained")
    rows = figure.subplots(len(study.names), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    told = []
    for axes, name, colour in zip(rows, study.names, _COLOURS, strict=False):
        (inspection,) = study.inspections([name])
        slots, words = draw(axes, inspection, colour)
        for place, slot in enumerate(slots):
            if slot.symbol == "M":
                axes.axvspan(place, place + 1, color=_PRODUCT_COLOURS[slot.product], linewidth=0)
        axes.set_title(name, fontsize=8, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=7)
        told.append(f"{name}: {words}")
    rows[-1].set_xlabel(
        "instruction of the loop from the first QK product on (static); blue QK, green PV products", fontsize=8
    )
    return figure, "; ".join(told)


def _finish(axes: Any) -> None:
    axes.tick_params(labelsize=8)
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0)


def schedule_table(studies: Sequence[LeverStudy]) -> Table:
    """For each compiler and variant: exponentials, copies under way and priority beside the products."""
    rows = []
    for study in studies:
        for name in study.names:
            (inspection,) = study.inspections([name])
            mix, flight, high = mixing(inspection), in_flight(inspection), raised(inspection)
            static = inspection.summary()["static"]
            rows.append(
                [
                    plain(study.triton_version),
                    plain(name),
                    plain(len(inspection.hot_instructions), "num"),
                    plain(f"{mix.beside_pv} of {mix.total}", "num"),
                    plain(static["longest_run"], "num"),
                    plain(f"{_percent(flight.share('QK'))} / {_percent(flight.share('PV'))}", "num"),
                    plain(_windows(flight), "num"),
                    plain(f"{high['PV']} of {products(inspection)['PV']}", "num"),
                ]
            )
    headings = ["Triton", "variant", "instructions", "v_exp among PV", "longest gap", "copies beside QK / PV"]
    headings += ["MFMA to arrive in", "PV raised"]
    caption = (
        "Static: one iteration of the hot loop, which is read as a circle. Longest gap: instructions between two MFMA. "
        "Copies: share of the MFMA issued with one under way. To arrive in: MFMA between the issue of a copy and the "
        "wait that asks for it. Raised: MFMA issued at a priority above 0."
    )
    return Table(headings, rows, caption)


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{100 * share:.0f} %"


def _windows(flight: InFlight) -> str:
    """`4 or 28`."""
    return " or ".join(str(count) for count in sorted(set(flight.windows))) or "0"


def _layout_sentence() -> str:
    moves = moves_of_layout(K_WIDTHS[False])
    return (
        f"With `k_width` 8 the PV product wants {moves} of the {STEP_KEYS} keys of a step from the other half of the "
        f"wave; with `k_width` 4 it wants {moves_of_layout(K_WIDTHS[True]) or 'none'} (static)."
    )


def transposed_pv_conclusion(studies: Sequence[LeverStudy]) -> str:
    """What follows for transposed PV, as Markdown."""
    first = studies[0]
    found = [f"- {_layout_sentence()}"]
    for study in studies:
        off, on = (study.value(name, "cross-lane moves of P") for name in ("transposed_pv=false", "transposed_pv=true"))
        if off is not None and on is not None:
            found.append(
                f"- Triton {study.triton_version}: {off:.0f} cross-lane moves of P an iteration without the lever, "
                f"{on:.0f} with it (static)."
            )
    found.append(
        "- A move here is a `v_permlane32_swap`, one vector instruction for two registers. The published kernel lost "
        "`ds_bpermute`, which go through LDS and are waited for: its lever removed something dearer."
    )
    found += common_findings(studies, "transposed_pv=true")
    found.append(f"- {observed_text(first, 'transposed_pv=true')} {times_text(first)}")
    found.append(
        "- Only hardware can tell what the moves cost where they stand: they are few issue slots, but between the "
        "exponentials and the product that waits for them."
    )
    return "\n".join(found)


def transposed_pv_key(study: LeverStudy) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`."""
    off, on = (study.value(name, "cross-lane moves of P") for name in ("transposed_pv=false", "transposed_pv=true"))
    if off is None or on is None:
        return {"sentence": "One of the two variants gave no kernel.", "evidence": "static"}
    sentence = f"Transposed PV takes the cross-lane moves of P from {off:.0f} to {on:.0f} an iteration"
    return {
        "sentence": f"{sentence} (Triton {study.triton_version}).",
        "evidence": "static",
        "value": off - on,
        "unit": "1",
    }


def cluster_conclusion(studies: Sequence[LeverStudy]) -> str:
    """What follows for the depth-1 cluster, as Markdown."""
    found = []
    for study in studies:
        mixes = {name: mixing(inspection) for name, inspection in _kernels(study).items()}
        told = ", ".join(f"{mix.beside_pv} of {mix.total} with `{name}`" for name, mix in mixes.items())
        found.append(f"- Triton {study.triton_version}: v_exp among the PV products: {told} (static).")
    same = all(
        study.over_baseline("cluster=true", "TRANS cycles") == 1 for study in studies if "cluster=true" in study.names
    )
    if same:
        found.append(
            "- The lever moves exponentials and removes none: the issue budget, which adds up what a loop asks of each "
            "pipe, cannot tell the two apart. It assumes the overlap that the lever is there to make possible."
        )
    found += common_findings(studies, "cluster=true")
    found.append(f"- {observed_text(studies[0], 'cluster=true')} {times_text(studies[0])}")
    found.append(
        "- The published kernel names the order of every class with `sched_group_barrier`. Gluon has no word for it: "
        "the order within a product is the compiler's, and differs between its versions as the strips show."
    )
    found.append(
        "- Only hardware can tell whether the second wave of the SIMD fills the gap already: with two waves, one's "
        "exponentials can run beside the other's products without any cluster."
    )
    return "\n".join(found)


def cluster_key(study: LeverStudy) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`."""
    mixes = {name: mixing(inspection) for name, inspection in _kernels(study).items()}
    told = ", ".join(f"{mix.beside_pv} of {mix.total} with {name}" for name, mix in mixes.items())
    most = max((mix.beside_pv for mix in mixes.values()), default=0)
    sentence = f"Exponentials among the PV products: {told} (Triton {study.triton_version})."
    return {"sentence": sentence, "evidence": "static", "value": most, "unit": "1"}


def prefetch_conclusion(studies: Sequence[LeverStudy]) -> str:
    """What follows for partial waits, as Markdown."""
    found = []
    for study in studies:
        for name, inspection in _kernels(study).items():
            flight = in_flight(inspection)
            found.append(
                f"- Triton {study.triton_version}, `{name}`: {_percent(flight.share('QK'))} of the QK and "
                f"{_percent(flight.share('PV'))} of the PV products are issued with a copy under way; from issue to "
                f"wait a copy has {_windows(flight)} MFMA of its wave to arrive in (static)."
            )
    found += common_findings(studies, "prefetch=true")
    found.append(f"- {observed_text(studies[0], 'prefetch=true')} {times_text(studies[0])}")
    found.append(
        "- The published speed-up is of partial waits and raised priority together; there is none of this lever alone."
    )
    found.append(
        "- A wait stands where the compiler leaves it: where a copy has few MFMA to arrive in, products that stand in "
        "front of the wait in the source have moved behind it."
    )
    found.append(
        "- The issue budget leaves latency out and sees no difference. The emulator delivers each copy when its wait "
        "asks for it, which shows that the waits suffice. How long a copy takes under load, only hardware can tell."
    )
    return "\n".join(found)


def prefetch_key(study: LeverStudy) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`."""
    windows = {name: min(in_flight(each).windows, default=0) for name, each in _kernels(study).items()}
    told = ", ".join(f"{count} with {name}" for name, count in windows.items())
    sentence = f"MFMA that a copy to LDS has to arrive in, at least: {told} (Triton {study.triton_version})."
    return {"sentence": sentence, "evidence": "static", "value": max(windows.values(), default=0), "unit": "1"}


def setprio_conclusion(studies: Sequence[LeverStudy]) -> str:
    """What follows for the raised priority, as Markdown."""
    found = []
    for study in studies:
        for name, inspection in _kernels(study).items():
            high, total = raised(inspection), products(inspection)["PV"]
            if high:
                found.append(
                    f"- Triton {study.triton_version}, `{name}`: {high['PV']} of {total} PV products are issued at "
                    f"raised priority"
                    + ("." if high["PV"] == total else ": the compiler lets the rest sink below the `s_setprio 0`.")
                    + f" With them are raised {high['e']} v_exp and {high['r']} LDS reads (static)."
                )
    found += common_findings(studies, "setprio=true")
    found.append(f"- {observed_text(studies[0], 'setprio=true')} {times_text(studies[0])}")
    found.append("- The published speed-up is of partial waits and raised priority together.")
    found.append(
        "- Priority decides which wave of a SIMD issues when both could. No figure here knows of it: counts and "
        "budgets differ by what the compiler reorders around it, and by nothing else. Only hardware can tell."
    )
    return "\n".join(found)


def setprio_key(study: LeverStudy) -> dict[str, Any]:
    """Arguments of `workbench.report.headline`."""
    kernels = _kernels(study)
    if "setprio=true" not in kernels:
        return {"sentence": "No kernel with raised priority could be built.", "evidence": "static"}
    inspection = kernels["setprio=true"]
    high, total = raised(inspection)["PV"], products(inspection)["PV"]
    sentence = f"{high} of {total} PV products are issued at raised priority (Triton {study.triton_version})."
    return {"sentence": sentence, "evidence": "static", "value": 100 * high / total, "unit": "%"}


def _kernels(study: LeverStudy) -> dict[str, Any]:
    return dict(zip(study.names, study.inspections(), strict=True))
