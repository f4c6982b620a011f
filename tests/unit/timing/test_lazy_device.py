"""A lazy device computes what it is asked for: each call's result is asked for, timed or not."""

from contextlib import nullcontext

import numpy as np
import pytest
from walks import time_block, trial_of

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.protocol import Observation
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.timing import untimed_calls


class LazyDevice(HostDevice):
    """A GPU whose work is a list of functions, until they are submitted."""

    kind = "gpu"

    def __init__(self):
        super().__init__("a lazy GPU")
        self.computed = 0

    def submit(self, result):
        self.computed += 1


class OtherDevice(LazyDevice):
    def submit(self, queue, kernel):
        raise AssertionError("this is no work of ours")


@pytest.mark.parametrize("calls", [1, 7])
def test_each_call_of_a_block_is_submitted_once(calls):
    device = LazyDevice()
    time_block(list, calls, device)
    assert device.computed == calls


def test_calls_that_wait_for_their_result_are_not_submitted_besides():
    device = LazyDevice()
    time_block(list, 7, device, calls_wait=True)
    assert device.computed == 0


@pytest.mark.parametrize("device", [HostDevice("a CPU"), OtherDevice()], ids=["none", "another purpose"])
def test_a_device_without_the_ability_is_called_as_before(device):
    assert capabilities.submitted(list, device) is list
    assert not capabilities.is_lazy(device)


def test_a_call_that_returns_nothing_and_was_not_seen_to_work_is_an_error_that_says_what_to_return():
    class Idle(LazyDevice):
        def observe(self):
            return nullcontext(Observation(worked=False))

    def bind(device):
        array = device.asarray(np.ones(3))

        def call():
            array + 1

        return lambda: call

    trial = trial_of(Demand(), RunOptions(max_time=1))
    with pytest.raises(GpuPerfError, match=r"nothing was computed on a lazy GPU: .*; return the arrays"):
        trial.compare(bind, HostDevice("a CPU"), Idle())


def test_an_object_of_a_lazy_library_is_refused_for_its_arrays_may_not_be_computed():
    class Output:
        def __init__(self, array):
            self.array = array

    device = LazyDevice()
    with pytest.raises(GpuPerfError, match="is of type Output, which is lazy"):
        untimed_calls.first_call(lambda seen: lambda: lambda: Output(seen.asarray(np.ones(2))), device)
