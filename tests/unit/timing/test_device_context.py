"""A device's context: every use of the device is within it, and nothing of it within what is timed."""

from contextlib import contextmanager
from functools import partial
from itertools import product

import numpy as np
import pytest
from bare import bare
from cases import for_each
from walks import time_block, walked

from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.demand import Demand


class Switched(SimulatedDevice):
    """A device that may be used in its context alone, and not in that of another; to switch takes time."""

    def __init__(self, kind, *, entered=None, takes=0.0, **options):
        super().__init__(kind, **options)
        self.entered, self.takes, self.steps = [] if entered is None else entered, takes, []

    @contextmanager
    def context(self):
        assert not self.entered
        self.clock.advance(self.takes)
        self.entered.append(self)
        self.steps.append("enter")
        yield
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


def pair(takes):
    """Return a CPU of 10 ms and a GPU of 1 ms a kernel, on one clock."""
    shared = {"clock": Clock(), "entered": [], "takes": takes}
    cpu, gpu = Timing(kernel=10e-3), Timing(kernel=1e-3, launch=5e-6)
    return Switched("cpu", timing=cpu, **shared), Switched("gpu", timing=gpu, **shared)


def uploading(device):
    values = device.asarray(np.arange(1000.0))
    return lambda: values + 1


def whole(device):
    return device.asarray(np.arange(1000.0)) + 1


def times(record):
    """Return every time of a record that is one of the workload, each once and rounded to a nanosecond."""
    sides, copies, inspection = (record.cpu, record.gpu), record.transfer, record.gpu.inspection
    listed = [
        *(side.samples for side in sides),
        *(side.latencies for side in sides),
        *([side.first_call, side.setup or 0.0] for side in sides),
        copies.loop,
        *(way.samples if way else () for way in (copies.h2d, copies.d2h)),
        [inspection.host_time, inspection.device_time],
    ]
    return [{round(value, 9) for value in values} for values in listed]


@for_each(
    ("body", "demand"),
    [
        *product([uploading, whole], [Demand(min=3), Demand(min=3, latency=True), Demand(min=99)]),
        (uploading, Demand(min=3, transfer="always")),  # copies in the rounds
    ],
)
def test_a_context_that_takes_seconds_changes_no_time(body, demand):
    plain, slow = (walked(body, *pair(takes), demand, max_time=1e6) for takes in (0.0, 1.0))
    assert times(plain) == times(slow)
    assert (plain.status, plain.reason) == (slow.status, slow.reason)


def test_a_block_enters_its_context_once_before_the_first_wait_and_leaves_it_after_the_last_reading():
    gpu = Switched("gpu", clock=Clock())
    steps = gpu.steps

    def clock():
        steps.append("clock")
        return float(len(steps))

    watched = bare(context=gpu.context, clock=clock, synchronize=lambda: steps.append("wait"))
    time_block(gpu.launch, 3, watched)
    assert ["enter", "wait", "clock", *3 * ["launch"], "wait", "clock", "leave"] == steps


class Looking(Switched):
    """A device that rounds float32 more, and looks at a call for products; the call may fail meanwhile."""

    def __init__(self, kind, *, seen=False, fails=False, **options):
        super().__init__(kind, reduced_eps=2**-10, reduced_precision="TF32", **options)
        self.seen, self.fails = seen, fails

    def runs_products(self, call):
        self.step("look")
        call()
        if self.fails:
            raise NotImplementedError("as a library may that is looked at")
        return self.seen


def looking(**options):
    shared = {"clock": Clock(), "entered": []}
    gpu = Looking("gpu", timing=Timing(kernel=1e-3, launch=5e-6), **shared, **options)
    return Switched("cpu", timing=Timing(kernel=10e-3), **shared), gpu


def a_little_off(device, errors=()):
    """Return a workload that is off by 2 % on a GPU, where its calls raise these errors, one each."""
    values, coming = device.asarray(np.arange(1, 9, dtype=np.float32)), iter(errors)

    def call():
        if device.kind == "cpu":
            return values * np.float32(1)
        if (error := next(coming, None)) is not None:
            raise error
        return values * np.float32(1.02)

    return call


@for_each(("options", "agrees"), [({}, False), ({"seen": True}, True), ({"fails": True}, True)])
def test_a_call_is_looked_at_for_products_in_the_context_and_what_that_breaks_is_not_known(options, agrees):
    cpu, gpu = looking(**options)
    assert agrees is walked(a_little_off, cpu, gpu).check.agreed
    assert "look" in gpu.steps


def test_what_the_workload_raises_while_it_is_looked_at_is_the_tests_unless_that_was_for_the_look():
    cpu, gpu = looking()
    with pytest.raises(ZeroDivisionError):
        walked(partial(a_little_off, errors=[None, *[ZeroDivisionError()] * 2]), cpu, gpu)
    assert "look" == gpu.steps[-1], "nothing came between"
    cpu, gpu = looking()
    record = walked(partial(a_little_off, errors=[None, ZeroDivisionError()]), cpu, gpu)
    assert record.check.agreed is False, "it was looked at again"
