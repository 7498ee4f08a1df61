"""What we find for the specification's claims about the unified kernels, §0 to §7."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from math import prod
from typing import TYPE_CHECKING

import torch

from workbench.device import load_device
from workbench.dispatch import grid_2d, select_path, select_spec
from workbench.dispatch.grid import smallest_block_m
from workbench.errors import SpecError
from workbench.gfx950.limits import limits_of
from workbench.gfx950.occupancy import SPECIFICATION_LDS_BYTES, Occupancy
from workbench.problem import DTYPE_BYTES, UnifiedAttentionProblem
from workbench.spec_gfx950_unified import Gfx950Unified2DSpec
from workbench.studies.claims import Ours
from workbench.studies.routing import Shape, queue_of
from workbench.studies.streaming_softmax import LOG2_E, PATTERNS, Recipe, normalised, scores, values, walk, whole

if TYPE_CHECKING:
    from workbench.device import Device

SERVING = Shape(query_len=256, num_query_heads=64, num_kv_heads=8, head_size=64, block_size=32)
"""The d64 serving family: pages of 32 keys, groups of 8."""
LONGEST_BISECTED = 4096
UNIT = 2.0**-8
"""Unit in the last place of a bf16 number from 0.5 to 1."""


def mi355x() -> Device:
    """The device that the specification is about."""
    return load_device("mi355x")


def kernels_log2_e() -> Ours:
    """The constant that the kernels fold into the scale, from their source: importing it would import Triton."""
    source = files("workbench.kernels").joinpath("primitives.py").read_text()
    (value,) = re.findall(r"^LOG2_E = tl\.constexpr\(([\d.]+)\)", source, re.MULTILINE)
    return Ours(float(value), f"the kernels hold {value}; log2(e) in double precision is {LOG2_E!r}")


def wave_size() -> Ours:
    """Lanes of a wave in the device's description."""
    return Ours(mi355x().wave_size, f"lanes of a wave of {mi355x().title}")


def streaming_error() -> Ours:
    """Largest error of the recurrence in float64, over all courses of the scores."""
    errors = []
    for pattern in PATTERNS:
        x, v = scores(pattern, 32, 2048), values(2048, 64)
        errors.append(float((normalised(walk(x, v, Recipe())[-1]) - whole(x, v)).abs().max()))
    return Ours(max(errors), f"largest error in float64 over {len(PATTERNS)} courses of 2048 scores: {max(errors):.1e}")


def merge_error() -> Ours:
    """Largest error of eight segments merged in float64."""
    from workbench.studies.split_kv import recurrence_frame

    frame = recurrence_frame([8], 2048).set_index("what")
    error, rounded = frame.loc["recurrence, fp64", "error"], frame.loc["recurrence, bf16"]
    text = (
        f"eight segments in float64: {error:.1e}; with P in bf16 {1 - rounded['equal']:.0%} of the outputs differ from "
        f"one segment's, by {rounded['ulps']:.1f} units in the last place at most"
    )
    return Ours(float(error), text)


def workspace_share() -> Ours:
    """Bytes of the float32 partial outputs over those of a bf16 output, per segment."""
    from workbench.studies.split_kv import workspace_bytes

    problem = Shape().problem(1, 8192)
    per_segment = workspace_bytes(problem, 8) / 2 / 8 / problem.total_query_tokens / problem.num_query_heads
    return Ours(per_segment / 4 - 2, f"{per_segment:.0f} bytes a row and segment: 128 outputs, a maximum and a sum")


def tile_rows(group: int) -> Ours:
    """Rows of the smallest query tile of a group."""
    shape = Shape(num_query_heads=8 * group)
    return Ours(smallest_block_m(shape.problem(1, 1024)), f"rows that hold groups of {group}")


def workgroups(vgprs: int, lds_kib: float, num_warps: int, budget: str) -> Ours:
    """Workgroups per CU. budget: `device` for the LDS of gfx950, `64 KB` for the specification's argument."""
    limits = limits_of("gfx950")
    if budget != "device":
        limits = limits.with_lds(SPECIFICATION_LDS_BYTES)
    found = Occupancy(limits, vgprs, int(lds_kib * 1024), num_warps)
    by = ", ".join(f"{resource} {count}" for resource, count in found.admitted.items())
    return Ours(found.workgroups_per_cu, f"{limits.lds_bytes // 1024} KB of LDS: {found.describe()}; admitted by {by}")


def workgroups_by_registers(vgprs: int, num_warps: int) -> Ours:
    """Workgroups per CU that the register file alone admits."""
    found = Occupancy(limits_of("gfx950"), vgprs, 0, num_warps)
    count = found.admitted["registers"]
    return Ours(
        count, f"{vgprs} VGPRs admit {found.waves_by_registers} waves a SIMD: {count} workgroups of {num_warps}"
    )


def combo_lds(k_single_buffer: bool) -> Ours:
    """LDS of the d128 kernel with two waves and a tile of 64, in KB."""
    spec = Gfx950Unified2DSpec(num_warps=2, tile_size=64, k_single_buffer=k_single_buffer)
    size = spec.lds_bytes(128, "bf16", "bf16")
    return Ours(size / 1024, f"{'one K tile' if k_single_buffer else 'two K tiles'} and one V tile: {size} bytes")


def ratios(factors: Sequence[float], root: int = 1) -> Ours:
    """The product of the specification's own figures, or its root."""
    value = prod(factors) ** (1 / root)
    return Ours(
        value, f"{'geometric mean' if root > 1 else 'product'} of {', '.join(f'{each:.4g}' for each in factors)}"
    )


def window_workgroups() -> Ours:
    """Workgroups of the windowed serving kernel with 64 rows over those with 128."""
    problem = UnifiedAttentionProblem(
        ((1024, 4096),) * 16, num_query_heads=64, num_kv_heads=8, head_size=64, block_size=32, sliding_window=128,
        use_sinks=True,
    )  # fmt: skip
    half, whole_ = (prod(grid_2d(problem, rows)) for rows in (64, 128))
    chosen = select_spec(problem, mi355x(), "2d").spec
    return Ours(half / whole_, f"{half} workgroups against {whole_}; dispatch takes {chosen.block_m} rows here")


def window_refusals() -> Ours:
    """How many of the two full-attention flags a windowed problem refuses."""
    problem = SERVING.problem(4, 2048).with_changes(sliding_window=128)
    refused = []
    for name in ("transposed_mask_once", "transposed_mask_limit"):
        try:
            Gfx950Unified2DSpec(**{name: True}).check(problem)
        except SpecError:
            refused.append(name)
    return Ours(len(refused), f"refused under a window: {', '.join(refused)}")


def fill_target() -> Ours:
    """Workgroups of the 2D grid from which it is left whole."""
    choice = select_path(Shape().problem(1, 8192), mi355x(), tuned=False)
    return Ours(choice.target, choice.reasons[-1])


def longest_short_context() -> Ours:
    """Longest context at which a single-query decode of one sequence still takes the 2D kernel."""
    low, high = 1, LONGEST_BISECTED
    while high - low > 1:
        middle = (low + high) // 2
        is_flat = select_path(Shape().problem(1, middle), mi355x(), tuned=False).lane == "2d"
        low, high = (middle, high) if is_flat else (low, middle)
    return Ours(low, f"a decode of {low} keys takes the 2D kernel, one of {high} the 3D kernel")


def longest_ordinary_query() -> Ours:
    """Longest query of one d128 sequence that is not yet of the single-batch prefill cohort."""
    low, high = 1, LONGEST_BISECTED
    while high - low > 1:
        middle = (low + high) // 2
        shape = Shape(query_len=middle)
        cohort = select_spec(shape.problem(1, middle), mi355x(), "2d", tuned=False).cohort
        low, high = (low, middle) if cohort.startswith("single-batch") else (middle, high)
    return Ours(low, f"{high} query tokens and more are the cohort single-batch-d128-prefill")


def cohort_field(head_size: int, field: str) -> Ours:
    """A field of the spec that dispatch takes for a single-batch prefill of 4096 tokens."""
    block_size = 32 if head_size == 128 else 16
    shape = Shape(query_len=4096, head_size=head_size, block_size=block_size)
    choice = select_spec(shape.problem(1, 4096), mi355x(), "2d", tuned=False)
    return Ours(getattr(choice.spec, field), f"{field} of cohort {choice.cohort}, pages of {block_size}")


def decode_queue() -> Ours:
    """The queue model of a decode of one sequence of 32768 keys in both lanes, in words."""
    problem = Shape().problem(1, 32_768)
    flat, split = (queue_of(problem, mi355x(), lane) for lane in ("2d", "3d"))
    return Ours(
        None,
        f"our 3D kernel's longest queue is {split.steps} steps, our 2D kernel's {flat.steps}; nothing of ours is "
        "Triton's 3D kernel of AITER",
    )


def blocks_of_reach(dtype: str) -> Ours:
    """Blocks of the d64, 32-key, 8-head cache within 2^31 bytes."""
    count = 2**31 // (32 * 8 * 64 * DTYPE_BYTES[dtype])
    large, small = (SERVING.problem(1, 512).with_changes(kv_dtype=dtype, num_blocks=count + more) for more in (1, 0))
    switched = large.needs_i64_addressing and not small.needs_i64_addressing
    return Ours(count, f"64-bit addresses are {'' if switched else 'not '}taken from {count + 1:,} blocks on")


def cache_gib(blocks: int) -> Ours:
    """GiB of a bf16 key cache of so many d64 blocks."""
    size = SERVING.problem(1, 512).with_changes(num_blocks=blocks).cache_bytes
    return Ours(size / 2**30, f"{size:,} bytes of keys, as many of values")


@lru_cache(maxsize=1)
def wrapped_error() -> Ours:
    """Largest error of a decode whose block id times stride leaves 32 bits, in the emulated code."""
    from workbench.studies.addressing import SPECS, Cache, garbage_frame

    cache = Cache()
    frame = garbage_frame(cache, [cache.blocks_to_wrap + 1], [next(iter(SPECS))])
    narrow = frame[(frame["product"] == "32 bits") & frame["error"].notna()].iloc[0]
    wide = frame[frame["product"] == "64 bits"]["error"].max()
    return Ours(float(narrow["error"]), f"32-bit product: {narrow['read']}; with 64 bits the error is {wide:.1e}")


def cache_bytes_ratio() -> Ours:
    """Bytes of an fp8 cache over those of a bf16 one."""
    narrow, wide = (SERVING.problem(1, 512).with_changes(kv_dtype=dtype).cache_bytes for dtype in ("fp8_e4m3", "bf16"))
    return Ours(narrow / wide, f"{narrow:,} against {wide:,} bytes")


def fp8_query_error() -> Ours:
    """Largest change of the output when Q, standard normal, is rounded to e4m3 with one scale; 64 rows, 1024 keys."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(rows, 64, dtype=torch.float64, generator=generator) for rows in (64, 1024, 1024))
    scale = q.abs().max() / 448
    rounded = (q / scale).to(torch.float8_e4m3fn).double() * scale
    exact, coarse = (torch.softmax(each @ k.T / 8, 1) @ v for each in (q, rounded))
    change = (coarse - exact).abs()
    return Ours(
        float(change.max()), f"largest change {float(change.max()):.1e}, RMS {float(change.square().mean().sqrt()):.1e}"
    )


@lru_cache(maxsize=1)
def _division() -> dict[str, int]:
    """Way -> instructions of a division by 7 in every lane."""
    from workbench.studies.division import code_frame

    frame = code_frame([7], emulate_count=0)
    lanes = frame[frame["place"] == "in every lane"].set_index("way")
    return {str(way): int(count) for way, count in lanes["instructions"].items()}


def magic_instructions() -> Ours:
    """Instructions of an unsigned division by the constant 7 in every lane."""
    from workbench.studies.division import magic_of

    counts = _division()
    first = magic_of(7).first_wrong
    exact = "for every 32-bit dividend" if first is None else f"below {first:,}"
    unsigned, signed, by_hand = (counts[way] for way in ("constant unsigned", "constant", "magic"))
    text = f"constant 7: {unsigned} unsigned, {signed} signed, {by_hand} by hand"
    return Ours(unsigned, f"{text}; the numbers for 7 are exact {exact}")


def divider_cycles() -> Ours:
    """Cycles of a division by a divisor that only the run knows, at four cycles an instruction."""
    count = _division()["runtime unsigned"]
    return Ours(4 * count, f"{count} instructions through a float32 reciprocal: gfx950 has no integer divider")


def reference_ulps() -> Ours:
    """Largest difference of the 2D and the 3D kernel from the float64 reference, in units in the last place of bf16."""
    from workbench.studies.split_kv import kernel_frame

    frame = kernel_frame([4], 128)
    rounded = frame[frame["what"].str.contains("bf16")].iloc[0]
    return Ours(
        float(rounded["error"]) / UNIT,
        f"{rounded['what']}: largest error {rounded['error']:.1e}; a unit is {UNIT:.1e}",
    )
