"""Division by page sizes, groups and head counts: as multiply and shift, exact how far, and in machine code.

For a divisor d take s = ceil(log2 d), the multiplier m = floor(2^32 (2^s - d) / d) + 1, and for a dividend n

    q = (mulhi(m, n) + n) >> s,   mulhi(m, n) = floor(m n / 2^32)

which is floor((2^32 + m) n / 2^(32 + s)) (Granlund and Montgomery, Division by Invariant Integers using
Multiplication, PLDI 1994; specification §7.4). With M = 2^32 + m and e = M d - 2^(32+s), 0 < e <= 2^s, the quotient
first goes wrong at an n of remainder d - 1 with e n >= 2^(32+s), or where the 32-bit addition overflows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import CompileError, ParameterError

if TYPE_CHECKING:
    import pandas as pd

    from workbench.compiler import CompiledKernel
    from workbench.gfx950.machine_code import Instruction, Kernel
    from workbench.problem import UnifiedAttentionProblem

WAYS = ("runtime", "runtime unsigned", "constant", "constant unsigned", "magic")
"""How the probe divides; `magic` multiplies and shifts by hand, with numbers that the host made."""
PLACES = {"divide_lanes": "in every lane", "divide_program": "once a program"}
BLOCK = 64
_RECIPROCAL_SCALE = "0x4f7ffffe"
"""Just under 2^32 as float32, by which LLVM scales the reciprocal of a divisor that it does not know."""
INT32_END = 2**31
UINT32_END = 2**32


@dataclass(frozen=True)
class Magic:
    """Multiplier and shift of a divisor."""

    divisor: int
    multiplier: int
    shift: int

    def quotient(self, n: int) -> int:
        """As 32-bit registers compute it: the sum wraps."""
        return (((n * self.multiplier >> 32) + n) % UINT32_END) >> self.shift

    @property
    def first_wrong(self) -> int | None:
        """Smallest n in 0 .. 2^32 - 1 whose quotient is wrong; None if there is none."""
        d, k = self.divisor, 32 + self.shift
        excess = (UINT32_END + self.multiplier) * d - 2**k
        inexact = -(-(2**k) // excess) if excess else UINT32_END
        inexact += (d - 1 - inexact) % d
        # mulhi(m, n) + n reaches 2^32 first at this n.
        overflow = -(-UINT32_END * UINT32_END // (UINT32_END + self.multiplier))
        first = min(inexact, overflow)
        return first if first < UINT32_END else None


def magic_of(divisor: int) -> Magic:
    """Multiplier and shift. ParameterError outside 1 .. 2^31 - 1."""
    if not 1 <= divisor < INT32_END:
        raise ParameterError(f"a divisor must be 1..2^31 - 1, got {divisor}")
    shift = (divisor - 1).bit_length()
    return Magic(divisor, UINT32_END * (2**shift - divisor) // divisor + 1, shift)


def float_first_wrong(divisor: int) -> int | None:
    """Smallest n in 0 .. 2^31 - 1 where truncating n times the float32 reciprocal is wrong; None up to 2^26.

    Rounding keeps the order, so a quotient is right on a whole run of equal ones if it is at both ends of it.
    """
    import numpy as np

    def wrong(n: Any) -> Any:
        return n[(n.astype(np.float32) * reciprocal).astype(np.int64) != n // divisor]

    reciprocal, step = np.float32(1) / np.float32(divisor), 2**20
    for first in range(0, 2**26, step * divisor):
        starts = np.arange(first, min(first + step * divisor, 2**26), divisor, dtype=np.int64)
        ends = wrong(np.concatenate([starts, starts + divisor - 1]))
        if len(ends):
            start = int(ends.min()) // divisor * divisor
            return int(wrong(np.arange(start, start + divisor, dtype=np.int64))[0])
    return None


def range_frame(divisors: Sequence[int]) -> pd.DataFrame:
    """A line per divisor: magic numbers, and the first dividend that each way gets wrong."""
    import pandas as pd

    found = []
    for divisor in divisors:
        magic = magic_of(divisor)
        found.append(
            {
                "divisor": divisor,
                "multiplier": magic.multiplier,
                "shift": magic.shift,
                "magic": magic.first_wrong or UINT32_END,
                "float": float_first_wrong(divisor) or 2**26,
                "evidence": "static",
            }
        )
    return pd.DataFrame(found)


def samples(divisor: int, count: int, seed: int = 0) -> list[int]:
    """Dividends 0 <= n < 2^31 where quotients are easily wrong: around multiples, at both ends, and random ones."""
    import random

    source = random.Random(seed)  # noqa: S311 - test points, not a secret
    top = (INT32_END - 1) // divisor
    factors = [0, 1, 2, top - 1, top, *(source.randrange(top + 1) for _ in range(count // 6))]
    found = {factor * divisor + offset for factor in factors for offset in (-1, 0, 1)}
    found |= {INT32_END - 1, INT32_END - 2, *(source.randrange(INT32_END) for _ in range(count))}
    return sorted(n for n in found if 0 <= n < INT32_END)[:count]


def code_frame(divisors: Sequence[int], *, triton_version: str = "", emulate_count: int = 384) -> pd.DataFrame:
    """A line per place, way and divisor: instructions beyond those of the same kernel without a division.

    The emulator runs each on `emulate_count` dividends (0 leaves it out); `wrong` counts quotients that differ from
    integer division. Counts are static, `wrong` and `executed` (instructions of a wave) emulated.
    """
    import pandas as pd

    kernels = _compiled(divisors, triton_version)
    found = []
    for (place, way, divisor), kernel in kernels.items():
        if way == "none":
            continue
        base = kernels[place, "none", divisors[0]]
        counts = _families(_code(kernel))
        nothing = _families(_code(base))
        added = {family: counts.get(family, 0) - nothing.get(family, 0) for family in counts | nothing}
        line = {
            "place": PLACES[place],
            "way": way,
            "divisor": divisor,
            "instructions": sum(counts.values()) - sum(nothing.values()),
            **{name: added.get(name, 0) for name in ("valu", "trans", "salu", "cross-lane")},
            "mul_hi": _count(_code(kernel), "mul_hi"),
            "reciprocal": _reciprocals(_code(kernel).instructions),
            "evidence": "static; wrong emulated",
        }
        if emulate_count:
            line["wrong"], line["dividends"] = _wrong(place, kernel, divisor, emulate_count)
        found.append(line)
    return pd.DataFrame(found)


def kernel_frame(problems: dict[str, UnifiedAttentionProblem], *, triton_version: str = "") -> pd.DataFrame:
    """Multiply-highs and reciprocals in the 2D kernels that dispatch picks, in the hot loop and elsewhere. Static."""
    import pandas as pd

    from workbench.compiler import compile_many
    from workbench.compiler.variants import build_requests
    from workbench.device import load_device
    from workbench.dispatch import select_spec
    from workbench.inspection import inspect_compiled

    device = load_device("mi355x")
    requests = [
        build_requests(problem, select_spec(problem, device, "2d").spec, triton_version=triton_version, label=name)[0]
        for name, problem in problems.items()
    ]
    found = []
    for (name, problem), kernel in zip(problems.items(), compile_many(requests), strict=True):
        if isinstance(kernel, CompileError):
            raise kernel
        inspection = inspect_compiled(kernel)
        whole, loop = inspection.kernel, inspection.hot_instructions
        found.append(
            {
                "problem": name,
                "group": problem.group_size,
                "page": problem.block_size,
                "mul_hi": _count(whole, "mul_hi"),
                "mul_hi_loop": sum("mul_hi" in each.mnemonic for each in loop),
                "reciprocal": _reciprocals(whole.instructions),
                "reciprocal_loop": _reciprocals(loop),
                "instructions": len(whole.instructions),
                "evidence": "static",
            }
        )
    return pd.DataFrame(found)


def timed_frame(divisor: int, *, repeats: int = 64, elements: int = 2**24) -> pd.DataFrame:
    """Time of a division on the GPU here, from a chain of `repeats` less that of one without; empty without a GPU."""
    import pandas as pd
    import torch

    if not torch.cuda.is_available():
        return pd.DataFrame(columns=["way", "divisor", "ps", "hardware", "evidence"])
    from workbench.parity.timing import TimingPlan, capture, interleave
    from workbench.studies.division_probe import divide_lanes

    magic = magic_of(divisor)
    n = torch.randint(0, INT32_END - 1, (elements,), dtype=torch.int32, device="cuda")
    out, plan = torch.empty_like(n), TimingPlan(rounds=10)

    def call(way: str) -> Callable[[], Any]:
        options = {"WAY": way, "DIVISOR": divisor, "REPEATS": repeats, "BLOCK": 1024}
        numbers = (divisor, _signed(magic.multiplier), magic.shift)
        return lambda: divide_lanes[(elements // 1024,)](n, out, *numbers, **options)

    timed = interleave({way: capture([call(way)], plan) for way in ("none", *WAYS)}, plan)
    median = {way: sorted(values)[len(values) // 2] for way, values in timed.items()}
    found = [
        {
            "way": way,
            "divisor": divisor,
            "ps": 1e6 * (median[way] - median["none"]) / (repeats * elements),
            "hardware": torch.cuda.get_device_name(),
            "evidence": "measured",
        }
        for way in WAYS
    ]
    return pd.DataFrame(found)


def _compiled(divisors: Sequence[int], triton_version: str) -> dict[tuple[str, str, int], CompiledKernel]:
    """Every probe; the one without a division, and those whose divisor comes at run time, once."""
    from workbench.compiler import KernelRef, KernelRequest, compile_many

    path = str(Path(__file__).with_name("division_probe.py"))
    requests = {}
    for place in PLACES:
        for divisor in divisors:
            for way in ("none", *WAYS):
                if way == "none" and divisor != divisors[0]:
                    continue
                constants: dict[str, Any] = {"WAY": way, "DIVISOR": divisor if "constant" in way else 0}
                if place == "divide_lanes":
                    constants |= {"REPEATS": 1, "BLOCK": BLOCK}
                requests[place, way, divisor] = KernelRequest(
                    kernel=KernelRef("division_probe", place, path),
                    arguments=_arguments(place),
                    constexprs=constants,  # type: ignore[arg-type]
                    options={"num_warps": 1},  # type: ignore[arg-type]
                    triton_version=triton_version,
                    label=f"{way} {divisor}",
                )
    kernels = {}
    for key, kernel in zip(requests, compile_many(list(requests.values())), strict=True):
        if isinstance(kernel, CompileError):
            raise kernel
        kernels[key] = kernel
    return kernels


def _arguments(place: str) -> Any:
    from workbench.compiler import Argument, pointer_argument

    pointers = ("p_n", "p_out") if place == "divide_lanes" else ("p_out",)
    numbers = ("divisor", "multiplier", "shift") if place == "divide_lanes" else (
        "first", "divisor", "multiplier", "shift"
    )  # fmt: skip
    return {name: pointer_argument("int32") for name in pointers} | {name: Argument("i32") for name in numbers}


def _code(kernel: CompiledKernel) -> Kernel:
    from workbench.gfx950.asm import parse_assembly

    return parse_assembly(kernel.assembly).kernel(kernel.name)


def _families(kernel: Kernel) -> dict[str, int]:
    from workbench.gfx950.isa import mix_of

    return {family: count for family, count in mix_of(kernel.instructions).families().items() if family != "hint"}


def _count(kernel: Kernel, part: str) -> int:
    return sum(part in instruction.mnemonic for instruction in kernel.instructions)


def _reciprocals(instructions: Sequence[Instruction]) -> int:
    """Divisions by a number that the compiler does not know."""
    return sum(_RECIPROCAL_SCALE in instruction.operands for instruction in instructions)


def _wrong(place: str, kernel: CompiledKernel, divisor: int, count: int) -> tuple[int, int]:
    """Wrong quotients of the emulated code, and how many dividends it had."""
    import torch

    from workbench.gfx950.emulator import emulate

    magic = magic_of(divisor)
    numbers = {"divisor": divisor, "multiplier": _signed(magic.multiplier), "shift": magic.shift}
    if place == "divide_lanes":
        chosen = samples(divisor, count)
        n = torch.tensor((chosen * 2)[: -(-len(chosen) // BLOCK) * BLOCK], dtype=torch.int32)
        out = torch.full_like(n, -1)
        emulate(kernel, (len(n) // BLOCK,), {"p_n": n, "p_out": out, **numbers}, check_races=False)
    else:
        n = torch.arange(BLOCK, dtype=torch.int32) + (INT32_END - BLOCK)
        out = torch.full_like(n, -1)
        emulate(kernel, (BLOCK,), {"p_out": out, "first": INT32_END - BLOCK, **numbers}, check_races=False)
    return int((out.long() != n.long() // divisor).sum()), len(n)


def _signed(word: int) -> int:
    """A 32-bit word as the int32 that a launch passes."""
    return word - UINT32_END if word >= INT32_END else word
