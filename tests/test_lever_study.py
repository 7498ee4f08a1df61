"""Lever studies: every variant's figures in one frame, with the evidence of each, and what is made of them."""

from dataclasses import replace

import pytest

from workbench.device import load_device
from workbench.errors import ParameterError
from workbench.levers import find_kernel
from workbench.problem import DenseAttentionProblem
from workbench.records import EVIDENCE_KINDS, Metric, Record
from workbench.spec import DenseSpec
from workbench.spec_gfx950 import Gfx950DenseSpec
from workbench.studies.lever_figures import WITH_CONFLICTS, emulated_figures, measured_figures
from workbench.studies.lever_study import (
    Variant,
    emulate_checked,
    lever_variants,
    spec_variants,
    study_variants,
    why_not_timed,
)
from workbench.studies.lever_views import (
    check_text,
    figure_table,
    lever_card,
    observed_speedup,
    prediction_table,
    predictions,
    ratio_plot,
)

PROBLEM = DenseAttentionProblem(1, 1, 1, 256, 512, 128)
BASE = Gfx950DenseSpec(wide_lds_dma=True, grid="default")
OFF, ON = "lds_v_pad=0", "lds_v_pad=32"


@pytest.fixture(scope="module")
def study():
    variants = lever_variants("gfx950-dense", PROBLEM, "lds_v_pad", [0, 32], base=BASE)
    refused = spec_variants(PROBLEM, BASE, {"block_n=32": {"block_n": 32}})
    return study_variants([*variants, *refused], published=["lds_v_pad"], small=lambda problem: problem)


def test_the_frame_has_a_line_per_variant_and_figure_each_with_its_evidence(study):
    frame = study.frame()
    assert list(frame.columns) == ["variant", "figure", "value", "unit", "evidence", "text", "of"]
    own = frame[frame["evidence"] != "published"]
    assert not own.duplicated(["variant", "figure"]).any()
    assert set(frame["evidence"]) == set(EVIDENCE_KINDS)
    assert frame[frame["value"].isna()]["text"].str.len().min() > 0
    published = frame[frame["evidence"] == "published"]
    assert set(published["of"]) == {"MI355X, dense"}
    counts = published[published["figure"] == "LDS bank conflicts of the V read"]
    assert list(counts["value"]) == [30, 29, 11, 0]


def test_figures_follow_the_lever_and_every_variant_is_checked(study):
    assert [study.value(name, "correct") for name in (OFF, ON)] == [1, 1]
    assert study.value(ON, "LDS conflict cycles, V read") == 0 < study.value(OFF, "LDS conflict cycles, V read")
    assert study.value(ON, "LDS") - study.value(OFF, "LDS") == 2 * 16 * 64 - 2 * 32
    assert study.value(OFF, "MFMA") == study.value(ON, "MFMA") == 32
    assert study.over_baseline(ON, f"cycles per 64 keys{WITH_CONFLICTS}") > 1.05
    assert study.over_baseline(ON, "MFMA busy cycles") == 1


def test_a_variant_runs_once_on_the_emulator(study):
    hits = emulate_checked.cache_info().hits
    outcome = study.outcomes[ON]
    again = emulate_checked(PROBLEM, outcome.variant.spec, "dense", study.triton_version, 0)
    assert again is outcome.emulated
    assert emulate_checked.cache_info().hits == hits + 1


def test_what_cannot_be_built_is_told_with_its_reason(study):
    assert study.names == (OFF, ON)
    refused = study.outcomes["block_n=32"]
    assert refused.status == "unsupported"
    assert "needs block_n 64 or more" in refused.message
    table = figure_table(study)
    assert "block_n=32: cluster halves the tile" in table.caption
    assert "No times: " in table.caption


def test_a_wrong_output_shows(study):
    emulated = study.outcomes[ON].emulated
    wrong = replace(emulated.comparison, ok=False)
    figures = emulated_figures(ON, emulated.launches, wrong, "")
    assert next(figure.value for figure in figures if figure.figure == "correct") == 0
    outcome = replace(study.outcomes[ON], emulated=replace(emulated, comparison=wrong), figures=figures)
    spoilt = replace(study, outcomes={**study.outcomes, ON: outcome})
    assert f"**wrong: {ON}**" in check_text(spoilt)
    row = next(row for row in figure_table(spoilt).rows if row[0].text == "correct")
    assert [cell.text for cell in row[3:5]] == ["right", "wrong"]


def test_predictions_stand_beside_what_was_published(study):
    seen = observed_speedup(study, ON)
    assert (seen.value, seen.evidence) == (1.05, "published")
    assert seen.of.startswith("MI355X")
    rows = {row.figure: row for row in predictions(study, ON)}
    bound = rows[f"cycles per 64 keys{WITH_CONFLICTS}"]
    assert bound.gap == pytest.approx(bound.predicted.value / 1.05 - 1)
    assert "less was gained" in bound.meaning
    assert "more was gained" in rows["wave-instructions"].meaning
    assert "published" in repr(prediction_table(list(rows.values())))


def test_a_time_measured_here_goes_before_a_published_one(study):
    times = {OFF: (12.0, 12.5), ON: (10.0, 10.0)}
    outcomes = dict(study.outcomes)
    for name, samples in times.items():
        metrics = {"max_abs_error": Metric(0.0, "1", "measured"), "tflops": Metric(5.0, "TFLOP/s", "measured")}
        metrics |= {"tbps": Metric(1.0, "TB/s", "measured"), f"speedup_over_{OFF}/dense": Metric(1.2, "x", "measured")}
        record = Record(
            scenario="a problem", problem=PROBLEM, lane="dense", status="ok", evidence="measured", backend="gpu",
            target="gfx950", environment={"device": "some GPU"}, candidate=name, samples=samples, metrics=metrics,
        )  # fmt: skip
        found = measured_figures(name, record)
        assert [figure.value for figure in found] == [sum(samples) / 2, 5.0, 1.0]
        outcomes[name] = replace(outcomes[name], record=record)
    seen = observed_speedup(replace(study, outcomes=outcomes), ON)
    assert (seen.value, seen.evidence, seen.of) == (1.2, "measured", "some GPU")


def test_only_a_gpu_of_the_kernels_kind_is_asked_for_times(monkeypatch):
    monkeypatch.setattr("workbench.device.detect_device", lambda: load_device("h200"))
    assert "the kernel is for gfx950; here is NVIDIA H200" in why_not_timed(BASE)
    assert why_not_timed(DenseSpec()) == ""
    assert why_not_timed(DenseSpec(), timing=False) == "timing was not asked for"
    monkeypatch.setattr("workbench.device.detect_device", lambda: None)
    assert why_not_timed(DenseSpec()) == "PyTorch sees no GPU here"


def test_pictures_and_the_lever_itself(study):
    picture = ratio_plot(study, "pads")
    assert f"{OFF} over the others" in picture.alt
    assert picture._repr_png_()[0].startswith(b"\x89PNG")
    assert "written for gfx950" in repr(lever_card(find_kernel("gfx950-dense"), "lds_v_pad"))


def test_two_variants_of_one_name_are_refused():
    variant = Variant("one", PROBLEM, BASE)
    with pytest.raises(ParameterError, match="different names"):
        study_variants([variant, variant])
