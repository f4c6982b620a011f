"""What is said of workloads whose truth is known: how long they take on the device, and what bounds them.

A kernel lasts as long as FAKE_CUDA_KERNELS says, and copies have the bandwidth of FAKE_CUDA_GBPS.
"""

import json

import pytest

from pytest_gpuperf.cli import main

SUITE = """
from contextlib import nullcontext
import numpy as np
import pytest

pytestmark = pytest.mark.speedup(min=1e-7, check=False)  # decided after a few rounds

def ones(device, count=1000):
    return device.asarray(np.ones(count, dtype=np.float32))

def test_long_kernel(device):
    a = ones(device)
    return lambda: a + a

def test_many_short_kernels(device):
    a = ones(device)
    def work():
        b = a
        for _ in range(100):
            b = device.xp.sin(b)
        return b
    return work

def test_more_launches_than_the_queue_holds(device):
    a = ones(device)
    def work():
        b = a
        for _ in range(1500):
            b = device.xp.sin(b)
            sum(range(1000))  # 10 us or more: on a busy machine a thread may wake up some milliseconds late
        return b
    return work

def test_value_is_read(device):
    a = ones(device)
    return lambda: float((a + a)[0])

def beside(device):
    if device.kind == "cpu":
        return nullcontext
    if device.backend == "cupy":
        stream = device.xp.cuda.Stream(non_blocking=True)
        return lambda: stream
    import torch
    stream = torch.cuda.Stream()
    return lambda: torch.cuda.stream(stream)

def test_side_stream(device):
    a, stream = ones(device), beside(device)
    def work():
        with stream():
            b = device.xp.cos(a)
        return device.xp.sin(a), b
    return work

@pytest.mark.speedup(min=1e-7, check=False, transfer="always")
def test_copies(device):
    a = ones(device, 12 << 20)
    return lambda: device.xp.cos(a)
"""
# Long enough for a busy machine: a thread that waits for a processor for a millisecond is no bound.
KNOWN = {"FAKE_CUDA_KERNELS": "add=20000000 cos=50000000 sin=500", "FAKE_CUDA_GBPS": "1"}
BOUNDS = {"launch_bound", "host_synchronization", "side_stream", "transfer_bound"}


@pytest.fixture(scope="module", params=["cupy", "torch:cuda"])
def report(request, ran):
    """Run the suite once on a library's fake device; return the path of its report."""
    output, path = ran(request.param, SUITE, **KNOWN)
    assert " 6 passed" in output, output
    return path


@pytest.fixture
def records(report, records_of):
    return records_of(report)


@pytest.mark.parametrize(
    ("name", "bounds", "device_time"),
    [
        ("many_short_kernels", {"launch_bound"}, 50e-6),
        ("more_launches_than_the_queue_holds", set(), None),
        ("value_is_read", {"host_synchronization"}, None),
        ("long_kernel", set(), 20e-3),
        ("side_stream", {"side_stream"}, 500e-9),
        ("copies", {"transfer_bound"}, 50e-3),
    ],
)
def test_each_bound_is_told_from_the_others_and_the_device_time_is_that_of_the_kernels(
    records, name, bounds, device_time
):
    assert bounds == BOUNDS & {diagnosis["code"] for diagnosis in records[name]["diagnosis"]}
    # A copy of the fake takes its time on a real clock.
    expected = device_time and pytest.approx(device_time, rel=0.2, abs=1e-6)
    assert expected == records[name]["gpu"]["device_time"]


LATE = """
from time import sleep
import numpy as np
import pytest

@pytest.mark.speedup(check=False)
def test_late_kernel(device, gpuperf):
    a = device.asarray(np.ones(1000, dtype=np.float32))
    def work():
        sleep(0.03)
        return device.xp.sin(a)
    return gpuperf.workload(work, reset=lambda: sleep(0.02))  # longer than the GPU keeps its clocks
"""


def test_where_clocks_rise_no_time_of_submission_is_that_of_the_kernels(ran, records_of):
    output, path = ran("torch:cuda", LATE, FAKE_CUDA_RAMP_US="20000", FAKE_CUDA_KERNELS="sin=500")
    assert " 1 passed" in output, output
    assert records_of(path)["late_kernel"]["gpu"]["device_time"] in (None, pytest.approx(500e-9, abs=1e-6))


def test_a_fake_device_is_emulated_wherever_a_report_names_it(report, records, capsys):
    run = json.loads(report.read_text())
    assert run["environment"]["gpu"]["emulated"]
    assert all(record["gpu"]["device"]["emulated"] for record in records.values())
    assert main(["show", str(report)]) == 0
    shown = " ".join(capsys.readouterr().out.split())  # it may wrap anywhere
    assert "| emulated: " in shown
    assert main(["validate", str(report)]) == 0
