"""Inspection of files and compiled kernels, comparison, pages, and the command."""

import json
import re
import shutil

import pytest
from machine_code import FILES, FRAME
from rich.console import Console

from workbench.cli import main
from workbench.compiler import compile_many, installed_triton_version, triton_versions
from workbench.compiler.shipped import shipped_requests
from workbench.errors import AssemblyError, CompileError, ReportError, SpecError
from workbench.gfx950 import objdump
from workbench.inspection import Comparison, inspect_compiled, inspect_file
from workbench.inspection.listing import listing
from workbench.spec import DenseSpec, Unified2DSpec
from workbench.spec_changes import change_spec


@pytest.fixture
def run(capsys, monkeypatch):
    """Run `workbench inspect` in this process: (exit code, standard output, standard error)."""
    monkeypatch.setenv("COLUMNS", "180")

    def run_command(*arguments) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_info:
            main(["inspect", *map(str, arguments)])
        captured = capsys.readouterr()
        return exit_info.value.code or 0, captured.out, captured.err

    return run_command


def shown(renderable) -> str:
    console = Console(width=180, force_terminal=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def figures(inspection_or_comparison) -> dict:
    """(section, row) -> values."""
    return {
        (section.title, row.label): row.values
        for section in inspection_or_comparison.sections()
        for row in section.rows
    }


def test_one_kernel_of_a_file():
    (found,) = inspect_file(FILES / "two_kernels.s", "attend_large")
    rows = figures(found)
    assert rows["Resources", "AGPRs"] == (136,)
    assert rows["Occupancy", "workgroups per CU"] == (1,)
    assert rows["Occupancy", "limited by"] == ("registers",)
    assert rows["Loops", "  .Lattend_large_loop"][-1] == "hot"
    assert rows["Instruction mix", "  MFMA 32x32x16 bf16"] == (3, 3)
    assert rows["Instruction mix", "VMEM store"] == (1, 0)
    between = "Between the MFMA of the hot loop"
    assert rows[between, "longest run from QK to PV"] == (7,)
    assert rows[between, "longest run from PV to QK"] == (6,)
    budget = next(section for section in found.sections() if "budget" in section.title)
    assert budget.evidence == "modelled"
    assert any("upper one" in line for line in budget.lines)
    assert {section.evidence for section in found.sections() if section.title != budget.title} == {"static"}


def test_summary_for_studies():
    (found,) = inspect_file(FILES / "two_kernels.s", "attend_small")
    summary = found.summary()
    assert {"vgprs": 64, "workgroups_per_cu": 8, "hot mfma": 3, "qk_to_pv": 7}.items() <= summary["static"].items()
    assert summary["modelled"]["mfma_efficiency"] == 0.96
    assert summary["modelled"]["binding"] == "vector math"


def test_figures_that_the_file_lacks_can_be_given(tmp_path):
    (bare,) = inspect_file(FILES / "handwritten.s", lds_bytes=80 * 1024, num_warps=2)
    assert (bare.occupancy.workgroups_per_cu, bare.occupancy.limiters) == (2, ("LDS",))
    # Triton keeps the dynamic LDS and the waves in a file beside the assembly.
    shutil.copy(FILES / "gfx942.s", tmp_path / "attend.amdgcn")
    (tmp_path / "attend.json").write_text(json.dumps({"shared": 40960, "num_warps": 2, "name": "attend"}))
    (beside,) = inspect_file(tmp_path / "attend.amdgcn")
    assert (beside.occupancy.lds_bytes, beside.occupancy.num_warps) == (40960, 2)


def test_what_is_not_known_is_noted(tmp_path):
    path = tmp_path / "probe.s"
    text = FRAME.format(code="\ts_setpc_b64 s[4:5]", vgprs=8, threads=64).replace("gfx950", "gfx90a")
    path.write_text(text.replace("    .max_flat_workgroup_size: 64\n", ""))
    (found,) = inspect_file(path)
    assert (found.occupancy, found.budget, found.hot) == (None, None, None)
    for note in (
        "no limits and costs are known for gfx90a",
        "must be given (--lds)",
        "1024 threads are assumed",
        "jumps through registers",
        "no loop",
    ):
        assert any(note in line for line in found.notes), note
    assert "Occupancy" not in {section.title for section in found.sections()}


def test_a_binary_without_disassembler_still_has_its_registers(monkeypatch):
    monkeypatch.setenv(objdump.OBJDUMP_VARIABLE, "/nonexistent/llvm-objdump")
    small, large = inspect_file(FILES / "two_kernels.hsaco")
    assert figures(large)["Resources", "VGPRs used, AGPRs included"] == (200,)
    assert large.occupancy.workgroups_per_cu == 1
    assert large.budget is None
    assert any("registers and metadata only" in note for note in large.notes)
    assert "Instruction mix" not in {section.title for section in small.sections()}
    assert "registers and metadata only" in shown(large)


def test_comparison_sets_every_figure_beside_the_other():
    small, large = inspect_file(FILES / "two_kernels.s")
    rows = figures(Comparison(small, large))
    assert rows["Resources", "VGPRs used, AGPRs included"] == (64, 200, "+136")
    assert rows["Resources", "SGPRs"] == (22, 22, "")
    assert rows["Occupancy", "workgroups per CU"] == (8, 1, "-7")
    assert rows["Occupancy", "limited by"] == ("registers and wave slots", "registers", "differs")
    assert rows["Instruction mix", "MFMA"] == (3, 3, "", 3, 3, "")
    assert not any(section.title == "Loops" for section in Comparison(small, large).sections())


def test_comparison_counts_what_one_side_lacks_as_zero_and_names_both_targets():
    (ours,) = inspect_file(FILES / "gfx942.s")
    (theirs,) = inspect_file(FILES / "two_kernels.s", "attend_small")
    comparison = Comparison(ours, theirs)
    rows = figures(comparison)
    assert rows["Instruction mix", "  MFMA 32x32x8 bf16"] == (3, 0, "-3", 3, 0, "-3")
    assert rows["Instruction mix", "  MFMA 32x32x16 bf16"] == (0, 3, "+3", 0, 3, "+3")
    budget = "Issue budget of the hot loop, one iteration of one wave"
    assert rows[budget, "TRANS cycles"] == (16, 8, "-8")
    assert rows[budget, "MFMA efficiency, at most, every block run"] == (0.96, 0.96, "")
    assert comparison.notes[0] == "the targets differ: gfx942 and gfx950"


def test_listing_has_source_text_where_the_file_is_at_hand(tmp_path):
    source = tmp_path / "attend_small.py"
    source.write_text("".join(f"line {number}\n" for number in range(1, 21)))
    path = tmp_path / "two.s"
    path.write_text((FILES / "two_kernels.s").read_text().replace('"/src/kernels"', f'"{tmp_path}"'))
    small, large = inspect_file(path)
    lines = listing(small, hot_only=True)
    assert [line.text.split()[0] for line in lines if line.class_name.startswith("MFMA")] == [
        "v_mfma_f32_32x32x16_bf16"
    ] * 3
    assert {line.loop for line in lines} == {"hot"}
    assert [(line.place, line.source_text) for line in lines if line.place][:2] == [
        ("attend_small.py:14", "line 14"),
        ("attend_small.py:15", "line 15"),
    ]
    assert lines[0].label == ".Lattend_small_loop"
    assert len(listing(small)) == small.mix.total
    # The other kernel's source is not there.
    assert {line.source_text for line in listing(large)} == {""}


def test_page_is_self_contained_and_escapes(tmp_path):
    (found,) = inspect_file(FILES / "two_kernels.s", "attend_small")
    page = found.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page
    assert not re.search(r"https?://|<script|<link|src=", page)
    assert page.count("v_mfma_f32_32x32x16_bf16") == 6
    assert "attend_small.py:15" in page
    assert page.count("<table") == page.count("</table>")
    assert "<details" not in found.to_html(assembly=False)
    assert "workgroups per CU" in found._repr_html_()
    with pytest.raises(ReportError, match=r"page\.html exists"):
        found.to_html(tmp_path / "page.html")
    with pytest.raises(ReportError, match="cannot write"):
        found.to_html(tmp_path / "absent" / "page.html")


def test_command_shows_one_kernel_compares_two_and_lists_more(run, tmp_path):
    code, out, _ = run(FILES / "handwritten.s", "--assembly", "all")
    assert code == 0
    assert "scale_rows for gfx950" in out
    assert "global_load_dwordx4 v[4:7], v1, s[4:5] offset:16 nt" in out
    code, out, _ = run(FILES / "gfx942.s", FILES / "handwritten.s", "--html", tmp_path / "page.html")
    assert code == 0
    assert "B - A" in out
    assert "the targets differ" in out
    assert (tmp_path / "page.html").stat().st_size > 5000
    code, out, _ = run(FILES / "two_kernels.s")
    assert "attend_small for gfx950" in out
    assert "attend_large for gfx950" in out
    assert "B - A" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give machine-code files, or --scenario"),
        ((FILES / "gfx942.s", "--scenario", "x"), "give machine-code files, or --scenario"),
        ((FILES / "absent.s",), "cannot read"),
        ((FILES / "gfx942.s", "--kernel", "other"), "choose one of attend"),
        ((FILES / "gfx942.s", "--spec", "num_warps=8"), "--spec: for a --scenario"),
        ((FILES / "gfx942.s", "--against", "num_warps=8"), "--against: for a --scenario"),
        ((FILES / "gfx942.s", "--html", FILES / "gfx942.s"), "exists"),
        (("--scenario", "dense_headline", "--warps", "4"), "--warps: for machine-code files"),
        (("--scenario", "no such"), "there is no scenario"),
        (("--scenario", "decode_d128_b16", "--target", "gfx11"), "unknown target"),
    ],
)
def test_command_refuses_in_one_line(run, arguments, message):
    before = (FILES / "gfx942.s").read_bytes()
    code, _, err = run(*arguments)
    assert code == 2
    assert message in " ".join(err.split())
    assert "Traceback" not in err
    assert (FILES / "gfx942.s").read_bytes() == before


def test_spec_changes_are_typed():
    spec = change_spec(
        Unified2DSpec(), ["num_warps=8", "lazy_rescale=true", "async_copy=off", "schedule_hint=attention"]
    )
    assert (spec.num_warps, spec.lazy_rescale, spec.async_copy, spec.schedule_hint) == (8, True, False, "attention")
    assert change_spec(spec, ["async_copy=none"]).async_copy is None
    assert change_spec(spec, ["num_warps=8,num_stages=1"]) == spec.with_changes(num_warps=8, num_stages=1)
    assert change_spec(DenseSpec(), ["grid=default", "num_persistent=304"]).num_persistent == 304
    for pair, message in (
        ("num_warps", "write field=value"),
        ("num_warps=many", "must be an integer"),
        (f"num_warps={'9' * 5000}", "must be an integer"),
        ("num_warps=\N{SUPERSCRIPT FOUR}", "must be an integer"),
        ("lazy_rescale=2.5", "must be true or false"),
        ("block_q=16", "has no field 'block_q'"),
        ("grid=torus", "grid"),
    ):
        with pytest.raises(SpecError, match=message):
            change_spec(DenseSpec() if pair.startswith("grid") else Unified2DSpec(), [pair])


def test_nothing_to_inspect_in_a_truncated_file(tmp_path):
    path = tmp_path / "cut.amdgcn"
    path.write_text((FILES / "two_kernels.s").read_text()[:1500])
    with pytest.raises(AssemblyError, match="truncated"):
        inspect_file(path)


def llvm_loops(assembly: str) -> dict[str, int]:
    """Label -> depth of every loop header, as LLVM's comments say it."""
    found = {}
    for match in re.finditer(r"^(\.LBB\w+):((?:[^\n]*;[^\n]*\n)(?:\s*;[^\n]*\n)*)", assembly, re.MULTILINE):
        header = re.search(r"This (?:Inner )?Loop Header: Depth=(\d+)", match[2])
        if header:
            found[match[1]] = int(header[1])
    return found


BUILDS = [(target, version) for target in ("gfx950", "gfx942") for version in triton_versions()]


def variants_by_build() -> dict[tuple[str, str], list[str]]:
    """Every shipped kernel, and every lever on one of them, in the builds by turns; gfx950 has what gfx942 lacks."""
    version = installed_triton_version()
    shipped = {target: shipped_requests(target, version) for target in ("gfx950", "gfx942")}
    names = {name.partition("+")[2].partition("=")[0] or name: name for name in reversed(shipped["gfx950"])}
    turns: dict[tuple[str, str], list[str]] = {build: [] for build in BUILDS}
    for index, name in enumerate(names.values()):
        target, version = BUILDS[index % len(BUILDS)]
        turns[target if name in shipped[target] else "gfx950", version].append(name)
    return turns


def check_against_llvm(target: str, version: str, names: list[str]) -> None:
    """Compare occupancy and loops of shipped variants with what LLVM printed.

    No more registers can be alive at once than LLVM needed, and nothing in LLVM's code is unknown.
    """
    requests = shipped_requests(target, version)
    chosen = {name: requests[name] for name in names}
    wrong = []
    compiled = compile_many(list(chosen.values()))
    for name, kernel in zip(chosen, compiled, strict=True):
        if isinstance(kernel, CompileError):
            wrong.append((name, str(kernel)))
            continue
        found = inspect_compiled(kernel)
        loops = {loop.label: loop.depth for loop in found.flow.loops}
        if found.llvm_occupancy != found.kernel.resources.llvm_occupancy:
            wrong.append((name, found.llvm_occupancy, found.kernel.resources.llvm_occupancy))
        if loops != llvm_loops(kernel.assembly):
            wrong.append((name, loops, llvm_loops(kernel.assembly)))
        if not 0 < found.live_vgprs <= found.kernel.resources.vgprs:
            wrong.append((name, "registers alive", found.live_vgprs, found.kernel.resources.vgprs))
        if found.mix.unknown or (found.budget and found.budget.unpriced):
            wrong.append((name, found.mix.unknown, found.budget and found.budget.unpriced))
    assert wrong == []


def test_compiled_variants_agree_with_llvm():
    check_against_llvm("gfx950", installed_triton_version(), ["2d/d64-bf16-prefill", "dense/d64-bf16-causal"])


@pytest.mark.slow
@pytest.mark.parametrize(("target", "version"), BUILDS)
def test_every_shipped_kernel_and_lever_agrees_with_llvm(target, version):
    names = variants_by_build()[target, version]
    assert len(names) >= 10
    check_against_llvm(target, version, names)


@pytest.mark.slow
def test_command_compiles_a_scenario_and_sets_a_lever_beside_it(run):
    code, out, err = run(
        "--scenario",
        "decode_d128_b16",
        "--lane",
        "2d",
        "--spec",
        "num_warps=4",
        "--against",
        "waves_per_eu=1",
        "--assembly",
        "hot",
    )
    assert code == 0, err
    assert "unified_attention_2d" in out
    assert "waves_per_eu=1" in out
    assert "bound that binds" in out
    assert re.search(r"(unified_2d|paged|primitives)\.py:\d+ \S", out)
