import contextlib
import threading
import time
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import pytest
import torch
from fake_explorer import FakeCompiler, FakeSlow
from fake_timer import FakeTimer

import workbench
from workbench.compiler import pool, protocol
from workbench.errors import CompileError, ParameterError, ProblemError, UnsupportedError
from workbench.explorer import State
from workbench.explorer.answer import Answer
from workbench.explorer.code import command_line, python_code
from workbench.explorer.compiler import WarmCompiler
from workbench.explorer.helper import Helper
from workbench.explorer.html import result_html, status_html
from workbench.explorer.jobs import measure
from workbench.explorer.key_figures import key_figures
from workbench.explorer.neighbours import Coming, likely_next, neighbours
from workbench.explorer.plan import kernels_for, make_plan
from workbench.explorer.problem_edits import edit_problem, spell_value
from workbench.explorer.session import Session, threads_ahead
from workbench.explorer.tables import only_differences, tables, tables_beside
from workbench.inspection.sections import EVERY_BLOCK, SKIPPED
from workbench.report.find import describe_notebook, find_notebook
from workbench.report.suite_plan import choose_notebooks
from workbench.scenarios import find

DENSE = State("dense_headline")
DECODE = State("decode_d128_b16")


@pytest.fixture
def session():
    made = Session(lambda side: None, ahead=False, compiler=FakeCompiler(), slow=FakeSlow())
    yield made
    made.close()


def lds_of(session, side):
    return session.answers[side].compiled.lds_bytes


def reach_emulation(session, side="A"):
    wait_for(session, lambda: side in session._slow.jobs)


def wait_for(session, condition):
    with session._idle:
        assert session._idle.wait_for(condition, 10)


class TestPlan:
    def test_an_edit_lets_derived_fields_follow(self):
        problem = find("decode_d128_b16").problem
        edited = edit_problem(problem, (("head_size", "64"), ("seq_lens", "[[1, 700], [1, 16, 3]]"), ("softcap", "30")))
        assert edited.softmax_scale == 64**-0.5
        assert edited.seq_lens == ((1, 700), (1, 16), (1, 16), (1, 16))
        assert (edited.softcap, edited.num_blocks) == (30.0, edited.blocks_needed)
        assert edit_problem(edited, (("seq_lens", spell_value(edited.seq_lens)),)).seq_lens == edited.seq_lens

    @pytest.mark.parametrize(
        ("name", "text", "complaint"),
        [
            ("seq_lens", "[[1, 2, 3, 4]]", "in a list"),
            ("seq_lens", "[1]", "in a list"),
            ("head_size", "wide", "an integer"),
            ("dtype", "int8", "bf16"),
            ("colour", "red", "it has seq_lens"),
        ],
    )
    def test_an_edit_that_cannot_be_says_what_is_accepted(self, name, text, complaint):
        with pytest.raises(ProblemError, match=complaint):
            edit_problem(find("decode_d128_b16").problem, ((name, text),))

    def test_dispatch_gives_lane_spec_and_reasons(self):
        plan = make_plan(DECODE)
        assert (plan.lane, plan.spec) == ("3d", plan.base)
        assert any(reason.startswith("3D: 4 query blocks") for reason in plan.reasons)
        assert plan.launches[0].grid[2] == plan.spec.num_segments

    def test_a_kernel_that_dispatch_does_not_take_has_its_defaults(self):
        plan = make_plan(DECODE.with_choice(kernel="gfx950-unified-2d"))
        assert plan.lane == "2d"
        assert plan.spec == workbench.Gfx950Unified2DSpec()
        with pytest.raises(ParameterError, match="does not serve a UnifiedAttentionProblem"):
            make_plan(DECODE.with_choice(kernel="gfx950-dense"))

    def test_levers_that_exclude_each_other_leave_the_rest_standing(self):
        plan = make_plan(DENSE.with_changes({"block_n": "32"}))
        assert plan.spec is None
        assert "cluster halves the tile" in plan.error
        (field,) = [field for field in plan.spec_fields if field.name == "block_n"]
        assert (field.value, field.base, field.is_changed) == ("32", "64", True)
        assert {"32", "64", "128"} <= set(field.options)

    def test_every_field_of_a_spec_has_a_control_and_registered_ones_an_explanation(self):
        for kernel in (*kernels_for(find("decode_d128_b16").problem), *kernels_for(find("dense_headline").problem)):
            scenario = DENSE if kernel.lane == "dense" else DECODE
            plan = make_plan(scenario.with_choice(kernel=kernel.kernel))
            assert {field.name for field in plan.spec_fields} == set(plan.base.__dataclass_fields__)
            assert all(field.help for field in plan.spec_fields if field.group == "levers")
            for field in plan.spec_fields:
                assert field.kind == "switch" or field.value in field.options

    def test_neighbours_change_one_lever_each(self):
        plan = make_plan(DENSE)
        changed = [dict(request.constexprs) for request in islice(neighbours(plan), 22)]
        base = dict(plan.requests[0].constexprs)
        assert sum(each["CLUSTER"] != base["CLUSTER"] for each in changed) == 1
        assert {each["K_PAD"] for each in changed} == {0, 8, 16, 32}

    def test_what_may_come_next_has_switches_and_nearest_values_first_and_the_way_back_too(self):
        plan, before = make_plan(DENSE.with_changes({"setprio": "false"})), make_plan(DENSE)
        first = list(islice(neighbours(plan), 12))
        base = dict(plan.requests[0].constexprs)
        pads = [dict(request.constexprs)["K_PAD"] for request in first]
        assert [pad for pad in pads if pad != base["K_PAD"]] in ([0], [16])
        assert before.requests[0] in first
        together = list(islice(likely_next(plan, before), 8))
        assert (together[::2], together[1::2]) == (first[:4], list(islice(neighbours(before), 4)))

    def test_neighbours_reach_the_problem_and_are_what_a_click_compiles(self):
        found = set(neighbours(make_plan(DENSE)))
        for state in (DENSE.with_edits({"causal": "false"}), DENSE.with_changes({"exp2_fast": "false"})):
            assert make_plan(state).requests[0] in found

    def test_requests_that_are_shared_are_given_out_once(self):
        coming = Coming(neighbours(make_plan(DENSE)), neighbours(make_plan(DENSE)))
        given = list(iter(coming.next, None))
        assert len(given) == len(set(given)) > 20

    @pytest.mark.parametrize("state", [DENSE.with_changes({"lds_k_pad": "0"}), DECODE.with_edits({"head_size": "64"})])
    def test_the_exported_code_builds_the_same_problem_and_spec(self, state):
        plan = make_plan(state)
        found = {}
        exec(python_code(plan).partition("# device")[0].partition("inputs =")[0], found)  # noqa: S102
        assert (found["problem"], found["spec"]) == (plan.problem, plan.spec)

    def test_the_command_names_what_was_changed(self):
        line = command_line(make_plan(DENSE.with_changes({"lds_k_pad": "0", "cluster": "off"})))
        assert line == "workbench inspect --scenario dense_headline --spec cluster=false --spec lds_k_pad=0"
        assert command_line(make_plan(DECODE.with_edits({"head_size": "64"}))) == ""


class TestSession:
    def test_a_side_is_answered_at_once_then_by_the_compiler_then_by_the_emulator(self, session):
        answer = session.set("A", DENSE)
        assert answer.plan.launches[0].grid == (256, 1, 1)
        assert answer.code == "working"
        reach_emulation(session)
        assert session.answers["A"].code == "done"
        assert session.answers["A"].inspection.occupancy.num_warps == 8
        name, (problem, spec, lane, _), done = session._slow.jobs["A"]
        assert (name, lane, spec, problem.num_kv_heads) == ("emulate", "dense", answer.plan.spec, 1)
        done({"conflicts_k": 5, "conflicts_v": 0, "conflicts_other": 0})
        assert session.wait()
        assert session.answers["A"].facts["conflicts_k"] == 5

    def test_a_closed_explorer_waits_for_nothing_and_says_what_to_do(self, session):
        session.set("A", DENSE)
        session.close()
        assert session.wait(0.1)
        with pytest.raises(UnsupportedError, match="run its cell again"):
            session.set("A", DENSE)

    def test_the_latest_change_wins(self, session):
        session._compiler.hold.clear()
        session.set("A", DENSE.with_changes({"lds_k_pad": "16"}))
        session.set("A", DENSE.with_changes({"lds_k_pad": "32"}))
        session._compiler.hold.set()
        reach_emulation(session)
        assert lds_of(session, "A") == 32 * 1024
        assert session._slow.jobs["A"][1][1].lds_k_pad == 32

    def test_an_emulation_that_a_change_overtook_is_not_shown(self, session):
        session.set("A", DENSE)
        reach_emulation(session)
        late = session._slow.jobs["A"][2]
        session.set("A", DENSE.with_changes({"lds_k_pad": "0"}))
        late({"conflicts_k": 1, "conflicts_v": 1, "conflicts_other": 1})
        assert session.answers["A"].conflicts == {}

    def test_a_change_does_not_wait_for_the_emulators_kernels(self, session, monkeypatch):
        released = threading.Event()
        monkeypatch.setattr(session, "_small_requests", lambda plan, problem: released.wait(10) and plan.requests)
        for pad in ("0", "8", "16", "32", "0"):
            session.set("A", DENSE.with_changes({"lds_k_pad": pad}))
            wait_for(session, lambda: session.answers["A"].code == "done")
        released.set()

    def test_errors_become_part_of_the_answer(self, session):
        assert "at least one" in session.set("A", DECODE.with_edits({"seq_lens": "[]"})).error
        assert "cluster halves" in session.set("A", DENSE.with_changes({"block_n": "32"})).error
        session._compiler.kernel = lambda request: workbench.errors.CompileError("no such <pass>")
        session.set("A", DENSE)
        assert session.wait()
        assert session.answers["A"].code == "failed"
        assert "no such &lt;pass&gt;" in status_html(session.answers["A"])
        assert result_html([session.answers["A"]])

    def test_a_failed_emulation_says_why(self, session):
        session.set("A", DENSE)
        reach_emulation(session)
        session._slow.jobs["A"][2](protocol.Failure("EmulationError: v_strange"))
        assert "v_strange" in status_html(session.answers["A"])

    def test_the_bound_is_shown_with_and_without_blocks_that_are_voted_away_as_the_tables_have_it(self, session):
        session.set("A", DENSE)
        reach_emulation(session)
        answer = session.answers["A"]
        budget = next(section for section in tables(answer) if section.title.startswith("Issue budget"))
        rows = {row.label: row.values[0] for row in budget.rows}
        cards = {figure.title: figure.value for figure in key_figures(answer)}
        whole, skipping = (f"MFMA efficiency, at most, {counted}" for counted in (EVERY_BLOCK, SKIPPED))
        assert rows[whole] == cards[whole] == answer.inspection.budget.mfma_efficiency
        assert cards[skipping] == answer.facts["voted"]

    def test_two_sides_mark_what_differs(self, session):
        session.set("A", DENSE)
        session.set("B", DENSE.with_changes({"lds_k_pad": "32"}))
        reach_emulation(session, "A")
        reach_emulation(session, "B")
        sections = only_differences(tables_beside(session.answers["A"], session.answers["B"]))
        rows = {row.label: row.values for section in sections for row in section.rows}
        assert rows["lds_k_pad"] == ("8", "32", "differs")
        assert rows["LDS, all bytes"] == (8192, 32768, "+24576")
        assert "VGPRs reserved" not in rows
        page = result_html([session.answers["A"], session.answers["B"]])
        assert '<tr class="differs"><td>lds_k_pad' in page
        assert '<tr class="differs"><td>VGPRs reserved' not in page

    def test_what_needs_no_machine_code_is_current_while_it_compiles(self, session):
        session.set("A", DENSE)
        reach_emulation(session)
        session._compiler.hold.clear()
        answer = session.set("A", DENSE.with_changes({"lds_k_pad": "32"}))
        page = result_html([answer])
        assert f"<td>LDS by the spec, bytes</td><td>{answer.plan.spec.lds_bytes(128)}</td>" in page
        assert "<div><h4>Geometry" in page
        assert '<div class="stale"><h4>Resources' in page
        assert "compiling …" in page
        session._compiler.hold.set()
        reach_emulation(session)
        assert 'class="stale"' not in result_html([session.answers["A"]]).partition("cards")[0]
        assert '<div class="stale"><h4>' not in result_html([session.answers["A"]])

    def test_idle_time_goes_to_the_side_that_changed_last(self, session, monkeypatch):
        def endless(plan, *before):
            return (replace(plan.requests[0], constexprs={"N": number + len(before)}) for number in count())

        monkeypatch.setattr("workbench.explorer.session.likely_next", endless)
        session.ahead, compiler = True, session._compiler
        session.set("A", DENSE)
        reach_emulation(session)
        session.set("B", DENSE.with_changes({"setprio": "false"}))
        reach_emulation(session, "B")
        # Its threads came to B although A's neighbours have no end.
        requests = [session.answers[side].plan.requests[0] for side in ("A", "B")]
        for _ in range(1000):
            if compiler.loaded == requests:
                break
            time.sleep(0.01)
        assert compiler.loaded == requests
        assert compiler.started == ["gfx950", "gfx950"]

    def test_an_error_that_nobody_foresaw_is_shown_too(self, session):
        session._compiler.kernel = lambda request: 1 // 0
        session.set("A", DENSE)
        assert session.wait(10)
        assert "ZeroDivisionError" in status_html(session.answers["A"])

    def test_an_error_that_nobody_foresaw_ends_the_emulation_too(self, session, monkeypatch):
        monkeypatch.setattr(session, "_small_requests", lambda plan, problem: 1 // 0)
        session.set("A", DENSE)
        assert session.wait(10)
        assert "ZeroDivisionError" in status_html(session.answers["A"])

    @pytest.mark.parametrize("end", ["drop", "refuse", "fail"])
    def test_idle_time_goes_to_the_other_side_where_there_is_no_code(self, session, end):
        session.set("A", DENSE)
        reach_emulation(session)
        if end == "fail":
            session._compiler.kernel = lambda request: CompileError("no such pass")
        session.set("B", DENSE.with_changes({"setprio": "false"}))
        wait_for(session, lambda: session.answers["B"].code != "working")
        if end == "refuse":
            session.set("B", DENSE.with_changes({"block_n": "32"}))
        elif end == "drop":
            session.drop("B")
        wait_for(session, lambda: not session._busy)
        session._ready.submit(lambda: None).result(10)
        assert session._last_changed == "A"
        assert session._compiler.loaded[-1] == session.answers["A"].plan.requests[0]
        assert session._compiler.loaded.count(session._compiler.loaded[-1]) == 2

    def test_a_kernel_that_cannot_be_compiled_ahead_does_not_end_the_rest(self, session):
        asked = []

        def refuse(requests, *, gives_way):
            assert gives_way
            asked.extend(requests)
            raise ParameterError("no")

        session.ahead, session._last_changed, session._compiler.compile = True, "A", refuse
        session._compile_ahead("A", 0, Coming([1, 2, 3]))
        assert asked == [1, 2, 3]


class TestTiming:
    """What the button does; the GPU is made up."""

    STATE = State("dense_headline", kernel="dense").with_edits(
        {"batch": "1", "num_query_heads": "2", "num_kv_heads": "1", "seqlen_q": "16", "seqlen_kv": "32"}
    )

    def test_without_a_gpu_it_says_what_is_missing(self, session, monkeypatch):
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
        session.set("A", DENSE)
        reach_emulation(session)
        session.measure()
        answer = session.answers["A"]
        assert answer.timing == "failed"
        assert answer.time_note.startswith(f"PyTorch {torch.__version__} sees no GPU")
        assert answer.time_note.endswith("takes an AMD Instinct MI355X (gfx950)")
        assert answer.time_note in status_html(answer)

    def test_sides_of_one_problem_are_timed_together_after_a_check(self, session, monkeypatch):
        monkeypatch.setattr("workbench.explorer.session.why_not_timed", lambda plan: "")
        session.set("A", self.STATE)
        session.set("B", self.STATE.with_changes({"num_warps": "8"}))
        for side in ("A", "B"):
            reach_emulation(session, side)
        session.measure()
        name, arguments, done = session._slow.jobs["time A"]
        assert name == "measure"
        assert "time A" in pool._turns._awaited
        done(measure(*arguments, timer=FakeTimer({"A/dense": 80.0, "B/dense": 50.0})))
        assert "time A" not in pool._turns._awaited
        times = [session.answers[side].time for side in ("A", "B")]
        assert [round(time["median_us"]) for time in times] == [80, 50]
        assert times[0]["rounds"] == times[1]["rounds"] > 1
        assert "Time <span" in result_html([session.answers["B"]])

    def test_a_kernel_that_fails_its_check_gets_no_time(self, session):
        session.set("A", self.STATE)
        reach_emulation(session)
        session._timed({"A": {"note": "wrong: NaN"}}, {"A": 1}, contextlib.ExitStack())
        assert (session.answers["A"].timing, session.answers["A"].time_note) == ("failed", "wrong: NaN")


class Sleep:
    """What a process that reads it sleeps over."""

    def __reduce__(self):
        return time.sleep, (0.2,)


def state_of(process):
    """The letter of /proc: T for one that is stopped."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2][0]


def wait_until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class TestHelper:
    def test_a_cancelled_job_stands_still_until_there_is_another(self, monkeypatch):
        monkeypatch.setattr("workbench.explorer.helper.GRACE_SECONDS", 60.0)
        helper, replies, done = Helper(), [], threading.Event()
        with contextlib.closing(helper):
            helper.submit("A", "emulate", (Sleep(),), replies.append)
            wait_until(lambda: helper._running and helper._process)
            process, job = helper._process, helper._running
            helper.cancel("A")
            wait_until(lambda: state_of(process) == "T")
            helper.submit("B", "no such job", (), replies.append)
            wait_until(lambda: state_of(process) != "T")
            helper.cancel("B")
            wait_until(lambda: state_of(process) == "T")
            # The time that it had for B's sake is over, but B has gone.
            helper._lose_patience(job)
            helper.submit("A", "no such job", (), lambda reply: (replies.append(reply), done.set()))
            assert done.wait(30)
            assert helper._process is process
        assert ["no such job" in reply.reason for reply in replies] == [True]

    def test_a_job_that_is_overtaken_is_stopped_and_the_next_one_runs(self, monkeypatch):
        monkeypatch.setattr("workbench.explorer.helper.GRACE_SECONDS", 0.0)
        helper, done, replies = Helper(), threading.Event(), []
        with contextlib.closing(helper):
            helper.submit("A", "emulate", (1, 2, 3, 4), replies.append)
            helper.submit("A", "no such job", (), lambda reply: (replies.append(reply), done.set()))
            assert done.wait(60)
        assert [reply.reason for reply in replies] == [
            "ParameterError: there is no job 'no such job'; choose one of emulate, measure"
        ]

    def test_what_shows_a_result_may_raise_and_the_next_job_runs(self):
        helper, told, done = Helper(), [], threading.Event()

        def show(reply):
            told.append(reply)
            if len(told) == 1:
                raise ZeroDivisionError("no figure")

        with contextlib.closing(helper):
            helper.submit("A", "no such job", (), show)
            helper.submit("B", "no such job", (), lambda reply: done.set())
            assert done.wait(60)
        assert told[1].reason == "ZeroDivisionError: no figure"


def test_what_cannot_be_made_ready_is_tried_again(monkeypatch):
    outcomes, asked = [CompileError("did not finish"), None], []

    def warm(*arguments):
        asked.append(arguments)
        if (error := outcomes.pop(0)) is not None:
            raise error

    monkeypatch.setattr("workbench.explorer.compiler.warm_workers", warm)
    compiler = WarmCompiler()
    for _ in range(3):
        compiler.start("3.9.0", "gfx950")
    assert asked == [("3.9.0", "gfx950", 1)] * 2


def test_a_host_of_many_cpus_compiles_ahead_on_some_of_them(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: range(128), raising=False)
    assert threads_ahead() == 8
    monkeypatch.setattr("os.sched_getaffinity", lambda process: range(3))
    assert threads_ahead() == 3


class TestPanel:
    """The widgets' callbacks, without a browser."""

    @pytest.fixture
    def panel(self):
        from workbench.explorer.panel import Panel

        made = Panel(DENSE, ahead=False, compiler=FakeCompiler(), slow=FakeSlow())
        yield made
        made.close()

    def wait(self, panel):
        with panel.session._idle:
            assert panel.session._idle.wait_for(lambda: not panel.session._busy, 10)

    def test_a_lever_changes_figures_and_is_marked(self, panel):
        self.wait(panel)
        side = panel.sides["A"]
        before = panel.result.value
        assert ">8</div>" in before
        side.levers.by_name["lds_k_pad"].value = "32"
        self.wait(panel)
        assert ">32</div>" in panel.result.value
        assert "lds_k_pad=32" in side.code.value
        assert "explorer-changed" in side.levers.by_name["lds_k_pad"]._dom_classes
        side.reset.click()
        assert side.levers.by_name["lds_k_pad"].value == "8"
        assert "explorer-changed" not in side.levers.by_name["lds_k_pad"]._dom_classes

    def test_an_impossible_lever_is_explained_and_can_be_taken_back(self, panel):
        side = panel.sides["A"]
        side.levers.by_name["block_n"].value = "32"
        assert "cluster halves the tile" in side.status.value
        side.levers.by_name["cluster"].value = False
        self.wait(panel)
        assert "machine code after" in side.status.value

    def test_another_scenario_brings_its_kernels_and_fields(self, panel):
        side = panel.sides["A"]
        side.kernel.value = "dense"
        assert "num_stages" in side.levers.by_name
        side.set_name.value = "default"
        assert side.kernel.value == "auto"
        assert "unified-3d" in side.kernel.options
        assert "seq_lens" in side.problem.by_name
        side.problem.by_name["seq_lens"].value = "[[1, 4096, 2]]"
        assert panel.session.answers["A"].plan.problem.seq_lens == ((1, 4096), (1, 4096))

    def test_b_starts_as_a_and_goes_its_own_way(self, panel):
        panel.compare.value = True
        panel.sides["B"].levers.by_name["lds_k_pad"].value = "16"
        self.wait(panel)
        assert (lds_of(panel.session, "A"), lds_of(panel.session, "B")) == (8192, 16384)
        assert 'class="differs"' in panel.result.value
        panel.compare.value = False
        assert panel.shown == ("A",)

    def test_figures_that_cannot_be_rendered_are_an_error_and_the_next_ones_are_shown(self, panel, monkeypatch):
        self.wait(panel)
        with monkeypatch.context() as broken:
            broken.setattr("workbench.explorer.panel.result_html", lambda answers, **options: 1 // 0)
            panel.session._slow.jobs["A"][2]({"conflicts_k": 5, "conflicts_v": 6, "conflicts_other": 0})
            assert "A cannot be shown: ZeroDivisionError" in panel.result.value
        panel.sides["A"].levers.by_name["lds_k_pad"].value = "32"
        self.wait(panel)
        assert ">32</div>" in panel.result.value

    def test_what_if_follows_the_sliders(self, panel):
        self.wait(panel)
        what_if = panel.sides["A"].what_if
        assert "what if" in what_if.result.value
        what_if.sliders["lds_bytes"].value = 160 * 1024
        what_if.sliders["vgprs"].value = 64
        assert "LDS 160 -&gt; 80 KB" in what_if.result.value or "LDS 160 -> 80 KB" in what_if.result.value
        what_if.follow.click()
        assert what_if.sliders["lds_bytes"].value == 8192


def test_the_notebook_is_interactive_so_a_run_of_all_leaves_it_out():
    assert describe_notebook(find_notebook("explorer")).interactive
    assert "explorer" not in [path.stem for path in choose_notebooks()]
    assert [path.stem for path in choose_notebooks(["explorer"])] == ["explorer"]


def test_an_answer_without_a_plan_has_no_tables():
    assert "<table" not in result_html([Answer(state=DENSE, error="x", code="failed")])
