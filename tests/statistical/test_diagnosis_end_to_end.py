"""Why: each diagnosis is provoked on simulated devices, whose every time is known, and stays away without."""

from functools import partial
from itertools import count

import numpy as np
from cases import for_each

from pytest_gpuperf.analysis import diagnosis
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.sampling_constants import SamplingPlan
from pytest_gpuperf.timing.trial import Trial


def codes(body, *, cpu=None, gpu=None, noise=lambda: 1.0, precision=None, usable=4.0, demand=None):
    """Return the codes of what holds a workload back, on devices with these timings."""
    clock = Clock()
    here = SimulatedDevice("cpu", clock=clock, timing=Timing(**{"threads": 4, **(cpu or {})}), noise=noise)
    there = SimulatedDevice(
        "gpu", clock=clock, timing=Timing(**{"kernel": 1e-3, **(gpu or {})}), reduced_precision=precision
    )
    trial = Trial(
        nodeid="test_it",
        demand=demand or Demand(),
        options=RunOptions(sampling=SamplingPlan(record_time=0.2)),
    )
    found = trial.compare(lambda device: partial(body, device), here, there)
    record = trial.record(found)
    return [each.code for each in diagnosis.find(record, usable=usable, pool_threads=None)]


def upload(device, dtype=np.float32):
    a = device.asarray(np.ones(100, dtype))
    return lambda: a + a


def test_nothing_holds_an_ordinary_workload_back():
    assert codes(upload) == []


@for_each(("expected", "launch"), [(["launch_bound"], 2.1e-3), ([], 1.9e-3)])
def test_a_device_that_mostly_waits_for_launches_is_launch_bound(expected, launch):
    assert expected == codes(upload, cpu={"kernel": 1e-3}, gpu={"launch": launch})


def waits(device):
    a = device.asarray(np.ones(100, np.float32))

    def call():
        b = a + a
        device.synchronize()
        return b

    return call


def test_a_call_that_waits_for_its_device_is_host_synchronization():
    assert codes(waits) == ["host_synchronization"]


def test_reading_a_value_in_the_call_is_host_synchronization():
    def body(device):
        a = device.asarray(np.ones(100, np.float32))
        return lambda: a * float(a.sum())

    assert "host_synchronization" in codes(body)


@for_each(("expected", "bandwidth"), [(["transfer_bound"], 7e5), ([], 9e5)])
def test_copies_that_take_longer_than_the_work_make_it_transfer_bound(expected, bandwidth):
    assert expected == codes(upload, gpu={"bandwidth": bandwidth})


def test_copies_that_many_calls_share_do_not():
    once = Demand(transfer="once", calls=10)
    assert codes(upload, gpu={"bandwidth": 7e5}, demand=once) == []


@for_each(("expected", "threads"), [(["cpu_threads"], 1), ([], 2)])
def test_a_cpu_that_works_in_one_thread_flatters_the_gpu(expected, threads):
    assert expected == codes(upload, cpu={"threads": threads})


def test_one_thread_is_all_that_one_processor_has():
    assert codes(upload, cpu={"threads": 1}, usable=1.0) == []


def test_doubles_are_slow_on_most_gpus():
    assert codes(partial(upload, dtype=np.float64)) == ["float64"]


def test_half_precision_on_one_side_only_is_not_the_same_work():
    def body(device):
        return upload(device, np.float16 if device.kind == "gpu" else np.float32)

    assert codes(body) == ["precision_differs"]


def test_a_mode_that_rounds_more_is_not_the_same_work_either():
    assert codes(upload, precision="TF32") == ["precision_differs"]


def slow_until(call_number, slow, fast):
    """Return a body whose calls take `slow` until that one, and `fast` from there on."""

    def body(device):
        calls = count(1)
        return lambda: device.launch(slow if next(calls) < call_number else fast) or device.xp.float32(1)

    return body


@for_each(("expected", "first"), [(True, 12e-3), (False, 8e-3)])
def test_a_first_call_that_dwarfs_the_others_is_told(expected, first):
    found = codes(slow_until(2, first, 1e-3), cpu={"kernel": 0.0}, gpu={"kernel": 0.0})
    assert expected == ("first_call" in found)


@for_each(("expected", "beside"), [(True, 3e-3), (False, 0.5e-3)])
def test_work_on_a_side_stream_that_outlasts_the_events_is_told(expected, beside):
    def body(device):
        a = device.asarray(np.ones(100, np.float32))

        def call():
            if device.kind == "gpu":
                device.launch(beside, stream=1)
            return a + a

        return call

    assert expected == ("side_stream" in codes(body))


@for_each(("expected", "pool"), [(["allocation"], False), ([], True)])
def test_memory_that_no_pool_holds_is_allocated_in_the_timed_block(expected, pool):
    assert expected == codes(upload, gpu={"pool": pool})
