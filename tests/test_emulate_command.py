"""`workbench emulate`: scenarios with their options, and files on arguments from the command line."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from tests.emulator_asm import kernel
from workbench.cli import main
from workbench.errors import ParameterError
from workbench.gfx950.emulator.arguments import parse_arguments
from workbench.gfx950.emulator.trace_file import TRACE_COLUMNS

SCALE = (
    "s_load_dwordx4 s[4:7], s[0:1], 0x0",
    "s_load_dword s8, s[0:1], 0x10",
    "v_lshl_add_u32 v1, s2, 6, v0",
    "v_lshlrev_b32_e32 v1, 2, v1",
    "s_waitcnt lgkmcnt(0)",
    "global_load_dword v2, v1, s[4:5]",
    "s_waitcnt vmcnt(0)",
    "v_mul_f32_e32 v2, s8, v2",
    "global_store_dword v1, v2, s[6:7]",
)
"""out[i] = a[i] * factor; a and out are pointers, factor is passed by value."""
RACE = (
    "v_and_b32_e32 v1, 63, v0",
    "v_lshlrev_b32_e32 v1, 2, v1",
    "ds_write_b32 v1, v0",
    "s_waitcnt lgkmcnt(0)",
)
"""Both waves of a workgroup write the same words."""


@pytest.fixture
def run(capsys, monkeypatch):
    """Run the command in this process: (exit code, standard output, standard error)."""
    monkeypatch.setenv("COLUMNS", "200")

    def run_command(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_info:
            main(["emulate", *map(str, arguments)])
        captured = capsys.readouterr()
        return exit_info.value.code or 0, captured.out, captured.err

    return run_command


@pytest.fixture
def scale(tmp_path) -> Path:
    text = kernel(SCALE, pointers=3).assembly
    head, third = text.rsplit("        .size: 8\n        .value_kind: global_buffer", 1)
    path = tmp_path / "scale.amdgcn"
    path.write_text(f"{head}        .size: 4\n        .value_kind: by_value{third}")
    return path


def test_a_file_runs_on_generated_tensors_and_saves_its_output(run, scale, tmp_path):
    out = tmp_path / "result.npy"
    given = ("--arg", "a=arange:f32:2x64", "--arg", "out=nan:f32:128", "--arg", "factor=0.5")
    code, shown, err = run(scale, "--grid", "2", *given, "--out", f"out={out}", "--csv", tmp_path / "c.csv")
    assert (code, err) == (0, "")
    np.testing.assert_array_equal(np.load(out), np.arange(128, dtype=np.float32) / 2)
    assert "written: out" in shown
    assert "no findings" in shown
    counters = pd.read_csv(tmp_path / "c.csv").set_index("Counter_Name")["Counter_Value"]
    assert counters["SQ_WAVES"] == 2


def test_tensor_files_are_read_and_stay_as_they_are(run, scale, tmp_path):
    a, out = tmp_path / "a.npy", tmp_path / "out.pt"
    np.save(a, np.full(64, 3, np.float32))
    torch.save(torch.zeros(64), out)
    before = a.read_bytes(), out.read_bytes()
    new = tmp_path / "new.pt"
    code, _, _ = run(
        scale, "--grid", 1, "--arg", f"a={a}", "--arg", f"out={out}", "--arg", "f=f32:2", "--out", f"out={new}"
    )
    assert code == 0
    assert torch.equal(torch.load(new), torch.full((64,), 6.0))
    assert (a.read_bytes(), out.read_bytes()) == before


def test_where_a_file_names_its_arguments_names_decide(run, scale):
    text = scale.read_text()
    for offset, name in ((0, "a"), (8, "out"), (16, "factor")):
        text = text.replace(f"- .offset: {offset}\n", f"- .name: {name}\n        .offset: {offset}\n")
    scale.write_text(text)
    given = ("--arg", "factor=2.0", "--arg", "a=ones:f32:64", "--grid", 1)
    result = scale.with_suffix(".npy")
    assert run(scale, *given, "--arg", "out=nan:f32:64", "--out", f"out={result}")[0] == 0
    assert (np.load(result) == 2).all()
    code, _, err = run(scale, *given, "--arg", "output=null")
    assert code == 2
    assert "takes a, out, factor; unknown: output; missing: out" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--grid", "0"), "one to three positive extents"),
        (("--grid", "1", "--arg", "a=randn:f32:64"), "takes 3 arguments, got 1; in order: 2 x pointer, 1 x value of 4"),
        (("--grid", "1", "--arg", "a=rand:f32:64"), "the value must be null; a number"),
        (("--grid", "1", "--arg", "a=randn:f31:64"), "the dtype must be one of f64, f32"),
        (("--grid", "1", "--arg", "a=randn:f32"), "extents joined by x, such as randn:f32:64x128"),
        (("--grid", "1", "--arg", "a=randn:i32:4"), "randn needs a floating dtype"),
        (("--grid", "1", "--arg", "a=missing.npy"), "no tensor can be read from this file: [Errno 2]"),
        (("--grid", "1", "--arg", "a=1", "--arg", "a=2"), "a is given twice"),
        (("--grid", "1", "--arg", "a=1", "--arg", "b=null", "--arg", "c=2"), "a is a number, but body takes a pointer"),
        (("--grid", "1", "--arg", "a=null", "--arg", "b=null", "--arg", "c=ones:f32:1"), "takes 4 bytes by value"),
        (("--grid", "1", "--lds", "200000"), "less than or equal to 163840"),
        (("--grid", "1", "--lane", "2d"), "--lane: for scenarios"),
        ((), "such as --grid 4,1,1"),
    ],
)  # fmt: skip
def test_what_a_file_cannot_run_on_is_said_before_it_runs(run, scale, options, message):
    code, out, err = run(scale, *options)
    assert (code, out) == (2, "")
    assert message in err


def test_outputs_go_to_new_files_alone(run, scale, tmp_path):
    there = tmp_path / "there.npy"
    there.write_bytes(b"mine")
    given = (scale, "--grid", 1, "--arg", "a=ones:f32:64", "--arg", "out=zeros:f32:64", "--arg", "f=2.0")
    for option, message in (
        (f"out={there}", "exists"),
        (f"out={tmp_path / 'new.txt'}", "must end in .npy or .pt"),
        (f"out={tmp_path / 'no' / 'new.npy'}", "no folder"),
        (f"f={tmp_path / 'new.npy'}", "f is no tensor argument; there are a, out"),
    ):
        code, out, err = run(*given, "--out", option)
        assert (code, out) == (2, ""), option
        assert message in err
    assert run(*given, "--trace", there)[0] == 2
    assert there.read_bytes() == b"mine"


def test_a_race_ends_with_code_1_unless_it_is_not_looked_for(run, tmp_path):
    path = tmp_path / "race.amdgcn"
    path.write_text(kernel(RACE, pointers=1, threads=128).assembly)
    code, out, _ = run(path, "--grid", 1, "--lds", 256)
    assert code == 1
    assert "lds-race" in out
    assert run(path, "--grid", 1, "--lds", 256, "--no-races")[0] == 0
    code, _, err = run(path, "--grid", 1)
    assert code == 2
    assert "--lds BYTES" in err


def test_random_tensors_follow_the_seed():
    def draw(seed):
        return [argument.value for argument in parse_arguments(["a=randn:f32:8", "b=randn:f32:8"], seed)]

    assert torch.equal(draw(3)[0], draw(3)[0])
    assert not torch.equal(draw(3)[0], draw(4)[0])
    assert not torch.equal(*draw(3))


def test_forms_of_arguments():
    texts = ["a=null", "b=0x10", "c=-2", "d=1e-3", "e=i64:7", "f=zeros:bf16:2x3", "g=arange:i32:4", "h=ones:fp8_e4m3:2"]
    a, b, c, d, e, f, g, h = parse_arguments(texts)
    assert (a.value, b.value, c.value, d.value) == (None, 16, -2, 1e-3)
    assert (e.value, e.type) == (7, "i64")
    assert (f.value.shape, f.value.dtype) == ((2, 3), torch.bfloat16)
    assert g.value.tolist() == [0, 1, 2, 3]
    assert h.value.float().tolist() == [1, 1]
    with pytest.raises(ParameterError, match=r"'0\.5' is no integer"):
        parse_arguments(["n=i32:0.5"])


def test_a_scenario_takes_spec_order_and_trace(run, tmp_path):
    trace = tmp_path / "trace.parquet"
    options = ("--lane", "2d", "--spec", "tile_size=32", "--order-seed", "5", "--no-races", "--trace", trace)
    code, out, err = run("decode_d128_b16", *options)
    assert code == 0, err
    assert "tile_size=32" in out
    assert "within tolerance" in out
    frame = pd.read_parquet(trace)
    assert list(frame.columns) == list(TRACE_COLUMNS)
    assert set(frame["evidence"]) == {"emulated"}
    assert frame["write"].any()
    assert (frame["address"] % 128 == 0).all()
    assert f"{len(frame):,} requests" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--triton", "1.0.0"), "Triton 1.0.0 is not available"),
        (("--spec", "tile=3"), "has no field 'tile'"),
        (("--arg", "a=1", "--lds", "4"), "--arg, --lds: for a file of machine code"),
        (("--trace", "trace.json"), "must end in .parquet or .csv"),
    ],
)
def test_a_scenario_refuses_what_it_cannot_take(run, options, message):
    code, out, err = run("decode_d128_b16", *options)
    assert (code, out) == (2, "")
    assert message in err
