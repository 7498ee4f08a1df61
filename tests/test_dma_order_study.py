"""The study of the order of copies: what a load is of, how long it may take, tables, picture, conclusion."""

import pytest

from workbench.compiler import triton_versions
from workbench.scenarios import find
from workbench.studies import dma_order_views as views
from workbench.studies.dma_order import K_FIRST, V_FIRST, copies, order_study, slack_frame, wait_frame

SERVING = find("serving_d64_sinks_full_ns16")


@pytest.fixture(scope="module")
def study():
    return order_study(SERVING)


@pytest.fixture(scope="module")
def slack(study):
    return slack_frame([study])


@pytest.mark.parametrize("version", triton_versions())
def test_loads_are_told_apart_by_the_argument_behind_their_address(version):
    study = order_study(SERVING, triton_version=version, emulate=False)
    orders = {name: [copy.stream for copy in copies(study.inspections([name])[0])] for name in study.names}
    assert orders[V_FIRST] == ["table", "table", "V", "V", "K", "K"]
    assert orders[K_FIRST] == ["table", "table", "K", "K", "V", "V"]


def test_v_first_leaves_the_next_k_under_way(study, slack):
    first, second = (views.window(slack, study.triton_version, name, "K") for name in (V_FIRST, K_FIRST))
    assert first["instructions"] > 4 * second["instructions"]
    assert first["pv"] > second["pv"] == 0
    assert views.window(slack, study.triton_version, V_FIRST, "V")["left"] == 2
    assert "one K buffer, K first" not in study.names


def test_the_emulated_waits_follow_the_order(study):
    waits = wait_frame(study).set_index("variant")
    assert waits["right"].all()
    assert waits["faults"].sum() == 0
    assert waits.loc[V_FIRST, "partial"] > waits.loc[K_FIRST, "partial"] == 0


def test_tables_picture_and_conclusion(study, slack):
    picture = views.timeline_picture(study)
    assert picture._repr_png_()[0].startswith(b"\x89PNG")
    assert "next K, then V: K " in picture.alt
    assert "needs two K buffers" in repr(views.order_table(study))
    assert len(views.slack_table(slack).rows) == 3 * len(study.names)
    text = views.conclusion([study], slack, wait_frame(study))
    assert "needs two K buffers" in text
    assert "nly hardware can tell" in text or "measured" in text
    assert views.key_figure(study, slack)["evidence"] == "static"
