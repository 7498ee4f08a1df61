"""The dense kernel against the float64 reference: masks, shapes, levers, grids, packed batches and argument errors."""

import math

import pytest
import torch
import triton
import triton.language as tl
from edge_cases import DENSE_CASES, VARLEN_CASES, assert_right
from hypothesis import given, settings
from hypothesis import strategies as st
from workbench.kernels.dense import decode_item

from workbench.attention import dense_attention, run_dense
from workbench.dtypes import torch_dtype
from workbench.errors import BackendUnavailable, ProblemError, SpecError, TensorError, UnsupportedError
from workbench.inputs import DenseInputs, make_dense_inputs
from workbench.plan_dense import DenseCall, num_work_items, plan_dense
from workbench.poison import fill_nan, poisoned_like, poisoned_output
from workbench.problem import DenseAttentionProblem
from workbench.reference import dense_eager, dense_reference, dense_reference_varlen
from workbench.spec import DenseSpec
from workbench.tolerance import compare

GRID = DenseSpec(block_m=32, block_n=32, grid="default")
PERSISTENT = GRID.with_changes(grid="persistent", num_persistent=3)
LEVERS = {
    "grid": {},
    "transposed": {"transposed_qk": True},
    "one masked loop": {"mask_split": False},
    "rescale every tile": {"lazy_rescale": False},
    "transposed, one masked loop": {"transposed_qk": True, "mask_split": False, "lazy_rescale": False},
    "persistent": {"grid": "persistent", "num_persistent": 3},
    "wide tile": {"block_m": 16, "block_n": 64},
}


def problem(seqlen_q=70, seqlen_kv=70, **changes):
    fields = {"batch": 1, "num_query_heads": 2, "num_kv_heads": 1, "head_size": 64, "dtype": "bf16"}
    return DenseAttentionProblem(seqlen_q=seqlen_q, seqlen_kv=seqlen_kv, **(fields | changes))


def check(given_problem, spec, device, inputs=None):
    """Run into a poisoned output; assert the tolerance and that no input changed. Returns the output."""
    inputs = inputs or make_dense_inputs(given_problem, device=device)
    before = inputs.clone()
    out = poisoned_output(given_problem, device)
    result = run_dense(given_problem, inputs, spec=spec, out=out)
    comparison = compare(
        out, dense_reference(given_problem, inputs), dense_eager(given_problem, inputs), given_problem.dtype
    )
    assert comparison.ok, f"{spec.describe() if spec else 'dispatched'}: {comparison.describe()}"
    assert inputs.changed_since(before) == ()
    assert result.out is out
    return out


@pytest.mark.parametrize("lever", LEVERS)
@pytest.mark.parametrize(
    "mask",
    [{}, {"sliding_window": 40, "use_sinks": True}, {"causal": False, "use_sinks": True}],
    ids=["causal", "window", "full"],
)
def test_levers(mask, lever, device):
    check(problem(70, 75, **mask), GRID.with_changes(**LEVERS[lever]), device)


@pytest.mark.parametrize("window", [None, 1, 4, 40])
@pytest.mark.parametrize("alignment", ["bottom_right", "top_left"])
@pytest.mark.parametrize(("seqlen_q", "seqlen_kv"), [(1, 100), (33, 100), (100, 33), (64, 64)])
def test_causal_diagonal_and_window(seqlen_q, seqlen_kv, alignment, window, device):
    check(problem(seqlen_q, seqlen_kv, alignment=alignment, sliding_window=window), GRID, device)


@pytest.mark.parametrize("spec", [GRID, PERSISTENT], ids=["grid", "persistent"])
@pytest.mark.parametrize(("heads", "kv_heads"), [(3, 3), (6, 2), (5, 1), (7, 1)])
def test_any_gqa_group(heads, kv_heads, spec, device):
    check(problem(33, 40, num_query_heads=heads, num_kv_heads=kv_heads, use_sinks=True), spec, device)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("head_size", [16, 80, 128, 256])
def test_head_sizes_and_dtypes(head_size, dtype, device):
    check(problem(40, 40, head_size=head_size, dtype=dtype), GRID, device)


@pytest.mark.parametrize("causal", [True, False])
def test_the_dispatched_spec(causal, device):
    check(problem(150, 150, causal=causal), None, device)


def test_the_maximum_moves_by_more_than_the_lazy_threshold(device):
    """Keys grow with their position, so that the scores of later tiles exceed those of earlier ones by tens."""
    given_problem = problem(64, 96, softmax_scale=0.5, dtype="fp16")
    inputs = make_dense_inputs(given_problem, device=device)
    ramp = torch.linspace(1.0, 20.0, 96, device=device).view(1, 96, 1, 1).half()
    inputs = DenseInputs(q=inputs.q, k=inputs.k * ramp, v=inputs.v)
    for lazy in (True, False):
        check(given_problem, GRID.with_changes(lazy_rescale=lazy), device, inputs)


def test_either_side_of_the_lazy_threshold(device):
    """The second tile's scores exceed the first's by 7.9, then by 8.1 (log2)."""
    for excess in (7.9, 8.1):
        scores = torch.tensor([0.0] * 32 + [excess * math.log(2)] * 32)
        q = torch.zeros(1, 64, 1, 16, device=device)
        q[..., 0] = 1.0
        k = torch.zeros(1, 64, 1, 16, device=device)
        k[0, :, 0, 0] = scores
        v = torch.arange(64.0, device=device).view(1, 64, 1, 1).expand(1, 64, 1, 16).contiguous()
        given_problem = problem(64, 64, num_query_heads=1, head_size=16, dtype="fp32", causal=False, softmax_scale=1.0)
        check(given_problem, GRID, device, DenseInputs(q=q, k=k, v=v))


def test_what_lies_beyond_a_member_is_not_read(device):
    """Views into larger NaN-filled tensors: after the last key, between tokens, between heads and past the channels."""
    given_problem = problem(40, 50, batch=2, num_kv_heads=2, head_size=80)
    plain = make_dense_inputs(given_problem, device=device)

    def embedded(tensor):
        batch, tokens, heads, channels = tensor.shape
        larger = fill_nan(tensor.new_empty(batch, tokens + 40, heads + 1, channels + 16))
        view = larger[:, :tokens, :heads, :channels]
        return view.copy_(tensor)

    inputs = DenseInputs(q=embedded(plain.q), k=embedded(plain.k), v=embedded(plain.v))
    check(given_problem, GRID, device, inputs)
    check(given_problem, PERSISTENT, device, inputs)


@pytest.mark.parametrize("mask_split", [True, False])
def test_tiles_that_no_row_sees_are_not_visited(mask_split, device):
    """NaN in the tiles behind the diagonal, and in those before the window, leaves the other rows as they were."""
    spec = GRID.with_changes(mask_split=mask_split)
    given_problem = problem(96, 96, sliding_window=20)
    inputs = make_dense_inputs(given_problem, device=device)
    clean = run_dense(given_problem, inputs, spec=spec).out
    for rows, unseen in ((slice(0, 64), slice(64, 96)), (slice(64, 96), slice(0, 32))):
        spoilt = inputs.clone()
        for tensor in (spoilt.k, spoilt.v):
            tensor[:, unseen] = torch.nan
        assert torch.equal(run_dense(given_problem, spoilt, spec=spec).out[:, rows], clean[:, rows])


def test_output_view_with_its_own_strides(device):
    given_problem = problem(40, 40)
    inputs = make_dense_inputs(given_problem, device=device)
    frame = fill_nan(torch.empty(1, 2, 48, 64, dtype=torch.bfloat16, device=device))
    out = frame.transpose(1, 2)[:, :40]
    run_dense(given_problem, inputs, spec=GRID, out=out)
    comparison = compare(out, dense_reference(given_problem, inputs), dense_eager(given_problem, inputs), "bf16")
    assert comparison.ok, comparison.describe()
    assert frame[:, :, 40:].isnan().all()


@pytest.mark.parametrize("sinks", [False, True])
def test_no_keys_give_zero(sinks, device):
    given_problem = problem(5, 0, causal=False, use_sinks=sinks)
    inputs = make_dense_inputs(given_problem, device=device)
    for spec in (GRID, PERSISTENT):
        out = run_dense(given_problem, inputs, spec=spec, out=poisoned_output(given_problem, device)).out
        assert torch.equal(out, torch.zeros_like(out))


def test_no_queries_launch_nothing(device):
    given_problem = problem(0, 5)
    assert run_dense(given_problem, make_dense_inputs(given_problem, device=device), spec=GRID).out.shape[1] == 0


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("name", DENSE_CASES)
def test_edge_cases(name, dtype, device):
    case = DENSE_CASES[name](dtype)
    inputs = case.inputs.to(device)
    for spec in (None, GRID, PERSISTENT, GRID.with_changes(mask_split=False)):
        out = run_dense(case.problem, inputs, spec=spec, out=poisoned_output(case.problem, device)).out
        assert_right(case, out, dtype)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("name", VARLEN_CASES)
def test_packed_edge_cases(name, dtype, device):
    case = VARLEN_CASES[name](dtype)
    q, k, v, cu_q, cu_k = (t.to(device) for t in (case.q, case.k, case.v, case.cu_seqlens_q, case.cu_seqlens_k))
    longest = int(case.cu_seqlens_q.diff().max())
    packing = {"cu_seqlens_q": cu_q, "cu_seqlens_k": cu_k, "max_seqlen_q": longest}
    out = dense_attention(q, k, v, softmax_scale=1.0, causal=False, out=poisoned_like(q), **packing)
    assert_right(case, out, dtype)


def packed_batch(query_lens, kv_lens, device, heads=4, kv_heads=2):
    """q, k, v and the arguments that describe their packing; NaN after the last token."""
    generator = torch.Generator().manual_seed(0)

    def operand(lens, num_heads):
        held = torch.randn(sum(lens) + 1, num_heads, 64, generator=generator).to(device, torch.float16)
        held[-1] = torch.nan
        return held[:-1]

    def running(lens):
        return torch.tensor([0, *lens], device=device).cumsum(0).int()

    packing = {"cu_seqlens_q": running(query_lens), "cu_seqlens_k": running(kv_lens), "max_seqlen_q": max(query_lens)}
    return operand(query_lens, heads), operand(kv_lens, kv_heads), operand(kv_lens, kv_heads), packing


@pytest.mark.parametrize(
    "mask",
    [{}, {"alignment": "top_left", "sliding_window": 9}, {"causal": False}],
    ids=["causal", "top-left window", "full"],
)
def test_packed_members(mask, device):
    q, k, v, packing = packed_batch([40, 0, 1, 33], [40, 5, 70, 20], device)
    out = dense_attention(q, k, v, spec=GRID, out=poisoned_like(q), **mask, **packing)
    running = (packing["cu_seqlens_q"], packing["cu_seqlens_k"])
    reference = dense_reference_varlen(q, k, v, *running, **mask)
    float32 = dense_reference_varlen(q, k, v, *running, **mask, dtype=torch.float32)
    comparison = compare(out, reference, float32.half(), "fp16")
    assert comparison.ok, comparison.describe()


@pytest.mark.parametrize(
    ("programs", "order"), [(1, "hkv_major"), (5, "hkv_major"), (5, "qb_major"), (1000, "qb_major")]
)
def test_persistent_grid_writes_the_default_grids_bits(programs, order, device):
    """Every item is worked on: an output left out would stay NaN. And the work on an item is the same."""
    given_problem = problem(70, 70, batch=2, num_query_heads=4, num_kv_heads=2)
    inputs = make_dense_inputs(given_problem, device=device)
    expected = run_dense(given_problem, inputs, spec=GRID).out
    out = poisoned_output(given_problem, device)
    launch_persistent(given_problem, inputs, out, programs, order)
    assert torch.equal(out, expected)


def launch_persistent(given_problem, inputs, out, programs, order):
    """Launch with an order that the dispatcher would refuse for so many programs."""
    from workbench.attention.backends import execute, resolve_backend

    call = call_of(given_problem, inputs, out)
    execute(plan_dense(call, PERSISTENT, programs, order), resolve_backend("auto", out), out)


def call_of(given_problem, inputs, out):
    return DenseCall(
        q=inputs.q,
        k=inputs.k,
        v=inputs.v,
        out=out,
        max_seqlen_q=given_problem.seqlen_q,
        softmax_scale=given_problem.softmax_scale,
        causal=given_problem.causal,
        alignment=given_problem.alignment,
        sliding_window=given_problem.sliding_window,
    )


def test_plan_launches_no_program_without_work():
    given_problem = problem(100, 100, batch=2, num_query_heads=6, num_kv_heads=2)
    meta = torch.empty(2, 100, 6, 64, device="meta")
    keys = torch.empty(2, 100, 2, 64, device="meta")
    call = call_of(given_problem, DenseInputs(q=meta, k=keys, v=keys), meta)
    assert num_work_items(call, 32) == 4 * 6 * 2
    assert plan_dense(call, GRID, 3, "grid")[0].grid == (4, 6, 2)
    assert plan_dense(call, PERSISTENT, 3, "qb_major")[0].grid == (3, 1, 1)
    assert plan_dense(call, PERSISTENT, 256, "qb_major")[0].grid == (48, 1, 1)


@triton.jit
def decode_all(p_out, num_q_blocks, num_heads, batch, num_items, GROUP: tl.constexpr, ORDER: tl.constexpr):
    for i_item in range(num_items):
        i_qblock, i_head, i_batch = decode_item(i_item, num_q_blocks, num_heads, batch, GROUP, ORDER)
        tl.store(p_out + 3 * i_item, i_qblock)
        tl.store(p_out + 3 * i_item + 1, i_head)
        tl.store(p_out + 3 * i_item + 2, i_batch)


@pytest.mark.parametrize("order", ["qb_major", "hkv_major"])
def test_work_items_decode_by_the_specification(order, device):
    """Specification §8.2, by its two formulas: each triple (qb, hq, bt) is encoded and must come back."""
    for blocks, group, kv_heads, batch in ((1, 1, 2, 1), (4, 3, 2, 2), (5, 5, 1, 3)):
        heads, half = group * kv_heads, blocks // 2
        expected = {}
        for qb in range(blocks):
            for hq in range(heads):
                for bt in range(batch):
                    hkv, h_ql = divmod(hq, group)
                    blk = qb if qb < half else half + (blocks - 1 - qb)
                    if order == "qb_major":
                        item = qb * (heads * batch) + hq * batch + bt
                    else:
                        item = hkv * (blocks * group * batch) + blk * (group * batch) + h_ql * batch + bt
                    expected[item] = [qb, hq, bt]
        out = torch.full((blocks * heads * batch, 3), -1, dtype=torch.int32, device=device)
        decode_all[(1,)](out, blocks, heads, batch, len(expected), group, order)
        assert out.tolist() == [expected[item] for item in range(len(expected))]


@settings(max_examples=15)
@given(st.data())
def test_random_problems(device, data):
    group, kv_heads = data.draw(st.sampled_from([1, 2, 3])), data.draw(st.sampled_from([1, 2]))
    causal = data.draw(st.booleans())
    given_problem = problem(
        data.draw(st.integers(1, 70)),
        data.draw(st.integers(0, 90)),
        num_query_heads=group * kv_heads,
        num_kv_heads=kv_heads,
        head_size=data.draw(st.sampled_from([16, 24, 64])),
        causal=causal,
        alignment=data.draw(st.sampled_from(["bottom_right", "top_left"])),
        sliding_window=data.draw(st.none() | st.integers(1, 80)) if causal else None,
        use_sinks=data.draw(st.booleans()),
        dtype=data.draw(st.sampled_from(["fp16", "bf16", "fp32"])),
    )
    spec = DenseSpec(
        block_m=data.draw(st.sampled_from([16, 32, 64])),
        block_n=data.draw(st.sampled_from([16, 32, 64])),
        grid=data.draw(st.sampled_from(["default", "persistent"])),
        num_persistent=data.draw(st.integers(1, 5)),
        transposed_qk=data.draw(st.booleans()),
        mask_split=data.draw(st.booleans()),
        lazy_rescale=data.draw(st.booleans()),
    )
    check(given_problem, spec, device)


def test_result_says_what_ran_and_why(device):
    given_problem = problem(100, 100, batch=2)
    inputs = make_dense_inputs(given_problem, device=device)
    result = run_dense(given_problem, inputs, spec=PERSISTENT)
    assert (result.lane, result.spec) == ("dense", PERSISTENT)
    assert result.backend == ("gpu" if device == "cuda" else "interpreter")
    assert any("hkv_major" in reason for reason in result.reasons)


def tensors(device="cpu", dtype="bf16"):
    return [torch.zeros(2, 8, heads, 64, dtype=torch_dtype(dtype), device=device) for heads in (4, 2, 2)]


RUNNING = torch.tensor([0, 3, 8], dtype=torch.int32)
PACKING = {"cu_seqlens_q": RUNNING, "cu_seqlens_k": RUNNING, "max_seqlen_q": 5}

BAD_CALLS = {
    "q with three axes": (lambda q, k, v: ((q[0], k, v), {}), TensorError, "q must have shape"),
    "another batch": (lambda q, k, v: ((q, k[:1], v[:1]), {}), TensorError, r"k must have shape \[2, \*, \*, 64\]"),
    "v shorter than k": (lambda q, k, v: ((q, k, v[:, :7]), {}), TensorError, "v must have shape"),
    "mixed dtypes": (lambda q, k, v: ((q, k.half(), v), {}), TensorError, "k must be torch.bfloat16"),
    "integers": (lambda q, k, v: ((q.int(), k, v), {}), TensorError, "q must be torch.float16"),
    "channel stride": (lambda q, k, v: ((q.mT.contiguous().mT, k, v), {}), TensorError, "stride 1"),
    "heads": (lambda q, k, v: ((q[:, :, :3], k, v), {}), ProblemError, "multiple of num_kv_heads"),
    "scale": (lambda q, k, v: ((q, k, v), {"softmax_scale": 0.0}), TensorError, "greater than 0"),
    "alignment": (lambda q, k, v: ((q, k, v), {"alignment": "middle"}), ProblemError, "bottom_right"),
    "window without causal": (
        lambda q, k, v: ((q, k, v), {"causal": False, "sliding_window": 4}),
        ProblemError,
        "needs causal",
    ),
    "sinks per KV head": (lambda q, k, v: ((q, k, v), {"sinks": torch.zeros(2)}), TensorError, r"shape \[4\]"),
    "out of another shape": (lambda q, k, v: ((q, k, v), {"out": q[:1]}), TensorError, "out must have shape"),
    "another kernel's spec": (lambda q, k, v: ((q, k, v), {"spec": object()}), SpecError, "DenseSpec"),
    "unknown backend": (lambda q, k, v: ((q, k, v), {"backend": "tpu"}), BackendUnavailable, "one of auto"),
    "packed without lengths": (
        lambda q, k, v: ((q[0], k[0], v[0]), {"cu_seqlens_q": RUNNING}),
        TensorError,
        "need all of",
    ),
    "packed, persistent": (
        lambda q, k, v: ((q[0], k[0], v[0]), PACKING | {"spec": PERSISTENT}),
        UnsupportedError,
        "grid='default'",
    ),
    "packed, too short a bound": (
        lambda q, k, v: ((q[0], k[0], v[0]), PACKING | {"max_seqlen_q": 4}),
        TensorError,
        "a member has 5",
    ),
    "packed, running past the tokens": (
        lambda q, k, v: ((q[0], k[0, :7], v[0, :7]), PACKING),
        TensorError,
        "cu_seqlens_k must rise from 0 to",
    ),
    "packed, 64-bit lengths": (
        lambda q, k, v: ((q[0], k[0], v[0]), PACKING | {"cu_seqlens_k": RUNNING.long()}),
        TensorError,
        "cu_seqlens_k must be torch.int32",
    ),
    "hkv_major out of balance": (
        lambda q, k, v: ((q, k, v), {"spec": PERSISTENT.with_changes(persist_decode="hkv_major")}),
        SpecError,
        "unbalanced",
    ),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls_fail_before_anything_runs(name):
    make_call, error, text = BAD_CALLS[name]
    operands, arguments = make_call(*tensors())
    untouched = torch.full((2, 8, 4, 64), torch.nan, dtype=torch.bfloat16)
    if arguments.keys().isdisjoint({"out", "cu_seqlens_q"}) and operands[0].shape == untouched.shape:
        arguments = arguments | {"out": untouched}
    with pytest.raises(error, match=text):
        dense_attention(*operands, **arguments)
    assert untouched.isnan().all()


def test_inputs_of_another_problem_are_refused():
    with pytest.raises(TensorError, match="k must have shape"):
        run_dense(problem(40, 41), make_dense_inputs(problem(40, 40)))


def test_gpu_is_refused_for_cpu_tensors():
    with pytest.raises(BackendUnavailable, match="gpu"):
        dense_attention(*tensors(), backend="gpu")


def test_a_run_of_what_is_no_problem_or_no_inputs():
    with pytest.raises(ProblemError, match="problem must be a DenseAttentionProblem, got NoneType"):
        run_dense(None, make_dense_inputs(problem()))
    with pytest.raises(TensorError, match="inputs must be DenseInputs, as make_dense_inputs gives, got dict"):
        run_dense(problem(), {})
