"""workbench.golden: what counts as the same machine code, and what the gate says about a difference."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from workbench import golden
from workbench.cli.app import app
from workbench.compiler import (
    KernelRef,
    KernelRequest,
    compile_kernel,
    describe_argument,
    installed_triton_version,
    pointer_argument,
)
from workbench.compiler.figures import RegisterFigures
from workbench.compiler.normalise import machine_code_digest, normalise_assembly
from workbench.compiler.shipped import shipped_requests, shipped_variants
from workbench.errors import CompileError, GoldenError

KERNEL = """
import triton
import triton.language as tl


@triton.jit
def shift(p_x, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(p_x + o, tl.load(p_x + o, mask=o < n) + 1.0, mask=o < n)
"""

AMD = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
	.text
	.globl	shift                           ; -- Begin function shift
	.p2align	8
shift:                                  ; @shift
.Lfunc_begin0:
	.cfi_startproc
	.file	1 "/home/somebody" "shift.py"
	.loc	1 7 0 prologue_end              ; shift.py:7:0
	s_load_dwordx2 s[2:3], s[0:1], 0x0
.Ltmp0:
.LBB0_1:                                ; =>This Inner Loop Header: Depth=1
	v_add_f32_e32 v1, 1.0, v1
	s_cbranch_scc1 .LBB0_1
	s_endpgm
.Lfunc_end0:
	.size	shift, .Lfunc_end0-shift
	.section	.AMDGPU.csdata,"",@progbits
; NumVgprs: 12
	.section	.debug_str,"MS",@progbits,1
.Linfo_string0:
	.asciz	"/home/somebody"
	.section	".note.GNU-stack","",@progbits
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .vgpr_count:     12
...
	.end_amdgpu_metadata
	.section	.debug_line,"",@progbits
.Lline_table_start0:
"""

PTX = """
.version 8.7
.target sm_90a
	// .globl	shift                   // -- Begin function shift
.visible .entry shift(
	.param .u64 shift_param_0
)
{
	.reg .b32 	%r<3>;
	.loc	1 7 0                           // shift.py:7:0
$L__func_begin0:
	{ cvt.rn.bf16.f32 %r1, %r2; mov.b32 %r2, %r1; }
$L__tmp1:
$L__BB0_2:
	@%p1 bra 	$L__BB0_2;
	ret;
$L__func_end0:
}
	.file	1 "/home/somebody/shift.py"
	.section	.debug_abbrev
	{
.b8 1                                   // Abbreviation Code
	}
	.section	.debug_macinfo	{	}
"""


def entry(code="a", **changes):
    return golden.GoldenEntry(
        **{"sha256": code, "lines": 9, "vgprs": 8, "agprs": 0, "spills": 0, "sgpr_spills": 0, "lds_bytes": 0} | changes
    )


def test_amd_assembly_keeps_code_and_loses_the_rest():
    assert normalise_assembly(AMD).splitlines() == [
        '.amdgcn_target "amdgcn-amd-amdhsa--gfx950"',
        ".text",
        ".globl shift",
        ".p2align 8",
        "shift:",
        "s_load_dwordx2 s[2:3], s[0:1], 0x0",
        ".LBB0_1:",
        "v_add_f32_e32 v1, 1.0, v1",
        "s_cbranch_scc1 .LBB0_1",
        "s_endpgm",
        ".Lfunc_end0:",
        ".size shift, .Lfunc_end0-shift",
        '.section .AMDGPU.csdata,"",@progbits',
        ".amdgpu_metadata",
        "---",
        "amdhsa.kernels:",
        "- .agpr_count: 0",
        ".vgpr_count: 12",
        "...",
        ".end_amdgpu_metadata",
    ]


def test_ptx_keeps_code_and_loses_the_rest():
    assert normalise_assembly(PTX).splitlines() == [
        ".version 8.7",
        ".target sm_90a",
        ".visible .entry shift(",
        ".param .u64 shift_param_0",
        ")",
        "{",
        ".reg .b32 %r<3>;",
        "{ cvt.rn.bf16.f32 %r1, %r2; mov.b32 %r2, %r1; }",
        "$L__BB0_2:",
        "@%p1 bra $L__BB0_2;",
        "ret;",
        "$L__func_end0:",
        "}",
    ]


@pytest.mark.parametrize(
    "change",
    [
        ("v_add_f32_e32 v1, 1.0, v1", "v_add_f32_e32 v1, 2.0, v1"),
        ("\ts_endpgm\n", ""),
        ("s_cbranch_scc1", "s_cbranch_scc0"),
        (".vgpr_count:     12", ".vgpr_count:     13"),
    ],
)
def test_digest_sees_code_and_register_counts(change):
    assert machine_code_digest(AMD.replace(*change)) != machine_code_digest(AMD)


@pytest.mark.parametrize(
    "change", [("somebody", "else"), (".loc	1 7", ".loc	1 99"), ("; @shift", "; moved"), (".Ltmp0:\n", "")]
)
def test_digest_ignores_what_does_not_run(change):
    assert machine_code_digest(AMD.replace(*change)) == machine_code_digest(AMD)


@pytest.mark.parametrize("target", ["gfx950", "sm_90"])
def test_a_moved_kernel_has_the_same_digest(target, tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    digests = set()
    for folder, before in (("one", ""), ("two", "# moved\n\n" * 7)):
        path = tmp_path / folder / "shift.py"
        path.parent.mkdir()
        path.write_text(before + KERNEL)
        request = KernelRequest(
            kernel=KernelRef("shift", "shift", str(path)),
            arguments={"p_x": pointer_argument("float32"), "n": describe_argument(1000)},
            constexprs={"BLOCK": 256},
            target=target,
        )
        digests.add(machine_code_digest(compile_kernel(request).assembly))
    assert len(digests) == 1


def test_compare_names_each_kind():
    recorded = {"same": entry("a"), "other": entry("a"), "gone": entry("a")}
    current = {"same": replace(recorded["same"], vgprs=99), "other": entry("b"), "new": entry("a")}
    assert golden.compare(recorded, current) == golden.Comparison(("other",), ("new",), ("gone",))


def test_records_read_back(tmp_path):
    path = tmp_path / "3.6.0-gfx950.json"
    entries = {"b": entry("x", vgprs=None, spills=None, sgpr_spills=None), "a": entry("y")}
    golden.write_entries(path, entries)
    assert golden.read_entries(path) == entries
    assert json.loads(path.read_text())["triton"] == "3.6.0"
    assert path.read_text().index('"a"') < path.read_text().index('"b"')
    assert golden.read_entries(tmp_path / "none.json") == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"variants": {"a": {"sha256": "x"}}}', '{"variants": []}'])
def test_malformed_record(text, tmp_path):
    path = tmp_path / "3.6.0-gfx950.json"
    path.write_text(text)
    with pytest.raises(GoldenError, match="not a golden record"):
        golden.read_entries(path)


@pytest.fixture
def gate(tmp_path, monkeypatch):
    """A gate over three variants whose entries the test sets, and the directory of its records."""
    outcomes = {"2d/a": entry("a"), "2d/b": entry("b"), "dense/c": entry("c")}
    monkeypatch.setattr(golden, "data_path", tmp_path.joinpath)
    monkeypatch.setattr(golden, "shipped_requests", lambda *_: {name: name for name in outcomes})
    monkeypatch.setattr(golden, "is_cached", lambda request: False)
    monkeypatch.setattr(golden, "input_digests", lambda requests, progress: [repr(outcomes[name]) for name in requests])
    monkeypatch.setattr(golden, "compile_many", lambda requests, progress: [outcomes[name] for name in requests])
    monkeypatch.setattr(golden, "make_entry", lambda outcome: outcome)
    run("update", "--triton", "3.6.0", "--target", "gfx950")
    return outcomes


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["golden", *arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.usefixtures("gate")
def test_check_passes_what_update_recorded():
    assert "3 variants, as on record" in run("check")


def test_check_names_the_altered_variant_only(gate):
    gate["2d/b"] = entry("changed", vgprs=77)
    output = run("check", code=1)
    assert "altered   2d/b" in output
    assert "77 VGPRs" in output
    assert "2d/a" not in output
    assert "as on record" in run("check", "--variant", "dense/*")


@pytest.fixture
def compiled(gate, monkeypatch):
    """Names of the variants that the gate compiles."""
    names = []

    def compile_many(requests, **_):
        names.extend(requests)
        return [gate[name] for name in requests]

    monkeypatch.setattr(golden, "compile_many", compile_many)
    return names


@pytest.mark.usefixtures("gate")
def test_what_the_compiler_makes_of_the_ir_on_record_is_not_compiled(compiled):
    assert "3 variants, as on record; 3 of them by their IR" in run("check")
    assert compiled == []
    assert "3 variants, as on record\n" in run("check", "--every")
    assert len(compiled) == 3


def test_another_ir_is_compiled_and_may_give_the_same_code(gate, compiled, monkeypatch):
    monkeypatch.setattr(golden, "input_digests", lambda requests, progress: [f"{name} anew" for name in requests])
    assert "3 variants, as on record\n" in run("check")
    assert compiled == list(gate)
    compiled.clear()
    run("update", "--triton", "3.6.0", "--target", "gfx950")
    compiled.clear()
    assert "3 of them by their IR" in run("check")
    assert compiled == []


@pytest.mark.parametrize("edit", [{"sha256": "x"}, {"spills": 7}, {"sgpr_spills": 7}, {"seal": ""}, {"seal": "0" * 64}])
@pytest.mark.usefixtures("gate")
def test_an_entry_that_was_edited_is_compiled(compiled, edit):
    path = golden.golden_path("3.6.0", "gfx950")
    entries = golden.read_entries(path)
    golden.write_entries(path, entries | {"2d/b": replace(entries["2d/b"], **edit)})
    output = run("check", code=1 if "sha256" in edit else 0)
    assert compiled == ["2d/b"]
    assert ("altered   2d/b" in output) == ("sha256" in edit)


def test_check_names_appeared_and_vanished(gate):
    gate["2d/new"] = gate.pop("2d/a")
    output = run("check", code=1)
    assert "appeared  2d/new" in output
    assert "vanished  2d/a" in output


def test_check_fails_on_a_variant_that_does_not_compile(gate):
    gate["2d/b"] = CompileError("LLVM said no")
    output = run("check", code=1)
    assert "failed    2d/b: LLVM said no" in output
    assert "vanished" not in output


def test_check_lists_spills_of_what_dispatch_picks(gate):
    gate["2d/a"], gate["2d/a+lever=1"] = entry("a", sgpr_spills=3), entry("e", sgpr_spills=3)
    gate["2d/b"], gate["2d/b+lever=1"] = entry("b", spills=4), entry("d", spills=4)
    run("update", "--triton", "3.6.0", "--target", "gfx950")
    output = run("check")
    assert "spills    2d/a: 8 VGPRs (0 of them AGPRs), 0 VGPRs and 3 SGPRs spilled, " in output
    assert "spills    2d/b: " in output
    assert "lever" not in output


def test_update_touches_only_the_chosen_variants(gate):
    gate["2d/b"], gate["dense/c"] = entry("changed"), entry("changed too")
    del gate["2d/a"]
    run("update", "--triton", "3.6.0", "--target", "gfx950", "--variant", "dense/*")
    recorded = golden.read_entries(golden.golden_path("3.6.0", "gfx950"))
    assert {name: e.sha256 for name, e in recorded.items()} == {"2d/a": "a", "2d/b": "b", "dense/c": "changed too"}
    assert "altered   2d/b" in run("update", "--triton", "3.6.0", "--target", "gfx950")
    recorded = golden.read_entries(golden.golden_path("3.6.0", "gfx950"))
    assert {name: e.sha256 for name, e in recorded.items()} == {"2d/b": "changed", "dense/c": "changed too"}


def test_update_keeps_the_entry_of_what_does_not_compile(gate):
    gate["2d/a"], gate["2d/b"] = CompileError("LLVM said no"), entry("changed")
    run("update", "--triton", "3.6.0", "--target", "gfx950", code=1)
    recorded = golden.read_entries(golden.golden_path("3.6.0", "gfx950"))
    assert {name: e.sha256 for name, e in recorded.items()} == {"2d/a": "a", "2d/b": "changed", "dense/c": "c"}


@pytest.mark.usefixtures("gate")
def test_unknown_pattern_and_missing_record_say_so():
    with pytest.raises(GoldenError, match=r"no variant matches '5d/\*'"):
        golden.check_pair("3.6.0", "gfx950", "5d/*")
    result = CliRunner().invoke(app, ["golden", "check", "--target", "sm_90"])
    assert isinstance(result.exception, GoldenError)


def test_shipped_variants_cover_what_the_gate_promises():
    variants = shipped_variants("gfx950")
    names = [variant.name for variant in variants]
    assert len(names) >= 60
    assert len(set(names)) == len(names)
    assert len({(variant.problem, variant.spec) for variant in variants}) == len(names)
    bases = {name for name in names if "+" not in name}
    for head_size in (64, 128, 256):
        for kernel in ("2d", "3d", "dense"):
            assert any(name.startswith(f"{kernel}/d{head_size}-") for name in bases)
    requests = shipped_requests("gfx950", installed_triton_version())
    assert sum(name.endswith(":reduce_segments") for name in requests) == sum(n.startswith("3d/") for n in bases)


def test_levers_are_compiled_both_ways():
    by_name = {variant.name: variant for variant in shipped_variants("gfx950")}
    seen = {}
    for name, variant in by_name.items():
        base, plus, lever = name.partition("+")
        if plus:
            field = lever.partition("=")[0]
            seen.setdefault(field, set()).update({getattr(variant.spec, field), getattr(by_name[base].spec, field)})
    flags = ["transposed_qk", "mask_once", "mask_limit", "mask_split", "fast_paged_kv", "lazy_rescale", "fp8_native_qk"]
    assert all(seen[flag] >= {True, False} for flag in flags)
    assert all(seen[knob] >= {True, False} for knob in ("async_copy", "block_pingpong"))
    assert seen["waves_per_eu"] >= {1, 2, 3, 4}
    assert {"num_stages", "matrix_instr_nonkdim", "schedule_hint", "buffer_ops", "i64_addressing"} <= seen.keys()


@pytest.mark.parametrize(("version", "target"), golden.recorded_pairs())
def test_records_hold_the_shipped_variants(version, target):
    recorded = golden.read_entries(golden.golden_path(version, target))
    assert recorded.keys() == shipped_requests(target, installed_triton_version()).keys()


@pytest.mark.parametrize(("version", "target"), golden.recorded_pairs())
def test_nothing_that_dispatch_picks_spills_to_memory(version, target):
    """Scalar registers do spill in places: to lanes of vector registers, 64 each, of which two hold all of them."""
    recorded = golden.read_entries(golden.golden_path(version, target))
    picked = {name: entry for name, entry in recorded.items() if "+" not in name}
    assert [name for name, entry in picked.items() if entry.spills] == []
    assert max(entry.sgpr_spills for entry in picked.values()) in range(1, 2 * 64)


def test_an_entry_counts_spills_of_both_kinds():
    figures = RegisterFigures(24, 0, 0, agprs=0, sgprs=100, vgpr_spills=0, sgpr_spills=5)
    kernel = SimpleNamespace(assembly=AMD, registers=figures, lds_bytes=64)
    made = golden.make_entry(kernel)
    assert (made.spills, made.sgpr_spills, made.spilled) == (0, 5, True)
    assert not golden.make_entry(SimpleNamespace(assembly=PTX, registers=None, lds_bytes=0)).spilled
