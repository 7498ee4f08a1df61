"""The registry of levers, the table of what each does, schedules, and the command."""

import csv
from dataclasses import fields

import pytest
from machine_code import FILES, instructions, kernel_of, stored_kernel

from workbench.cli import main
from workbench.compiler import installed_triton_version, triton_versions
from workbench.device import load_device
from workbench.dispatch import select_spec
from workbench.errors import ParameterError, UnsupportedError
from workbench.gfx950.dataflow import moves_of_probabilities, reads_by_product
from workbench.gfx950.emulator.program import parse_program
from workbench.inspection import inspect_kernel
from workbench.inspection.schedule import schedule, strip_text
from workbench.levers import INSTRUMENTS, find_kernel, load_kernels
from workbench.levers.emulated import conflict_cycles, small_problem
from workbench.levers.show import csv_rows, fact_table
from workbench.levers.table import base_of, lever_table
from workbench.levers.words import difference
from workbench.published import load_published
from workbench.scenarios import find
from workbench.spec import KernelSpec
from workbench.spec_gfx950 import Gfx950DenseSpec
from workbench.studies.schedule_views import schedule_plot

GLUON = find_kernel("gfx950-dense")
HEADLINE = find("dense_headline").problem
QK = "v_mfma_f32_32x32x16_bf16 v[0:15], v[16:19], v[20:23], 0"
PV = "v_mfma_f32_32x32x16_bf16 v[64:79], v[24:27], v[28:31], v[64:79]"


@pytest.fixture
def run(capsys, monkeypatch):
    """Run `workbench levers` in this process: (exit code, standard output, standard error)."""
    monkeypatch.setenv("COLUMNS", "200")

    def run_command(*arguments) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_info:
            main(["levers", *map(str, arguments)])
        captured = capsys.readouterr()
        return exit_info.value.code or 0, captured.out, captured.err

    return run_command


def spec_classes(root=KernelSpec) -> list[type]:
    """Specs that a kernel is built from: those without a subclass."""
    below = root.__subclasses__()
    return [found for child in below for found in spec_classes(child)] if below else [root]


def test_every_spec_has_its_levers_on_file():
    assert {kernel.spec_class for kernel in load_kernels()} == set(spec_classes())


@pytest.mark.parametrize("kernel", load_kernels(), ids=lambda kernel: kernel.kernel)
class TestRegistry:
    def test_every_field_is_a_lever_or_geometry_and_the_other_way_round(self, kernel):
        listed = sorted([*kernel.geometry, *(lever.field for lever in kernel.levers)])
        assert listed == sorted(field.name for field in fields(kernel.spec_class))

    def test_a_lever_has_values_that_differ_and_that_some_spec_takes(self, kernel):
        for lever in kernel.levers:
            assert len(set(lever.values)) == len(lever.values) > 0
            spec = kernel.spec_class()
            taken = [spec.with_changes(**{lever.field: value}) for value in lever.values]
            assert len(set(taken)) == len(lever.values)

    def test_a_lever_says_what_it_changes_who_sees_it_and_what_was_published(self, kernel):
        topics = {row.topic for row in load_published()}
        for lever in kernel.levers:
            assert lever.changes.endswith("."), lever.field
            assert lever.instruments, lever.field
            assert set(lever.instruments) <= set(INSTRUMENTS), lever.field
            assert set(lever.published) <= topics, lever.field
            assert all(limit.where and limit.why for limit in lever.unavailable), lever.field

    def test_the_default_scenario_is_of_the_kernels_lane(self, kernel):
        assert type(base_of(kernel, find(kernel.scenario).problem)) is kernel.spec_class


def test_unknown_names_are_refused():
    with pytest.raises(ParameterError, match=r"no kernel 'dens'; choose one of dense, gfx950-dense"):
        find_kernel("dens")
    with pytest.raises(ParameterError, match=r"has no lever 'pad'; it has transposed_pv"):
        GLUON.lever("pad")
    with pytest.raises(UnsupportedError, match="gfx950-dense is for dense problems"):
        base_of(GLUON, find("decode_d128_b16").problem)


def test_words_are_made_from_both_sides():
    before = {
        "moves_of_p": 8,
        "valu": 100,
        "vgprs": 200,
        "vmcnt": "0, 0",
        "efficiency": 0.8,
        "voted": 0.9,
        "agprs": None,
    }
    after = {"moves_of_p": 0, "valu": 99, "vgprs": 200, "vmcnt": "2, 2", "efficiency": 0.85, "voted": 0.9, "agprs": 4}
    assert difference(before, after) == (
        "removes 8 cross-lane moves between QK and PV; vmcnt waits: 2, 2 instead of 0, 0; "
        "removes 1 plain vector instruction; modelled MFMA efficiency: 85.0% instead of 80.0%"
    )
    assert difference(after, before).startswith("adds 8 cross-lane moves between QK and PV; vmcnt waits: 0, 0 instead")
    assert difference(before, before) == "changes no fact of this table"


def test_small_differences_are_counted_not_told():
    keys = ("vgprs", "mfma", "valu", "packed", "trans", "cross_lane", "barriers")
    told = difference(dict.fromkeys(keys, 10), {key: 11 + place for place, key in enumerate(keys)})
    assert told.startswith("adds 7 barriers; adds 6 cross-lane moves in all; ")
    assert told.endswith("and 2 smaller differences")


def test_reads_are_told_apart_by_the_product_they_feed():
    """K straight, V through a conversion and around the loop's end; a read of something else feeds none."""
    loop = instructions(
        "v_cvt_pk_bf16_f32 v24, v40, v41",
        PV,
        "ds_read_b128 v[16:19], v1",
        "ds_read_b32 v90, v1",
        QK,
        "ds_read_b64_tr_b16 v[40:41], v1",
        "ds_read_b64_tr_b16 v[26:27], v1",
    )
    assert reads_by_product(loop) == {2: "fresh", 5: "carried", 6: "carried"}


def test_moves_of_p_are_those_behind_the_exponentials():
    """A move of the maximum stands in front of them, one of the denominator feeds no product."""
    loop = instructions(
        QK,
        "v_permlane32_swap_b32_e32 v50, v51",
        "v_exp_f32_e32 v0, v50",
        "v_cvt_pk_bf16_f32 v28, v0, v1",
        "v_permlane32_swap_b32_e32 v28, v29",
        "v_permlane32_swap_b32_e32 v60, v61",
        PV,
    )
    assert moves_of_probabilities(loop) == 1


LOOP = f"""
.Lloop:
	{QK}
	v_cmp_neq_f32_e32 vcc, 1.0, v32
	s_and_saveexec_b64 s[0:1], vcc
	s_cbranch_execz .Lrest
	v_pk_mul_f32 v[64:65], v[64:65], v[32:33]
.Lrest:
	s_or_b64 exec, exec, s[0:1]
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_setprio 1
	{PV}
	v_exp_f32_e32 v0, v1
	ds_read_b64_tr_b16 v[24:25], v40
	{PV}
	buffer_load_dwordx4 v4, s[0:3], 0 offen lds
	v_permlane32_swap_b32_e32 v60, v61
	s_cbranch_scc1 .Lloop
	s_endpgm
"""


def test_a_schedule_is_a_character_for_each_instruction():
    slots = schedule(inspect_kernel(kernel_of(LOOP, vgprs=96)))
    assert strip_text(slots) == ["QK  M", "    m..(p).w|P", "PV  MerM", "    Dc."]
    assert [line[4:] for line in strip_text(slots, 2)] == ["M", "m.", ".(", "p)", ".w", "|P", "Me", "rM", "Dc", "."]
    assert len(slots) == 16
    assert schedule(inspect_kernel(stored_kernel("handwritten.s")))[0].product == ""


def test_the_picture_holds_both_variants():
    both = [inspect_kernel(kernel_of(LOOP, vgprs=96)), inspect_kernel(stored_kernel("two_kernels.s", "attend_small"))]
    picture = schedule_plot(both, ["lazy", "plain"], "two loops")
    assert picture.alt == f"two loops. lazy: 16 instructions, plain: {len(both[1].hot_instructions)} instructions"
    assert [axes.get_title(loc="left") for axes in picture.figure.axes] == ["lazy", "plain"]
    assert picture._repr_png_()[0].startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def switched():
    """Rows of some levers, by label."""
    levers = ("transposed_pv", "cluster", "setprio", "prefetch", "exp2_fast", "mask_split", "wide_lds_dma")
    rows = lever_table(GLUON, HEADLINE, [installed_triton_version()], levers=levers, emulate=False)
    assert {row.status for row in rows} == {"ok"}
    return {row.label: row for row in rows}


@pytest.mark.parametrize(
    ("setting", "fact", "off", "on"),
    [
        ("transposed_pv", "moves_of_p", 8, 0),
        ("cluster", "exp_in_pv", 0, 16),
        ("setprio", "setprio", 0, 2),
        ("wide_lds_dma", "copies", "16 x 4 bytes a lane", "4 x 16 bytes a lane"),
        ("prefetch", "vmcnt", "0, 0", "2, 2"),
    ],
)
def test_a_lever_shows_in_its_fact(switched, setting, fact, off, on):
    row = switched[f"{setting}=false"]
    assert (row.facts[fact], switched["base"].facts[fact]) == (off, on)
    assert row.words.startswith("true over false: ")


def test_guards_and_masks_cost_instructions(switched):
    base = switched["base"].facts
    assert switched["exp2_fast=false"].facts["masks"] - base["masks"] == 3 * base["trans"] - 3
    unsplit = switched["mask_split=false"].facts
    assert unsplit["masks"] == base["masks_tail"] > base["masks"]
    assert unsplit["masks_tail"] == 0
    assert "removes 8 cross-lane moves between QK and PV" in switched["transposed_pv=false"].words


def test_facts_are_of_one_iteration(switched):
    facts = switched["base"].facts
    assert (facts["mfma"], facts["lds_reads"], facts["spills"]) == (32, "16 b128, 32 b64_tr_b16", 0)
    assert facts["exp_per_score"] == pytest.approx(33 / 32)


@pytest.mark.parametrize("version", triton_versions())
def test_the_gluon_kernel_reaches_what_was_asked_of_it(version):
    """60 % of the matrix pipe and more than the portable kernel, modelled.

    Counted once, its rescale stands against it; a wave that needs none branches around that.
    """
    portable = base_of(find_kernel("dense"), HEADLINE)
    rows = lever_table(GLUON, HEADLINE, [version], levers=["setprio"], beside={"portable": portable}, emulate=False)
    ours, theirs = rows[0], rows[1]
    assert ours.facts["efficiency"] >= 0.60
    assert ours.facts["voted"] > theirs.facts["voted"]
    assert ours.facts["voted"] >= 0.90
    assert theirs.inspection.voted_budget is None
    assert "never beside an MFMA" in ours.inspection.budget.obstacle()


def test_pads_free_the_reads_of_bank_conflicts():
    """The published sweep of the V pad, 30/29/11/0, has no unit; the emulator's has the ratios 3 : 3 : 1 : 0."""
    problem, version = small_problem(HEADLINE), installed_triton_version()

    def cycles(**pads) -> dict[str, int]:
        return conflict_cycles(GLUON, problem, Gfx950DenseSpec(wide_lds_dma=True, **pads), version)

    sweep = [cycles(lds_v_pad=pad) for pad in (0, 8, 16, 32)]
    worst = sweep[0]["conflicts_v"]
    assert worst > 0
    assert [found["conflicts_v"] / worst for found in sweep] == pytest.approx([1, 1, 1 / 3, 0])
    assert {found["conflicts_k"] for found in sweep} == {0}
    bare = cycles(lds_k_pad=0)
    assert bare["conflicts_k"] > worst
    assert bare["conflicts_v"] == bare["conflicts_other"] == 0


def test_emulated_code_has_the_places_of_the_code_that_was_read():
    program = parse_program((FILES / "two_kernels.s").read_text(), "attend_small")
    assert [each.text for each in program.code.instructions] == [each.text for each in program.instructions]


def test_what_no_kernel_can_be_built_for_is_a_row_with_its_reason():
    short = HEADLINE.with_changes(head_size=64)
    rows = lever_table(GLUON, short, [installed_triton_version()], levers=["wide_lds_dma"], emulate=False)
    assert [row.status for row in rows] == ["ok", "unsupported"]
    assert "wide_lds_dma is for head size 128" in rows[1].words
    assert "unsupported" in csv_rows(rows)[1].values()
    assert fact_table(rows, "levers").row_count == 2


def test_command_lists_and_writes(run, tmp_path):
    path = tmp_path / "levers.csv"
    code, out, _ = run("--kernel", "gfx950-dense", "--csv", path)
    assert code == 0
    assert "30/29/11/0" in " ".join(out.split())
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["field"] for row in rows} == {lever.field for lever in GLUON.levers}
    code, _, err = run("--csv", path)
    assert code == 2
    assert "exists" in err


def test_command_prints_one_table_and_a_strip(run, tmp_path):
    path = tmp_path / "table.csv"
    version = installed_triton_version()
    code, out, err = run("table", "--triton", version, "--lever", "setprio", "--no-emulate", "--csv", path)
    assert code == 0, err
    assert "adds 2 s_setprio" in out
    assert "portable kernel" in out
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["setting"] for row in rows] == ["base", "portable kernel", "setprio=false"]
    assert [row["setprio (static)"] for row in rows] == ["2", "0", "0"]
    code, out, _ = run("strip", "--spec", "setprio=false")
    assert code == 0
    assert "PV  M" in out
    assert "P s_setprio" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--kernel", "x"), "there is no kernel 'x'"),
        (("table", "--kernel", "x"), "there is no kernel 'x'"),
        (("table", "--lever", "pad"), "has no lever 'pad'"),
        (("table", "--scenario", "decode_d128_b16"), "is for dense problems"),
        (("table", "--spec", "pad=1"), "has no field 'pad'"),
        (("table", "--triton", "1.0"), "Triton 1.0 is not available"),
        (("strip", "--spec", "lds_v_pad=7"), "lds_v_pad must be one of"),
    ],
)
def test_command_refuses_in_one_line(run, arguments, message):
    code, _, err = run(*arguments)
    assert code == 2
    assert message in " ".join(err.split())
    assert "Traceback" not in err


@pytest.mark.parametrize("name", ["unified-2d", "gfx950-unified-2d"])
def test_the_base_is_what_dispatch_picks_for_the_kernel(name):
    kernel = find_kernel(name)
    problem = find(kernel.scenario).problem
    portable = name == "unified-2d"
    chosen = select_spec(problem, load_device("mi355x"), "2d", portable=portable).spec
    assert base_of(kernel, problem) == chosen
    assert type(chosen) is kernel.spec_class
