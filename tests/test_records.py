import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workbench.errors import RecordError
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.records import Metric, Record, check_new_file, read_records, to_frame, write_records
from workbench.spec import DenseSpec, Unified3DSpec

PROBLEM = UnifiedAttentionProblem(
    seq_lens=((1, 33), (7, 40)), num_query_heads=10, num_kv_heads=2, head_size=64, block_size=16, use_qq_bias=True
)
ERROR = Metric(1.5e-4, "1", "measured")
TIME = Metric(12.5, "us", "measured")


def record(**changes):
    facts = {
        "scenario": "ragged",
        "problem": PROBLEM,
        "lane": "auto",
        "path": "3d",
        "spec": Unified3DSpec(num_segments=8),
        "status": "ok",
        "evidence": "measured",
        "backend": "gpu",
        "target": "sm_90",
        "environment": {"device": "NVIDIA H200", "torch": "2.11"},
        "samples": (12.4, 12.5, 12.6),
        "metrics": {"max_abs_error": ERROR, "time": TIME},
        "worst_index": (3, 9, 63),
        "reasons": ("3D: long",),
        "session": "abc",
    }
    return Record(**{**facts, **changes})


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"status": "wrong", "message": "off", "samples": ()}, "only status 'ok' may carry performance"),
        ({"status": "wrong", "message": "off", "metrics": {"max_abs_error": ERROR}}, "only status 'ok'"),
        ({"samples": ()}, "raw samples"),
        ({"metrics": {"time": TIME}}, "correctness pass"),
        ({"samples": (12.4, 0.0)}, "finite and positive"),
        ({"metrics": {"max_abs_error": Metric(float("nan"), "1", "measured")}}, "finite numbers"),
        ({"status": "skipped", "samples": (), "metrics": {}}, "needs a message"),
        ({"environment": {}}, "needs its environment"),
        ({"status": "fine"}, "status must be one of ok, wrong"),
        ({"evidence": "guessed"}, "evidence must be one of measured"),
        ({"lane": "dense"}, "does not fit a UnifiedAttentionProblem"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(changes, complaint):
    with pytest.raises(RecordError, match=complaint):
        record(**changes)


def test_a_metric_needs_unit_and_evidence():
    with pytest.raises(RecordError, match="unit"):
        Metric(1.0, "", "measured")
    with pytest.raises(RecordError, match="evidence"):
        Metric(1.0, "us", "")


def test_a_modelled_time_needs_no_samples_and_a_wrong_output_may_have_nan_errors():
    modelled = record(samples=(), metrics={"time": Metric(9.0, "us", "modelled")}, evidence="modelled")
    assert modelled.value("time") == 9.0
    nan = {"max_abs_error": Metric(float("nan"), "1", "measured")}
    assert record(status="wrong", message="NaN", samples=(), metrics=nan).failed


def test_records_survive_parquet(tmp_path):
    dense = record(
        problem=DenseAttentionProblem(1, 40, 8, 100, 90, 128, alignment="top_left"),
        lane="dense",
        path="dense",
        spec=DenseSpec(block_m=64),
        samples=(),
        metrics={},
    )
    failed = record(status="runtime_error", message="out of memory", samples=(), metrics={}, spec=None, path=None)
    written = [record(), dense, failed]
    assert read_records(write_records(written, tmp_path / "deep" / "records.parquet")) == written


def test_a_record_file_is_never_overwritten(tmp_path):
    path = write_records([record()], tmp_path / "records.parquet")
    before = path.read_bytes()
    with pytest.raises(RecordError, match="never overwritten"):
        write_records([], path)
    assert path.read_bytes() == before


def test_what_could_not_be_kept_is_refused_before_it_is_measured(tmp_path, monkeypatch):
    (tmp_path / "text").write_text("mine")
    with pytest.raises(RecordError, match="it is no folder; give a file in another folder"):
        check_new_file(tmp_path / "text" / "records.parquet")
    check_new_file(tmp_path / "deep" / "er" / "records.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["text"]
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(RecordError, match="this user may not write"):
        check_new_file(tmp_path / "deep" / "records.parquet")


def test_foreign_files_are_refused_by_name(tmp_path):
    with pytest.raises(RecordError, match="no record file"):
        read_records(tmp_path / "none.parquet")
    text = tmp_path / "text.parquet"
    text.write_text("scenario,time\n")
    with pytest.raises(RecordError, match="not a Parquet file"):
        read_records(text)
    foreign = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"scenario": ["x"]}), foreign)
    with pytest.raises(RecordError, match="schema version none"):
        read_records(foreign)


def test_a_contradiction_in_a_file_is_refused(tmp_path):
    path = write_records([record()], tmp_path / "records.parquet")
    table = pq.read_table(path)
    wrong = table.set_column(table.schema.get_field_index("status"), "status", [pa.array(["wrong"])])
    pq.write_table(wrong, tmp_path / "edited.parquet")
    with pytest.raises(RecordError, match="malformed record"):
        read_records(tmp_path / "edited.parquet")


def test_frame_keeps_kinds_of_evidence_apart():
    modelled = record(samples=(), metrics={"time": Metric(9.0, "us", "modelled")})
    frame = to_frame([record(), modelled])
    assert frame["time [us, measured]"].tolist()[0] == 12.5
    assert frame["time [us, modelled]"].tolist()[1] == 9.0
    assert frame["device"].tolist() == ["NVIDIA H200"] * 2
