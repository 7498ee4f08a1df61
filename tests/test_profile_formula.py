"""Formulas are arithmetic and nothing else."""

import pytest

from workbench.errors import ProfileError
from workbench.profile.formula import Formula, Undefined

VALUES = {"A": [1.0, 2.0], "B": [3.0, 5.0], "lts__t.sum": [4.0, 4.0]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("100 * A / (A + B)", 300 / 11),
        ("A - 2 * B", -13),
        ("lts__t.sum / launches", 4),
        ("A / XCD", 3 / 8),
        ("pooled(A, B)", 13 / 8),
        ("collected(A, missing)", 3),
        ("single(one)", 7),
    ],
)
def test_sums_come_first(text, value):
    values = {**VALUES, "one": [7.0]} if "one" in text else VALUES
    assert Formula(text).evaluate(values, {"XCD": 8}, 2) == pytest.approx(value)


def test_names_that_are_needed():
    formula = Formula("100 * A / (GRBM_GUI_ACTIVE / XCD * CU) + collected(B, C) + lts__t.sum / launches")
    assert formula.counters == ("A", "GRBM_GUI_ACTIVE", "lts__t.sum")
    assert formula.optional == ("B", "C")
    assert formula.constants == ("XCD", "CU")


@pytest.mark.parametrize(
    "text",
    [
        "A +", "A ** 2", "A if B else 0", "f(A)", "pooled(A)", "pooled(A, 2)", "single(A, B)", "collected()", "A[0]",
        "'A'", "True", "A < B", "(lambda: 1)()", "A.__class__()", "__import__('os')", "[A]", "A and B", "-A",
    ],
)  # fmt: skip
def test_anything_else_is_refused(text):
    with pytest.raises(ProfileError):
        Formula(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("A / (B - B)", "B - B is 0"), ("pooled(A, zero)", "zero is 0"), ("single(A)", "2 launches give 1 to 2 A")],
)
def test_no_value_has_a_reason(text, reason):
    with pytest.raises(Undefined, match=reason):
        Formula(text).evaluate({**VALUES, "zero": [0.0, 0.0]}, {}, 2)
