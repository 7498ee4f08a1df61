"""`import workbench` needs no GPU, no Jupyter and no plotting, and loads nothing heavy."""

import subprocess
import sys

import pytest

import workbench

HEAVY = ("torch", "triton", "numpy", "pandas", "pyarrow", "matplotlib", "papermill", "IPython", "typer", "rich")
BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ImportError(name + " is blocked")

sys.meta_path.insert(0, Blocked())
"""


def run_python(code: str, **environment: str) -> str:
    """Output of a fresh interpreter that sees no GPU and finds no rocminfo."""
    clean = {"PATH": "", "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", **environment}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=clean, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_import_loads_nothing_heavy():
    loaded = run_python(f"import sys, workbench; print([name for name in {HEAVY!r} if name in sys.modules])")
    assert loaded.strip() == "[]"


def test_import_is_quick():
    seconds = min(
        float(
            run_python("import time; start = time.perf_counter(); import workbench; print(time.perf_counter() - start)")
        )
        for _ in range(3)
    )
    assert seconds < 0.5


def test_problems_and_specs_need_nothing_but_the_standard_library():
    code = BLOCK.format(blocked=set(HEAVY)) + (
        "import workbench\n"
        "problem = workbench.UnifiedAttentionProblem(((1, 17),), 1, 1, 64, 16)\n"
        "workbench.Unified2DSpec().check(problem)\n"
        "print(workbench.environment_facts()['device_kind'])\n"
    )
    assert run_python(code).strip() == "cpu"


def test_reference_and_interpreter_run_without_jupyter_plots_or_gpu():
    """Window 4, kv 17, one query, K = 0 and V[pos] = pos: the mean of positions 13..16."""
    code = BLOCK.format(blocked={"papermill", "jupyter_client", "IPython", "matplotlib", "nbconvert"}) + (
        "import torch, workbench\n"
        "problem = workbench.UnifiedAttentionProblem(\n"
        "    ((1, 17),), 1, 1, 64, 16, dtype='fp32', softmax_scale=1.0, sliding_window=4)\n"
        "inputs = workbench.make_unified_inputs(problem)\n"
        "inputs.k_cache.zero_()\n"
        "pages = inputs.block_table[0, :2].long()\n"
        "inputs.v_cache[pages] = torch.arange(32.0).reshape(2, 16, 1, 1).expand(2, 16, 1, 64)\n"
        "print(workbench.unified_reference(problem, inputs).unique().tolist())\n"
        "result = workbench.run_unified(problem, inputs)\n"
        "print(result.backend, result.out.unique().tolist())\n"
        "try:\n"
        "    workbench.run_unified(problem, inputs, backend='gpu')\n"
        "except workbench.errors.BackendUnavailable as error:\n"
        "    print(str(error))\n"
    )
    reference, interpreted, *refused = run_python(code).splitlines()
    assert reference == "[14.5]"
    assert interpreted == "interpreter [14.5]"
    assert len(refused) == 1
    assert "device" in refused[0]


@pytest.mark.parametrize("name", workbench.__all__)
def test_every_public_name_loads(name):
    assert getattr(workbench, name) is not None
    assert name in dir(workbench)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'unified_atention'"):
        workbench.unified_atention  # noqa: B018 - the access is the test
