"""The doctor: true on this machine, and whole on a broken one."""

import subprocess
import sys

import pytest
import torch

from workbench import doctor
from workbench.doctor import Check, Finding, checks
from workbench.doctor_probe import check_output, probe_arguments


def test_a_check_that_breaks_is_a_no_with_its_error():
    def break_down() -> Finding:
        raise OSError("the disk is on fire")

    finding = Check("anything", break_down).run()
    assert not finding.ok
    assert "the disk is on fire" in finding.detail


def test_every_no_says_what_to_do(monkeypatch):
    doctor.environment_facts()  # read once per process, with the PATH that finds git
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(doctor, "_run", lambda *_, **__: subprocess.CompletedProcess([], 1, "", ""))
    for check in checks():
        finding = check.run()
        assert finding.detail
        assert finding.ok or finding.action, check.what


def test_gpu_row_tells_the_truth(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert doctor.find_gpu().ok == torch.cuda.is_available()


def facts(**changes: str) -> dict[str, str]:
    nothing = dict.fromkeys(("torch", "triton", "device_kind", "device", "gpu_arch", "rocm", "cuda"), "")
    return nothing | {"torch": "2.13.0", "device_kind": "cpu"} | changes


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (facts(torch=""), "PyTorch is not installed"),
        (facts(), "CPU build"),
        (facts(cuda="13.0"), "built for CUDA but no device is visible"),
        (facts(rocm="7.2"), "built for ROCm but no device is visible"),
    ],
)
def test_why_there_is_no_gpu(monkeypatch, present, expected):
    monkeypatch.setattr(doctor, "environment_facts", lambda: present)
    finding = doctor.find_gpu()
    assert not finding.ok
    assert expected in finding.detail
    assert finding.action


def test_a_gpu_is_of_no_use_to_an_interpreting_process(monkeypatch):
    present = facts(device_kind="gpu", device="AMD Instinct MI355X", gpu_arch="gfx950", rocm="7.2")
    monkeypatch.setattr(doctor, "environment_facts", lambda: present)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert doctor.find_gpu().action == "unset TRITON_INTERPRET"
    monkeypatch.delenv("TRITON_INTERPRET")
    assert doctor.find_gpu().ok


def test_a_probe_that_computes_nonsense_is_found_out():
    arguments = probe_arguments()
    with pytest.raises(ArithmeticError, match="nan"):
        check_output(arguments)


def test_the_numpy_that_breaks_an_older_interpreter_is_named(monkeypatch):
    error = "TypeError: only 0-dimensional arrays can be converted to Python scalars\n"
    monkeypatch.setattr(doctor, "_run", lambda *_, **__: subprocess.CompletedProcess([], 1, "", error))
    finding = doctor.find_interpreter()
    assert not finding.ok
    assert finding.action.endswith('pip install "numpy<2.4"')


def test_a_peer_that_is_installed_but_broken(monkeypatch, tmp_path):
    (tmp_path / "broken_peer.py").write_text("raise ImportError('libamdhip64.so is missing')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    finding = doctor.find_peer("Peer", "broken_peer")
    assert not finding.ok
    assert "libamdhip64.so is missing" in finding.detail


def test_command_survives_a_machine_without_gpu_tools():
    nothing = {"PATH": "", "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "COLUMNS": "200"}
    command = [sys.executable, "-m", "workbench", "doctor"]
    run = subprocess.run(command, capture_output=True, text=True, env=nothing, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("a kernel ran and its result is right") == 2
    assert "a kernel compiled" in run.stdout
    assert "rocprofv3" in run.stdout
    assert "Traceback" not in run.stderr
