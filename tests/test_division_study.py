"""The division study: exact ranges by arithmetic, the machine code by the emulator, the tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import ParameterError
from workbench.problem import UnifiedAttentionProblem
from workbench.studies import division_views as views
from workbench.studies.division import (
    INT32_END,
    code_frame,
    float_first_wrong,
    kernel_frame,
    magic_of,
    range_frame,
    samples,
    timed_frame,
)


@pytest.fixture(scope="module")
def code():
    return code_frame([16, 7], emulate_count=128)


@pytest.mark.parametrize("divisor", [3, 5, 7, 41, 641, 1000, INT32_END - 1])
def test_the_first_wrong_dividend_is_wrong_and_none_before_it(divisor):
    magic = magic_of(divisor)
    first = magic.first_wrong
    assert first >= INT32_END
    assert magic.quotient(first) != first // divisor
    for n in (*range(first - 2 * min(divisor, 100), first), *samples(divisor, 200)):
        assert magic.quotient(n) == n // divisor


@pytest.mark.parametrize("divisor", [1, 2, 16, 64])
def test_powers_of_two_are_exact_throughout(divisor):
    assert magic_of(divisor).first_wrong is None


@given(divisor=st.integers(1, INT32_END - 1), n=st.integers(0, INT32_END - 1))
def test_every_int32_is_divided_exactly(divisor, n):
    assert magic_of(divisor).quotient(n) == n // divisor


def test_a_float32_reciprocal_fails_early():
    assert float_first_wrong(41) == 41
    assert 2**23 < float_first_wrong(7) < 2**24
    with pytest.raises(ParameterError, match=r"a divisor must be 1\.\.2\^31 - 1, got 0"):
        magic_of(0)


def test_the_emulated_code_divides_right(code):
    assert code["wrong"].sum() == 0
    assert set(code["evidence"]) == {"static; wrong emulated"}


def test_a_constant_divisor_needs_no_reciprocal(code):
    lanes = code[code["place"] == "in every lane"].set_index(["way", "divisor"])
    assert lanes.loc[("runtime", 7)]["reciprocal"] == lanes.loc[("runtime unsigned", 7)]["reciprocal"] == 1
    assert lanes.loc[("constant", 7)]["reciprocal"] == 0
    assert lanes.loc[("constant", 7)]["mul_hi"] == 1
    assert lanes.loc[("constant unsigned", 16)]["instructions"] == 1
    assert views.cost(code, "magic", 7) == 3 < views.cost(code, "constant", 7) < views.cost(code, "runtime", 7) / 3
    programs = code[code["place"] == "once a program"].set_index(["way", "divisor"])
    assert programs.loc[("constant", 7)]["valu"] == 0


def test_tables_pictures_and_conclusion(code):
    ranges = range_frame([1, 7, 16, 41])
    assert views.range_picture(ranges, {"keys": 4096})._repr_png_()[0].startswith(b"\x89PNG")
    assert views.code_picture(code)._repr_png_()[0].startswith(b"\x89PNG")
    assert len(views.code_table(code).rows) == 2 * (3 + 2 * 2)
    problem = UnifiedAttentionProblem(((64, 512),), num_query_heads=7, num_kv_heads=1, head_size=64, block_size=16)
    kernels = kernel_frame({"group of 7": problem})
    assert list(kernels["reciprocal"]) == [0]
    assert len(views.kernel_table(kernels).rows) == 1
    text = views.conclusion(ranges, code, kernels, 7, 16)
    assert "There is no integer divider to be avoided" in text
    assert "None of the emulated quotients is wrong" in text


def test_nothing_is_timed_without_a_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert "no time was measured" in repr(views.time_table(timed_frame(7)))
