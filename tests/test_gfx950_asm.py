"""Reading assembly and code objects: what whole files hold, and what broken ones lack."""

import struct

import pytest
from machine_code import FILES, kernel_of, stored_kernel

from workbench.errors import AssemblyError, UnsupportedError
from workbench.gfx950 import msgpack, objdump
from workbench.gfx950.asm import parse_assembly, read_assembly, split_operands
from workbench.gfx950.elf import parse_code_object
from workbench.gfx950.objdump import disassemble, parse_objdump
from workbench.inspection.sources import read_machine_code


@pytest.mark.parametrize(
    ("text", "operands", "modifiers"),
    [
        ("v[0:3], v4 offset:16", ("v[0:3]", "v4"), ("offset:16",)),
        ("v0, v1, s[0:3], 0 offen offset:4 lds", ("v0", "v1", "s[0:3]", "0"), ("offen", "offset:4", "lds")),
        (
            "v[6:7], v[6:7], v[8:9] op_sel:[0,1] op_sel_hi:[1,0]",
            ("v[6:7]",) * 2 + ("v[8:9]",),
            ("op_sel:[0,1]", "op_sel_hi:[1,0]"),
        ),
        ("v1, -v2, |v3|, 0x3f800000 clamp", ("v1", "-v2", "|v3|", "0x3f800000"), ("clamp",)),
        ("vmcnt(3) & lgkmcnt(0)", ("vmcnt(3)", "lgkmcnt(0)"), ()),
        ("v1, v2 offset:swizzle(QUAD_PERM,0,1,2,3)", ("v1", "v2"), ("offset:swizzle(QUAD_PERM,0,1,2,3)",)),
        ("", (), ()),
    ],
)
def test_operands_and_modifiers(text, operands, modifiers):
    assert split_operands(text) == (operands, modifiers)


def test_handwritten_file():
    kernel = stored_kernel("handwritten.s")
    first, last = kernel.instructions[0], kernel.instructions[-1]
    assert (kernel.name, kernel.target, len(kernel.instructions)) == ("scale_rows", "gfx950", 21)
    assert (first.line, first.text) == (13, "s_load_dwordx4 s[4:7], s[0:1], 0x0")
    assert last.mnemonic == "s_endpgm"
    resources = kernel.resources
    assert (resources.vgprs, resources.sgprs, resources.lds_bytes, resources.max_workgroup_size) == (12, 22, 2048, 256)
    assert resources.vgpr_spills is None
    assert len(kernel.metadata[".args"]) == 3


def test_numeric_labels_mean_the_next_and_the_last():
    kernel = stored_kernel("handwritten.s")
    branches = {
        i.operands[0]: kernel.instructions[kernel.target_of(i)].mnemonic
        for i in kernel.instructions
        if "branch" in i.mnemonic
    }
    assert branches == {"2b": "v_exp_f32_e32", "3f": "s_endpgm", "1b": "global_load_dwordx4"}


def test_two_kernels_and_choosing_one():
    code = read_assembly(FILES / "two_kernels.s")
    assert [kernel.name for kernel in code.kernels] == ["attend_small", "attend_large"]
    assert [kernel.resources.vgprs for kernel in code.kernels] == [64, 200]
    assert code.kernel("attend_large").resources.agprs == 136
    with pytest.raises(AssemblyError, match="attend_small, attend_large"):
        code.kernel()
    with pytest.raises(AssemblyError, match="no kernel 'attend_huge'; choose one of attend_small"):
        code.kernel("attend_huge")


def test_source_lines_follow_the_debug_directives():
    kernel = read_assembly(FILES / "two_kernels.s").kernel("attend_large")
    mfma = [i for i in kernel.instructions if i.mnemonic.startswith("v_mfma")]
    assert {i.source.file for i in mfma} == {"/src/kernels/attend_large.py"}
    assert [i.source.line for i in mfma] == [15, 15, 17]


def test_line_zero_is_no_source():
    kernel = kernel_of('\t.file 1 "a.py"\n\t.loc 1 0 0\n\ts_nop 0\n\t.loc 1 3 7\n\ts_endpgm')
    assert [i.source and (i.source.file, i.source.line, i.source.column) for i in kernel.instructions] == [
        None,
        ("a.py", 3, 7),
    ]


def test_gfx942_file():
    kernel = stored_kernel("gfx942.s")
    assert kernel.target == "gfx942"
    assert sum(i.mnemonic == "v_mfma_f32_32x32x8_bf16" for i in kernel.instructions) == 3


@pytest.mark.parametrize("file", ["handwritten.s", "two_kernels.s", "gfx942.s"])
def test_a_file_cut_anywhere_names_what_is_missing(file):
    lines = (FILES / file).read_text().splitlines(keepends=True)
    end = next(number for number, line in enumerate(lines) if ".end_amdgpu_metadata" in line)
    for kept in range(end):
        with pytest.raises(AssemblyError, match=r"missing|not YAML|no list"):
            parse_assembly("".join(lines[:kept]), name=file)


@pytest.mark.parametrize(
    ("damage", "missing"),
    [
        (lambda text: text.replace("s_endpgm", "s_nop_off", 1), "the end of kernel probe's code"),
        (lambda text: text.replace(".Lloop:", ""), "label .Lloop of kernel probe"),
        (lambda text: text.replace("gfx950", ""), "a target"),
        (lambda text: text.replace(".amdhsa_kernel probe", ""), "the .amdhsa_kernel block of kernel probe"),
        (lambda text: text.replace("probe:\n", "", 1), "the code of kernel probe"),
        (lambda text: text.replace(".end_amdhsa_kernel", ""), "the end of an .amdhsa_kernel block"),
    ],
)
def test_each_missing_part_is_named(damage, missing):
    from machine_code import FRAME

    text = FRAME.format(code=".Lloop:\n\ts_cbranch_scc1 .Lloop\n\ts_endpgm", vgprs=8, threads=64)
    assert parse_assembly(text).kernel().name == "probe"
    with pytest.raises(AssemblyError, match=missing):
        parse_assembly(damage(text))


def test_files_of_another_kind(tmp_path):
    ptx = tmp_path / "kernel.s"
    ptx.write_text(".version 8.4\n.target sm_90a\n.address_size 64\n")
    with pytest.raises(UnsupportedError, match="NVIDIA"):
        read_machine_code(ptx)
    with pytest.raises(UnsupportedError, match="NVIDIA"):
        read_machine_code(tmp_path / "kernel.ptx")
    garbage = tmp_path / "garbage.amdgcn"
    garbage.write_bytes(bytes(range(256)))
    with pytest.raises(AssemblyError, match="not text"):
        read_machine_code(garbage)
    with pytest.raises(AssemblyError, match=r"unknown kind of file '\.txt'"):
        read_machine_code(tmp_path / "kernel.txt")
    with pytest.raises(AssemblyError, match="cannot read"):
        read_machine_code(tmp_path / "absent.s")
    (tmp_path / "elf.s").write_bytes((FILES / "gfx942.hsaco").read_bytes())
    with pytest.raises(AssemblyError, match="ELF binary"):
        read_machine_code(tmp_path / "elf.s")


def test_code_object_holds_what_its_assembly_says():
    binary = parse_code_object((FILES / "two_kernels.hsaco").read_bytes())
    code = read_assembly(FILES / "two_kernels.s")
    assert binary.target == code.target
    for ours, theirs in zip(binary.kernels, code.kernels, strict=True):
        assert ours.name == theirs.name
        assert ours.metadata == theirs.metadata
        same = ("vgprs", "agprs", "sgprs", "vgpr_spills", "lds_bytes", "scratch_bytes", "max_workgroup_size")
        assert [getattr(ours.resources, f) for f in same] == [getattr(theirs.resources, f) for f in same]
        # The descriptor keeps whole granules.
        assert ours.resources.vgprs_reserved == -(-theirs.resources.vgprs_reserved // 8) * 8
        assert ours.resources.code_bytes > 4 * len(theirs.instructions)


def test_a_code_object_cut_anywhere_is_an_assembly_error():
    data = (FILES / "two_kernels.hsaco").read_bytes()
    for kept in range(0, len(data) - 1, 41):
        with pytest.raises(AssemblyError):
            parse_code_object(data[:kept])


def test_code_objects_of_other_machines():
    data = bytearray((FILES / "gfx942.hsaco").read_bytes())
    struct.pack_into("<H", data, 18, 190)
    with pytest.raises(UnsupportedError, match="cubin"):
        parse_code_object(bytes(data))
    struct.pack_into("<H", data, 18, 62)
    with pytest.raises(AssemblyError, match="machine 62"):
        parse_code_object(bytes(data))


@pytest.mark.parametrize(
    ("packed", "value"),
    [
        (b"\x83\xa1a\x01\xa1b\xff\xa1c\xc3", {"a": 1, "b": -1, "c": True}),
        (b"\x93\xcd\x01\x00\xd1\xff\x00\xc0", [256, -256, None]),
        (b"\xd9\x03abc", "abc"),
        (b"\xdc\x00\x02\xcf" + (2**40).to_bytes(8, "big") + b"\xcb" + struct.pack(">d", 0.5), [2**40, 0.5]),
        (b"\xde\x00\x01\xa1k\xc4\x02\x00\x01", {"k": b"\x00\x01"}),
    ],
)
def test_messagepack(packed, value):
    assert msgpack.unpack(packed) == value
    with pytest.raises(ValueError, match="ends early"):
        msgpack.unpack(packed[:-1])


def test_disassembly_matches_the_assembly_it_came_from():
    ((instructions, labels),) = parse_objdump((FILES / "gfx942.objdump.txt").read_text()).values()
    kernel = stored_kernel("gfx942.s")
    branches = {i.index for i in kernel.instructions if "branch" in i.mnemonic}
    for ours, theirs in zip(instructions, kernel.instructions, strict=True):
        assert ours.mnemonic == theirs.mnemonic
        if ours.index not in branches:
            assert (ours.operands, ours.modifiers) == (theirs.operands, theirs.modifiers)
    jumps = [dict(labels)[instructions[index].operands[0]] for index in sorted(branches)]
    assert jumps == [kernel.target_of(kernel.instructions[index]) for index in sorted(branches)]


def test_disassembler_named_by_the_user(tmp_path, monkeypatch):
    tool = tmp_path / "llvm-objdump"
    tool.write_text(f"#!/bin/sh\ncat '{FILES / 'gfx942.objdump.txt'}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv(objdump.OBJDUMP_VARIABLE, str(tool))
    code = read_machine_code(FILES / "gfx942.hsaco")
    assert code.note == f"disassembled by {tool}"
    assert len(code.kernel().instructions) == len(stored_kernel("gfx942.s").instructions)


def test_without_a_disassembler_registers_remain(tmp_path, monkeypatch):
    tool = tmp_path / "llvm-objdump"
    tool.write_text("#!/bin/sh\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv(objdump.OBJDUMP_VARIABLE, str(tool))
    code, note = disassemble(FILES / "gfx942.hsaco")
    assert code == {}
    assert note.startswith(f"registers and metadata only: {tool} cannot disassemble it")
    kernel = read_machine_code(FILES / "gfx942.hsaco").kernel()
    assert (kernel.instructions, kernel.resources.vgprs) == ((), 64)
