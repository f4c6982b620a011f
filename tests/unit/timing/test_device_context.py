"""A device's context: every use of the device is within it, and nothing of it within what is timed."""

from contextlib import contextmanager
from itertools import product

import numpy as np
import pytest
from cases import for_each
from walks import time_block, walked

from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.demand import Demand


class Switched(SimulatedDevice):
    """A device that may be used in its context alone, and not in that of another; to switch takes time."""

    takes = 0.0

    def __init__(self, kind, *, entered, **options):
        super().__init__(kind, **options)
        self.entered = entered
        self.steps = []

    @contextmanager
    def context(self):
        assert not self.entered
        self.clock.advance(self.takes)
        self.entered.append(self)
        self.steps.append("enter")
        try:
            yield
        finally:
            self.entered.pop()
            self.steps.append("leave")
            self.clock.advance(self.takes)

    def launch(self, seconds=None, *, stream=0):
        self.step("launch")
        super().launch(seconds, stream=stream)

    def asarray(self, host):
        self.step("upload")
        return super().asarray(host)

    def asnumpy(self, array):
        self.step("download")
        return super().asnumpy(array)

    def step(self, name):
        assert [self] == self.entered, f"{name} outside the device's context"
        self.steps.append(name)


def pair(device_type=Switched, *, takes=0.0, **options):
    """Return a CPU of 10 ms and a GPU of 1 ms a kernel, on one clock."""
    clock, entered = Clock(), []
    shared = {"entered": entered} if device_type is Switched else {}
    cpu = device_type("cpu", clock=clock, timing=Timing(kernel=10e-3), **shared, **options)
    gpu = device_type("gpu", clock=clock, timing=Timing(kernel=1e-3, launch=5e-6), **shared, **options)
    cpu.takes = gpu.takes = takes
    return cpu, gpu


def uploading(device):
    values = device.asarray(np.arange(1000.0))
    return lambda: values + 1


def whole(device):
    return device.asarray(np.arange(1000.0)) + 1


def measured(body, cpu, gpu, demand):
    return walked(body, cpu, gpu, demand, max_time=1e6)


def times(record):
    """Return every time of a record that is one of the workload, each once and rounded to a nanosecond."""
    copies = record.transfer
    listed = {
        **{f"samples on the {side.device.kind}": side.samples for side in (record.cpu, record.gpu)},
        **{f"latencies on the {side.device.kind}": side.latencies for side in (record.cpu, record.gpu)},
        **{f"first on the {side.device.kind}": [side.first_call] for side in (record.cpu, record.gpu)},
        **{f"setup on the {side.device.kind}": [side.setup or 0.0] for side in (record.cpu, record.gpu)},
        "loop": copies.loop,
        "uploads": copies.h2d.samples if copies.h2d else (),
        "downloads": copies.d2h.samples if copies.d2h else (),
        "host": [record.gpu.inspection.host_time],
        "device": [record.gpu.inspection.device_time],
    }
    return {name: {round(value, 9) for value in values} for name, values in listed.items()}


@for_each(
    ("body", "demand"),
    [
        *product([uploading, whole], [Demand(min=3), Demand(min=3, latency=True), Demand(min=99)]),
        (uploading, Demand(min=3, transfer="always")),  # copies in the rounds
    ],
)
def test_a_context_that_takes_seconds_changes_no_time(body, demand):
    plain = measured(body, *pair(SimulatedDevice), demand)
    slow = measured(body, *pair(takes=1.0), demand)
    assert times(plain) == times(slow)
    assert (plain.status, plain.reason) == (slow.status, slow.reason)


def test_a_block_enters_its_context_once_before_the_first_wait_and_leaves_it_after_the_last_reading():
    _, gpu = pair()
    steps = gpu.steps

    class Watched:
        context = gpu.context

        def clock(self):
            steps.append("clock")
            return float(len(steps))

        def synchronize(self):
            steps.append("wait")

    time_block(gpu.launch, 3, Watched())
    assert ["enter", "wait", "clock", *3 * ["launch"], "wait", "clock", "leave"] == steps


@for_each("launch", [1, 2, 8])
def test_a_workload_that_raises_leaves_the_context(launch):
    cpu, gpu = pair()
    made = []

    def body(device):
        made.append(device.kind)
        if made.count("gpu") == launch:
            raise ValueError("no more")
        return device.xp.ones(3)

    with pytest.raises(ValueError, match="no more"):
        measured(body, cpu, gpu, Demand(min=3))
    assert not gpu.entered
    assert "leave" == gpu.steps[-1]
