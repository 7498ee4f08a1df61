"""The Gluon dense kernel: right on the emulator under every lever and shape, its levers visible, its errors named."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.emulated import in_turn
from workbench.attention import dense_attention, run_dense
from workbench.compiler import compile_many, triton_versions
from workbench.compiler.variants import build_requests
from workbench.device import load_device
from workbench.dispatch import resolve_persist_decode, select_dense_spec
from workbench.errors import SpecError, UnsupportedError
from workbench.gfx950.emulator import EmulatorOptions
from workbench.inputs import make_dense_inputs
from workbench.poison import poisoned_output
from workbench.problem import DenseAttentionProblem
from workbench.reference import dense_eager, dense_reference
from workbench.spec import DenseSpec
from workbench.spec_gfx950 import Gfx950DenseSpec
from workbench.tolerance import compare

MI355X = load_device("mi355x")
BASE: dict[str, Any] = {
    "batch": 1, "num_query_heads": 2, "num_kv_heads": 1, "seqlen_q": 256, "seqlen_kv": 256, "head_size": 128,
}  # fmt: skip
NEWEST = max(triton_versions())
SMALL = Gfx950DenseSpec(block_m=128)
LEVERS: dict[str, dict[str, Any]] = {
    "defaults": {"block_m": 256},
    "transposed_pv off": {"transposed_pv": False},
    "no padding": {"lds_k_pad": 0, "lds_v_pad": 0},
    "guarded exp2": {"exp2_fast": False},
    "cluster off": {"cluster": False},
    "prefetch off": {"prefetch": False},
    "setprio off": {"setprio": False},
    "lazy_rescale off": {"lazy_rescale": False},
    "one masked loop": {"mask_split": False},
    "wide copies": {"wide_lds_dma": True},
    "block_n 32": {"block_n": 32, "cluster": False},
    "block_n 128": {"block_n": 128},
    "three buffers": {"num_buffers": 3, "wide_lds_dma": True},
}
SHAPES: dict[str, dict[str, Any]] = {
    "ragged, group of 5": {"seqlen_q": 200, "seqlen_kv": 200, "num_query_heads": 5},
    "not causal, ragged, sinks, fp16": {"seqlen_q": 130, "seqlen_kv": 100, "causal": False, "use_sinks": True}
    | {"dtype": "fp16"},
    "d64, group of 7, more keys": {"seqlen_q": 130, "seqlen_kv": 300, "head_size": 64, "num_query_heads": 7},
    "d64, MHA, batch": {"batch": 2, "num_kv_heads": 2, "head_size": 64, "seqlen_q": 128, "seqlen_kv": 128},
    "rows before the first key": {"seqlen_q": 200, "seqlen_kv": 70},
    "top left": {"seqlen_q": 130, "seqlen_kv": 260, "alignment": "top_left", "use_sinks": True},
    "no keys": {"seqlen_q": 128, "seqlen_kv": 0},
}
ORDERS: dict[str, dict[str, Any]] = {
    "default grid": {"grid": "default"},
    "one program": {"num_persistent": 1},
    "qb_major": {"persist_decode": "qb_major", "num_persistent": 3},
    "hkv_major": {"persist_decode": "hkv_major", "num_persistent": 2},
    "gqa_pair": {"persist_decode": "gqa_pair", "num_persistent": 4},
    "gqa_pair_2phase": {"persist_decode": "gqa_pair_2phase", "num_persistent": 8},
}


def _check(fields: dict[str, Any], spec: Gfx950DenseSpec, version: str, seed: int | None = None) -> None:
    problem = DenseAttentionProblem(**(BASE | fields))
    inputs = make_dense_inputs(problem, seed=0)
    out = poisoned_output(problem, "cpu")
    options = EmulatorOptions(triton_version=version, seed=seed)
    result = run_dense(problem, inputs, spec=spec, backend="emulator", out=out, emulator=options)
    comparison = compare(out, dense_reference(problem, inputs), dense_eager(problem, inputs), problem.dtype)
    assert comparison.ok, comparison.describe()
    assert [str(finding) for launch in result.emulation for finding in launch.findings] == []


@pytest.mark.parametrize(("lever", "version"), in_turn(LEVERS))
def test_levers(lever: str, version: str) -> None:
    _check({}, SMALL.with_changes(**LEVERS[lever]), version)


@pytest.mark.parametrize(("shape", "version"), in_turn(SHAPES))
def test_shapes(shape: str, version: str) -> None:
    wide = SHAPES[shape].get("head_size", 128) == 128
    _check(SHAPES[shape], SMALL.with_changes(wide_lds_dma=wide), version, seed=1)


@pytest.mark.parametrize("order", ORDERS)
def test_orders(order: str) -> None:
    fields = {"num_query_heads": 8, "num_kv_heads": 2, "head_size": 64}
    _check(fields, SMALL.with_changes(**ORDERS[order]), NEWEST)


@pytest.mark.parametrize("changes", [{"grid": "default"}, {"num_persistent": 1}, {"persist_decode": "qb_major"}])
def test_every_grid_visits_the_tiles_below_the_diagonal_and_no_other(changes: dict[str, Any]) -> None:
    """16 MFMA of QK and 16 of PV for each wave and tile of 64 keys; a block ends at the tile of its last row."""
    problem = DenseAttentionProblem(**(BASE | {"seqlen_q": 384, "seqlen_kv": 384}))
    inputs = make_dense_inputs(problem, seed=0)
    result = run_dense(problem, inputs, spec=SMALL.with_changes(**changes), backend="emulator")
    tiles = sum(128 * (block + 1) // 64 for block in range(3))
    waves, heads = 4, 2
    assert result.emulation[0].counters["SQ_INSTS_MFMA"] == 32 * waves * heads * tiles


def test_late_delivery_changes_nothing() -> None:
    for seed in range(3):
        _check({}, SMALL.with_changes(wide_lds_dma=True), NEWEST, seed=seed)


def test_no_spills_and_at_most_256_registers() -> None:
    """Two waves of a SIMD, so that one workgroup of 8 waves fills a compute unit."""
    problem = DenseAttentionProblem(1, 128, 8, 8192, 8192, 128)
    specs = [Gfx950DenseSpec(wide_lds_dma=wide, block_n=tile) for tile, wide in ((64, False), (128, True))]
    chosen = Gfx950DenseSpec(wide_lds_dma=True)
    requests = [
        build_requests(problem, spec, "gfx950", triton_version=version)[0]
        for spec, version in [*in_turn(specs), *((chosen, version) for version in triton_versions())]
    ]
    for kernel in compile_many(requests):
        assert kernel.registers.vgprs <= 256, kernel.registers
        assert kernel.registers.spills == 0, kernel.registers


def test_aligned_lengths_compile_to_the_same_code_whatever_ragged_says() -> None:
    problem = DenseAttentionProblem(**BASE)
    automatic, never = (
        build_requests(problem, SMALL.with_changes(ragged=ragged), "gfx950")[0] for ragged in (None, False)
    )
    assert automatic == never
    assert build_requests(problem, SMALL.with_changes(ragged=True), "gfx950")[0] != automatic


def _paired(order: str, **changes: Any) -> tuple[str, str]:
    spec = SMALL.with_changes(persist_decode=order)
    problem = DenseAttentionProblem(1, 8, 2, 1024, 1024, 64, **changes)
    return resolve_persist_decode(problem, spec, {"gqa_pair": 16, "gqa_pair_2phase": 32}[order])


def test_paired_orders_name_the_number_of_programs() -> None:
    assert _paired("gqa_pair")[0] == "gqa_pair"
    assert _paired("gqa_pair_2phase")[0] == "gqa_pair_2phase"
    with pytest.raises(SpecError, match=r"is for num_persistent=16 here .* got 15"):
        resolve_persist_decode(
            DenseAttentionProblem(1, 8, 2, 1024, 1024, 64), SMALL.with_changes(persist_decode="gqa_pair"), 15
        )
    with pytest.raises(SpecError, match="not plainly causal"):
        _paired("gqa_pair", causal=False)
    with pytest.raises(SpecError, match=r"an even number of them and an even group, got 8 blocks and a group of 1"):
        resolve_persist_decode(
            DenseAttentionProblem(1, 2, 2, 1024, 1024, 64), SMALL.with_changes(persist_decode="gqa_pair"), 16
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"head_size": 96}, r"head sizes \(64, 128\), got 96; use DenseSpec"),
        ({"dtype": "fp32"}, "is bf16 or fp16, got fp32"),
        ({"sliding_window": 64}, "has no sliding window; use DenseSpec"),
    ],
)
def test_a_problem_that_the_kernel_does_not_serve(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Gfx950DenseSpec().check(DenseAttentionProblem(**(BASE | changes)))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"block_m": 64}, "block_m must be 128 or 256, got 64"),
        ({"block_n": 16}, "block_n must be 32, 64 or 128, got 16"),
        ({"lds_v_pad": 24}, "lds_v_pad must be one of 0, 8, 16, 32, got 24"),
        ({"num_buffers": 1}, "num_buffers must be 2 or 3, got 1"),
    ],
)
def test_a_spec_that_cannot_be(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Gfx950DenseSpec(**fields)


def test_lengths_that_ragged_false_forbids() -> None:
    with pytest.raises(SpecError, match="ragged=False needs lengths that are multiples"):
        Gfx950DenseSpec(ragged=False).check(DenseAttentionProblem(**(BASE | {"seqlen_q": 255})))
    with pytest.raises(SpecError, match="wide_lds_dma is for head size 128"):
        Gfx950DenseSpec(wide_lds_dma=True).check(DenseAttentionProblem(**(BASE | {"head_size": 64})))


def test_other_targets_are_refused() -> None:
    problem = DenseAttentionProblem(**BASE)
    inputs = make_dense_inputs(problem, seed=0)
    with pytest.raises(SpecError, match=r"is for gfx950, not for the interpreter; use backend='emulator'"):
        run_dense(problem, inputs, spec=SMALL, backend="interpreter")
    with pytest.raises(SpecError, match="is for gfx950, not for gfx942"):
        build_requests(problem, SMALL, "gfx942")


def test_packed_batches_are_refused() -> None:
    q, kv = torch.zeros(8, 2, 64, dtype=torch.bfloat16), torch.zeros(8, 1, 64, dtype=torch.bfloat16)
    ends = torch.tensor([0, 8], dtype=torch.int32)
    with pytest.raises(UnsupportedError, match="rectangular batches only"):
        dense_attention(
            q, kv, kv, cu_seqlens_q=ends, cu_seqlens_k=ends, max_seqlen_q=8, spec=SMALL, backend="emulator"
        )  # fmt: skip


def test_dispatch_takes_it_on_gfx950_alone() -> None:
    problem = DenseAttentionProblem(1, 16, 2, 4096, 4096, 128)
    assert select_dense_spec(problem, MI355X).spec == Gfx950DenseSpec(wide_lds_dma=True)
    assert select_dense_spec(problem.with_changes(head_size=64), MI355X).spec == Gfx950DenseSpec()
    assert isinstance(select_dense_spec(problem, MI355X, portable=True).spec, DenseSpec)
    for device in ("mi300x", "b200"):
        assert isinstance(select_dense_spec(problem, load_device(device)).spec, DenseSpec)
    for changes in ({"sliding_window": 128}, {"head_size": 256}, {"dtype": "fp32"}, {"seqlen_q": 64}):
        assert isinstance(select_dense_spec(problem.with_changes(**changes), MI355X).spec, DenseSpec)


def _views(**strides: int) -> dict[str, torch.Tensor]:
    """q, k, v and out of 128 rows and one head, the named ones with another token stride. No page is touched."""
    shape = (1, 128, 1, 64)
    tensors = {}
    for name in ("q", "k", "v", "out"):
        step = strides.get(name, 64)
        storage = torch.empty(127 * step + 64, dtype=torch.bfloat16)
        tensors[name] = storage.as_strided(shape, (128 * step, step, 64, 1))
    return tensors


@pytest.mark.parametrize(
    ("strides", "message"),
    [
        ({"q": 2**24}, r"a tile of q with strides .* spans more than 2\^31 bytes"),
        ({"out": 2**24}, "a tile of out"),
        ({"k": 2**25}, "a tile of k"),
        ({"v": 72}, "copies to LDS need the address of v and its strides .* in multiples of 16"),
    ],
)
def test_tensors_that_the_kernel_cannot_address(strides: dict[str, int], message: str) -> None:
    tensors = _views(**strides)
    with pytest.raises(UnsupportedError, match=message):
        dense_attention(**tensors, spec=SMALL, backend="emulator")


def test_dispatch_falls_back_where_the_tensors_do_not_suit() -> None:
    problem = DenseAttentionProblem(1, 1, 1, 128, 128, 64)
    inputs = make_dense_inputs(problem, seed=0)
    wide = torch.zeros(1, 128, 1, 72, dtype=torch.bfloat16)
    wide[..., :64] = inputs.k
    out = dense_attention(inputs.q, wide[..., :64], inputs.v, backend="emulator")
    expected = dense_attention(inputs.q, inputs.k, inputs.v, backend="emulator")
    torch.testing.assert_close(out, expected, rtol=2e-2, atol=2e-2)


def test_more_lds_than_there_is() -> None:
    with pytest.raises(SpecError, match="3 buffers of 128 keys take 227328 bytes of LDS, of 163840"):
        Gfx950DenseSpec(block_n=128, num_buffers=3).check(DenseAttentionProblem(**BASE))
