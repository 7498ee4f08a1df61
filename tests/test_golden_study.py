"""The golden gate study: what the gate calls altered, and what it does not."""

import pytest

from workbench.compiler import installed_triton_version
from workbench.errors import GoldenError
from workbench.studies.golden_study import changed_lines, lever_rows, record_of, share_kept, trials, with_other_lines
from workbench.studies.golden_views import difference_plot, golden_conclusion, golden_key, record_table, verdict_table

VARIANT, CHANGE = "dense/d64-bf16-causal", "mask_split=false"


@pytest.fixture(scope="module")
def found():
    return trials(VARIANT, CHANGE, [], installed_triton_version())


def test_a_flipped_lever_is_altered_and_other_line_numbers_are_not(found):
    as_is, flipped = found
    moved = with_other_lines(as_is)
    assert moved.kernel.assembly != as_is.kernel.assembly
    assert moved.entry == as_is.entry
    assert moved.verdict == as_is.verdict
    assert flipped.entry.sha256 != as_is.entry.sha256
    assert flipped.verdict == "altered"
    assert golden_key([as_is, moved, flipped])["value"] == 1 + 2 * (as_is.verdict == "altered")


def test_differences_are_told_by_lines(found):
    as_is, flipped = found
    assert share_kept(changed_lines(as_is.kernel, as_is.kernel)) == 1
    assert 0 < share_kept(changed_lines(as_is.kernel, flipped.kernel)) < 1
    assert f"{CHANGE}: " in difference_plot(found).alt
    assert f"{CHANGE} keeps" in golden_conclusion(found)
    assert verdict_table(found).rows[1][-1].text == "altered"


def test_the_record_is_read_and_unknown_variants_are_refused():
    version = installed_triton_version()
    rows = {row["lever"]: row for row in lever_rows(record_of(version, "gfx950"), VARIANT)}
    assert rows["mask_split=False"]["lines"] < 0
    assert not rows["mask_split=False"]["same digest"]
    assert {row[1].text for row in record_table().rows} >= {"gfx950", "gfx942"}
    with pytest.raises(GoldenError, match="no variant is called"):
        trials("dense/none", CHANGE, [], version)
    with pytest.raises(GoldenError, match="nothing is on record"):
        record_of("0.0.0", "gfx950")
