"""Classes of gfx9-4x / gfx950 instructions. What no rule knows is the class `unknown`, listed by its mnemonic.

Each rule is a pattern over the whole mnemonic, encoding suffix (_e32, _e64, _dpp, _sdwa) removed; the first that
matches wins. The families are those that a schedule is made of, not those of the encoding.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.gfx950.machine_code import Instruction

FAMILIES: dict[str, str] = {
    "mfma": "MFMA",
    "valu": "VALU",
    "trans": "TRANS",
    "packed": "packed",
    "acc move": "AGPR move",
    "cross-lane": "cross-lane",
    "salu": "SALU",
    "lds read": "LDS read",
    "lds write": "LDS write",
    "lds atomic": "LDS atomic",
    "vmem load": "VMEM load",
    "vmem to lds": "VMEM to LDS",
    "vmem store": "VMEM store",
    "vmem atomic": "VMEM atomic",
    "scratch load": "scratch load",
    "scratch store": "scratch store",
    "smem": "SMEM",
    "wait": "wait",
    "barrier": "barrier",
    "branch": "branch",
    "hint": "hint",
    "unknown": "unknown",
}
"""Family -> title, in the order in which a table shows them."""

MEMORY_FAMILIES = ("vmem load", "vmem to lds", "vmem store", "vmem atomic", "scratch load", "scratch store")
LDS_FAMILIES = ("lds read", "lds write", "lds atomic")


@dataclass(frozen=True, order=True)
class InstructionClass:
    """A family and what tells its members apart: the shape of an MFMA, the width of a memory access."""

    family: str
    detail: str = ""

    @property
    def name(self) -> str:
        """`MFMA 32x32x16 bf16`, `LDS read b128`, `VALU`."""
        return f"{FAMILIES[self.family]} {self.detail}".rstrip()


# The form (smfmac is sparse), rows x columns x depth, how many blocks side by side, and the type of the operands.
_MFMA = re.compile(r"v_(mfma|smfmac)_(?:scale_)?[a-z]\d+_(\d+x\d+x\d+)(?:_(\d+)b)?_?(\w+)")

_VALU_STEMS = (
    "add addc add3 sub subb subrev subbrev mul mul_lo mul_hi mad mac madak madmk fma fmac fmaak fmamk min min3 "
    "max max3 med3 minimum minimum3 maximum maximum3 and or or3 xor xnor not and_or xad bitop3 bfi bfe bfm bfrev "
    "lshl lshr ashr lshlrev lshrrev ashrrev lshl_add lshl_or add_lshl alignbit alignbyte perm cndmask mov swap "
    "cmp cmpx cvt ldexp frexp_exp frexp_mant fract floor ceil trunc rndne div_scale div_fmas div_fixup trig_preop "
    "sad msad mqsad qsad lerp mbcnt_lo mbcnt_hi ffbh ffbl bcnt sat_pk pack ashr_pk dot2 dot2c dot4 dot4c dot8 "
    "dot8c cubeid cubesc cubetc cubema mad_mix mad_mixlo mad_mixhi fma_mix fma_mixlo fma_mixhi prng nop clrexcp "
    "screen_partition"
)
_TRANS_STEMS = "exp exp_legacy log log_legacy rcp rcp_iflag rsq sqrt sin cos"
_CROSS_LANE = r"v_(readlane|readfirstlane|writelane)_b32|v_(permlane\w*?)_b32|ds_(bpermute|permute|swizzle)_b32"
_SALU_STEMS = (
    "add addc addk sub subb mul mulk mul_hi mov movk cmov cmovk and or xor not nand nor xnor andn1 andn2 orn1 "
    "orn2 lshl lshr ashr lshl1_add lshl2_add lshl3_add lshl4_add bfe bfm brev bcnt0 bcnt1 ff0 ff1 flbit sext wqm "
    "quadmask bitset0 bitset1 bitcmp0 bitcmp1 bitreplicate cmp cmpk cselect min max abs absdiff pack_ll pack_lh "
    "pack_hh getpc swappc setpc call rfe getreg setreg movrels movreld"
)


def _alternatives(stems: str) -> str:
    return "|".join(sorted(stems.split(), key=len, reverse=True))


_RULES: tuple[tuple[str, str, re.Pattern[str]], ...] = tuple(
    (family, detail, re.compile(pattern))
    for family, detail, pattern in (
        ("acc move", "", r"v_accvgpr_(read|write|mov)(_b32)?"),
        ("cross-lane", "=", _CROSS_LANE),
        ("packed", "=", r"v_pk_(?:\w+?)_?(f32|b32|f16|bf16|[iu]16)"),
        ("trans", "", rf"v_(?:{_alternatives(_TRANS_STEMS)})_(?:f16|f32|f64|bf16)"),
        ("valu", "", rf"v_(?:{_alternatives(_VALU_STEMS)})(?:_\w+)?"),
        ("lds read", "=", r"ds_read(?:2|2st64)?_(?:addtid_)?([bui]\d+(?:_tr_b\d+)?)(?:_d16(?:_hi)?)?"),
        ("lds write", "=", r"ds_write(?:2|2st64)?_(?:addtid_)?(b\d+)(?:_d16_hi)?"),
        ("lds atomic", "", r"ds_\w+"),
        ("vmem atomic", "", r"(?:global|buffer|flat)_atomic_\w+"),
        ("vmem to lds", "=", r"(?:global|scratch)_load_lds_(\w+)"),
        ("scratch load", "=", r"scratch_load_(\w+)"),
        ("scratch store", "=", r"scratch_store_(\w+)"),
        ("vmem load", "=", r"(?:global|buffer|flat|tbuffer)_load_(?:format_)?(\w+)"),
        ("vmem store", "=", r"(?:global|buffer|flat|tbuffer)_store_(?:format_)?(\w+)"),
        ("hint", "cache", r"buffer_(?:wbl2|inv|wbinvl1\w*)|s_dcache_\w+|s_icache_\w+"),
        ("smem", "=", r"s_(?:buffer_|scratch_)?load_(dword\w*)"),
        ("smem", "=", r"s_(mem\w*time)|s_(?:buffer_|scratch_)?(store|atomic)_\w+|s_(atc_probe)\w*"),
        ("wait", "", r"s_wait\w*|s_sleep|s_wakeup"),
        ("barrier", "", r"s_barrier"),
        ("branch", "", r"s_branch|s_cbranch_\w+|s_endpgm\w*|s_trap|s_sethalt"),
        ("hint", "", r"s_nop|s_setprio|s_setkill|s_sendmsg\w*|s_ttracedata|s_(?:inc|dec)perflevel|s_code_end"),
        ("hint", "", r"s_set_gpr_idx_\w+"),
        ("salu", "", rf"s_(?:{_alternatives(_SALU_STEMS)})_\w+|s_\w+_(?:saveexec|wrexec)_b64"),
    )
)
_ENCODING = re.compile(r"_(e32|e64|dpp|sdwa|e64_dpp)$")
_DPP_CONTROL = re.compile(
    r"quad_perm:|row_shl:|row_shr:|row_ror:|row_newbcast:|row_bcast|wave_|row_mirror|row_half_mirror"
)
UNKNOWN = InstructionClass("unknown")


def classify(instruction: Instruction) -> InstructionClass:
    """The class of one instruction."""
    return _classify_modified(instruction.mnemonic, instruction.modifiers)


@lru_cache(maxsize=8192)
def _classify_modified(mnemonic: str, modifiers: tuple[str, ...]) -> InstructionClass:
    dpp = any(_DPP_CONTROL.match(modifier) for modifier in modifiers)
    return _classify(mnemonic, "lds" in modifiers, dpp, _narrow(modifiers) if modifiers else False)


def _narrow(modifiers: tuple[str, ...]) -> bool:
    """Whether an f8f6f4 MFMA multiplies 6- or 4-bit numbers on both sides, which halves its passes."""
    formats = dict(modifier.split(":", 1) for modifier in modifiers if modifier.startswith(("cbsz:", "blgp:")))
    return all(formats.get(side, "0") in "234" for side in ("cbsz", "blgp"))


@lru_cache(maxsize=4096)
def _classify(mnemonic: str, to_lds: bool, dpp: bool, narrow: bool) -> InstructionClass:
    if match := _MFMA.fullmatch(mnemonic):
        form, shape, blocks, operands = match.groups()
        narrow_note = "4/6-bit" if narrow and operands == "f8f6f4" else ""
        parts = (shape, blocks and f"x{blocks}", operands, narrow_note, form == "smfmac" and "sparse")
        return InstructionClass("mfma", " ".join(part for part in parts if part))
    suffix = _ENCODING.search(mnemonic)
    base = mnemonic[: suffix.start()] if suffix else mnemonic
    if base.startswith("v_") and (dpp or (suffix and "dpp" in suffix[1])):
        return InstructionClass("cross-lane", "dpp")
    for family, detail, pattern in _RULES:
        if match := pattern.fullmatch(base):
            captured = next((group for group in match.groups() if group), "") if detail == "=" else detail
            pair = "2x" if re.match(r"ds_(read|write)2", base) else ""
            return InstructionClass("vmem to lds" if family == "vmem load" and to_lds else family, pair + captured)
    return UNKNOWN


@dataclass(frozen=True)
class Mix:
    """How many instructions of each class. Evidence kind: static."""

    counts: tuple[tuple[InstructionClass, int], ...]
    """In the order of FAMILIES, then by detail."""
    unknown: tuple[tuple[str, int], ...] = ()
    """Mnemonics that no class knows."""

    @property
    def total(self) -> int:
        return sum(count for _, count in self.counts)

    def family(self, *families: str) -> int:
        """Instructions of these families together."""
        return sum(count for kind, count in self.counts if kind.family in families)

    def families(self) -> dict[str, int]:
        """Family -> count, without the empty ones."""
        return {family: count for family in FAMILIES if (count := self.family(family))}


def mix_of(instructions: Iterable[Instruction]) -> Mix:
    """Count instructions by class."""
    counts: Counter[InstructionClass] = Counter()
    unknown: Counter[str] = Counter()
    for instruction in instructions:
        kind = classify(instruction)
        counts[kind] += 1
        if kind == UNKNOWN:
            unknown[instruction.mnemonic] += 1
    order = list(FAMILIES)
    ranked = sorted(counts.items(), key=lambda item: (order.index(item[0].family), item[0].detail))
    return Mix(tuple(ranked), tuple(sorted(unknown.items())))
