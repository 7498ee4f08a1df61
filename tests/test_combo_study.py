"""The study of the combo's flags: gains alone and in the bundle, verdicts, tables."""

from dataclasses import replace

import pytest

from workbench.errors import ParameterError
from workbench.scenarios import find
from workbench.studies import combo_views as views
from workbench.studies.combo import (
    BUNDLE,
    CYCLES,
    FLAGS,
    OFF,
    Gain,
    alone,
    bundle_frame,
    combo_study,
    exact_frame,
    flag_changes,
    flag_frame,
    left_out,
    vector_savings,
    whole_kernel_frame,
)
from workbench.studies.lever_figures import Figure

SCENARIO = find("serving_d64_sinks_full_ns16")
MASKS = ["transposed_mask_once", "transposed_mask_limit"]


@pytest.fixture(scope="module")
def study():
    """The two mask flags with the other four on."""
    return combo_study(SCENARIO, "Gluon", changes=flag_changes(MASKS), emulate=False)


def test_every_flag_is_taken_alone_and_left_out():
    changes = flag_changes(["a", "b"])
    assert changes == {
        OFF: {"a": False, "b": False},
        "only a": {"a": True, "b": False},
        "only b": {"a": False, "b": True},
        "without a": {"a": False, "b": True},
        "without b": {"a": True, "b": False},
        BUNDLE: {"a": True, "b": True},
    }
    assert list(flag_changes(["a"], singles=False, removals=False)) == [OFF, BUNDLE]
    with pytest.raises(ParameterError, match="has a window, and the mask flags are for full attention"):
        combo_study(find("serving_d64_sinks_sw127_ns64"), "Gluon")


@pytest.mark.parametrize(
    ("before", "inside", "verdict"),
    [
        (1.0, 1.1, "pays only in the bundle"),
        (1.01, 0.99, "neutral"),
        (1.1, 1.11, "pays alone"),
        (1.1, 1.2, "pays alone, and more in the bundle"),
        (1.1, 0.9, "costs"),
        (None, 1.1, ""),
    ],
)
def test_a_verdict_compares_both_gains(before, inside, verdict):
    assert Gain("flag", CYCLES, before, inside, "modelled").verdict == verdict


def test_the_mask_flags_take_mask_instructions_out_of_the_loop(study):
    masks = {name: study.value(name, "v_cmp and v_cndmask") for name in study.names}
    assert masks[BUNDLE] < masks[OFF]
    frame = bundle_frame(study, MASKS).set_index("figure").loc[CYCLES]
    assert frame["gain"] > 1.1
    assert frame["together"] == pytest.approx(frame["gain"] / frame["product"])
    saved, apart = vector_savings(study, MASKS)
    assert saved > 0
    assert apart > 0
    # of two flags, one left out is the other alone
    assert study.value(alone(MASKS[0]), CYCLES) == study.value(left_out(MASKS[1]), CYCLES)


def test_times_stand_beside_the_other_figures_where_a_gpu_took_them(study):
    timed = {}
    for place, (name, outcome) in enumerate(study.outcomes.items()):
        figures = [each for each in outcome.figures if each.figure != "time"]
        figures.append(Figure(name, "time", 5.0 + place, "us", "measured", "", "a GPU"))
        timed[name] = replace(outcome, figures=figures)
    line = bundle_frame(replace(study, outcomes=timed), MASKS).set_index("figure").loc["time"]
    assert (line["gain"], line["product"]) == (5 / 10, pytest.approx(5 / 6 * 5 / 7))
    assert line["evidence"] == "measured"


def test_tables_and_pictures(study, monkeypatch):
    monkeypatch.setitem(FLAGS, "Gluon", {f"use_{flag}": flag for flag in MASKS})
    assert len(flag_frame(study, "Gluon", (CYCLES,))) == 2
    assert views.gain_picture(study, "Gluon")._repr_png_()[0].startswith(b"\x89PNG")
    assert len(views.flag_table(study, "Gluon").rows) == 2
    assert len(views.bundle_table(study, "Gluon").rows) == 3
    whole = whole_kernel_frame(study)
    assert list(whole["mfma"]) == [16, 16, 16, 16]
    text = views.conclusion(study, study, exact_frame(study))
    assert "`transposed_mask_limit` (" in text
    assert "Nothing was emulated" in text
    assert "Only hardware can tell" in text
