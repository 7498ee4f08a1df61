"""Every opcode that the emulator knows is exercised by a test of its own, not only by a compiled kernel."""

from __future__ import annotations

import re
from pathlib import Path

from tests import test_emulator_atomics as atomics
from tests import test_emulator_matrix as matrix
from tests import test_emulator_oracle as oracle
from tests import test_emulator_scalar as scalar
from workbench.gfx950.emulator.lds import READS, WRITES
from workbench.gfx950.emulator.registry import OPCODES
from workbench.gfx950.emulator.vmem import LOADS, STORES

_NAMED_IN = ("opcodes", "scalar", "memory", "atomics", "faults", "banks")


def _from_tables() -> set[str]:
    names = {*oracle.ARITHMETIC, *oracle.COMPARES, *oracle.SCALAR, *matrix.MATRIX}
    names |= {f"s_{name}_saveexec_b64" for name in scalar.SAVE_EXEC}
    names |= {f"s_{form}load_dword{width}" for form in ("", "buffer_") for width in ("", "x2", "x4", "x8", "x16")}
    names |= {f"s_cbranch_{kind}" for kind in ("scc0", "scc1", "vccz", "vccnz", "execz", "execnz")}
    names |= {f"s_{name}_b{bits}" for name in ("brev", "bitset0", "bitset1") for bits in (32, 64)}
    families = ("global", "flat", "buffer")
    names |= {f"{family}_load_{suffix}" for family in (*families, "scratch") for suffix in LOADS}
    names |= {f"{family}_store_{suffix}" for family in (*families, "scratch") for suffix in STORES}
    names |= {f"global_load_lds_{suffix}" for suffix in ("ubyte", "ushort", "dword", "dwordx3", "dwordx4")}
    names |= {f"ds_read_{suffix}" for suffix in READS} | {f"ds_write_{suffix}" for suffix in WRITES}
    names |= {
        f"ds_{verb}2{stride}_b{width}" for verb in ("read", "write") for stride in ("", "st64") for width in (32, 64)
    }
    names |= {"ds_read_b64_tr_b16", "ds_read_b64_tr_b8", "s_endpgm"}
    swaps = [f"cmpswap{suffix}" for suffix in ("", "_x2")]
    names |= {f"{family}_atomic_{name}" for family in families for name in (*atomics.GLOBAL_ATOMICS, *swaps)}
    local = [*atomics.LDS_ATOMICS, "cmpst_b32", "cmpst_b64"]
    names |= {f"ds_{name}" for name in local}
    return names | {f"ds_{kind}_rtn_{suffix}" for kind, suffix in (name.rsplit("_", 1) for name in local)}


def _written_out() -> set[str]:
    """Opcodes that stand in the text of a test, `v_fma_mixlo` made of a prefix and a form included."""
    folder = Path(__file__).parent
    text = "\n".join((folder / f"test_emulator_{name}.py").read_text() for name in _NAMED_IN)
    mixed = {f"{prefix}{form}" for prefix in ("v_fma_mix", "v_mad_mix") for form in ("_f32", "lo_f16", "hi_f16")}
    fp8 = {f"v_cvt_{form}_{kind}" for form in ("f32", "pk_f32") for kind in ("fp8", "bf8")}
    return set(re.findall(r"\b[a-z]+_\w+\b", text)) | mixed | fp8


def test_every_opcode_has_a_test() -> None:
    assert sorted(set(OPCODES) - _from_tables() - _written_out()) == []
