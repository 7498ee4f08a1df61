"""The study of K's buffers: occupancy under both LDS budgets, tables."""

import pytest

from workbench.scenarios import find
from workbench.studies import single_buffer_views as views
from workbench.studies.single_buffer import budget_frame, buffer_study


@pytest.fixture(scope="module")
def study():
    return buffer_study(find("single_batch_d128_S1024"), emulate=False)


def test_a_k_tile_less_is_16_kib_and_counts_where_lds_is_small(study):
    frame = budget_frame(study)
    by = frame.set_index(["variant", "budget"])
    assert by.loc[(views.DOUBLE, "gfx950")]["lds"] - by.loc[(views.SINGLE, "gfx950")]["lds"] == 16 * 1024
    assert (views.held(frame, views.DOUBLE, "gfx942"), views.held(frame, views.SINGLE, "gfx942")) == (1, 2)
    for row in frame.itertuples():
        assert row.allocated >= row.lds
        assert row.by_lds == row.budget_bytes // row.allocated
        assert row.workgroups <= min(row.by_lds, row.by_registers)


def test_tables_pictures_and_conclusion(study):
    frame = budget_frame(study)
    assert views.budget_picture(frame)._repr_png_()[0].startswith(b"\x89PNG")
    assert len(views.budget_table(frame).rows) == 2 * len(study.names)
    text = views.conclusion(frame, study)
    assert "from 1 to 2 workgroups" in text
    assert "Only hardware can tell" in text
