"""Times of studies: kept by the report that took them, recalled where no GPU is, and told in words."""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from notebook_files import write_notebook

from workbench.device import load_device
from workbench.problem import DenseAttentionProblem
from workbench.records import Metric, Record, keep_records, read_records, write_records
from workbench.records.kept import FOLDER_VARIABLE
from workbench.report import run_report
from workbench.resources import data_path
from workbench.scenarios import find
from workbench.spec import DenseSpec
from workbench.studies import mask_split
from workbench.studies.addressing import static_variants
from workbench.studies.combo import combo_study
from workbench.studies.dense_lengths import LENGTHS, length_time_bullet, length_times
from workbench.studies.dense_levers import portable_studies, twin_bullet
from workbench.studies.fp8_cache import cache_variants
from workbench.studies.lever_study import spec_variants, study_variants
from workbench.studies.routing import Shape
from workbench.studies.split_kv import base_3d
from workbench.studies.timed_words import timed_bullet
from workbench.studies.unified_levers import time_note
from workbench.studies.window import window_study

PROBLEM = DenseAttentionProblem(1, 1, 1, 256, 512, 128)
SLOW, FAST = "lazy_rescale=false", "lazy_rescale=true"


def record_of(variant, microseconds, session="s", **speedups):
    metrics = {"max_abs_error": Metric(0.0, "1", "measured"), "tflops": Metric(5.0, "TFLOP/s", "measured")}
    metrics |= {"tbps": Metric(1.0, "TB/s", "measured")}
    metrics |= {name: Metric(value, "x", "measured") for name, value in speedups.items()}
    return Record(
        scenario="a problem", problem=variant.problem, lane="dense", status="ok", evidence="measured", backend="gpu",
        target="sm_90", environment={"device": "some GPU", "stored": "yes"}, candidate=variant.name, spec=variant.spec,
        samples=(microseconds,), metrics=metrics, session=session,
    )  # fmt: skip


@pytest.fixture
def variants():
    return spec_variants(PROBLEM, DenseSpec(), {SLOW: {"lazy_rescale": False}, FAST: {"lazy_rescale": True}})


@pytest.fixture
def stored(variants, monkeypatch):
    """Records of both variants, in place of those that come with the workbench."""
    name = f"speedup_over_{SLOW}/dense"
    speed = {name: 1.25, f"{name}_low": 1.2, f"{name}_high": 1.3}
    records = {SLOW: record_of(variants[0], 10.0), FAST: record_of(variants[1], 8.0, **speed)}
    monkeypatch.setattr("workbench.records.stored._study_records", lambda: tuple(records.values()))
    monkeypatch.setattr("workbench.device.detect_device", lambda: None)
    return records


def test_records_are_kept_in_the_folder_of_a_report_alone(variants, tmp_path, monkeypatch):
    record = record_of(variants[0], 10.0)
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    assert keep_records([record]) is None
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert keep_records([]) is None
    first, second = keep_records([record]), keep_records([record_of(variants[1], 8.0)])
    assert first == second == tmp_path / "records.parquet"
    assert [each.candidate for each in read_records(second)] == [SLOW, FAST]
    assert [path.name for path in tmp_path.iterdir()] == ["records.parquet"]


def test_records_of_many_threads_are_all_kept(variants, tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    record = record_of(variants[0], 10.0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: keep_records([record]), range(12)))
    assert len(read_records(tmp_path / "records.parquet")) == 12


def test_records_that_cannot_be_kept_are_named_and_stop_nothing(variants, tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    (tmp_path / "records.parquet").write_text("damaged")
    with pytest.warns(UserWarning, match="1 records were not kept"):
        assert keep_records([record_of(variants[0], 10.0)]) is None
    assert (tmp_path / "records.parquet").read_text() == "damaged"


def test_a_report_tells_its_kernel_where_records_go(variants, tmp_path):
    source = write_records([record_of(variants[0], 10.0)], tmp_path / "source.parquet")
    cell = (
        f"from workbench.records import keep_records, read_records\nprint(keep_records(read_records({str(source)!r})))"
    )
    result = run_report(str(write_notebook(tmp_path / "demo.ipynb", cell)), {}, tmp_path / "out", progress=False)
    printed = [out["text"] for each in nbformat.read(result.notebook, 4).cells for out in each.get("outputs", ())]
    assert result.records == result.path / "records.parquet"
    assert Path(printed[-1].strip()) == result.records.absolute()


@pytest.mark.usefixtures("stored")
def test_without_a_gpu_a_study_recalls_stored_times(variants):
    study = study_variants(variants, small=None)
    assert (study.value(SLOW, "time"), study.value(FAST, "time")) == (10.0, 8.0)
    assert study.find(FAST, "time").of == "some GPU (stored record), a problem"
    assert time_note(study) == "Times: some GPU (stored record)."
    assert timed_bullet(study, kernel="portable kernel") == (
        f"- Timed, the portable kernel: `{SLOW}` takes 10 us; times as long: `{FAST}` 0.8 [0.769, 0.833] "
        "(measured, some GPU (stored record), a problem)."
    )
    plain = study_variants(variants, small=None, timing=False)
    assert plain.value(FAST, "time") is None
    assert timed_bullet(plain) == ""
    told = study_variants(variants, small=None, timing="it has no such lever")
    assert time_note(told) == "No times: it has no such lever."


@pytest.mark.usefixtures("stored")
def test_a_variant_without_a_record_is_named(variants):
    more = spec_variants(PROBLEM, DenseSpec(), {"64 keys": {"block_n": 64}})
    study = study_variants([*variants, *more], small=None)
    assert time_note(study) == "Times: some GPU (stored record). No times of 64 keys: PyTorch sees no GPU here."


def test_times_of_one_session_go_together_and_failures_hide_none(variants, monkeypatch, stored):
    later = stored[FAST].with_changes(session="later", samples=(99.0,))
    failed = stored[SLOW].with_changes(
        status="runtime_error",
        message="no",
        samples=(),
        metrics={},
        environment={"gpu_arch": "gfx950", "stored": "yes"},
    )
    monkeypatch.setattr("workbench.records.stored._study_records", lambda: (*stored.values(), later, failed))
    study = study_variants(variants, small=None)
    assert (study.value(SLOW, "time"), study.value(FAST, "time")) == (10.0, 8.0)


def test_sessions_apart_have_no_interval(variants, monkeypatch, stored):
    longer = PROBLEM.with_changes(seqlen_kv=1024)
    (variant,) = spec_variants(longer, DenseSpec(), {FAST: {"lazy_rescale": True}})
    other = stored[FAST].with_changes(problem=longer, session="another", metrics=dict(stored[SLOW].metrics))
    monkeypatch.setattr("workbench.records.stored._study_records", lambda: (stored[SLOW], other))
    text = timed_bullet(study_variants([variants[0], variant], small=None))
    assert f"`{FAST}` 0.8 (measured" in text
    assert "small ratios say nothing" in text


def test_what_the_h200_timed_is_found_again_on_a_laptop(monkeypatch):
    """Specs that dispatch changes since then would leave the studies without their times."""
    monkeypatch.setattr("workbench.device.detect_device", lambda: None)
    chosen = find("dense_headline")
    for lever in ("transposed_pv", "block_n", "lazy_rescale", "grid"):
        assert "NVIDIA H200 (stored record)" in twin_bullet(portable_studies(chosen, lever, "auto")), lever
    assert portable_studies(chosen, "grid", "no") == []
    lengths = length_times(chosen)
    assert list(zip(lengths["aligned"], lengths["ragged"], strict=True)) == list(LENGTHS)
    assert " at 5,000 of 5,120" in length_time_bullet(lengths)
    split = mask_split.timed_frame([find("serving_d64_sinks_full_ns16")])
    assert list(split["hardware"]) == ["NVIDIA H200 (stored record)"]


STUDIES = {
    "addressing_64bit": lambda take: take(static_variants(tight("serving_d64_sinks_full_ns16"), 131_072)),
    "fp8_kv": lambda take: take(cache_variants(find("serving_d64_sinks_full_fp8kv").problem)),
    "combo_flags": lambda _: combo_study(find("serving_d64_sinks_full_ns16"), "portable"),
    "sliding_window": lambda _: window_study(find("serving_d64_sinks_sw127_ns64"), "portable", WINDOW_GEOMETRIES),
    "split_kv": lambda take: take(segment_variants()),
}
WINDOW_GEOMETRIES = [(4, 64), (2, 64), (1, 64), (4, 32), (2, 32), (2, 128)]


def tight(name):
    problem = find(name).problem
    return problem.with_changes(num_blocks=problem.blocks_needed)


def segment_variants():
    device = load_device("mi355x")
    problem = Shape(num_query_heads=64, num_kv_heads=8, head_size=128).problem(1, 8192)
    changes = {f"segments={count}": {"num_segments": count} for count in (1, 2, 4, 8, 16, 32, 64, 128)}
    changes["segments=8, fused"] = {"num_segments": 8, "fused_reduce": True}
    return spec_variants(problem, base_3d(problem, device), changes)


@pytest.mark.parametrize("name", STUDIES)
def test_every_stored_time_is_of_a_variant_that_its_study_still_has(name, monkeypatch):
    taken = []

    def take(variants, **_):
        taken.extend(variants)
        raise StopIteration

    for module in ("combo", "window", "unified_levers"):
        monkeypatch.setattr(f"workbench.studies.{module}.study_variants", take, raising=False)
    with contextlib.suppress(StopIteration):
        STUDIES[name](take)
    stored = read_records(data_path("measured", "h200", "studies", f"{name}.parquet"))
    variants = {(each.name, each.problem, each.spec) for each in taken}
    assert [each.candidate for each in stored if (each.candidate, each.problem, each.spec) not in variants] == []


def test_an_nvidia_gpu_is_not_asked_for_waves_per_eu(monkeypatch):
    from workbench.studies.waves import _why_no_lever

    monkeypatch.setattr("workbench.device.detect_device", lambda: load_device("h200"))
    assert "all values are one kernel there" in _why_no_lever()
    monkeypatch.setattr("workbench.device.detect_device", lambda: load_device("mi355x"))
    assert _why_no_lever() == ""
