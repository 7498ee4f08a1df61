"""The harness against kernels that cheat. Each looks fine to a harness that checks a little less."""

from dataclasses import replace

import pytest
import torch

from workbench.attention.backends import AttentionResult
from workbench.errors import ParameterError, UnsupportedError
from workbench.parity import TimingPlan, run_scenario
from workbench.parity.candidate import workbench_kernels
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.reference import dense_eager, unified_eager
from workbench.scenarios import Scenario
from workbench.spec import DenseSpec, Unified2DSpec

UNIFIED = Scenario(
    "cheated",
    "tests",
    UnifiedAttentionProblem(
        seq_lens=((1, 33), (6, 20)), num_query_heads=4, num_kv_heads=2, head_size=32, block_size=16, use_sinks=True
    ),
)
DENSE = Scenario("cheated_dense", "tests", DenseAttentionProblem(1, 4, 2, 40, 40, 32))


class Honest:
    """Right, if slow; a cheat changes one of its steps."""

    def __call__(self, problem, inputs, *, lane, spec, backend, out):
        dense = isinstance(problem, DenseAttentionProblem)
        self.write(problem, inputs, out)
        chosen = DenseSpec() if dense else Unified2DSpec()
        return AttentionResult(out, "dense" if dense else "2d", chosen, "interpreter", ("Eager.",))

    def write(self, problem, inputs, out):
        out.copy_(self.right(problem, inputs))

    def right(self, problem, inputs):
        return (dense_eager if isinstance(problem, DenseAttentionProblem) else unified_eager)(problem, inputs)


class Zeros(Honest):
    def right(self, problem, inputs):
        return torch.zeros_like(inputs.q)


class CachedByAddress(Honest):
    def __init__(self):
        self.seen = {}

    def right(self, problem, inputs):
        key = tuple(tensor.data_ptr() for tensor in inputs.named_tensors().values())
        if key not in self.seen:
            self.seen[key] = super().right(problem, inputs)
        return self.seen[key]


class WritesNothing(Honest):
    def write(self, problem, inputs, out):
        pass


class WritesHalf(Honest):
    def write(self, problem, inputs, out):
        half = out.shape[-3] // 2
        out[..., :half, :, :] = self.right(problem, inputs)[..., :half, :, :]


class MutatesAnInput(Honest):
    def write(self, problem, inputs, out):
        super().write(problem, inputs, out)
        inputs.q[..., 0] += 1


class WritesBeyond(Honest):
    def write(self, problem, inputs, out):
        super().write(problem, inputs, out)
        torch.as_strided(out, (1,), (1,), out.storage_offset() + out.numel()).zero_()


class OneElementOff(Honest):
    def write(self, problem, inputs, out):
        super().write(problem, inputs, out)
        out[..., -1, -1, -1] += 0.1


def on_another_stream(problem, inputs, **options):
    """The real kernels, where the events of the current stream do not see them."""
    with torch.cuda.stream(torch.cuda.Stream()):
        return workbench_kernels(problem, inputs, **options)


@pytest.mark.parametrize("scenario", [UNIFIED, DENSE], ids=lambda scenario: scenario.kind)
def test_an_honest_candidate_passes(scenario, device):
    record = run_scenario(scenario, candidate=Honest(), device=device)
    assert record.status == "ok", record.message
    assert record.value("worst_error") <= record.value("allowed_error")
    assert record.reasons == ("Eager.",)


@pytest.mark.parametrize("scenario", [UNIFIED, DENSE], ids=lambda scenario: scenario.kind)
@pytest.mark.parametrize(
    ("cheat", "found"),
    [
        (Zeros, "elements over"),
        (CachedByAddress, "elements over"),
        (WritesNothing, "not finite"),
        (WritesHalf, "not finite"),
        (MutatesAnInput, "wrote to its inputs: q"),
        (WritesBeyond, "beyond the ends of its output"),
        (OneElementOff, "1 elements over"),
    ],
)
def test_a_cheat_is_wrong_and_carries_no_speed(cheat, found, scenario, device):
    record = run_scenario(scenario, candidate=cheat(), device=device)
    assert record.status == "wrong"
    assert found in record.message
    assert record.samples == ()


def test_the_record_names_what_executed():
    class Emulated(Honest):
        def __call__(self, *arguments, **options):
            return replace(super().__call__(*arguments, **options), backend="emulator")

    record = run_scenario(UNIFIED, candidate=Emulated(), device="cpu")
    assert (record.backend, record.target, record.evidence) == ("emulator", "gfx950", "emulated")


def test_a_device_that_is_none_is_refused():
    with pytest.raises(ParameterError, match="device must be auto, cpu, cuda"):
        run_scenario(UNIFIED, candidate=Honest(), device="gpu")


def test_a_mutated_input_does_not_spoil_the_next_check(device):
    """The inputs are restored, so the cheat's second verdict is the same and no other one is blamed for it."""
    cheat = MutatesAnInput()
    first = run_scenario(UNIFIED, candidate=cheat, device=device)
    assert first.message == run_scenario(UNIFIED, candidate=cheat, device=device).message
    assert run_scenario(UNIFIED, candidate=Honest(), device=device).status == "ok"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnsupportedError("no fp8"), "unsupported"),
        (RuntimeError("illegal address"), "runtime_error"),
        (type("CompilationError", (Exception,), {"__module__": "triton.compiler.errors"})("line 3"), "compile_error"),
    ],
)
def test_an_exception_becomes_a_status(error, status, device):
    class Raises(Honest):
        def write(self, problem, inputs, out):
            raise error

    record = run_scenario(UNIFIED, candidate=Raises(), device=device)
    assert record.status == status
    assert str(error) in record.message


@pytest.mark.gpu
@pytest.mark.parametrize("timing", [False, TimingPlan(rounds=3)], ids=["eager", "captured"])
def test_work_on_another_stream_is_wrong(timing):
    record = run_scenario(UNIFIED, "2d", candidate=on_another_stream, device="cuda", timing=timing)
    assert record.status == "wrong"
    assert record.samples == ()


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
def test_a_capture_that_does_not_write_again_is_wrong():
    class RightOnlyUncaptured(Honest):
        def write(self, problem, inputs, out):
            if not torch.cuda.is_current_stream_capturing():
                super().write(problem, inputs, out)

    record = run_scenario(UNIFIED, candidate=RightOnlyUncaptured(), device="cuda", timing=TimingPlan(rounds=3))
    assert record.status == "wrong"
    assert "captured call" in record.message
    assert record.samples == ()
