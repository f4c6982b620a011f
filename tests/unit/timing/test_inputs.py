"""Inputs: what a workload reads is found in it, and a change of it is seen."""

from functools import partial

import numpy as np
from cases import for_each
from walks import prepared, simulated

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.timing import inputs


class Model:
    def __init__(self, weights):
        self.weights = weights

    def step(self):
        self.weights += 1


def uploaded(device):
    a = device.asarray(np.zeros(3, np.float32))
    keep = {"deep": [a]}
    return lambda: keep["deep"][0].__iadd__(1)


def closed_over(device):
    a = device.xp.zeros(3, dtype=np.float32)
    return lambda: a.__iadd__(1)


def bound_method(device):
    return (device.xp.ones(3, dtype=np.float32) - device.xp.arange(3, dtype=np.float32)).sort


def method_of_an_object(device):
    return Model(device.asarray(np.zeros(3, np.float32))).step


def attribute_of_an_object(device):
    return Model(device.xp.zeros(3, dtype=np.float32)).step


def default_argument(device):
    return lambda a=device.xp.zeros(3, dtype=np.float32): a.__iadd__(1)  # noqa: B008 - the idiom under test


def keyword_only_default(device):
    return lambda *, a=device.xp.zeros(3, dtype=np.float32): a.__iadd__(1)  # noqa: B008 - as above


def argument_of_a_partial(device):
    return partial(lambda a: a.__iadd__(1), device.xp.zeros(3, dtype=np.float32))


def keyword_of_a_partial(device):
    return partial(lambda a: a.__iadd__(1), a=device.xp.zeros(3, dtype=np.float32))


def closed_over_in_a_partial(device):
    a = device.xp.zeros(3, dtype=np.float32)
    return partial(lambda b: a.__iadd__(b), 1)


def closed_over_in_a_container(device):
    arrays = {"weights": [device.xp.zeros(3, dtype=np.float32)]}
    return lambda: arrays["weights"][0].__iadd__(1)


def changed(workload):
    changes = inputs.changes_of(workload.inputs, workload.call, workload.device)
    return next((change.described for change in changes), None)


CHANGING = [
    closed_over_in_a_container,
    uploaded,
    closed_over,
    bound_method,
    method_of_an_object,
    attribute_of_an_object,
    default_argument,
    keyword_only_default,
    argument_of_a_partial,
    keyword_of_a_partial,
    closed_over_in_a_partial,
]


DEVICES = [simulated, partial(HostDevice, "a processor")]


@for_each("device", DEVICES)
@for_each("body", CHANGING)
def test_an_input_that_the_workload_changes_is_seen(body, device):
    workload = prepared(device(), body)
    workload.call()
    assert changed(workload) == "float32 array of shape (3,)"


@for_each("device", DEVICES)
def test_inputs_that_stay_as_they_were_are_fine(device):
    def body(seen):
        a, b = seen.asarray(np.ones((2, 3))), seen.xp.ones((3, 2))
        return lambda: a @ b

    workload = prepared(device(), body)
    workload.call()
    assert len(workload.inputs) == 2
    assert changed(workload) is None


def test_a_whole_body_makes_its_inputs_afresh():
    def body(seen):
        a = seen.asarray(np.zeros(3))
        a += 1

    workload = prepared(simulated(), body)
    assert workload.inputs == ()
    assert changed(workload) is None


@for_each("whole", [False, True])
def test_remembering_an_input_does_not_keep_it_alive(whole):
    device = simulated()

    def body(seen):
        total = float(seen.asarray(np.ones(1000)).sum())
        return total if whole else lambda: total

    workload = prepared(device, body)
    assert ("body" if whole else "call", 0) == (workload.scope, device.live_bytes)
    assert changed(workload) is None


def test_an_array_in_an_object_without_values_is_left_alone():
    device = simulated()
    model = Model(device.xp.ones(3))
    before = inputs.state_of(lambda: model, device, ())
    assert len(before) == 1
    device.asnumpy = None  # raises when it is called
    assert inputs.state_of(lambda: model, device, ()) == ()
    assert inputs.changed(before, device) == []


class Called:
    def __init__(self, array):
        self.array = array

    def __call__(self):
        return self.array.sum()


class WithSlots:
    __slots__ = ("array", "empty")

    def __init__(self, array):
        self.array = array

    def step(self):
        return self.array.sum()


@for_each(
    "call_of",
    [
        Called,
        lambda array: partial(Called(array)),
        lambda array: partial(partial(Called(array))),
        lambda array: WithSlots(array).step,
        lambda array: Called([WithSlots(array)]),
    ],
)
def test_arrays_in_a_callable_object_are_its_state(call_of):
    device = simulated()
    array = device.xp.ones(3)
    (found,) = inputs.state_of(call_of(array), device, ())
    assert found.array() is array


def test_of_large_arrays_in_objects_a_part_is_read():
    model = Model(np.broadcast_to(np.ones(1), 3 << 23))
    (found,) = inputs.state_of(lambda: model, HostDevice("a processor"), ())
    assert found.step == 3


def test_what_the_workload_uploads_at_each_call_is_no_input():
    device = simulated()
    workload = prepared(device, lambda seen: lambda: seen.asarray(np.ones(1000)))
    for _ in range(5):
        workload.call()
    assert workload.inputs == ()
    assert device.live_bytes == 0


@for_each("shape", [(1000,), (2, 500), (1, 10, 100)])
def test_of_large_inputs_a_sample_is_copied_and_a_change_is_seen_in_it(shape):
    device, sizes = simulated(), []
    asnumpy = device.asnumpy
    device.asnumpy = lambda array: (sizes.append(array.nbytes), asnumpy(array))[1]
    weights, small = device.asarray(np.zeros(shape)), device.asarray(np.float64(3))
    found = inputs.fingerprints([weights, small], device, most=800)
    assert sum(sizes) <= 2 * 800
    assert [8, 8000] == sorted(entry.bytes for entry in found)
    assert inputs.changes_of(found, lambda: None, device) == ()
    weights += 1
    (change,) = inputs.changes_of(found, lambda: weights.__iadd__(1), device)
    assert change.described == f"float64 array of shape {shape}"
    assert change.goes_on
