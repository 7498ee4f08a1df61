"""One rule for all tests: on the GPU where one is visible, else in Triton's interpreter.

TRITON_INTERPRET=1 forces the interpreter. The choice must fall before anything imports Triton.
"""

import gc
import os

import hypothesis
import pytest
import torch

GPU = torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1"
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"

# Test processes share the cores; threads inside each would only get in each other's way.
torch.set_num_threads(1)

# Shared machines stall, so there is no deadline; the same examples every time, so that a failure can be had again.
hypothesis.settings.register_profile("workbench", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("workbench")


@pytest.fixture(scope="session")
def device() -> str:
    """Where kernels run in this test run: "cuda" (also on ROCm) or "cpu", which is the interpreter."""
    return "cuda" if GPU else "cpu"


@pytest.fixture(autouse=True)
def heuristics_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What dispatch picks in a test does not hang on the tuned tables of the GPU that the test runs on."""
    monkeypatch.setattr("workbench.dispatch.tuned.installed_table", lambda device: None)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests that share a fixture of their module go to one process (--dist loadgroup), so that it is made once."""
    definitions = item._fixtureinfo.name2fixturedefs.values()
    if any(definition[-1].scope == "module" for definition in definitions):
        item.add_marker(pytest.mark.xdist_group(item.module.__name__))


def pytest_collection_finish() -> None:
    """What the imports and the collection made stays to the end: no garbage collection need look through it again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Triton reports as leaked what is left at the end."""
    gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if GPU:
        return
    reason = "TRITON_INTERPRET=1 is set" if torch.cuda.is_available() else "PyTorch sees no GPU"
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason=reason))
