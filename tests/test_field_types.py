"""A field of the wrong type is refused by name, as a flag that is a word would otherwise be on."""

import math

import pytest

from workbench.errors import ProblemError, SpecError
from workbench.problem import DenseAttentionProblem, UnifiedAttentionProblem
from workbench.spec import DenseSpec, Unified2DSpec, Unified3DSpec
from workbench.spec_gfx950 import Gfx950DenseSpec


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (Unified2DSpec, {"mask_once": "no"}, "mask_once must be True or False, got 'no'"),
        (Unified2DSpec, {"num_stages": 2.5}, "num_stages must be an integer, got 2.5"),
        (Unified2DSpec, {"num_warps": True}, "num_warps must be an integer, got True"),
        (Unified2DSpec, {"i64_addressing": "yes"}, "i64_addressing must be True or False or None, got 'yes'"),
        (Unified3DSpec, {"reduce_num_warps": 64}, "reduce_num_warps must be a power of two in 1..16, got 64"),
        (DenseSpec, {"num_persistent": "all"}, "num_persistent must be an integer or None, got 'all'"),
        (Gfx950DenseSpec, {"cluster": 0}, "cluster must be True or False, got 0"),
    ],
)
def test_specs(kind, change, message):
    with pytest.raises(SpecError, match=message):
        kind().with_changes(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"softmax_scale": "x"}, "softmax_scale must be a number or None, got 'x'"),
        ({"softmax_scale": math.nan}, "softmax_scale must be a finite number greater than 0, got nan"),
        ({"softcap": None}, "softcap must be a number, got None"),
        ({"use_sinks": "no"}, "use_sinks must be True or False, got 'no'"),
    ],
)
def test_problems(change, message):
    paged = UnifiedAttentionProblem(((1, 20),), 4, 2, 32, 16)
    with pytest.raises(ProblemError, match=message):
        paged.with_changes(**change)
    if "softcap" not in change:
        with pytest.raises(ProblemError, match=message):
            DenseAttentionProblem(1, 4, 2, 5, 9, 32).with_changes(**change)


def test_a_field_that_there_is_not():
    """Of a copy it is refused with the known ones; the constructors leave it to Python, which names it too."""
    dense = DenseAttentionProblem(1, 4, 2, 5, 9, 32)
    with pytest.raises(ProblemError, match=r"DenseAttentionProblem has no field 'window'; it has .*use_sinks"):
        dense.with_changes(window=3)
    with pytest.raises(SpecError, match=r"DenseSpec has no field 'tile'; it has .*block_n"):
        DenseSpec().with_changes(tile=3)
    for kind in (DenseAttentionProblem, UnifiedAttentionProblem, DenseSpec, Unified3DSpec):
        with pytest.raises(TypeError, match=rf"{kind.__name__}.*unexpected keyword argument 'tile'"):
            kind(tile=3)
