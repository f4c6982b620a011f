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


@pytest.fixture(scope="module", params=["cupy", "torch"])
def report(request, ran):
    # Nanoseconds, beside which two launches are little.
    settings = {"FAKE_CUDA_DEVICES": "2", "FAKE_CUDA_KERNELS": "add=2000000"}
    output, path = ran(request.param, SUITE, "-p", "no:randomly", **settings)
    assert path.exists(), output
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def ended(report):
    return {record["nodeid"].partition("::test_")[2]: record for record in report["records"]}


def test_devices_that_share_the_work_are_measured_together(ended):
    two = ended["divided[2devices]"]
    assert (two["status"], two["check"]["agreed"]) == ("recorded", True), two["reason"]
    assert two["gpu"]["device"]["name"].startswith("2 x Emulated")
    # A fake kernel takes the same time for half of the elements: what shows is that both run at once.
    assert 0.4 < two["scaling"]["efficiency"]["value"] < 0.6


def test_too_few_devices_skip(ended):
    assert ended["more_than_there_are[3devices]"]["reason_code"] == "too_few_gpus"


def test_a_device_without_work_is_an_error(ended):
    assert (
        "no input of the workload is on 1 of the 2 devices (1)" in ended["on_one_of_them[2devices]"]["reason"]
    )


def test_the_first_device_is_the_current_one_again_afterwards(ended):
    assert ended["alone"]["status"] == "recorded", ended["alone"]["reason"]
