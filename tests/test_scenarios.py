"""Scenario sets, users' files and their errors, and the small size."""

import json
from dataclasses import fields

import pytest

from workbench import scenario_files, scenario_sizes
from workbench.errors import ScenarioError
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.scenarios import find, load_all, load_file, load_named, load_set, set_description, set_names

COUNTS = {"default": 13, "creative": 21, "dense": 10, "fmha": 26, "gqa": 4, "serving": 11}

UNIFIED = {
    "set": "mine",
    "kind": "unified",
    "common": {"num_query_heads": 8, "num_kv_heads": 2, "head_size": 64, "block_size": 16},
    "scenarios": [{"name": "one", "seq_lens": [[1, 100], [3, 50, 2]]}],
}


def write(tmp_path, content):
    path = tmp_path / "mine.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_the_sets_are_complete():
    assert {name: len(load_set(name)) for name in set_names()} == COUNTS
    assert set_names()[0] == "default"
    scenarios = load_all()
    assert len({scenario.name for scenario in scenarios}) == len(scenarios) == 85
    assert all(set_description(name) for name in set_names())


def test_fields_arrive_in_the_problem():
    serving = find("serving_d64_sinks_sw127_fp8kv").problem
    assert serving == UnifiedAttentionProblem(
        seq_lens=((512, 4096),) * 16,
        num_query_heads=64,
        num_kv_heads=8,
        head_size=64,
        block_size=32,
        kv_dtype="fp8_e4m3",
        sliding_window=128,
        use_sinks=True,
        num_blocks=131_072,
    )
    assert find("qq_bias_prefill_d128_b16").problem.qq_bias_size == 256
    assert find("creative_kitchen_sink").problem.softcap == 30
    dense = find("dense_ragged_noncausal_1000").problem
    assert dense == DenseAttentionProblem(2, 16, 4, 1000, 1000, 128, causal=False)


def test_full_size_is_the_file_s_and_says_so():
    scenario = find("mixed_d128_b16")
    assert (scenario.set, scenario.kind, scenario.size, scenario.scaled_from) == ("default", "unified", "full", None)
    assert find("dense_headline").kind == "dense"


def test_unknown_names_are_answered_with_the_known():
    with pytest.raises(ScenarioError, match=r"no scenario 'decode_d128_b15'; did you mean .*decode_d128_b16"):
        find("decode_d128_b15")
    with pytest.raises(ScenarioError, match="`workbench scenarios` lists them all"):
        find("qqqq")
    with pytest.raises(ScenarioError, match=r"no scenario set 'defalt'; the sets are default, creative"):
        load_set("defalt")
    with pytest.raises(ScenarioError, match="size must be one of full, small, got 'tiny'"):
        load_set("gqa", "tiny")


def test_a_user_s_file(tmp_path):
    path = write(tmp_path, UNIFIED)
    (scenario,) = load_file(path)
    assert scenario.problem.seq_lens == ((1, 100), (3, 50), (3, 50))
    assert load_named(str(path)) == (scenario,)
    with pytest.raises(
        ScenarioError, match=r"'mine\.yaml'.*a file of your own is given by its path, which ends in \.json"
    ):
        load_named("mine.yaml")


def test_a_scenario_overrides_common_and_null_unsets(tmp_path):
    content = UNIFIED | {
        "common": UNIFIED["common"] | {"sliding_window": 32},
        "scenarios": [
            {"name": "windowed", "seq_lens": [[1, 100]], "head_size": 128},
            {"name": "whole", "seq_lens": [[1, 100]], "sliding_window": None},
        ],
    }
    windowed, whole = (scenario.problem for scenario in load_file(write(tmp_path, content)))
    assert (windowed.sliding_window, windowed.head_size) == (32, 128)
    assert (whole.sliding_window, whole.head_size) == (None, 64)


def scenario_with(**changes):
    return UNIFIED | {"scenarios": [UNIFIED["scenarios"][0] | changes]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "line 1: not valid JSON"),
        ("[" * 100_000, "not readable as JSON, it nests too deep"),
        ("9" * 5000, "not readable as JSON, Exceeds the limit"),
        ([], "must hold one JSON object with set, kind"),
        (UNIFIED | {"description": 3}, "description must be a string, got 3"),
        (scenario_with(name="\ud800"), "scenario 0 must be an object with a printable name"),
        (scenario_with(seq_lens=[[1, 2, 10**11]]), "seq_lens must be a list of .*count <= 1048576"),
        (scenario_with(seq_lens=[[1, 10**18]]), "kv_len must be at most 2147483647"),
        (UNIFIED | {"kinds": 1}, "unknown kinds; accepted are set, kind, description, common, scenarios"),
        (UNIFIED | {"kind": "paged"}, "kind must be one of unified, dense, got 'paged'"),
        (UNIFIED | {"set": 3}, "set must be a printable string, got 3"),
        (UNIFIED | {"scenarios": {}}, "scenarios must be a list of at least one object"),
        (UNIFIED | {"common": []}, "common must be an object of problem fields"),
        (UNIFIED | {"common": {"heads": 1}}, "common: unknown heads; accepted are seq_lens, num_query_heads"),
        (UNIFIED | {"scenarios": [{"seq_lens": [[1, 1]]}]}, "scenario 0 must be an object with a printable name"),
        (UNIFIED | {"scenarios": UNIFIED["scenarios"] * 2}, "two scenarios are called 'one'"),
        (scenario_with(soft_cap=1), "scenario 'one': unknown soft_cap; accepted are .*softcap"),
        (scenario_with(head_size="64"), "scenario 'one': head_size must be an integer, got '64'"),
        (scenario_with(use_sinks=1), "use_sinks must be true or false, got 1"),
        (scenario_with(softcap=True), "softcap must be a number, got True"),
        (scenario_with(dtype=16), "dtype must be a string, got 16"),
        (scenario_with(dtype="half"), "scenario 'one': dtype must be one of fp16, bf16, fp32, got 'half'"),
        (scenario_with(seq_lens=[[1, 100, 0]]), "seq_lens must be a list of .query_len, kv_len. or .*count"),
        (scenario_with(seq_lens=[[9, 5]]), "scenario 'one': sequence 0: need 0 <= query_len <= kv_len"),
        (scenario_with(block_size=None), "scenario 'one': lacks block_size"),
        (scenario_with(seqlen=5), "unknown seqlen"),
    ],
)
def test_a_malformed_file_is_explained(tmp_path, content, message):
    path = write(tmp_path, content)
    with pytest.raises(ScenarioError, match=message) as error:
        load_file(path)
    assert str(path) in str(error.value)


def test_a_file_that_cannot_be_read_is_explained(tmp_path):
    with pytest.raises(ScenarioError, match=r"missing\.json: cannot be read \(No such file"):
        load_file(tmp_path / "missing.json")
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(ScenarioError, match="is not UTF-8 text"):
        load_file(binary)


def test_a_dense_file_may_give_one_length_or_two(tmp_path):
    common = {"batch": 1, "num_query_heads": 4, "num_kv_heads": 2, "head_size": 64}
    content = {
        "set": "d",
        "kind": "dense",
        "common": common,
        "scenarios": [{"name": "a", "seqlen_q": 3, "seqlen_kv": 9}],
    }
    assert load_file(write(tmp_path, content))[0].problem.causal_offset == 6
    content["scenarios"][0]["seqlen"] = 9
    with pytest.raises(ScenarioError, match="give either seqlen, or seqlen_q and seqlen_kv"):
        load_file(write(tmp_path, content))


@pytest.mark.parametrize("kind", scenario_files.PROBLEM_OF_KIND)
def test_every_field_of_a_problem_may_stand_in_a_file(kind):
    names = {field.name for field in fields(scenario_files.PROBLEM_OF_KIND[kind])}
    assert names <= set(scenario_files.accepted_fields(kind)) <= set(scenario_files._FIELD_CHECKS)


SMALL = load_all("small")
SMALL_UNIFIED = [scenario for scenario in SMALL if scenario.kind == "unified"]


@pytest.mark.parametrize("scenario", SMALL_UNIFIED, ids=lambda scenario: scenario.name)
def test_small_unified_scenarios_fit_the_budget_and_keep_their_nature(scenario):
    small, full = scenario.problem, scenario.scaled_from or scenario.problem
    assert scenario_sizes._unified_steps(small) <= scenario_sizes.MAX_STEPS
    assert small.total_query_tokens * small.num_query_heads <= scenario_sizes.MAX_ROWS
    kept = ("head_size", "block_size", "dtype", "q_dtype", "kv_dtype", "softcap", "softmax_scale", "group_size")
    for name in (*kept, "use_alibi", "use_qq_bias", "use_sinks"):
        assert getattr(small, name) == getattr(full, name), name
    assert min(full.num_kv_heads, 2) <= small.num_kv_heads
    assert _nature(small) == _nature(full)
    if full.num_blocks > full.blocks_needed:
        assert small.num_blocks > small.blocks_needed


def _nature(problem):
    """What halving must not change: decode, context, prefill, ragged tails, hidden keys, a bias with room to spare."""
    window = problem.sliding_window
    return (
        problem.max_query_len == 1,
        any(query_len < kv_len for query_len, kv_len in problem.seq_lens),
        any(query_len == kv_len for query_len, kv_len in problem.seq_lens),
        any(kv_len % problem.block_size for _, kv_len in problem.seq_lens),
        window is not None and window < problem.max_kv_len,
        problem.use_qq_bias and problem.qq_bias_size > problem.max_query_len,
    )


def test_small_dense_scenarios_keep_their_nature():
    for scenario in (scenario for scenario in SMALL if scenario.kind == "dense"):
        small, full = scenario.problem, scenario.scaled_from
        assert scenario_sizes._dense_steps(small) <= scenario_sizes.MAX_DENSE_STEPS
        assert small.seqlen_q == small.seqlen_kv >= 200
        assert small.seqlen_q % 128 == full.seqlen_q % 128
        assert (small.group_size, small.causal, small.head_size) == (full.group_size, full.causal, full.head_size)


@pytest.mark.parametrize(
    ("seq_lens", "expected"),
    [
        ([(1, 65_536)], ((1, 8192),)),
        ([(1, 65_543)], ((1, 8199),)),
        ([(4000, 4001)], ((125, 161),)),
        ([(1023, 1023)], ((127, 127),)),
        ([(5, 18)], ((5, 18),)),
        ([(1, 20), (1, 30), (1, 40), (1, 50), (1, 60), (1, 70), (1, 80)], ((1, 20), (1, 40), (1, 60), (1, 80))),
    ],
)
def test_small_lengths(seq_lens, expected):
    problem = UnifiedAttentionProblem(tuple(seq_lens), 8, 1, 64, 16)
    assert scenario_sizes.small_unified(problem).seq_lens == expected


def test_scaling_is_deterministic_and_small_scales_to_itself():
    for scenario in SMALL_UNIFIED:
        assert scenario_sizes.small_unified(scenario.problem).seq_lens == scenario.problem.seq_lens
