"""Two sides, answered in the background: what is quick at once, the compiler next, emulator and clock after it.

The latest change wins: what an older one asked for is not shown any more, and its emulation is stopped. Times that are
under way go on, since they may be of both sides. Idle time goes into compiling the neighbours of what is shown, so that
the next flip finds its kernel in the cache; it stops while somebody waits for another kernel, or for a time.
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from workbench.compiler import protocol
from workbench.compiler.pool import awaited
from workbench.errors import CompileError, SpecError, UnsupportedError, WorkbenchError
from workbench.explorer.answer import Answer, can_be_inspected, why_not_emulated, why_not_timed
from workbench.explorer.compiler import WarmCompiler
from workbench.explorer.helper import Helper
from workbench.explorer.neighbours import Coming, likely_next
from workbench.explorer.plan import Plan, make_plan
from workbench.inspection import inspect_compiled
from workbench.levers.emulated import describe, small_problem
from workbench.levers.facts import facts_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.compiler import KernelRequest
    from workbench.explorer.compiler import Compiler
    from workbench.explorer.state import State

SIDES = ("A", "B")
_THREADS = 3
"""Compilations at once: the latest of each side, and one that is no longer wanted."""
_MOST_AHEAD = 8
"""Compiler processes for what nobody waits for; each holds a Triton."""


class Slow(Protocol):
    """What runs slow jobs; `workbench.explorer.helper.Helper` is one."""

    def submit(self, owner: str, name: str, arguments: tuple[Any, ...], done: Callable[[Any], None]) -> None: ...

    def cancel(self, owner: str) -> None: ...

    def close(self) -> None: ...


class Session:
    """The answers of both sides. `on_change(side)` is called after each new figure, often from another thread."""

    def __init__(
        self,
        on_change: Callable[[str], None],
        *,
        ahead: bool = True,
        compiler: Compiler | None = None,
        slow: Slow | None = None,
    ) -> None:
        """Start nothing yet. `compiler` and `slow` do the work."""
        self.answers: dict[str, Answer] = {}
        self.ahead = ahead
        self._on_change = on_change
        self._compiler = compiler or WarmCompiler()
        self._slow = slow or Helper()
        self._lock = threading.RLock()
        self._idle = threading.Condition(self._lock)
        self._busy = 0
        self._closed = False
        self._changes = dict.fromkeys(SIDES, 0)
        self._last_changed = ""
        self._undisturbed: dict[str, ExitStack] = {}
        self._shown: dict[str, list[Plan]] = {side: [] for side in SIDES}
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="explorer")
        self._ready = ThreadPoolExecutor(1, thread_name_prefix="explorer-ready")
        # The emulator's kernels too, so that a change never waits for those of the changes before it.
        self._threads_ahead = threads_ahead()
        self._spare = ThreadPoolExecutor(self._threads_ahead, thread_name_prefix="explorer-ahead")

    def set(self, side: str, state: State) -> Answer:
        """Answer a state on a side: returns what is known at once, and goes on in the background.

        UnsupportedError after `close`.
        """
        if self._closed:
            raise UnsupportedError("this explorer was closed; run its cell again")
        started = time.monotonic()
        self._ready.submit(self._compiler.start, state.triton, state.target)
        with self._lock:
            self._changes[side] += 1
            number = self._changes[side]
            self._slow.cancel(side)
        answer = _first_answer(state, self.answers.get(side))
        self.answers[side] = answer
        if answer.code == "working" and answer.plan is not None:
            self._last_changed = side
            self._start(self._pool, self._compile_side, side, number, answer.plan, started)
        else:
            self._turn_to_other(side)
        self._on_change(side)
        return answer

    def drop(self, side: str) -> None:
        """Answer a side no longer."""
        with self._lock:
            self._changes[side] += 1
            self.answers.pop(side, None)
            self._slow.cancel(side)
        self._turn_to_other(side)

    def measure(self) -> None:
        """Time what the sides show, together where they share a problem. Needs a GPU of their target."""
        lineups: dict[Any, list[tuple[str, str, Any]]] = {}
        for side, answer in self.answers.items():
            plan = answer.plan
            if plan is None or plan.spec is None or answer.code != "done":
                continue
            why_not = why_not_timed(plan)
            self._update(side, self._changes[side], timing="failed" if why_not else "working", time_note=why_not)
            if not why_not:
                lineups.setdefault(plan.problem, []).append((side, plan.lane, plan.spec))
        for problem, lineup in lineups.items():
            owner, numbers = f"time {lineup[0][0]}", {side: self._changes[side] for side, _, _ in lineup}
            done = partial(self._timed, numbers=numbers, undisturbed=self._stay_undisturbed(owner))
            self._slow.submit(owner, "measure", (problem, lineup), done)

    def wait(self, timeout: float = 60.0) -> bool:
        """Wait until nothing is under way, `timeout` seconds at most; whether that came true.

        What is compiled ahead does not count.
        """
        with self._idle:
            return self._idle.wait_for(lambda: self._closed or not (self._busy or self._is_waiting()), timeout)

    def close(self) -> None:
        """Stop everything; what was under way keeps its last figures."""
        with self._lock:
            self._closed = True
            self._idle.notify_all()
            for side in SIDES:
                self._changes[side] += 1
            for undisturbed in self._undisturbed.values():
                undisturbed.close()
        self._slow.close()
        for pool in (self._pool, self._ready, self._spare):
            pool.shutdown(wait=False, cancel_futures=True)

    def _is_waiting(self) -> bool:
        stages = [stage for each in self.answers.values() for stage in (each.code, each.emulation, each.timing)]
        return "working" in stages

    def _start(self, pool: ThreadPoolExecutor, task: Callable[..., None], side: str, number: int, *rest: Any) -> None:
        with self._idle:
            self._busy += 1
        pool.submit(self._work, task, side, number, *rest)

    def _work(self, task: Callable[..., None], side: str, number: int, *rest: Any) -> None:
        try:
            if self._is_latest(side, number):
                task(side, number, *rest)
        except Exception as error:  # noqa: BLE001 - nobody reads this thread's traceback, and the side would wait
            self._update(side, number, **_failed(f"{type(error).__name__}: {error}"))
        finally:
            with self._idle:
                self._busy -= 1
                self._idle.notify_all()

    def _is_latest(self, side: str, number: int) -> bool:
        return self._changes[side] == number

    def _update(self, side: str, number: int, **figures: Any) -> bool:
        """Add figures to a side's answer unless another change came; whether they were added."""
        with self._lock:
            if not self._is_latest(side, number):
                return False
            self.answers[side] = replace(self.answers[side], **figures)
            self._idle.notify_all()
        self._on_change(side)
        return True

    def _compile_side(self, side: str, number: int, plan: Plan, started: float) -> None:
        figures = self._figures_of_code(plan)
        figures["seconds"] = time.monotonic() - started
        figures["emulation"] = "working" if figures["code"] == "done" else "none"
        if not self._update(side, number, **figures):
            return
        if figures["code"] == "done":
            self._start(self._spare, self._emulate_side, side, number, plan)
            self._ready.submit(self._get_ahead, side, number, plan)
        else:
            self._turn_to_other(side)

    def _figures_of_code(self, plan: Plan) -> dict[str, Any]:
        try:
            (outcome,) = self._compiler.compile(plan.requests[:1])
            if isinstance(outcome, CompileError):
                return _failed(str(outcome))
            inspection = inspect_compiled(outcome) if can_be_inspected(plan.state.target) else None
            facts = facts_of(inspection, plan.problem.head_size) if inspection else {}
        except WorkbenchError as error:
            return _failed(str(error))
        return {"code": "done", "compiled": outcome, "inspection": inspection, "code_facts": facts}

    def _emulate_side(self, side: str, number: int, plan: Plan) -> None:
        problem = small_problem(plan.problem)
        small, why_not = None, why_not_emulated(plan)
        if not why_not and plan.spec is not None:
            try:
                small = self._small_requests(plan, problem)
            except SpecError as error:
                why_not = f"the small problem has no such kernel: {error}"
        if small is None or plan.spec is None:
            self._update(side, number, emulation="none", conflicts_of=why_not)
            return
        if not self._update(side, number, emulation="working", conflicts_of=describe(problem)):
            return
        # The emulation is a second answer, and the next change comes before it.
        self._compiler.compile(small, gives_way=True)
        arguments = (problem, plan.spec, plan.lane, small[0].triton_version)
        done = partial(self._emulated, side=side, number=number)
        with self._lock:
            # A change cancels what was submitted before it, so that none may come in between.
            if self._is_latest(side, number):
                self._slow.submit(side, "emulate", arguments, done)

    def _small_requests(self, plan: Plan, problem: Any) -> list[KernelRequest]:
        """What the emulator will run, compiled here because the compiler processes here are warm."""
        from workbench.compiler.variants import build_requests

        if plan.spec is None:
            return []
        return build_requests(problem, plan.spec, plan.state.target, triton_version=plan.state.triton)

    def _emulated(self, found: Any, side: str, number: int) -> None:
        if isinstance(found, protocol.Failure):
            self._update(side, number, emulation="failed", conflicts_of=found.reason, conflicts={})
        else:
            self._update(side, number, emulation="done", conflicts=found)

    def _stay_undisturbed(self, owner: str) -> ExitStack:
        """Compilations that give way stand still until it is closed, as the owner's next time does too."""
        with self._lock:
            if owner in self._undisturbed:
                self._undisturbed[owner].close()
            undisturbed = self._undisturbed[owner] = ExitStack()
            undisturbed.enter_context(awaited(owner))
        return undisturbed

    def _timed(self, found: Any, numbers: dict[str, int], undisturbed: ExitStack) -> None:
        undisturbed.close()
        for side, number in numbers.items():
            result = {"note": found.reason} if isinstance(found, protocol.Failure) else found[side]
            if "note" in result:
                self._update(side, number, timing="failed", time_note=result["note"], time={})
            else:
                self._update(side, number, timing="done", time=result)

    def _get_ahead(self, side: str, number: int, plan: Plan) -> None:
        """Compile what the next change may be, on several CPUs; and have compiler processes at hand for it."""
        if not self._shown[side] or self._shown[side][0] is not plan:
            self._shown[side] = [plan, *self._shown[side][:1]]
        sides = [each for each in dict.fromkeys((side, *SIDES)) if each in self.answers and self._shown[each]]
        coming = Coming(*(likely_next(*self._shown[each]) for each in sides))
        for _ in range(self._threads_ahead):
            self._spare.submit(self._compile_ahead, side, number, coming)
        self._compiler.load(plan.requests[0])

    def _compile_ahead(self, side: str, number: int, coming: Coming) -> None:
        """Until a change comes."""
        while self.ahead and self._last_changed == side and self._is_latest(side, number):
            request = coming.next()
            if request is None:
                return
            # One that cannot be compiled costs only the reuse, and the next ones can.
            with suppress(Exception):
                self._compiler.compile([request], gives_way=True)

    def _turn_to_other(self, side: str) -> None:
        """Where the side that changed last has no machine code, idle time goes to the other one."""
        with self._lock:
            if self._last_changed != side:
                return
            for other in SIDES:
                answer = self.answers.get(other)
                if other != side and answer is not None and answer.plan is not None:
                    self._last_changed = other
                    if answer.code == "done":
                        self._ready.submit(self._get_ahead, other, self._changes[other], answer.plan)


def threads_ahead() -> int:
    """One for each CPU that this process may use, up to a limit."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, _MOST_AHEAD)


def _failed(error: str) -> dict[str, Any]:
    without: dict[str, Any] = {"compiled": None, "inspection": None, "code_facts": {}, "emulation": "none"}
    return {"code": "failed", "error": error, **without}


def _first_answer(state: State, last: Answer | None) -> Answer:
    """Everything but the machine code, whose last figures stay until the new ones come.

    Where there is no plan the last one stays, so that it can be mended.
    """
    try:
        plan = make_plan(state)
    except WorkbenchError as error:
        return Answer(state=state, error=str(error), code="failed", plan=last.plan if last else None)
    if plan.error:
        return Answer(state=state, plan=plan, error=plan.error, code="failed")
    fresh = Answer(state=state, plan=plan, code="working")
    if last is None:
        return fresh
    return replace(fresh, compiled=last.compiled, inspection=last.inspection, code_facts=last.code_facts)
