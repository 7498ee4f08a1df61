"""The addressing study: where 32 bits wrap, what the emulated code reads then, and what 64 bits cost."""

import pytest

from workbench.problem import UnifiedAttentionProblem
from workbench.studies import addressing_views as views
from workbench.studies.addressing import Cache, as_int32, garbage_frame, offset_frame, static_variants
from workbench.studies.lever_study import study_variants

FP8, BF16 = Cache(), Cache(dtype="bf16")


@pytest.fixture(scope="module")
def garbage():
    return garbage_frame(FP8, [FP8.blocks_to_wrap - 1, FP8.blocks_to_wrap])


def test_32_bits_wrap_where_arithmetic_says():
    assert (FP8.blocks_to_wrap, FP8.blocks_of_reach) == (131_072, 131_072)
    assert (BF16.blocks_to_wrap, BF16.blocks_of_reach) == (131_072, 65_536)
    assert as_int32(2**31 - 1) == 2**31 - 1
    assert as_int32(2**31) == -(2**31)
    frame = offset_frame(BF16, [65_535, 65_536, 131_072]).set_index("block")
    assert list(frame["offset"]) == [65_535 * 2**15, 2**31, 2**32]
    assert list(frame["elements_in_32"]) == [65_535 * 2**15, 2**31, -(2**32)]
    assert list(frame["bytes_in_32"]) == [65_535 * 2**15, -(2**31), 0]
    assert frame.loc[131_072]["lands_on"] == -131_072


def test_64_bits_read_the_right_keys_and_32_bits_any_others(garbage):
    by = garbage.set_index(["kernel", "product", "block", "cache lies"])["read"]
    right = garbage[(garbage["product"] == "64 bits") | (garbage["block"] < FP8.blocks_to_wrap)]
    assert set(right["read"]) == {"its own keys"}
    behind = ("32 bits", FP8.blocks_to_wrap, "behind another layer's")
    assert by["portable", *behind] == by["Gluon, a base a page", *behind] == "another layer's keys, silently"
    assert by["Gluon, an offset a key", *behind] == "zeros, silently"
    alone = by["portable", "32 bits", FP8.blocks_to_wrap, "at its allocation's start"]
    assert alone.startswith("fault: an address in no tensor: 2147483648 bytes before p_k")


def test_the_product_is_free_and_the_large_cache_is_not(garbage):
    problem = UnifiedAttentionProblem(
        ((64, 256),), num_query_heads=8, num_kv_heads=1, head_size=64, block_size=32, num_blocks=8
    )
    left_out = ("portable, 64 bits", "Gluon, large cache")
    variants = [variant for variant in static_variants(problem, 2**20) if variant.name not in left_out]
    study = study_variants(variants, small=None, timing=False)
    assert views.cost(study, "Gluon", "64 bits", "instructions of an iteration") == 0
    assert views.cost(study, "portable", "large cache", "waits") > 0
    assert len(views.cost_table(study).rows) == 4
    text = views.conclusion(garbage, FP8, study)
    assert "Past block 131,072" in text
    assert "Only an MI355X can tell" in text


def test_tables_and_pictures(garbage):
    frame = offset_frame(BF16, range(0, 300_000, 5000))
    for picture in (views.offset_picture(frame, BF16), views.garbage_picture(garbage)):
        assert picture._repr_png_()[0].startswith(b"\x89PNG")
    assert len(views.garbage_table(garbage).rows) == len(garbage)
    assert views.offset_table(frame).rows[1][0].text == "5,000"
