"""Tables, verdict and pictures, from records made by hand."""

from dataclasses import replace

import pytest
import torch

from workbench.parity.baselines import BASELINES
from workbench.parity.candidate import Failure
from workbench.parity.entrant import Entrant
from workbench.parity.plots import error_plot, ratio_plot
from workbench.parity.recording import AGAIN, Session, entrant_record, skipped_record
from workbench.parity.summary import conditions, key_figure, only_hardware, verdict
from workbench.parity.tables import baseline_table, failure_table, lane_table, scenario_table
from workbench.parity.timing import TimingPlan
from workbench.problem import UnifiedAttentionProblem
from workbench.scenarios import load_set
from workbench.spec import Unified2DSpec
from workbench.tolerance import Comparison

PROBLEM = UnifiedAttentionProblem(
    seq_lens=((1, 4096),), num_query_heads=16, num_kv_heads=2, head_size=128, block_size=16
)
RIGHT = Comparison(True, 3e-4, 2e-5, (0, 3, 17), 2e-4, 4e-4, 0.1, 0.2, 0, 0)


class Judged(Entrant):
    """An entrant whose verdict is given."""

    def __init__(self, name, lane, verdict):
        super().__init__(name, lane)
        self.verdicts = [verdict]
        self.backend = "interpreter"
        self.path, self.spec, self.reasons = "2d", Unified2DSpec(tile_size=32), ("2D: <short>.", "Cohort x.")

    def _run(self, trials):
        raise AssertionError

    rotate = calls = poison = read = _run


@pytest.fixture
def timed(monkeypatch):
    """Two lanes and two baselines of one session; aiter is twice as slow as auto, sdpa half as slow as 2d."""
    facts = {"device": "Some <GPU>", "gpu_arch": "gfx000"}
    monkeypatch.setattr("workbench.parity.recording.environment_facts", lambda: facts)
    session = Session("decode", PROBLEM, torch.device("cuda"), "s", TimingPlan())
    samples = {
        "workbench/auto": (10.0, 20.0),
        "workbench/2d": (30.0, 60.0),
        "aiter/auto": (20.0, 40.0),
        "aiter/2d": (33.0, 66.0),
        "sdpa/auto": (15.0, 30.0),
        AGAIN: (10.1, 20.2),
    }
    keys = [key.split("/") for key in samples if key != AGAIN]
    records = [entrant_record(session, Judged(name, lane, RIGHT), samples, {}) for name, lane in keys]
    return [*records, skipped_record(session, BASELINES["vllm"], "auto", "vllm is not here")]


@pytest.fixture
def failed():
    session = Session("<b>decode", PROBLEM, torch.device("cpu"), "s", None)
    entrants = [Judged("workbench", "auto", RIGHT), Judged("workbench", "3d", Failure("runtime_error", "a < b"))]
    return [entrant_record(session, entrant, {}, {}) for entrant in entrants]


def test_a_timed_table_compares_in_the_same_lane(timed):
    text = repr(lane_table(timed, "auto"))
    assert "vs aiter" in text
    assert "vs sdpa" in text
    assert "2.00x [2.00, 2.00]" in text
    assert "15.0 us" in text
    assert "measured on Some <GPU>" in text
    row = repr(lane_table(timed, "2d")).splitlines()[1]
    assert "1.10x" in row
    assert "0.67x" not in row.split("1.10x")[0]


def test_rates_follow_from_the_median_and_the_noise_is_told(timed):
    auto = timed[0]
    assert auto.value("tbps") == pytest.approx(auto.value("bytes") / 15.0 * 1e-6)
    assert auto.metrics["tbps"].evidence == "measured"
    assert auto.metrics["flops"].evidence == "static"
    assert "differs by 1.0 %" in conditions(timed, ())
    assert "speedup_over_again" not in timed[1].metrics


def test_untimed_tables_say_that_times_are_not_measured(failed):
    table = lane_table(failed, "auto")
    assert "Times: not measured." in repr(table)
    assert "emulated by Triton's interpreter" in repr(table)
    machine_code = [replace(record, backend="emulator") for record in failed]
    assert "emulated by the gfx950 emulator" in repr(lane_table(machine_code, "auto"))
    assert "Times are not measured" in conditions(failed, ())


def test_failures_come_first_and_text_is_escaped(failed):
    assert verdict(failed).startswith("## 0 of 1 scenarios pass in all admitted lanes")
    assert "**1 failed**: <b>decode (3d)" in verdict(failed)
    html = failure_table(failed)._repr_html_()
    assert "&lt;b&gt;decode" in html
    assert "a &lt; b" in html
    assert "runtime_error" in html


def test_a_lane_that_a_kernel_does_not_admit_is_no_failure():
    session = Session("decode", PROBLEM, torch.device("cpu"), "s", None)
    refused = entrant_record(session, Judged("workbench", "3d", Failure("unsupported", "no 3d")), {}, {})
    right = entrant_record(session, Judged("workbench", "2d", RIGHT), {}, {})
    assert verdict([right, refused]).startswith("## 1 of 1 scenarios pass")
    assert "1 not admitted" in verdict([right, refused])
    assert key_figure([right, refused])["value"] == 1


def test_a_missing_baseline_is_a_row_that_says_so(timed):
    html = baseline_table(timed)._repr_html_()
    assert "vllm is not here" in html
    assert "not run" in html
    assert "2.00x over 1 (measured)" in html


def test_small_sizes_are_told():
    scenarios = load_set("default", "small")
    assert "Sizes are `small`" in conditions([], scenarios)
    assert "full size" in repr(scenario_table(scenarios))
    assert "full size" not in repr(scenario_table(load_set("default", "full")))


def test_what_only_hardware_can_tell_depends_on_what_ran(timed, failed):
    assert "Only hardware can tell" in only_hardware(failed)
    assert "Some <GPU>'s" in only_hardware(timed)


def test_pictures_are_png(timed, failed):
    for picture in (error_plot(timed), error_plot(failed), ratio_plot(timed)):
        data, metadata = picture._repr_png_()
        assert data.startswith(b"\x89PNG")
        assert metadata["alt"]
