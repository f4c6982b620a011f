"""Scaling on several fake CUDA devices, driven by one process, through CuPy and torch."""

import json

import pytest

SUITE = """
import numpy as np
import pytest

def adding(devices, host):
    parts = devices.asarray(host, shard=0)

    def work():
        sums = []
        for device, part in zip(devices.all, parts):
            with on(device, part):
                sums.append(part + part)
        return sums

    return work

def on(device, part):
    if device.backend == "cupy":
        return part.device
    import torch
    return torch.cuda.device(part.device)

@pytest.mark.scaling([1, 2])
def test_divided(devices):
    return adding(devices, np.arange(8, dtype=np.float32))

@pytest.mark.scaling([1, 2, 3])
def test_more_than_there_are(devices):
    return adding(devices, np.arange(12, dtype=np.float32))

@pytest.mark.scaling([1, 2])
def test_on_one_of_them(devices):
    first = devices.all[0].asarray(np.ones(8, dtype=np.float32))
    return lambda: first + first

@pytest.mark.speedup
def test_alone(device):
    ones = device.asarray(np.ones(8, dtype=np.float32))
    if device.kind == "gpu" and device.backend == "torch":
        import torch
        assert torch.ones(1, device="cuda").device == ones.device
    elif device.kind == "gpu":
        assert device.xp.ones(1).device == ones.device
    return lambda: ones + ones
"""


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_devices_that_share_the_work_are_measured_together_and_others_are_told(ran, library):
    # Nanoseconds, beside which two launches are little.
    settings = {"FAKE_CUDA_DEVICES": "2", "FAKE_CUDA_KERNELS": "add=2000000"}
    output, path = ran(library, SUITE, "-p", "no:randomly", **settings)
    assert path.exists(), output
    listed = json.loads(path.read_text())["records"]
    ended = {record["nodeid"].partition("::test_")[2]: record for record in listed}
    two = ended["divided[2devices]"]
    # Its kernels compute nothing: results are what the memory held before, which may agree or not.
    assert ("recorded", True) == (two["status"], two["check"] is not None), two["reason"]
    assert two["gpu"]["device"]["name"].startswith("2 x Emulated")
    # A fake kernel takes the same time for half of the elements: what shows is that both run at once.
    # Of results that differ there is no efficiency, but the times are there.
    assert 0.8 < two["scaling"]["base"]["median"] / two["gpu"]["median"] < 1.2
    assert "too_few_gpus" == ended["more_than_there_are[3devices]"]["reason_code"]
    idle = "no input of the workload is on 1 of the 2 devices (1)"
    assert idle in ended["on_one_of_them[2devices]"]["reason"]
    # The first device is the current one again afterwards.
    assert "recorded" == ended["alone"]["status"], ended["alone"]["reason"]
