import pytest

from workbench.errors import ParameterError
from workbench.report.parameters import bind_parameters, declared_parameters

CELL = '''
"""Docstrings and imports are no parameters."""
from typing import Literal

block_size: int = 16  # tokens per block
scale = 0.5
lanes: list[Literal["auto", "2d"]] = ["auto"]  # lanes, with "# inside" help
window: int | None = None
causal: bool = True
name: str = "a # b"
seeds = [1, 2]
'''


def bind(**given):
    return bind_parameters(declared_parameters(CELL), given, "notebook demo")


def test_declarations_are_read_without_running_them():
    declared = declared_parameters(CELL)
    assert list(declared) == ["block_size", "scale", "lanes", "window", "causal", "name", "seeds"]
    assert declared["block_size"].describe() == "block_size: int = 16   tokens per block"
    assert declared["lanes"].help == 'lanes, with "# inside" help'
    assert declared["name"].help == ""


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("block_size", "32", 32),
        ("block_size", 32, 32),
        ("scale", "1", 1.0),
        ("scale", 2, 2.0),
        ("lanes", "2d,auto", ["2d", "auto"]),
        ("lanes", "[]", []),
        ("window", "none", None),
        ("window", "128", 128),
        ("causal", "false", False),
        ("name", "7", "7"),
        ("seeds", "[3, 4]", [3, 4]),
    ],
)
def test_values_are_converted_to_the_declared_type(name, given, value):
    bound = bind(**{name: given})[name]
    assert bound == value
    assert type(bound) is type(value)


@pytest.mark.parametrize(
    ("name", "given", "accepted"),
    [
        ("block_size", "large", "expected int, got 'large'"),
        ("block_size", True, "expected int, got True"),
        ("block_size", 1.5, "expected int"),
        ("lanes", "auto,4d", "expected one of 'auto', '2d', got '4d'"),
        ("window", "wide", "expected int | None"),
        ("causal", "maybe", "expected bool"),
        ("name", 7, "expected str"),
        ("seeds", "1,x", "expected int"),
        ("scale", "nan", "expected float, got nan"),
    ],
)
def test_ill_typed_values_are_named(name, given, accepted):
    with pytest.raises(ParameterError) as caught:
        bind(**{name: given})
    assert f"{name}: {accepted}" in str(caught.value)


def test_unknown_parameters_are_named_with_the_known_ones():
    with pytest.raises(ParameterError) as caught:
        bind(blocksize=32, zzz=1)
    text = str(caught.value)
    assert "unknown parameter 'blocksize'; did you mean 'block_size'?" in text
    assert "unknown parameter 'zzz'" in text
    assert "block_size: int = 16   tokens per block" in text


@pytest.mark.parametrize(
    ("cell", "complaint"),
    [
        ("x: int = 1.5", "declared wrongly: expected int, got 1.5"),
        ("x = None", "tells no type"),
        ("x: dict = {}", "`dict` is not one of"),
        ("x: int", "no default"),
        ("x = 2 ** 3", "declared wrongly"),
        ("print(1)", "must be `name: type = default"),
        ("a, b = 1, 2", "must be `name: type = default"),
        ("x = (", "not valid Python"),
    ],
)
def test_a_malformed_parameters_cell_is_refused(cell, complaint):
    with pytest.raises(ParameterError, match=complaint):
        declared_parameters(cell)
