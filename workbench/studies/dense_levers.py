"""What the studies of single levers of the dense kernel share: variants per compiler, and sentences about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from workbench.compiler.versions import installed_triton_version, triton_versions
from workbench.errors import ParameterError
from workbench.levers.emulated import small_problem
from workbench.levers.facts import facts_of
from workbench.levers.registry import find_kernel
from workbench.levers.table import base_of
from workbench.levers.words import difference
from workbench.problem import DenseAttentionProblem
from workbench.spec_changes import change_spec
from workbench.studies.lever_study import TARGET, lever_variants, spec_variants, study_variants
from workbench.studies.lever_views import check_text, observed_speedup
from workbench.studies.timed_words import timed_bullet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from workbench.levers.registry import Setting
    from workbench.scenarios import Scenario
    from workbench.studies.lever_study import LeverStudy, Problem, Progress, Variant

KERNEL = "gfx950-dense"
PORTABLE = "dense"
FULL_LENGTHS = (1024, 1024)
"""Queries and keys of the emulator's problem at full size: four blocks of rows."""
Size = Literal["small", "full"]


def emulated_problem(problem: Problem, size: Size) -> DenseAttentionProblem:
    """What the emulator runs for a dense problem: one KV head, one block of rows against 512 keys if small."""
    small = small_problem(dense(problem))
    if not isinstance(small, DenseAttentionProblem):
        raise ParameterError("the small form of a dense problem is dense")
    queries, keys = FULL_LENGTHS
    return small if size == "small" else small.with_changes(seqlen_q=queries, seqlen_kv=keys)


def dense(problem: Problem) -> DenseAttentionProblem:
    """The problem; ParameterError for a paged one."""
    if not isinstance(problem, DenseAttentionProblem):
        raise ParameterError("this study is of the dense kernel; `workbench scenarios dense` lists its scenarios")
    return problem


def compilers(asked: Sequence[str], size: Size) -> list[str]:
    """Triton versions: those asked for, else the installed one, or all that are here at full size."""
    return list(asked) or ([installed_triton_version()] if size == "small" else list(triton_versions()))


def lever_studies(
    scenario: Scenario,
    lever: str,
    *,
    values: Sequence[Setting] = (),
    size: Size = "small",
    triton: Sequence[str] = (),
    changes: Sequence[str] = (),
    kernel: str = KERNEL,
    published: Sequence[str] | None = None,
    on_step: Progress | None = None,
) -> list[LeverStudy]:
    """One study for each compiler: the lever at its values, all else as dispatch picks it for the scenario.

    changes: `field=value` texts that the base gets first. published: topics; None takes the lever's own.
    """
    found = find_kernel(kernel)
    problem = dense(scenario.problem)
    base = change_spec(base_of(found, problem), changes)
    variants = lever_variants(found, problem, lever, values, base=base)
    topics = found.lever(lever).published if published is None else published
    return [
        study_variants(
            variants,
            published=topics,
            triton_version=version,
            small=lambda each: emulated_problem(each, size),
            on_step=on_step,
        )
        for version in compilers(triton, size)
    ]


def refusals(scenarios: Iterable[Scenario], lever: str, value: Setting) -> dict[str, str]:
    """Scenario -> why the setting is refused there; those that can have it are left out."""
    found = {}
    for scenario in scenarios:
        (variant,) = lever_variants(KERNEL, dense(scenario.problem), lever, [value])
        if variant.refusal:
            found[scenario.name] = variant.refusal
    return found


TWINS = {"transposed_pv": "transposed_qk", "lazy_rescale": "lazy_rescale"}
"""Lever of the Gluon kernel -> the portable kernel's lever of the same idea."""
TWIN_GEOMETRY: dict[str, dict[str, dict[str, Any]]] = {
    "block_n": {f"block_n={keys}": {"block_n": keys} for keys in (32, 64, 128)},
    "grid": {"default grid": {"grid": "default"}}
    | {order: {"grid": "persistent", "persist_decode": order} for order in ("qb_major", "hkv_major")},
}
"""Lever of the Gluon kernel -> variants of the portable kernel, where the idea is geometry or several fields there."""


def portable_studies(
    scenario: Scenario,
    lever: str,
    choice: Literal["auto", "yes", "no"],
    *,
    size: Size = "small",
    on_step: Progress | None = None,
) -> list[LeverStudy]:
    """The portable kernel's variants of the same idea, which any GPU can time; nothing if they are not wanted.

    auto: where there is a GPU that the gfx950 kernel is not for, or no GPU but stored records of their times; the
    emulator is left out then.
    """
    from workbench.device import detect_device

    device, variants = detect_device(), _twins(scenario, lever)
    recalled = device is None and any(map(_is_stored, variants))
    wanted = choice == "yes" or (choice == "auto" and (recalled or (device is not None and device.arch != TARGET)))
    if not wanted:
        return []
    emulated = None if choice == "auto" and recalled else lambda each: emulated_problem(each, size)
    return [study_variants(variants, small=emulated, on_step=on_step)]


def _twins(scenario: Scenario, lever: str) -> list[Variant]:
    problem = dense(scenario.problem)
    if lever in TWINS:
        return lever_variants(PORTABLE, problem, TWINS[lever])
    return spec_variants(problem, base_of(find_kernel(PORTABLE), problem), TWIN_GEOMETRY[lever])


def _is_stored(variant: Variant) -> bool:
    from workbench.records import stored_study_records

    return bool(variant.spec and stored_study_records(variant.problem, variant.name, variant.spec))


def twin_bullet(studies: Sequence[LeverStudy]) -> str:
    """Times of `portable_studies`, to be put behind a conclusion; empty where there are none."""
    told = timed_bullet(*studies, kernel="portable kernel")
    return f"\n{told}" if told else ""


def length_study(scenario: Scenario, lengths: Iterable[tuple[int, int]], *, triton_version: str = "") -> LeverStudy:
    """The kernel on pairs of (queries, keys), two batch members of one KV head each, none of it timed.

    The spec is what dispatch picks for the scenario; lengths that need range checks get them.
    """
    problem = dense(scenario.problem)
    spec = base_of(find_kernel(KERNEL), problem)
    heads = min(problem.group_size, 2)
    variants = []
    for queries, keys in lengths:
        sized = problem.with_changes(batch=2, num_query_heads=heads, num_kv_heads=1, seqlen_q=queries, seqlen_kv=keys)
        variants += spec_variants(sized, spec.with_changes(grid="default"), {f"{queries} x {keys}": {}})
    return study_variants(variants, triton_version=triton_version, small=lambda each: each, timing=False)


def grid_study(
    scenario: Scenario, programs: int = 4, *, triton_version: str = "", on_step: Progress | None = None
) -> LeverStudy:
    """Both grids and two orders over the emulator's full-size problem, whose items `programs` programs share."""
    problem = emulated_problem(scenario.problem, "full")
    base = base_of(find_kernel(KERNEL), dense(scenario.problem)).with_changes(num_persistent=programs)
    changes: dict[str, dict[str, str]] = {"default grid": {"grid": "default"}}
    changes |= {order: {"grid": "persistent", "persist_decode": order} for order in ("qb_major", "hkv_major")}
    variants = spec_variants(problem, base, changes)
    return study_variants(
        variants, triton_version=triton_version, small=lambda each: each, timing=False, on_step=on_step
    )


def difference_text(study: LeverStudy, variant: str) -> str:
    """What the variant's hot loop has that the baseline's has not, in words. Static and modelled."""
    before, after = (study.outcomes[name].inspection for name in (study.baseline, variant))
    if before is None or after is None:
        return "one of the two gave no kernel"
    head_size = study.outcomes[variant].variant.problem.head_size
    return difference(facts_of(before, head_size), facts_of(after, head_size))


def common_findings(studies: Sequence[LeverStudy], variant: str) -> list[str]:
    """Bullets that every lever's study ends with: the check, and what the lever did under each compiler."""
    found = [f"- {check_text(studies[0])}"]
    for study in studies:
        if variant in study.names and study.baseline in study.names:
            told = difference_text(study, variant)
            found.append(
                f"- Triton {study.triton_version}, `{variant}` over `{study.baseline}`: {told} (static, modelled)."
            )
    return found


def observed_text(study: LeverStudy, variant: str, config: str = "") -> str:
    """The speed-up that was seen, with its evidence and hardware; or that none is known."""
    seen = observed_speedup(study, variant, config)
    if seen is None:
        return "No speed-up of this lever was measured here or published."
    return f"{seen.value:.4g}x was {seen.evidence} on {seen.of.split(':')[0]}."


def times_text(study: LeverStudy) -> str:
    """Why there are no times, or which device they are of."""
    timed = [outcome.record for outcome in study.outcomes.values() if outcome.record and outcome.record.samples]
    if timed:
        return f"Times are {timed[0].environment.get('device', 'this device')}'s (measured)."
    line = study.find(study.baseline, "time")
    return f"No time of the gfx950 kernel: {line.text if line else 'no variant gave a kernel'}."
