"""Declared spaces of specs, from data/tune_spaces: a folder per vendor, and per architecture with kernels of its own.

    {"kernel": "unified-2d", "lane": "2d", "spec": "Unified2DSpec", "fields": {"tile_size": [32, 64], "num_warps": [4]}}

A space is the product of its fields' values over the dispatcher's own choice for the problem, from which every field
that is not named follows. What the spec's constructor or its check refuses is refused here with the same words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from workbench.errors import SpecError, TuneError, UnsupportedError
from workbench.json_text import parse_json
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.records.parquet import spec_types
from workbench.resources import data_path
from workbench.spec import (
    MIN_DOT_EXTENT,
    KernelSpec,
    TritonSpec,
    Unified2DSpec,
    Unified3DSpec,
    ceil_power_of_two,
    keys_of_tile,
)
from workbench.spec_gfx950_unified import Gfx950Unified2DSpec

if TYPE_CHECKING:
    from workbench.device import Device

Problem = UnifiedAttentionProblem | DenseAttentionProblem
LANES = ("2d", "3d", "dense")
_KEYS = ("kernel", "lane", "spec", "fields")


@dataclass(frozen=True)
class Space:
    """The values that fields of a kernel's spec may take."""

    kernel: str
    lane: str
    spec: type[KernelSpec]
    fields: tuple[tuple[str, tuple[Any, ...]], ...]


@dataclass(frozen=True)
class Configuration:
    """One point of a space for one problem: a spec, or why there is none."""

    kernel: str
    lane: str
    text: str
    """The named fields as `field=value,...`."""
    spec: KernelSpec | None
    refusal: str = ""

    @property
    def name(self) -> str:
        """Candidate in the records."""
        return f"workbench:{self.kernel}:{self.text}"


def load_spaces(device: Device, kernels: Sequence[str] = (), files: Sequence[Path] = ()) -> tuple[Space, ...]:
    """The spaces of a device, or those of files of your own; only some kernels if they are named.

    TuneError for an unknown kernel and for a malformed file.
    """
    folders = [data_path("tune_spaces", name) for name in (device.vendor, device.arch)]
    paths = list(files) or [path for folder in folders for path in sorted(folder.glob("*.json"))]
    spaces = [read_space(path) for path in paths]
    known = {space.kernel for space in spaces}
    unknown = sorted(set(kernels) - known)
    if unknown:
        raise TuneError(
            f"no space for kernel {', '.join(unknown)} on {device.name}; there are {', '.join(sorted(known))}"
        )
    return tuple(space for space in spaces if not kernels or space.kernel in kernels)


def read_space(path: Path) -> Space:
    """The space of a file. TuneError names the file, what is wrong and what is accepted."""
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TuneError(f"{path}: cannot be read ({error.strerror}); give the path of a tuning space") from None
    except ValueError as error:
        raise TuneError(f"{path} is no tuning space: not JSON ({error})") from None
    if not isinstance(content, dict) or set(content) != set(_KEYS):
        raise TuneError(f"{path}: the top must be one object with {', '.join(_KEYS)}")
    specs = spec_types()
    kind, lane = specs.get(content["spec"]), content["lane"]
    if kind is None or lane not in LANES:
        raise TuneError(
            f"{path}: spec must be one of {', '.join(specs)} and lane one of {', '.join(LANES)}, "
            f"got {content['spec']!r} and {lane!r}"
        )
    known = {field.name for field in fields(kind)}
    values = content["fields"]
    if not isinstance(values, dict) or not values or not set(values) <= known:
        raise TuneError(f"{path}: fields must be an object whose keys are fields of {kind.__name__}: {sorted(known)}")
    wrong = [name for name, choices in values.items() if not isinstance(choices, list) or not choices]
    if wrong:
        raise TuneError(f"{path}: {wrong[0]} must be a list of at least one value")
    return Space(content["kernel"], lane, kind, tuple((name, tuple(choices)) for name, choices in values.items()))


def configurations(
    space: Space, problem: Problem, device: Device, *, limit: int | None = None, seed: int = 0
) -> list[Configuration]:
    """Every point of the space that could differ on this problem, each spec once, in the space's order.

    Left out, because a smaller one does the same work: query tiles past the problem's rows, KV tiles past its keys,
    segments past its KV tiles; and the whole 3D lane where the 2D grid fills the device. `limit` keeps a random choice
    of so many valid specs, the same for the same seed.
    """
    if isinstance(problem, DenseAttentionProblem) != (space.lane == "dense") or _fills(space, problem, device):
        return []
    try:
        base = _base(space, problem, device)
    except (SpecError, UnsupportedError) as error:
        return [Configuration(space.kernel, space.lane, "defaults", None, str(error))]
    names = [name for name, _ in space.fields]
    found: list[Configuration] = []
    seen: set[KernelSpec] = set()
    for values in product(*(choices for _, choices in space.fields)):
        point = _configuration(space, base, dict(zip(names, values, strict=True)), problem, device)
        if point.spec is None or not (point.spec in seen or _is_redundant(point.spec, problem)):
            found.append(point)
            seen |= {point.spec} if point.spec is not None else set()
    return found if limit is None else _sample(found, limit, seed)


def _configuration(
    space: Space, base: KernelSpec, values: dict[str, Any], problem: Problem, device: Device
) -> Configuration:
    from workbench.compiler.plans import plan_without_storage

    text = ",".join(f"{name}={_spell(value)}" for name, value in values.items())
    try:
        spec = base.with_changes(**values)
        paged = isinstance(problem, UnifiedAttentionProblem) and isinstance(spec, Unified2DSpec | Unified3DSpec)
        if paged and "fast_paged_kv" not in values:
            spec = spec.with_changes(fast_paged_kv=spec.tile_size % problem.block_size == 0)  # type: ignore[attr-defined,union-attr]
        plan_without_storage(problem, spec, device)
    except (SpecError, UnsupportedError) as error:
        return Configuration(space.kernel, space.lane, text, None, str(error))
    return Configuration(space.kernel, space.lane, text, spec)


def _base(space: Space, problem: Problem, device: Device) -> KernelSpec:
    """The dispatcher's spec for the problem if it has the space's type, else the portable one, else the type's own."""
    from workbench.dispatch import select_dense_spec, select_spec

    chosen: KernelSpec
    for portable in (False, True):
        if isinstance(problem, DenseAttentionProblem):
            chosen = select_dense_spec(problem, device, portable=portable, tuned=False).spec
        else:
            chosen = select_spec(problem, device, space.lane, portable=portable, tuned=False).spec
        if type(chosen) is space.spec:
            return chosen
    if space.spec is Gfx950Unified2DSpec:
        full = problem.sliding_window is None
        return Gfx950Unified2DSpec(transposed_mask_once=full, transposed_mask_limit=full)
    return space.spec()


def _fills(space: Space, problem: Problem, device: Device) -> bool:
    """Whether the keys need no split, because the 2D grid leaves no compute unit idle."""
    from workbench.dispatch import select_path

    if space.lane != "3d" or isinstance(problem, DenseAttentionProblem):
        return False
    path = select_path(problem, device, tuned=False)
    return path.grid > path.target


def _is_redundant(spec: KernelSpec, problem: Problem) -> bool:
    if isinstance(problem, DenseAttentionProblem):
        rows, keys, floor = problem.seqlen_q, problem.seqlen_kv, MIN_DOT_EXTENT
    else:
        rows, keys, floor = problem.max_query_len * problem.group_size, problem.max_kv_len, problem.group_size
    tile = keys_of_tile(spec) or 0
    block_m = int(getattr(spec, "block_m", 0))
    too_high = block_m > max(MIN_DOT_EXTENT, ceil_power_of_two(max(1, rows)), ceil_power_of_two(floor))
    too_wide = tile > max(MIN_DOT_EXTENT, ceil_power_of_two(max(1, keys)))
    too_split = isinstance(spec, Unified3DSpec) and spec.num_segments > max(1, -(-keys // tile))
    # The Gluon kernels have so many rows a wave, so that even a short query takes a tall tile.
    return (too_high and isinstance(spec, TritonSpec)) or too_wide or too_split


def _sample(found: list[Configuration], limit: int, seed: int) -> list[Configuration]:
    valid = [index for index, point in enumerate(found) if point.spec is not None]
    kept = set(Random(seed).sample(valid, min(limit, len(valid))))  # noqa: S311 - a choice of experiments
    return [point for index, point in enumerate(found) if index in kept]


def _spell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
