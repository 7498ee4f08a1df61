"""Device descriptions: every figure sourced and consistent, detection, and what a bad description says."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from workbench.device import Device, detect_device, list_devices, load_device
from workbench.errors import DeviceError

FLOP_PER_CYCLE_AND_CU = {"gfx942": 2048, "gfx950": 4096, "sm_90": 4096}


def test_the_seven_devices_are_there():
    assert list_devices() == ("b200", "h100", "h200", "mi300x", "mi325x", "mi350x", "mi355x")


@pytest.mark.parametrize("name", list_devices())
def test_every_figure_has_a_source(name):
    device = load_device(name)
    assert device.name == name
    assert not device.generic
    for figure, source in device.sources:
        assert source
        assert device.source_of(figure) == source
    missing = [figure for figure, _ in device.sources if getattr(device, figure) is None]
    assert missing == (["clock_hz"] if name == "b200" else [])


@pytest.mark.parametrize("name", [name for name in list_devices() if name != "b200"])
def test_peak_is_compute_units_times_rate_times_clock(name):
    device = load_device(name)
    rate = FLOP_PER_CYCLE_AND_CU[device.arch]
    assert device.peak_bf16_flops == pytest.approx(device.compute_units * rate * device.clock_hz, rel=1e-3)


def test_mi355x_holds_the_figures_the_models_need():
    device = load_device("mi355x")
    assert (device.arch, device.compute_units, device.xcds, device.simds_per_cu) == ("gfx950", 256, 8, 4)
    assert (device.registers_per_lane, device.max_waves_per_simd, device.wave_size) == (512, 8, 64)
    assert device.lds_bytes_per_cu == 160 * 1024
    assert device.hbm_bytes_per_s == 8_000_000_000_000


def test_names_ignore_case_and_unknown_names_list_the_known():
    assert load_device("MI355X") is load_device("mi355x")
    with pytest.raises(DeviceError, match=r"no device is called 'mi400'; give one of b200, h100, .*\.json"):
        load_device("mi400")


def test_unknown_figure_lists_the_known():
    with pytest.raises(DeviceError, match="h200 has no figure 'cores'; it has compute_units"):
        load_device("h200").source_of("cores")


@pytest.fixture
def description():
    return {
        "name": "half",
        "title": "Half of one",
        "vendor": "amd",
        "arch": "gfx950",
        "figures": {
            "compute_units": {"value": 128, "source": "partition mode"},
            "wave_size": {"value": 64, "source": "ISA"},
            "lds_bytes_per_workgroup": {"value": 163840, "source": "ISA"},
        },
    }


def test_a_file_of_the_user(tmp_path, description):
    path = tmp_path / "half.json"
    path.write_text(json.dumps(description))
    device = load_device(path)
    assert device == load_device(str(path))
    assert (device.name, device.compute_units, device.hbm_bytes) == ("half", 128, None)
    assert device.source_of("compute_units") == "partition mode"


def _without_compute_units(content):
    del content["figures"]["compute_units"]


def _figure(name, entry):
    return lambda content: content["figures"].update({name: entry})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content.update(vendor="intel"), "vendor must be one of amd, nvidia, got 'intel'"),
        (lambda content: content.update(arch=950), "arch must be a string, got 950"),
        (lambda content: content.update(colour="red"), "unknown key 'colour'"),
        (lambda content: content.pop("figures"), 'an object with "figures"'),
        (_without_compute_units, "the figure compute_units is missing"),
        (_figure("cores", {"value": 1, "source": "x"}), "unknown figure 'cores'; known are compute_units"),
        (_figure("xcds", {"value": 8}), 'xcds must be {"value": ..., "source": ...}'),
        (_figure("xcds", {"value": 0, "source": "x"}), "xcds must be a positive integer or null, got 0"),
        (_figure("xcds", {"value": 8.5, "source": "x"}), "xcds must be a positive integer or null, got 8.5"),
        (_figure("xcds", {"value": 8, "source": ""}), "xcds needs a source"),
    ],
)
def test_a_malformed_file_says_what_is_wrong(tmp_path, description, damage, message):
    damage(description)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(description))
    with pytest.raises(DeviceError) as raised:
        load_device(path)
    assert str(path) in str(raised.value)
    assert message in str(raised.value)


def test_missing_and_unparsable_files(tmp_path):
    with pytest.raises(DeviceError, match=r"cannot read the device description .*gone\.json"):
        load_device(tmp_path / "gone.json")
    path = tmp_path / "text.json"
    path.write_text("MI355X")
    with pytest.raises(DeviceError, match="not JSON"):
        load_device(path)


def fake_gpu(monkeypatch, *, hip=None, **properties):
    import torch

    defaults = {
        "warp_size": 32,
        "major": 9,
        "minor": 0,
        "shared_memory_per_block": 49152,
        "shared_memory_per_block_optin": 232448,
        "shared_memory_per_multiprocessor": 233472,
        "total_memory": 150109880320,
    }
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(**defaults | properties))
    monkeypatch.setattr(torch.version, "hip", hip)


def test_no_gpu(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert detect_device() is None


@pytest.mark.parametrize(
    ("torch_name", "compute_units", "expected"),
    [
        ("NVIDIA H200", 132, "h200"),
        ("NVIDIA H100 80GB HBM3", 132, "h100"),
        ("NVIDIA B200", 148, "b200"),
        ("AMD Instinct MI355X", 256, "mi355x"),
        ("AMD Instinct MI300X OAM", 304, "mi300x"),
    ],
)
def test_a_described_gpu_is_recognised(monkeypatch, torch_name, compute_units, expected):
    fake_gpu(monkeypatch, name=torch_name, multi_processor_count=compute_units)
    assert detect_device() is load_device(expected)


@pytest.mark.parametrize(
    ("torch_name", "compute_units"), [("NVIDIA GH200 480GB", 132), ("NVIDIA H100 PCIe", 114), ("NVIDIA H200", 66)]
)
def test_another_board_or_a_part_of_one_is_generic(monkeypatch, torch_name, compute_units):
    fake_gpu(monkeypatch, name=torch_name, multi_processor_count=compute_units)
    device = detect_device()
    assert device == Device(
        name=torch_name,
        title=torch_name,
        vendor="nvidia",
        arch="sm_90",
        compute_units=compute_units,
        wave_size=32,
        lds_bytes_per_workgroup=232448,
        lds_bytes_per_cu=233472,
        hbm_bytes=150109880320,
        generic=True,
        sources=device.sources,
    )


def test_a_partition_of_an_amd_gpu_keeps_its_arch(monkeypatch):
    fake_gpu(
        monkeypatch,
        hip="7.2",
        name="AMD Instinct MI300X",
        gcnArchName="gfx942:sramecc+:xnack-",
        multi_processor_count=38,
        warp_size=64,
        shared_memory_per_block=65536,
        shared_memory_per_block_optin=0,
    )
    device = detect_device()
    assert (device.vendor, device.arch, device.compute_units, device.generic) == ("amd", "gfx942", 38, True)
    assert device.lds_bytes_per_workgroup == 65536


def test_importing_the_module_needs_no_torch():
    program = "import sys, workbench.device, workbench.dispatch; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
