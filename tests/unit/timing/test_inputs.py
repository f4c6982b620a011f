"""Inputs: what a workload reads is found in it, and one change shows what calls go on to change."""

from functools import partial
from itertools import count

import numpy as np
import pytest
from cases import for_each
from walks import prepared, simulated

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.timing import inputs


class Model:
    def __init__(self, weights):
        self.weights = weights

    def step(self):
        self.weights += 1


def changes_of(workload):
    return inputs.changes_of(workload.inputs, workload.call, workload.device)


def changed(workload):
    return next((change.described for change in changes_of(workload)), None)


def zeros(device):
    return device.xp.zeros(3, dtype=np.float32)


def add_one(a):
    a += 1


CHANGING = {
    "uploaded, in a container": lambda device: (lambda keep: lambda: add_one(keep["deep"][0]))(
        {"deep": [device.asarray(np.zeros(3, np.float32))]}
    ),
    "closed over": lambda device: (lambda a: lambda: add_one(a))(zeros(device)),
    "closed over in a container": lambda device: (lambda held: lambda: add_one(held["w"][0]))(
        {"w": [zeros(device)]}
    ),
    "closed over in a partial": lambda device: (lambda a: partial(lambda b: a.__iadd__(b), 1))(zeros(device)),
    "bound method": lambda device: (
        (device.xp.ones(3, dtype=np.float32) - np.arange(3, dtype=np.float32)).sort
    ),
    "method of an object": lambda device: Model(zeros(device)).step,
    "default argument": lambda device: lambda a=zeros(device): add_one(a),  # noqa: B008 - the idiom under test
    "keyword-only default": lambda device: lambda *, a=zeros(device): add_one(a),  # noqa: B008 - as above
    "argument of a partial": lambda device: partial(add_one, zeros(device)),
    "keyword of a partial": lambda device: partial(add_one, a=zeros(device)),
}


DEVICES = [simulated, partial(HostDevice, "a processor")]


@for_each("device", DEVICES)
@for_each("name", CHANGING)
def test_an_input_that_the_workload_changes_is_seen(name, device):
    workload = prepared(device(), CHANGING[name])
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
    weights, small = device.asarray(np.arange(1000.0).reshape(shape)), device.asarray(np.float64(3))
    found = inputs.fingerprints([weights, small], device, most=800)
    assert sum(sizes) <= 2 * 800
    assert [8, 8000] == sorted(entry.bytes for entry in found)
    assert inputs.changes_of(found, lambda: None, device) == ()
    weights += 1
    (change,) = inputs.changes_of(found, lambda: weights.__iadd__(1), device)
    assert change.described == f"float64 array of shape {shape}"
    assert change.goes_on


@pytest.mark.parametrize("values", [np.zeros(3), np.ones(3), np.arange(3.0)])
def test_a_new_buffer_that_calls_fill_is_no_changed_input(values):
    kept = []

    def body(seen):
        a, out = seen.asarray(values), seen.asarray(np.full(3, 7.0))
        kept.append(out)
        return lambda: np.add(a, a, out=out)

    workload = prepared(simulated(), body)
    assert changed(workload) is None
    assert kept[0].tolist() == (2 * values).tolist()


def rows_of_a_cache(device):
    cache, row = device.asarray(np.full((8, 3), 7.0)), device.asarray(np.arange(3.0))

    def call():
        cache[5] = row
        return cache

    return call


def values_that_are_not_numbers(device):
    out = device.asarray(np.zeros(3))

    def call():
        out[:2] = np.nan

    return call


def in_turn(device, number):
    buffers, turns = [device.asarray(np.zeros(3)) for _ in range(number)], count(1)

    def call():
        buffers[next(turns) % number][...] = (3.0, 0.0, 1.0)

    return call


@pytest.mark.parametrize(
    "body", [rows_of_a_cache, values_that_are_not_numbers, *(partial(in_turn, number=n) for n in (2, 3))]
)
def test_new_buffers_that_are_written_in_part_or_in_turn_are_outputs(body):
    workload = prepared(simulated(), body)
    for _ in range(4):
        workload.call()
    before = [entry.array().tolist() for entry in workload.inputs]
    assert changes_of(workload) == ()
    assert str([entry.array().tolist() for entry in workload.inputs]) == str(before)


def refilled_and_swapped(device):
    """Each call does the same work, though each buffer gets its values in every second one only."""
    a = device.asarray(np.arange(3.0))
    buffers = [device.asarray(np.array([5.0, 6.0, 7.0])) for _ in range(2)]

    def call():
        buffers[0][...] = a
        buffers[0] += 1
        buffers[0], buffers[1] = buffers[1], buffers[0]

    return call


def test_buffers_that_are_refilled_and_swapped_do_not_go_on_to_change():
    workload = prepared(simulated(), refilled_and_swapped)
    for _ in range(3):
        workload.call()
    assert [change.goes_on for change in changes_of(workload)] == [False, False]


def clips(a):
    np.maximum(a, 0, out=a)


def fills(a):
    a[a < 0.1] = 0


def adds(a):
    a += 1


def negates(a):
    np.negative(a, out=a)


def sorts_once(a):
    if a[0] > a[1]:
        a.sort()


ONCE, EACH_TIME = [clips, fills, sorts_once, np.ndarray.sort], [adds, negates]


def goes_on(change, values):
    """Return of each array that a change in place changed, whether later calls do so again."""

    def body(seen):
        a = seen.asarray(np.array(values))
        return lambda: change(a.view(np.ndarray))

    return [found.goes_on for found in changes_of(prepared(simulated(), body))]


@pytest.mark.parametrize("values", [[3.0, -1.0, 0.0, 1.0, 0.05], [2.0, -3.0, 5.0]], ids=str)
@pytest.mark.parametrize("change", ONCE + EACH_TIME, ids=lambda change: change.__name__)
def test_what_calls_change_once_is_told_from_what_they_go_on_to_change(change, values):
    if change is fills and values == [2.0, -3.0, 5.0]:
        values = [2.0, 0.05, 5.0]
    assert goes_on(change, values) == [change in EACH_TIME]


def test_an_array_that_no_call_changes_is_not_mentioned():
    assert goes_on(np.ndarray.sort, [1.0, 2.0, 3.0]) == []
    assert goes_on(clips, [1.0, 2.0]) == []


def test_looking_for_changes_calls_once_more_and_writes_nothing():
    calls = count()
    workload = prepared(
        simulated(), lambda seen: partial(lambda a: (next(calls), a.sort()), descending(seen))
    )
    (array,) = (entry.array() for entry in workload.inputs)
    assert next(calls) == 1
    changes_of(workload)
    assert next(calls) == 3
    assert array.tolist() == [1.0, 2.0, 3.0]


def descending(device):
    return device.asarray(np.array([3.0, 2.0, 1.0]))


@pytest.mark.parametrize("kind", ["int8", "uint32", "bool", "float16", "complex128"])
def test_inputs_of_every_kind_of_number_are_watched(kind):
    def body(seen):
        a = seen.asarray(np.eye(2, dtype=kind))
        return lambda: np.copyto(a.view(np.ndarray), a.view(np.ndarray) == 0)

    assert changed(prepared(simulated(), body)) == f"{kind} array of shape (2, 2)"


@pytest.mark.parametrize("place", [(0, 0), (2, 1), (-1, -1)])
def test_a_change_of_one_value_is_seen(place):
    def body(seen):
        a = seen.asarray(np.arange(20.0).reshape(5, 4))
        return lambda: a.__setitem__(place, 77.0)

    workload = prepared(simulated(), body)
    assert changed(workload) == "float64 array of shape (5, 4)"


def test_every_other_column_of_an_array_is_watched_too():
    def body(seen):
        a = seen.asarray(np.zeros((4, 4)))[:, ::2]
        return lambda: a.__iadd__(1)

    assert changed(prepared(simulated(), body)) is not None
